"""Instances on a real API server: from an AppInstance to its release and its guarded way in, and back."""

from collections.abc import Iterator

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.actors.releases import Outcome
from tests.support.instance_scene import (
    APPLICATIONS,
    definition,
    install_kinds,
    instance_corner,
    instance_scene,
    watched,
)
from tests.support.oracles import told
from tests.support.rights import grant, grant_at_the_gateway, user
from tests.support.world import AGENT

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

NAME = "kubeopencode-demo"
KUBEOPENCODE = APPLICATIONS["applications"]["kubeopencode"]


def said(status: str, reason: str, generation: int = 1, message: str = "said so") -> dict[str, object]:
    """A condition Ready as Flux writes it."""
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


SHAPES: dict[str, tuple[dict[str, object], tuple[str, str]]] = {
    "unknown for long": ({"conditions": [said("Unknown", "Progressing")]}, ("Reconciling", "Progressing")),
    "an unknown reason": ({"conditions": [said("False", "Perplexed")]}, ("Degraded", "Perplexed")),
    "another operation": (
        {"conditions": [said("False", "UpgradeFailed", message="another operation is in progress")]},
        ("Degraded", "UpgradeFailed"),
    ),
    "40 KB": (
        {"conditions": [said("False", "InstallFailed", message="x" * 30_000)]},
        ("Degraded", "InstallFailed"),
    ),
}
"""What a real server takes; `tests/unit/apps/test_release.py` has what only a proxy could put there."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since the kinds of applications come and go here."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


@pytest.mark.req("MS-016", "MS-100", "MS-111", "MS-176", "MS-211", "MS-212", "MS-234")
async def test_an_instance_goes_all_the_way_to_ready_and_then_rests(cluster: DevCluster) -> None:
    async with instance_scene(cluster) as scene:
        await scene.make(NAME, "kubeopencode")
        status = await scene.until(NAME, "Ready")
        assert {"kubeopencode", "litellm", "model-catalog"} == set(
            scene.world.mirror.all(scene.world.activations)
        )
        assert set(scene.mirror.all(scene.releases)) == {NAME}
        assert (status["kind"], status["name"], status["namespace"]) == (
            "HelmRelease",
            NAME,
            scene.world.namespace,
        )
        assert status["url"] == status["localURL"] == "https://demo.kubeopencode.magicstick.local/"
        assert status["publicURL"] == "https://demo.kubeopencode.magicstick.example.com/"
        assert (status["authentication"], status["requiredRole"]) == ("sso", "user")
        assert status["accessGuardReady"] is True
        assert len(scene.way_in(NAME)) == 7
        assert scene.open_routes() == set(scene.mirror.all(scene.routes))
        await scene.delete(NAME)
        await scene.until_gone(NAME)
        assert scene.way_in(NAME) == set()
        assert scene.release(NAME) is None
        assert scene.helm.uninstalled == [(scene.world.namespace, NAME)]


@pytest.mark.req("MS-165", "MS-126")
async def test_an_instance_is_edited_switched_off_and_on_and_keeps_its_release(cluster: DevCluster) -> None:
    async with instance_scene(cluster) as scene:
        await scene.make(NAME, "kubeopencode", access={"exposure": "local"})
        status = await scene.until(NAME, "Ready")
        assert (status["publicURL"], len(scene.way_in(NAME))) == ("", 4)
        uid = (scene.release(NAME) or {})["metadata"]["uid"]

        await scene.make(NAME, "kubeopencode", values={"model": "openai/other"})
        await scene.mirror.until(
            "the release has the new values",
            lambda: (
                (scene.release(NAME) or {})["spec"]["values"]["instance"]["values"].get("model")
                == "openai/other"
            ),
        )
        await scene.until(NAME, "Ready")
        assert (scene.release(NAME) or {})["metadata"]["uid"] == uid

        await scene.make(NAME, "kubeopencode", enabled=False)
        status = await scene.until(NAME, "Suspended")
        assert (scene.release(NAME) or {})["spec"]["suspend"] is True
        assert scene.way_in(NAME) == set()
        assert (status["url"][:8], status["localURL"], status["accessGuardReady"]) == ("https://", "", False)

        await scene.make(NAME, "kubeopencode")
        await scene.until(NAME, "Ready")
        assert (scene.release(NAME) or {})["metadata"]["uid"] == uid
        await scene.make(NAME, "kubeopencode", enabled=False)
        await scene.until(NAME, "Suspended")
        await scene.delete(NAME)
        await scene.until_gone(NAME)
        assert scene.helm.uninstalled == [(scene.world.namespace, NAME)], "it was resumed before it went"


@pytest.mark.req("MS-123", "MS-309", "MS-310", "MS-311", "MS-312", "MS-313")
async def test_an_instance_waits_for_a_disabled_module_and_for_a_definition(cluster: DevCluster) -> None:
    async with instance_scene(cluster) as scene:
        needed = {**KUBEOPENCODE, "requiredCrds": ["widgets.later.example.com"]}
        await scene.applications({"kubeopencode": needed})
        await scene.world.activate("litellm", enabled=False)
        await scene.make(NAME, "kubeopencode")
        status = await scene.until(NAME, "WaitingForModules")
        assert "litellm is disabled" in status["message"]
        assert (scene.world.activation("litellm") or {})["spec"]["enabled"] is False

        await scene.world.activate("litellm")
        status = await scene.until(NAME, "WaitingForCRD")
        assert "widgets.later.example.com" in status["message"]
        assert (scene.release(NAME), scene.way_in(NAME)) == (None, set())
        assert scene.target not in scene.mirror.all(scene.namespaces)

        cluster.apply(definition("widgets", "later.example.com"))
        await scene.until(NAME, "Ready")
        assert scene.target in scene.mirror.all(scene.namespaces)


async def test_the_guard_counts_before_the_release_and_an_edited_policy_closes_the_routes(
    cluster: DevCluster,
) -> None:
    async with instance_scene(cluster) as scene:
        scene.gateway.accepts = False
        await scene.make(NAME, "kubeopencode")
        await scene.until(NAME, "Reconciling", "WaitingForAccessGuard")
        await scene.mirror.until("there are four routes", lambda: len(scene.mirror.all(scene.routes)) == 4)
        assert scene.open_routes() == set()

        scene.gateway.accepts = True
        await scene.look_again()
        await scene.until(NAME, "Ready")
        scene.gateway.accepts = False
        await scene.world.delete(scene.policies, f"{NAME}-local-sso")
        await scene.until(NAME, "Reconciling", "WaitingForAccessGuard")
        assert scene.open_routes() == set()
        scene.gateway.accepts = True
        await scene.look_again()
        await scene.until(NAME, "Ready")


@pytest.mark.req("MS-176")
async def test_what_is_not_the_instances_is_never_touched(cluster: DevCluster) -> None:
    async with instance_scene(cluster) as scene:
        foreign = {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": "odysseus-taken", "namespace": scene.world.namespace},
            "spec": {
                "interval": "1h0m0s",
                "suspend": True,
                "chart": {
                    "spec": {
                        "chart": "./charts/other",
                        "sourceRef": {"kind": "GitRepository", "name": "other"},
                    }
                },
            },
        }
        await scene.world.client.apply(f"{scene.releases}/odysseus-taken", foreign, manager="somebody")
        await scene.mirror.until("it is seen", lambda: scene.release("odysseus-taken"))
        await scene.make("odysseus-taken", "odysseus")
        status = await scene.until("odysseus-taken", "Degraded", "NameConflict")
        assert "odysseus-taken" in status["message"]
        assert scene.way_in("odysseus-taken") == set(), "what the other release installs looks like its own"
        assert (scene.release("odysseus-taken") or {})["spec"]["interval"] == "1h0m0s"

        await scene.delete("odysseus-taken")
        await scene.until_gone("odysseus-taken")
        assert scene.release("odysseus-taken") is not None

        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.target}}
        await scene.world.client.apply(f"{scene.namespaces}/{scene.target}", space)
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "odysseus-served", "namespace": scene.target},
            "spec": {"ports": [{"port": 80}]},
        }
        path = f"/api/v1/namespaces/{scene.target}/services/odysseus-served"
        await scene.world.client.apply(path, service, manager="somebody")
        await scene.make("odysseus-served", "odysseus")
        await scene.until("odysseus-served", "Degraded", "ReservedName")
        assert scene.way_in("odysseus-served") == set()
        await scene.world.client.send("DELETE", path)
        await scene.until("odysseus-served", "Ready")


async def test_two_instances_for_one_host_are_served_one_after_the_other(cluster: DevCluster) -> None:
    async with instance_scene(cluster) as scene:
        await scene.make(NAME, "kubeopencode")
        await scene.until(NAME, "Ready")
        later = "the-later-one"  # also by name, which decides between two of the same second
        await scene.make(later, "kubeopencode", values={"name": "demo"})
        status = await scene.until(later, "Degraded", "HostConflict")
        assert NAME in status["message"]
        assert (scene.way_in(later), scene.release(later)) == (set(), None)
        await scene.delete(NAME)
        await scene.until(later, "Ready")
        assert scene.way_in(NAME) == set()


@pytest.mark.parametrize("length", [52, 53, 54, 62, 63, 64])
async def test_f10_names_up_to_the_limit_are_served_and_longer_ones_refused_early(
    cluster: DevCluster, length: int
) -> None:
    name = f"odysseus-{'a' * (length - 9)}"
    async with instance_scene(cluster) as scene:
        await scene.make(name, "odysseus")
        if length <= 53:
            await scene.until(name, "Ready")
            assert len(scene.way_in(name)) == 7
        else:
            status = await scene.until(name, "Degraded", "InvalidName")
            assert "53" in status["message"]
            assert (scene.release(name), scene.way_in(name)) == (None, set())
        await scene.delete(name)
        await scene.until_gone(name)
        assert scene.way_in(name) == set()


@pytest.mark.parametrize("length", [62, 63, 64])
async def test_f10_short_names_up_to_a_dns_label_are_served_and_longer_ones_refused_early(
    cluster: DevCluster, length: int
) -> None:
    short, name = "a" * length, "odysseus-called"
    async with instance_scene(cluster) as scene:
        await scene.make(name, "odysseus", values={"name": short})
        if length <= 63:
            status = await scene.until(name, "Ready")
            assert status["url"] == f"https://{short}.odysseus.magicstick.local/"
        else:
            status = await scene.until(name, "Degraded", "InvalidHostname")
            assert "spec.values.name" in status["message"]
            assert "63" in status["message"]
            assert (scene.release(name), scene.way_in(name)) == (None, set())
            await scene.make(name, "odysseus", values={"name": short[:63]})
            await scene.until(name, "Ready")


@pytest.mark.parametrize(
    ("given", "short"),
    [("Zoës Büro", "zoes-buro"), ("team.süd", "team-sud"), ("東京", "spoken"), ("-._-", "spoken")],
)
async def test_what_people_call_an_instance_becomes_a_host_that_the_server_takes(
    cluster: DevCluster, given: str, short: str
) -> None:
    name = "odysseus-spoken"
    async with instance_scene(cluster) as scene:
        await scene.make(name, "odysseus", values={"name": given})
        status = await scene.until(name, "Ready")
        assert status["url"] == f"https://{short}.odysseus.magicstick.local/"
        route = scene.mirror.get(scene.routes, f"{name}-public") or {}
        assert route["spec"]["hostnames"] == [f"{short}.odysseus.magicstick.example.com"]
        values = (scene.release(name) or {})["spec"]["values"]["instance"]
        assert (values["values"]["name"], values["localHost"]) == (given, status["url"][8:-1])


async def test_a_name_with_dots_is_refused_and_its_neighbour_is_served(cluster: DevCluster) -> None:
    async with instance_scene(cluster) as scene:
        await scene.make("odysseus.with.dots", "odysseus")
        await scene.make("odysseus-with-dots", "odysseus")
        status = await scene.until("odysseus.with.dots", "Degraded", "InvalidName")
        assert "metadata.name" in status["message"]
        status = await scene.until("odysseus-with-dots", "Ready")
        assert status["url"] == "https://with-dots.odysseus.magicstick.local/"
        assert set(scene.mirror.all(scene.releases)) == {"odysseus-with-dots"}
        await scene.delete("odysseus.with.dots")
        await scene.until_gone("odysseus.with.dots")


@pytest.mark.parametrize("shape", SHAPES)
async def test_f09_whatever_flux_reports_is_one_phase_and_the_release_is_never_replaced(
    cluster: DevCluster, shape: str
) -> None:
    status, expected = SHAPES[shape]
    async with instance_scene(cluster) as scene:
        scene.helm.outcome = lambda _: Outcome(lie={})
        await scene.make("odysseus-told", "odysseus")
        await scene.until("odysseus-told", "Reconciling", "WaitingForHelmRelease")
        uid = (scene.release("odysseus-told") or {})["metadata"]["uid"]
        scene.helm.outcome = lambda _: Outcome(lie=status)
        scene.helm.look_again()
        await scene.until("odysseus-told", *expected)
        assert (scene.release("odysseus-told") or {})["metadata"]["uid"] == uid


@pytest.mark.req("MS-011", "MS-012", "MS-040", "MS-041", "MS-042", "MS-043", "MS-044", "MS-215")
async def test_the_manifests_account_may_do_all_this_and_writes_no_workload(cluster: DevCluster) -> None:
    mark = cluster.audit_mark()
    async with instance_corner(cluster) as scene:
        token = await grant(scene.world)
        await grant_at_the_gateway(scene.world, scene.identity)
        async with watched(scene, token=token):
            await scene.make("odysseus-least", "odysseus")
            await scene.until("odysseus-least", "Ready")
            await scene.make("odysseus-least", "odysseus", enabled=False)
            await scene.until("odysseus-least", "Suspended")
            await scene.delete("odysseus-least")
            await scene.until_gone("odysseus-least")
    asked = [each for each in cluster.audit(AGENT, mark) if each.user == user(scene.world)]
    assert [each for each in asked if each.resource == "helmreleases" and each.is_write]
    refused = [each for each in asked if each.code == 403 and each.resource != "configmaps"]
    assert not refused, told(refused)
