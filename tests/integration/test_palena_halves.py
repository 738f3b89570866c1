"""Each half can be off: it then watches nothing, and the manifests grant it nothing (spec: palena §12)."""

import os
from pathlib import Path
from typing import Any, Final

import pytest

from hack import yamls
from hack.devcluster import DevCluster
from magicstick.api.kinds import PALENA_GATEWAY, PALENA_GROUP, PALENA_KINDS
from magicstick.composition.palena import palena
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.store import Store
from magicstick.palena.common.secrets import SystemEntropy
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration
from magicstick.runtime.settings import PALENA_CONTROLLERS, Settings
from tests.support.manifests import MANIFESTS, Object
from tests.support.operator import RunningOperator
from tests.support.palena_corner import PalenaCorner
from tests.support.polling import until
from tests.support.runtime import FakeStores

pytestmark = pytest.mark.cluster

READING: Final = frozenset({"get", "list", "watch"})
CHANGING: Final = frozenset({"create", "patch", "update", "delete"})
Granted = set[tuple[str, str, str]]
"""(group, resource, verb)."""

SEEN_FROM_OUTSIDE: Final = frozenset(
    (group, resource, verb)
    for group, resource in (
        ("", "configmaps"),
        ("", "persistentvolumeclaims"),
        ("networking.k8s.io", "ingresses"),
        ("litellm.palena.ai", "litellmvirtualkeys"),
        ("postgresql.cnpg.io", "databaseroles"),
        ("postgresql.cnpg.io", "databases"),
    )
    for verb in CHANGING
) | frozenset((PALENA_GROUP, kind.plural, "update") for kind in PALENA_KINDS)
"""Granted by the specification's table although not every version of the declarations writes it."""


def declarations(**flags: object) -> list[Declaration]:
    settings = Settings.load(magicstick_enable_palena=True, **flags)
    discovery = Discovery(Store[CrdView]("definitions"))
    return [each.declaration for each in palena(Reads(FakeStores()), settings, discovery, SystemEntropy())]


# --- which controllers there are ----------------------------------------------------------------------------


@pytest.mark.req("PA-001")
def test_each_kind_has_a_controller_of_its_own_that_reconciles_no_other() -> None:
    assert [each.primary for each in declarations()] == list(PALENA_KINDS)
    assert len({each.name for each in declarations()}) == len(PALENA_KINDS)
    assert len({each.field_manager for each in declarations()}) == len(PALENA_KINDS)


@pytest.mark.parametrize("name", PALENA_CONTROLLERS)
def test_controllers_can_be_chosen_one_by_one(name: str) -> None:
    (chosen,) = declarations(palena_controllers=name)
    assert chosen.name == f"palena-{name}"


@pytest.mark.req("PA-002")
def test_all_controllers_are_declared_alike() -> None:
    shared = {
        (
            each.finalizer,
            tuple(each.requeue_s.items()),
            each.failing,
            each.backoff_s,
            each.managed_by,
            each.tells_failures,
            each.patience,
            each.fault_phase,
            each.workers,
        )
        for each in declarations()
    }
    assert len(shared) == 1
    ((finalizer, requeue_s, _, backoff_s, managed_by, *_),) = shared
    assert finalizer == "operator.palena.ai/finalizer"
    assert dict(requeue_s)["Healthy"] == 60.0
    assert backoff_s == 10.0
    assert managed_by == "palena-operator"


def test_watched_namespaces_are_all_that_is_watched() -> None:
    found = declarations(palena_watch_namespaces="a,b")
    assert {each.namespace for each in found} == {"a", "b"}
    assert len({each.name for each in found}) == 2 * len(PALENA_KINDS)
    places = {
        scope.namespace
        for each in found
        for scope in (each.scope, *(edge.scope for edge in each.edges))
        if scope.kind.namespaced and scope.kind.group != "appliance.magicstick.dev"
    }
    assert places == {"a", "b"}


# --- rights -----------------------------------------------------------------------------------------------------


def granted() -> Granted:
    documents = yamls.load_all((MANIFESTS / "palena" / "rbac.yaml").read_text())
    (role,) = (each for each in documents if each["kind"] == "ClusterRole")
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed() -> Granted:
    """What the declarations say that the controllers do."""
    found: Granted = set()
    for each in declarations():
        read = {each.primary, *(edge.kind for edge in each.edges)}
        found |= {(kind.group, kind.plural, verb) for kind in read for verb in READING}
        found |= {
            (kind.group, kind.plural, verb) for kind in each.writes for verb in ("create", "patch", "delete")
        }
        found |= {(each.primary.group, each.primary.plural, "patch")}
        found |= {(each.primary.group, f"{each.primary.plural}/status", "patch")}
    return found | {("events.k8s.io", "events", verb) for verb in ("create", "patch")}


def test_the_role_grants_whatever_the_declarations_need() -> None:
    assert needed() - granted() == set()


def test_the_role_grants_nothing_that_no_declaration_and_no_table_asks_for() -> None:
    of_subresources = {each for each in granted() if "/" in each[1]}
    updates = {each for each in granted() if each[2] == "update"}
    assert granted() - needed() - of_subresources - updates - SEEN_FROM_OUTSIDE == set()
    assert "*" not in {part for right in granted() for part in right}


def rendered(cluster: DevCluster, folder: Path, *components: str) -> list[Object]:
    """The operator's manifests with these components."""
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS, folder)],
        "components": [os.path.relpath(MANIFESTS / each, folder) for each in components],
    }
    (folder / "kustomization.yaml").write_text(yamls.dump(kustomization))
    return [each for each in yamls.load_all(cluster.kubectl("kustomize", str(folder))) if each]


def bindings(objects: list[Object]) -> set[str]:
    return {
        each["metadata"]["name"]
        for each in objects
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding")
        and any(subject["name"] == "magicstick-operator" for subject in each["subjects"])
    }


def environment(objects: list[Object]) -> dict[str, str]:
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_palena_is_off_and_has_no_rights_unless_it_is_named(
    control_plane: DevCluster, tmp_path: Path
) -> None:
    objects = rendered(control_plane, tmp_path)
    assert "palena-operator" not in {each["metadata"]["name"] for each in objects}
    assert "MAGICSTICK_ENABLE_PALENA" not in environment(objects)
    assert "palenagateways.palena.ai" in {each["metadata"]["name"] for each in objects}


def test_palena_comes_with_its_rights_and_its_switch(control_plane: DevCluster, tmp_path: Path) -> None:
    alone, both = rendered(control_plane, tmp_path), rendered(control_plane, tmp_path, "palena")
    assert bindings(both) == bindings(alone) | {"palena-operator"}
    assert environment(both) == {**environment(alone), "MAGICSTICK_ENABLE_PALENA": "true"}


def test_palena_alone_has_its_rights_and_the_lease_and_nothing_else(
    control_plane: DevCluster, tmp_path: Path
) -> None:
    objects = rendered(control_plane, tmp_path, "palena", "without-appliance")
    assert bindings(objects) == {"palena-operator", "magicstick-operator-leader"}
    assert "Appliance" not in {each["kind"] for each in objects}
    given = environment(objects)
    assert given["MAGICSTICK_ENABLE_APPLIANCE"] == "false"
    assert Settings.load(**{name.lower(): value for name, value in given.items()}).magicstick_enable_palena


# --- in the cluster -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def palena_cluster(palena_cluster: DevCluster) -> DevCluster:
    """With Flux's kinds, which the other half drives."""
    palena_cluster.apply(palena_cluster.crd_files("flux"))
    return palena_cluster


def groups(running: RunningOperator) -> set[str]:
    """The groups of the kinds that are watched."""
    return {each.scope.kind.group for each in running.manager.caches.informers()}


@pytest.mark.anyio
async def test_a_half_that_is_off_watches_nothing(corner: PalenaCorner) -> None:
    async with corner.operator() as running:
        assert PALENA_GROUP in groups(running)
        assert "kustomize.toolkit.fluxcd.io" not in groups(running)
        assert {each.name for each in running.manager.controllers} == {
            f"palena-{name}" for name in PALENA_CONTROLLERS
        }
    async with corner.operator(
        magicstick_enable_appliance=True, magicstick_enable_palena=False, leader_election=False
    ) as running:
        assert PALENA_GROUP not in groups(running)


@pytest.mark.anyio
async def test_both_halves_run_in_one_process(corner: PalenaCorner) -> None:
    await corner.world.furnish()
    async with corner.operator(magicstick_enable_appliance=True) as running:
        names = {each.name for each in running.manager.controllers}
        assert names > {"modules", "models", "palena-gateway", "palena-mcpserver"}
        await corner.gateway("gw")
        await corner.all_ready("gw")


@pytest.mark.anyio
@pytest.mark.req("PA-003")
@pytest.mark.req("PA-004")
async def test_the_finalizer_comes_before_anything_else_and_a_name_without_object_costs_nothing(
    corner: PalenaCorner,
) -> None:
    async with corner.operator() as running:
        await corner.gateway("gw")
        live = await corner.until_there("networkpolicies", "gw-palena-default-deny")
        assert live["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "palena-operator"
        gateway = corner.must("palenagateways", "gw")
        assert gateway["metadata"]["finalizers"] == ["operator.palena.ai/finalizer"]
        (controller,) = (
            each for each in running.manager.controllers if each.declaration.primary == PALENA_GATEWAY
        )
        sent = running.manager.applier.counters.sent
        controller.wake([ObjectKey("nowhere", "nothing")])

        async def idle() -> bool:
            return not len(controller.queue) and not controller.queue.working

        await until("the queue is empty", idle)
        assert running.manager.applier.counters.sent == sent
        assert not running.errors()
