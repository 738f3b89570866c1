"""Modules that require others, on a real API server: what waits, what is suspended, what comes back."""

import pytest

from hack.devcluster import DevCluster
from tests.support.scene import Verdicts, applies, deletions, ready, scene, spec, status
from tests.support.world import BASIS, SMALL_CATALOG, World

pytestmark = pytest.mark.anyio


def module(name: str, **entry: object) -> dict[str, object]:
    return {"path": f"manifests/modules/{name}", "kustomizationName": f"app-{name}", **entry}


def dependencies(world: World, kustomization: str) -> list[str]:
    return [entry["name"] for entry in spec(world, kustomization).get("dependsOn", [])]


def first_seen(world: World, kustomization: str) -> int:
    """The place in the history at which a Kustomization came."""
    return next(
        number
        for number, (path, type_, obj) in enumerate(world.mirror.history)
        if (path, type_, obj["metadata"]["name"]) == (world.kustomizations, "ADDED", kustomization)
    )


def first_ready(world: World, kustomization: str) -> int:
    """The place in the history at which Flux had first applied a Kustomization."""
    return next(
        number
        for number, (path, _, obj) in enumerate(world.mirror.history)
        if path == world.kustomizations
        and obj["metadata"]["name"] == kustomization
        and any(entry["status"] == "True" for entry in obj.get("status", {}).get("conditions", []))
    )


@pytest.mark.req("MS-113", "MS-114")
async def test_what_a_module_requires_is_requested_and_comes_first(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.activate("gamma")
        await world.until_phase("gamma", "Ready")

        for name in ("alpha", "beta"):
            assert world.phase(name) == "Ready"
        assert first_ready(world, "app-alpha") < first_seen(world, "app-beta")
        assert first_ready(world, "app-beta") < first_seen(world, "app-gamma")
        assert dependencies(world, "app-gamma") == [BASIS, "app-beta"]


@pytest.mark.req("MS-114", "MS-314")
async def test_nothing_is_created_while_a_requirement_has_not_been_ready(control_plane: DevCluster) -> None:
    async def basis_fails(world: World) -> None:
        await Verdicts(world).fail(BASIS)
        await world.mirror.until("basis is not ready", lambda: ready(world, BASIS) == "False")

    async with scene(control_plane, before=basis_fails) as world:
        await world.activate("alpha")
        await world.until_phase("alpha", "WaitingForModules")

        assert "basis is not ready" in status(world, "alpha")["message"]
        assert world.child("app-alpha") is None


@pytest.mark.req("MS-115", "MS-118", "MS-120", "MS-315")
async def test_e1_e2_row_9_an_unready_requirement_suspends_and_a_ready_one_resumes(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        flux = Verdicts(world)
        await world.activate("beta")
        await world.until_phase("beta", "Ready")
        mark = control_plane.audit_mark()

        await flux.fail(BASIS)
        for name in ("alpha", "beta"):
            await world.until_phase(name, "WaitingForModules")
            suspended = spec(world, f"app-{name}")
            assert (suspended["suspend"], suspended["prune"], suspended["deletionPolicy"]) == (
                True,
                True,
                "Delete",
            )
            assert status(world, name)["kustomization"] == f"app-{name}"
            assert [each["suspend"] for each in applies(world, mark, f"app-{name}")] == [True]
        assert dependencies(world, "app-beta") == ["app-alpha"]

        await flux.recover(BASIS)
        for name in ("alpha", "beta"):
            await world.until_phase(name, "Ready")
            assert spec(world, f"app-{name}")["suspend"] is False
            assert [each["suspend"] for each in applies(world, mark, f"app-{name}")] == [True, False]
        assert deletions(world, mark) == []
        assert world.flux.pruned == []


@pytest.mark.req("MS-118", "MS-314", "MS-315")
async def test_a_disabled_requirement_suspends_and_is_not_named_once_it_is_gone(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.activate("beta")
        await world.until_phase("beta", "Ready")

        await world.activate("alpha", enabled=False)
        await world.until_phase("alpha", "Disabled")
        await world.mirror.until(
            "beta waits without naming what is gone",
            lambda: (
                world.phase("beta") == "WaitingForModules"
                and spec(world, "app-beta")["suspend"] is True
                and dependencies(world, "app-beta") == []
            ),
        )

        assert status(world, "beta")["message"] == "Waiting for modules: alpha (alpha is disabled)"
        assert world.flux.pruned == ["app-alpha"]
        assert "app-beta" in world.flux.installed


@pytest.mark.req("MS-116", "MS-117")
async def test_e3_a_suspended_module_is_resumed_before_it_is_deleted(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        flux = Verdicts(world)
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        await flux.fail(BASIS)
        await world.until_phase("alpha", "WaitingForModules")
        mark = control_plane.audit_mark()

        await world.activate("alpha", enabled=False)
        await world.until_phase("alpha", "Disabled")

        assert [each["suspend"] for each in applies(world, mark, "app-alpha")] == [False]
        assert deletions(world, mark) == ["app-alpha"]
        assert world.flux.pruned == ["app-alpha"]
        assert status(world, "alpha")["kustomization"] == ""


async def test_e6_a_requirement_that_is_being_deleted_is_made_anew_only_once_it_is_gone(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.activate("beta")
        await world.until_phase("beta", "Ready")
        dying = world.activation("alpha")
        assert dying is not None

        world.flux.pause()
        await world.delete(world.activations, "alpha")
        await world.until_phase("beta", "WaitingForModules")
        assert "alpha is being removed" in status(world, "beta")["message"]
        leaving = world.activation("alpha")
        assert leaving is not None
        assert leaving["metadata"]["uid"] == dying["metadata"]["uid"]
        assert leaving["spec"] == dying["spec"]
        world.flux.resume()
        await world.until_phase("beta", "Ready")

        again = world.activation("alpha")
        assert again is not None
        assert again["metadata"]["uid"] != dying["metadata"]["uid"]
        assert again["metadata"]["annotations"]["appliance.magicstick.dev/auto-enabled"] == "true"


async def test_e15_what_git_installs_is_required_under_the_name_that_it_has_there(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.catalog(
            {
                **SMALL_CATALOG,
                "dashboard": module("dashboard", activationMode="static"),
                "portal": module("portal", requires=["dashboard"]),
            }
        )
        await world.activate("portal")
        await world.until_phase("portal", "WaitingForModules")
        assert "dashboard is not installed" in status(world, "portal")["message"]

        await world.kustomization("apps", {})
        await world.until_phase("portal", "Ready")

        assert dependencies(world, "app-portal") == ["apps"]


async def test_a_dependency_cycle_is_told_and_installs_nothing(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.catalog(
            {**SMALL_CATALOG, "hen": module("hen", requires=["egg"]), "egg": module("egg", requires=["hen"])}
        )
        await world.activate("hen")
        await world.until_phase("hen", "Degraded")

        assert world.reason("hen") == "DependencyCycle"
        assert world.child("app-hen") is None
