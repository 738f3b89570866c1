"""Default modules of the Appliance on a real API server: seeded once, and never against a user's word."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hack import yamls
from hack.devcluster import DevCluster
from magicstick.api.labels import AUTO_ENABLED, MANAGED_BY, MODULE, OPERATOR
from tests.support.mirror import Object
from tests.support.operator import operator
from tests.support.oracles import assert_settled
from tests.support.scene import scene
from tests.support.world import SMALL_CATALOG, World, corner

pytestmark = pytest.mark.anyio

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
WITH_ALIAS: Mapping[str, Mapping[str, Any]] = {
    **SMALL_CATALOG,
    "model-catalog": {
        "path": "manifests/modules/model-catalog",
        "kustomizationName": "app-model-catalog",
        "requires": ["basis"],
    },
    "hardware-discovery": {
        "path": "manifests/modules/hardware-discovery",
        "kustomizationName": "hardware-discovery",
        "activationMode": "static",
    },
    "dashboard": {
        "path": "manifests/modules/dashboard",
        "kustomizationName": "app-dashboard",
        "activationMode": "static",
    },
}


def appliance(world: World) -> Object:
    return world.mirror.get(world.appliances, "local") or {}


def seeded(world: World) -> list[str]:
    return list(appliance(world).get("status", {}).get("seededModules", []))


async def until_seeded(world: World, *modules: str) -> None:
    """Wait until the Appliance's record is exactly this and its status is about its present spec."""
    await world.mirror.until(
        f"seeded are {modules}",
        lambda: (
            seeded(world) == sorted(modules)
            and appliance(world)["status"]["observedGeneration"] == appliance(world)["metadata"]["generation"]
        ),
    )


def activations(world: World) -> set[str]:
    return set(world.mirror.all(world.activations))


async def until_gone(world: World, path: str, name: str) -> None:
    await world.mirror.until(f"{name} is gone", lambda: world.mirror.get(path, name) is None)


@pytest.mark.req("MS-103")
async def test_row_1_the_default_appliance_activates_exactly_its_modules(control_plane: DevCluster) -> None:
    shipped = yamls.load((MANIFESTS / "catalogs" / "module-catalog.yaml").read_text())
    default = yamls.load((MANIFESTS / "appliance.yaml").read_text())["spec"]
    async with scene(control_plane) as world:
        await world.catalog(json.loads(shipped["data"]["modules.json"])["modules"])
        await world.kustomization("apps", {})
        await world.appliance(
            {name: entry["enabled"] for name, entry in default.pop("modules").items()}, **default
        )
        for name in ("litellm", "model-catalog"):
            await world.until_phase(name, "Ready")
        await until_seeded(world, "litellm", "model-catalog")
        await world.mirror.until("it is Ready", lambda: appliance(world)["status"]["phase"] == "Ready")

        assert activations(world) == {"litellm", "model-catalog"}
        made = world.activation("litellm")
        assert made is not None
        assert made["metadata"]["labels"] == {MANAGED_BY: OPERATOR, MODULE: "litellm"}
        assert made["metadata"]["annotations"] == {AUTO_ENABLED: "true"}
        assert set(appliance(world)["status"]["modules"]) == {"litellm", "model-catalog"}


@pytest.mark.req("MS-226")
async def test_e9_decision_22_a_deleted_module_stays_deleted(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        async with operator(world):
            await world.appliance({"alpha": True, "beta": True})
            await world.until_phase("beta", "Ready")
            await until_seeded(world, "alpha", "beta")
            await world.delete(world.activations, "beta")
            await until_gone(world, world.activations, "beta")
            assert world.flux.pruned == ["app-beta"]
            await assert_settled(world)
            assert activations(world) == {"alpha"}
        # Another process knows it from the record alone; a changed Appliance is the same Appliance.
        async with operator(world):
            await world.appliance({"alpha": True, "beta": True, "gamma": False})
            await until_seeded(world, "alpha", "beta")
            await assert_settled(world)
            assert activations(world) == {"alpha"}


@pytest.mark.req("MS-226")
async def test_a_new_appliance_is_seeded_anew(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.appliance({"alpha": True})
        await world.until_phase("alpha", "Ready")
        await until_seeded(world, "alpha")
        await world.delete(world.activations, "alpha")
        await until_gone(world, world.activations, "alpha")

        first = appliance(world)["metadata"]["uid"]
        await world.delete(world.appliances, "local")
        await until_gone(world, world.appliances, "local")
        await world.appliance({"alpha": True})

        await world.until_phase("alpha", "Ready")
        await until_seeded(world, "alpha")
        assert appliance(world)["metadata"]["uid"] != first


@pytest.mark.req("MS-226")
async def test_each_module_is_created_once_however_often_the_appliance_changes(
    control_plane: DevCluster,
) -> None:
    mark = control_plane.audit_mark()
    async with scene(control_plane) as world:
        for number in range(5):
            await world.appliance({"alpha": True, "beta": True}, profile="full" if number % 2 else "minimal")
        await world.until_phase("beta", "Ready")
        await until_seeded(world, "alpha", "beta")
        created = sorted(
            record.request_object["metadata"]["name"]
            for record in world.operator_writes(mark)
            if record.verb == "create" and record.resource == "moduleactivations" and record.request_object
        )

        assert created == ["alpha", "beta"]


@pytest.mark.req("MS-227")
async def test_e5_row_3_row_8_a_disabled_module_stays_so_though_it_is_seeded_and_needed(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.activate("alpha", enabled=False, parameters={"mine": "kept"})
        await world.until_phase("alpha", "Disabled")
        before = untouched(world, "alpha")

        await world.appliance({"alpha": True})
        await world.activate("beta")
        await until_seeded(world, "alpha")
        await world.until_phase("beta", "WaitingForModules")

        assert untouched(world, "alpha") == before
        assert world.phase("alpha") == "Disabled"
        assert activations(world) == {"alpha", "beta"}


def untouched(world: World, name: str) -> tuple[object, ...]:
    """All of an activation that a user owns."""
    found = world.activation(name)
    assert found is not None
    metadata = found["metadata"]
    return (
        metadata["uid"],
        metadata["generation"],
        metadata.get("labels"),
        metadata.get("annotations"),
        found["spec"],
    )


@pytest.mark.req("MS-227")
async def test_row_4_one_that_is_being_deleted_is_seeded_only_once_it_is_gone(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        dying = world.activation("alpha")
        assert dying is not None
        world.flux.pause()
        await world.delete(world.activations, "alpha")
        await world.until_phase("alpha", "Removing")

        await world.appliance({"alpha": True, "beta": True})
        await world.mirror.until("beta is seeded", lambda: seeded(world) == ["beta"])
        leaving = world.activation("alpha")
        assert leaving is not None
        assert leaving["metadata"]["uid"] == dying["metadata"]["uid"]

        world.flux.resume()
        await world.until_phase("beta", "Ready")
        await until_seeded(world, "alpha", "beta")
        again = world.activation("alpha")
        assert again is not None
        assert again["metadata"]["uid"] != dying["metadata"]["uid"]


async def test_e7_row_5_an_alias_and_its_module_are_one_activation(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.catalog(WITH_ALIAS)
        await world.appliance({"modelCatalog": True, "model-catalog": True})
        await world.until_phase("model-catalog", "Ready")
        await until_seeded(world, "model-catalog")

        assert activations(world) == {"model-catalog"}


@pytest.mark.req("MS-103")
async def test_e8_row_7_only_what_says_true_is_seeded(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.appliance({"alpha": True, "beta": False})
        await world.client.merge(f"{world.appliances}/local", {"spec": {"modules": {"gamma": {}}}})
        with pytest.raises(RuntimeError, match=r"(?s)422.*boolean"):
            await world.client.merge(
                f"{world.appliances}/local", {"spec": {"modules": {"gamma": {"enabled": "true"}}}}
            )
        await until_seeded(world, "alpha")
        await world.until_phase("alpha", "Ready")
        await assert_settled(world)

        assert activations(world) == {"alpha"}


async def test_e10_e11_row_6_static_and_unknown_modules_have_no_activation(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.catalog(WITH_ALIAS)
        names = ("basis", "hardware-discovery", "dashboard", "nonsense", "alpha")
        await world.appliance(dict.fromkeys(names, True))
        await world.until_phase("alpha", "Ready")
        await until_seeded(world, "alpha")
        await assert_settled(world)

        assert activations(world) == {"alpha"}


async def test_an_appliance_whose_last_module_went_is_ready(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.appliance({"alpha": True})
        await world.until_phase("alpha", "Ready")
        await until_seeded(world, "alpha")
        await world.activate("alpha", enabled=False)
        await world.until_phase("alpha", "Disabled")
        await world.delete(world.activations, "alpha")

        await world.mirror.until(
            "no module is told of", lambda: "modules" not in appliance(world).get("status", {"modules": {}})
        )
        assert appliance(world)["status"]["phase"] == "Ready"


async def test_an_entry_that_is_switched_off_removes_nothing(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.appliance({"alpha": True})
        await world.until_phase("alpha", "Ready")
        await until_seeded(world, "alpha")
        await world.appliance({"alpha": False})
        await until_seeded(world, "alpha")
        await assert_settled(world)

        assert world.phase("alpha") == "Ready"


@pytest.mark.req("MS-021")
async def test_the_private_mesh_comes_only_when_it_is_asked_for_by_name(control_plane: DevCluster) -> None:
    shipped = yamls.load((MANIFESTS / "catalogs" / "module-catalog.yaml").read_text())
    modules = json.loads(shipped["data"]["modules.json"])["modules"]
    assert "private-mesh" in modules
    async with scene(control_plane) as world:
        await world.catalog(modules)
        for static in ("apps", "hardware-discovery"):
            await world.kustomization(static, {})
        everything_else = [name for name in modules if name != "private-mesh"]
        await world.appliance(dict.fromkeys(everything_else, True), profile="full")
        generated = {name for name in everything_else if modules[name].get("activationMode") != "static"}
        await until_seeded(world, *generated)
        await assert_settled(world)
        assert activations(world) == generated

        await world.activate("private-mesh")
        await world.until_phase("private-mesh", "Ready")
        assert world.child(modules["private-mesh"]["kustomizationName"]) is not None
