"""The life of single modules on a real API server: installed, parametrised, switched off, removed."""

import asyncio

import pytest

from hack.devcluster import DevCluster
from hack.devcluster.audit import AuditMark
from magicstick.api.labels import MANAGED_BY, MODULE, OPERATOR
from magicstick.runtime.conditions import check_conditions
from tests.support.mirror import Object
from tests.support.scene import Verdicts, applies, deletions, scene, spec, status
from tests.support.world import DEFINITIONS, SMALL_CATALOG, World

pytestmark = pytest.mark.anyio

PHASES_WHEN_READY = {"Ready", "Disabled", "Suspended"}


def module(name: str, **entry: object) -> dict[str, object]:
    return {"path": f"manifests/modules/{name}", "kustomizationName": f"app-{name}", **entry}


def generated(world: World) -> list[str]:
    """The names of all Kustomizations that bear our label."""
    return sorted(
        name
        for name, item in world.mirror.all(world.kustomizations).items()
        if item["metadata"].get("labels", {}).get(MANAGED_BY) == OPERATOR
    )


def substitute(world: World, kustomization: str) -> dict[str, str] | None:
    """The variables that a Kustomization substitutes; None when it substitutes nothing."""
    found = world.child(kustomization) or {}
    variables = found.get("spec", {}).get("postBuild", {}).get("substitute")
    return dict(variables) if variables is not None else None


async def until_gone(world: World, path: str, name: str) -> None:
    """Wait until it has been deleted, whether or not its creation has been seen already."""
    await world.mirror.until(f"{name} was deleted", lambda: ("DELETED", name) in seen(world, path))
    assert world.mirror.get(path, name) is None


def seen(world: World, path: str) -> list[tuple[str, str]]:
    return [(type_, obj["metadata"]["name"]) for place, type_, obj in world.mirror.history if place == path]


@pytest.mark.req("MS-015", "MS-098", "MS-110", "MS-116", "MS-175")
async def test_a_module_follows_its_activation_from_creation_to_deletion(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        assert generated(world) == ["app-alpha"]
        assert spec(world, "app-alpha")["path"] == "./manifests/modules/alpha"
        assert status(world, "alpha")["kustomization"] == "app-alpha"

        await world.activate("alpha", enabled=False)
        await world.until_phase("alpha", "Disabled")
        assert generated(world) == []
        assert status(world, "alpha")["kustomization"] == ""

        await world.activate("alpha", enabled=True)
        await world.until_phase("alpha", "Ready")
        assert generated(world) == ["app-alpha"]

        await world.delete(world.activations, "alpha")
        await until_gone(world, world.activations, "alpha")
        assert generated(world) == []
        assert world.flux.pruned == ["app-alpha", "app-alpha"]
        assert world.flux.installed == {"infrastructure-basis"}


@pytest.mark.req("MS-175", "MS-178")
async def test_phase_and_conditions_say_the_same_at_every_moment(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        flux = Verdicts(world)
        await world.appliance({"alpha": True})
        await world.activate("beta")
        await world.until_phase("beta", "Ready")
        await flux.fail("app-alpha")
        await world.until_phase("alpha", "Degraded")
        await world.until_phase("beta", "WaitingForModules")
        assert world.reason("alpha") == "ReconciliationFailed"
        await flux.recover("app-alpha")
        await world.until_phase("beta", "Ready")
        await world.activate("beta", enabled=False)
        await world.until_phase("beta", "Disabled")
        await world.mirror.until("the Appliance is Ready", lambda: appliance_phase(world) == "Ready")

        told = [
            obj
            for path, _, obj in world.mirror.history
            if path in {world.activations, world.appliances} and speaks_of_the_present(obj)
        ]
        assert {obj["kind"] for obj in told} == {"ModuleActivation", "Appliance"}
        for obj in told:
            assert not check_conditions(obj), obj
            assert ready(obj) == (obj["status"]["phase"] in PHASES_WHEN_READY), obj["status"]
        phases = {obj["status"]["phase"] for obj in told if obj["kind"] == "ModuleActivation"}
        assert {"Reconciling", "Ready", "Degraded", "WaitingForModules", "Removing", "Disabled"} <= phases


def appliance_phase(world: World) -> str:
    found = world.mirror.get(world.appliances, "local") or {}
    return str(found.get("status", {}).get("phase", ""))


def speaks_of_the_present(obj: Object) -> bool:
    return bool(obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"])


def ready(obj: Object) -> bool:
    conditions = {entry["type"]: entry for entry in obj["status"]["conditions"]}
    return bool(conditions["Ready"]["status"] == "True")


async def test_e4_what_is_being_deleted_is_neither_applied_nor_deleted_again(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        mark = control_plane.audit_mark()

        world.flux.pause()
        await world.delete(world.activations, "alpha")
        await world.until_phase("alpha", "Removing")
        await world.delete(world.activations, "alpha")
        for number in range(3):
            annotations = {"metadata": {"annotations": {"example.com/touched": str(number)}}}
            await world.client.merge(f"{world.activations}/alpha", annotations)
        await asyncio.sleep(1.5)  # that nothing is sent can only be seen by looking for a while
        assert world.phase("alpha") == "Removing"
        assert deletions(world, mark) == ["app-alpha"]
        assert applies(world, mark, "app-alpha") == []

        world.flux.resume()
        await until_gone(world, world.activations, "alpha")
        assert world.child("app-alpha") is None


async def test_e12_row_13_a_size_may_be_given_in_several_ways(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        for given, variables in (
            ({"size": "5Gi"}, {"STORAGE": "5Gi"}),
            ({"storageSize": "6Gi"}, {"STORAGE": "6Gi"}),
            ("7Gi", {"STORAGE": "7Gi"}),
            ("", None),
            ("8Gi", {"STORAGE": "8Gi"}),
            (None, None),
        ):
            await world.activate("gamma", parameters={"storage": given})
            await until_substituted(world, "gamma", variables)


async def until_substituted(world: World, module: str, variables: dict[str, str] | None) -> None:
    await world.mirror.until(
        f"{module} is Ready with {variables}",
        lambda: world.phase(module) == "Ready" and substitute(world, f"app-{module}") == variables,
    )


async def test_e13_row_14_without_settings_substitution_only_parameters_are_substituted(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        parameters = [{"name": "storage", "label": "Storage", "substitution": "STORAGE"}]
        await world.catalog(
            {
                **SMALL_CATALOG,
                "plain": module("plain", parameters=parameters),
                "settings": module("settings", parameters=parameters, postBuildSubstitution=True),
            }
        )
        for name in ("plain", "settings"):
            await world.activate(name, parameters={"storage": "5Gi"})
            await world.until_phase(name, "Ready")

        assert spec(world, "app-plain")["postBuild"] == {"substitute": {"STORAGE": "5Gi"}}
        assert spec(world, "app-settings")["postBuild"] == {
            "substitute": {"STORAGE": "5Gi", "var_substitution_enabled": "true"},
            "substituteFrom": [{"kind": "ConfigMap", "name": "ai-appliance-settings", "optional": True}],
        }


async def test_an_invalid_parameter_leaves_what_was_applied_last(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.activate("gamma", parameters={"storage": "5Gi"})
        await world.until_phase("gamma", "Ready")
        await world.activate("gamma", parameters={"storage": "plenty"})
        await world.until_phase("gamma", "Degraded")

        assert world.reason("gamma") == "InvalidParameter"
        assert "plenty" not in status(world, "gamma")["message"]
        assert substitute(world, "app-gamma") == {"STORAGE": "5Gi"}


async def test_e14_decision_24_a_module_that_waits_is_ready_only_with_its_definitions(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        group = f"{world.namespace}.example.com"
        crd = f"widgets.{group}"
        await world.catalog(
            {
                **SMALL_CATALOG,
                "vendor": module("vendor", requiredCrds=[crd], waitForReady=True),
                "dependant": module("dependant", requires=["vendor"]),
            }
        )
        await world.activate("dependant")
        await world.until_phase("vendor", "WaitingForCRD")
        assert crd in status(world, "vendor")["message"]
        assert spec(world, "app-vendor")["wait"] is True
        assert spec(world, "app-vendor")["healthChecks"] == [
            {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": crd}
        ]
        assert world.phase("dependant") == "WaitingForModules"

        await world.client.apply(f"{DEFINITIONS}/{crd}", definition(group))
        try:
            await world.until_phase("dependant", "Ready")
            assert world.phase("vendor") == "Ready"
            assert spec(world, "app-dependant")["wait"] is False
        finally:
            await world.client.send("DELETE", f"{DEFINITIONS}/{crd}")
        await world.until_phase("vendor", "WaitingForCRD")
        await world.until_phase("dependant", "WaitingForModules")
        assert spec(world, "app-dependant")["suspend"] is True


def definition(group: str) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


@pytest.mark.req("MS-121")
async def test_e24_decision_23_a_module_that_left_the_catalog_stays_until_its_activation_goes(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")

        await world.catalog({key: entry for key, entry in SMALL_CATALOG.items() if key == "basis"})
        await world.until_phase("alpha", "Degraded")
        assert world.reason("alpha") == "UnknownModule"
        assert spec(world, "app-alpha")["suspend"] is False
        assert status(world, "alpha")["kustomization"] == "app-alpha"

        await world.delete(world.activations, "alpha")
        await until_gone(world, world.activations, "alpha")
        assert world.child("app-alpha") is None
        assert world.flux.pruned == ["app-alpha"]


@pytest.mark.req("MS-117", "MS-121", "MS-122")
async def test_row_12_orphans_are_resumed_and_removed_and_foreign_objects_never_touched(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        ours = {MANAGED_BY: OPERATOR}
        foreign = {"by-hand": {}, "by-another": {MANAGED_BY: "another"}, "labelled": {MODULE: "alpha"}}
        for name, labels in foreign.items():
            await world.kustomization(name, labels)
        await world.mirror.until("Flux has applied them", lambda: set(foreign) <= world.flux.installed)
        before = {name: identity(world, name) for name in foreign}
        mark = control_plane.audit_mark()

        orphans = {"app-alpha": "alpha", "app-gone": "gone", "app-unlabelled": ""}
        for name, key in orphans.items():
            await world.kustomization(name, {**ours, **({MODULE: key} if key else {})})
            await until_gone(world, world.kustomizations, name)
        assert sorted(deletions(world, mark)) == sorted(orphans)

        # Suspended by somebody: Flux would prune nothing.
        world.flux.pruned.clear()
        world.flux.installed.add("app-beta")
        await suspended_orphan(world, "app-beta", {**ours, MODULE: "beta"})
        await until_gone(world, world.kustomizations, "app-beta")
        assert world.flux.pruned == ["app-beta"]

        assert {name: identity(world, name) for name in foreign} == before
        assert touched(world, mark).isdisjoint(foreign)


def identity(world: World, name: str) -> tuple[str, object, object]:
    found = world.child(name)
    assert found is not None, name
    return found["metadata"]["uid"], found["metadata"].get("labels"), found["spec"]


def touched(world: World, mark: AuditMark) -> set[str]:
    """The Kustomizations that an operator wrote since the mark, in whatever way."""
    return {record.name for record in world.operator_writes(mark) if record.resource == "kustomizations"}


async def suspended_orphan(world: World, name: str, labels: dict[str, str]) -> None:
    body = {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {
            "name": name,
            "namespace": world.flux_namespace,
            "labels": labels,
            "finalizers": ["finalizers.fluxcd.io"],
        },
        "spec": {
            "interval": "10m0s",
            "path": "./somewhere",
            "prune": True,
            "suspend": True,
            "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
        },
    }
    await world.client.create(world.kustomizations, body)


@pytest.mark.req("MS-122")
async def test_a_foreign_kustomization_of_the_modules_name_is_left_alone(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.kustomization("app-alpha", {})
        await world.mirror.until("Flux has applied it", lambda: "app-alpha" in world.flux.installed)
        before, mark = identity(world, "app-alpha"), control_plane.audit_mark()

        await world.activate("alpha")
        await world.until_phase("alpha", "Degraded")
        assert world.reason("alpha") == "KustomizationConflict"
        await world.delete(world.activations, "alpha")
        await until_gone(world, world.activations, "alpha")

        assert identity(world, "app-alpha") == before
        assert touched(world, mark) == set()


@pytest.mark.req("MS-015")
async def test_e25_an_activation_of_another_name_speaks_for_its_module(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.activate("alpha", name="foo")
        await world.until_phase("foo", "Ready")
        await world.appliance({"alpha": True})
        await world.activate("beta")
        await world.until_phase("beta", "Ready")

        assert set(world.mirror.all(world.activations)) == {"foo", "beta"}
        assert generated(world) == ["app-alpha", "app-beta"]

        await world.activate("alpha", name="alpha")
        await world.until_phase("foo", "Degraded")
        assert world.reason("foo") == "DuplicateModule"
        await world.until_phase("alpha", "Ready")
        assert generated(world) == ["app-alpha", "app-beta"]

        # The duplicate goes without the module.
        await world.delete(world.activations, "foo")
        await until_gone(world, world.activations, "foo")
        assert world.flux.pruned == []


async def test_row_11_an_unknown_module_is_told_and_creates_nothing(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.activate("nonsense")
        await world.until_phase("nonsense", "Degraded")

        assert world.reason("nonsense") == "UnknownModule"
        assert generated(world) == []


async def test_a_users_own_suspension_is_taken_back(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        await world.client.merge(f"{world.kustomizations}/app-alpha", {"spec": {"suspend": True}})
        await world.mirror.until("it is seen", lambda: spec(world, "app-alpha")["suspend"] is True)

        await world.mirror.until("it is resumed", lambda: spec(world, "app-alpha")["suspend"] is False)
        await world.until_phase("alpha", "Ready")
