"""Instances behind the real Envoy Gateway: served once it has accepted their policies, and never before.

That no route led anywhere unguarded at any audited instant is seen by `tests.support.open_routes`, when the
cluster ends; here is what becomes of instances.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from hack.devcluster import WITH_CONTROLLERS, Component, DevCluster
from hack.devcluster.layout import Layout
from tests.support.gateway_log import accepted, audited, writes
from tests.support.instance_scene import InstanceScene, definition, install_kinds, instance_scene
from tests.support.mirror import Object
from tests.support.open_routes import OpenRoutes
from tests.support.real_gateway import (
    CLIENT_SECRET,
    GUARD,
    PROVIDER,
    client_secret,
    deployment,
    path_of,
    put,
    real_gateway,
    service,
)

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.slow]

NAME: Final = "odysseus-demo"
CLOSED: Final = ("Reconciling", "WaitingForAccessGuard")
CONTROLLER: Final = "gateway.envoyproxy.io/gatewayclass-controller"
INSTANCES: Final[Mapping[str, str]] = {
    "openclaw-demo": "openclaw",
    "hermes-demo": "hermes",
    "paperclip-demo": "paperclip",
    "kubeopencode-demo": "kubeopencode",
    NAME: "odysseus",
    f"odysseus-{'a' * 44}": "odysseus",
}
"""One of each application, and one whose name has as many characters as there may be."""
DEFINITIONS: Final = {
    "openclawinstances": "openclaw.rocks",
    "hermesinstances": "hermes.agent",
    "instances": "paperclip.inc",
    "sandboxes": "agents.x-k8s.io",
}

Fault = Callable[[InstanceScene], Awaitable[object]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """With controllers, a node for the gateway's proxies, and the gateway itself."""
    with DevCluster.start((*WITH_CONTROLLERS, Component.ENVOY_GATEWAY)) as cluster:
        install_kinds(cluster)
        cluster.apply([definition(plural, group) for plural, group in DEFINITIONS.items()])
        cluster.add_node("node-0")
        yield cluster


@contextlib.asynccontextmanager
async def served(cluster: DevCluster, **spec: Any) -> AsyncIterator[InstanceScene]:
    """A scene with one instance that is Ready."""
    async with instance_scene(cluster, real_gateway) as scene:
        await scene.make(NAME, "odysseus", **spec)
        await until_served(scene)
        yield scene


def routes(scene: InstanceScene, name: str = NAME) -> set[str]:
    """The routes of an instance."""
    return scene.way_in(name) & scene.mirror.all(scene.routes).keys()


def policies(scene: InstanceScene, name: str = NAME) -> dict[str, Object]:
    """The policies of an instance."""
    every = scene.mirror.all(scene.policies)
    return {each: every[each] for each in sorted(scene.way_in(name) & every.keys())}


async def until_served(scene: InstanceScene, name: str = NAME) -> None:
    """Wait until an instance is Ready and open, its policies accepted."""

    def holds() -> bool:
        ready = scene.status(name).get("phase") == "Ready"
        is_open = bool(routes(scene, name)) and routes(scene, name) <= scene.open_routes()
        return ready and is_open and all(map(accepted, policies(scene, name).values()))

    try:
        await scene.mirror.until(f"{name} is served", holds)
    except AssertionError as late:
        said = {each: policy.get("status") for each, policy in policies(scene, name).items()}
        raise AssertionError(f"{late}\nthe gateway said: {said}") from None


async def until_closed(scene: InstanceScene, name: str = NAME) -> Object:
    """Wait until an instance says that its gateway is waited for, and no route of it leads anywhere."""
    status = await scene.until(name, *CLOSED)
    await scene.mirror.until("all routes are closed", lambda: not routes(scene, name) & scene.open_routes())
    assert status["accessGuardReady"] is False
    return status


async def stop_gateway(cluster: DevCluster) -> None:
    await asyncio.to_thread(cluster.stop_component, Component.ENVOY_GATEWAY)


async def start_gateway(cluster: DevCluster) -> None:
    await asyncio.to_thread(cluster.start_component, Component.ENVOY_GATEWAY)


# --- served --------------------------------------------------------------------------------------------


@pytest.mark.req("MS-161", "MS-168", "MS-169")
async def test_every_application_is_served_once_its_policies_are_really_accepted(
    cluster: DevCluster,
) -> None:
    async with instance_scene(cluster, real_gateway) as scene:
        for name, application in INSTANCES.items():
            await scene.make(name, application)
        for name in INSTANCES:
            await until_served(scene, name)
            assert scene.status(name)["accessGuardReady"] is True
            assert len(routes(scene, name)) == 4
            for policy in policies(scene, name).values():
                assert [each["controllerName"] for each in policy["status"]["ancestors"]] == [CONTROLLER]


@pytest.mark.parametrize("access", [{"authentication": "none"}, {"exposure": "local"}], ids=str)
async def test_other_kinds_of_access_are_accepted_as_well(
    cluster: DevCluster, access: dict[str, str]
) -> None:
    async with served(cluster, access=access) as scene:
        assert all(map(accepted, policies(scene).values()))


# --- what guards it is taken away, and comes back --------------------------------------------------------


def policy_of(scene: InstanceScene) -> str:
    return f"{scene.policies}/{NAME}-local-sso"


async def edit_policy(scene: InstanceScene) -> None:
    """Somebody has the gateway ask nobody."""
    await scene.world.client.merge(policy_of(scene), {"spec": {"extAuth": {"failOpen": True}}})


async def spoil_policy(scene: InstanceScene) -> None:
    """Somebody makes it one that the gateway cannot accept."""
    secret = {"name": "forgotten", "kind": "Secret", "group": ""}
    await scene.world.client.merge(policy_of(scene), {"spec": {"oidc": {"clientSecret": secret}}})


async def empty_policy(scene: InstanceScene) -> None:
    """Somebody takes the guard out."""
    await scene.world.client.merge(policy_of(scene), {"spec": {"extAuth": None}})


async def delete_policy(scene: InstanceScene) -> None:
    await scene.world.delete(scene.policies, f"{NAME}-local-sso")


async def delete_all_policies(scene: InstanceScene) -> None:
    await scene.world.client.send("DELETE", scene.policies)


@pytest.mark.req("MS-168", "MS-169")
@pytest.mark.parametrize(
    "fault", [edit_policy, spoil_policy, empty_policy, delete_policy, delete_all_policies]
)
async def test_a_policy_that_somebody_spoils_closes_the_routes_until_it_is_repaired(
    cluster: DevCluster, fault: Fault
) -> None:
    async with served(cluster) as scene:
        since = len(scene.mirror.history)
        await fault(scene)
        await scene.mirror.until("the routes were closed", lambda: was_closed(scene, since))
        await until_served(scene)


def was_closed(scene: InstanceScene, since: int) -> bool:
    """Whether a route of the instance was seen without a backend."""
    return any(
        path == scene.routes and obj["metadata"]["name"] in routes(scene) and not leads(obj)
        for path, _, obj in scene.mirror.history[since:]
    )


def leads(route: Object) -> bool:
    return any(rule.get("backendRefs") for rule in route["spec"]["rules"])


async def lose_guard(scene: InstanceScene) -> None:
    await scene.world.client.send("DELETE", path_of(scene, "Service", GUARD))


async def lose_guards(scene: InstanceScene) -> None:
    await put(scene, deployment(GUARD, replicas=0))


async def lose_provider(scene: InstanceScene) -> None:
    await scene.world.client.send("DELETE", path_of(scene, "Service", PROVIDER))


async def lose_secret(scene: InstanceScene) -> None:
    await scene.world.client.send("DELETE", path_of(scene, "Secret", CLIENT_SECRET))


LOSSES: Final = {
    "guard Service": (lose_guard, service(GUARD), GUARD),
    "guard's Pods": (lose_guards, deployment(GUARD), GUARD),
    "identity provider's Service": (lose_provider, service(PROVIDER), PROVIDER),
    "identity Secret": (lose_secret, client_secret(), CLIENT_SECRET),
}
"""How it goes, what is put in its place, and what the gateway names when it misses it."""


@pytest.mark.req("MS-168", "MS-169", "MS-174")
@pytest.mark.parametrize("lost", LOSSES)
async def test_without_what_its_policies_refer_to_an_instance_is_closed_until_it_is_back(
    cluster: DevCluster, lost: str
) -> None:
    lose, replacement, name = LOSSES[lost]
    async with served(cluster) as scene:
        await lose(scene)
        await until_closed(scene)
        await until_told(scene, name)
        await put(scene, replacement)
        await until_served(scene)


@pytest.mark.parametrize("lost", LOSSES)
async def test_an_instance_whose_policies_are_refused_from_the_beginning_is_never_open(
    cluster: DevCluster, lost: str
) -> None:
    lose, replacement, name = LOSSES[lost]
    async with instance_scene(cluster, real_gateway) as scene:
        await lose(scene)
        await scene.make(NAME, "odysseus")
        await until_closed(scene)
        await until_told(scene, name)
        opened = [obj for path, _, obj in scene.mirror.history if path == scene.routes and leads(obj)]
        assert not opened
        await put(scene, replacement)
        await until_served(scene)


async def until_told(scene: InstanceScene, missing: str) -> None:
    """Wait until the instance says what the gateway misses."""
    words = ("The gateway says: ", missing)
    await scene.mirror.until(
        f"it is told that {missing} is missing",
        lambda: all(each in scene.status(NAME).get("message", "") for each in words),
    )


# --- the gateway itself ------------------------------------------------------------------------------------


@pytest.mark.req("MS-167", "MS-168", "MS-169")
async def test_while_the_gateway_is_away_nothing_opens_and_what_stands_stays(cluster: DevCluster) -> None:
    async with served(cluster) as scene:
        await stop_gateway(cluster)
        try:
            # A new instance waits; the one that is served is not disturbed.
            await scene.make("odysseus-new", "odysseus")
            await until_closed(scene, "odysseus-new")
            assert scene.status(NAME)["phase"] == "Ready"
            assert routes(scene) <= scene.open_routes()

            # A policy that changes has no verdict; and one that somebody deletes is made, and has none.
            await scene.make(NAME, "odysseus", access={"role": "admin"})
            await until_closed(scene)
            await delete_policy(scene)
            await scene.mirror.until("it is made again", lambda: len(policies(scene)) == 2)
            await until_closed(scene)
        finally:
            await start_gateway(cluster)
        for name in (NAME, "odysseus-new"):
            await until_served(scene, name)


async def test_a_host_is_handed_over_and_never_leads_to_two_instances(cluster: DevCluster) -> None:
    async with served(cluster) as scene:
        later = "the-later-one"  # also by name, which decides between two of the same second
        await scene.make(later, "odysseus", values={"name": "demo"})
        await scene.until(later, "Degraded", "HostConflict")
        assert routes(scene, later) == set()
        await scene.delete(NAME)
        await until_served(scene, later)
    assert doubly_served(cluster) == set()


def doubly_served(cluster: DevCluster) -> set[tuple[str, str, str]]:
    """What led to two instances at once at any audited instant."""
    watch = OpenRoutes()
    found: set[tuple[str, str, str]] = set()
    for record in writes(audited(Layout(cluster.directory).audit_log)):
        watch.feed([record])
        found |= watch.doubly_served()
    return found


# --- the end -------------------------------------------------------------------------------------------------


async def test_an_instance_goes_and_takes_its_whole_way_in_along(cluster: DevCluster) -> None:
    async with served(cluster) as scene:
        await scene.delete(NAME)
        await scene.until_gone(NAME)
        assert scene.way_in(NAME) == set()
