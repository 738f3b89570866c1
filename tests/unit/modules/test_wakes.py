"""Whom a change wakes: everyone whom it concerns, and nobody else."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.runtime.reconciler import Edge
from tests.support.module_objects import activation, appliance, catalog, condition, kustomization
from tests.support.module_world import World, crd

MANY = 1000
CROWD = catalog(**{f"m{number}": {"requires": ["basis"]} for number in range(MANY)})
CHAIN = catalog(
    a={"requires": ["b"]},
    b={"requires": ["c"], "aliases": ["beta"], "waitForReady": True, "requiredCrds": ["things.example.com"]},
    c={},
)
ALL = [activation("a"), activation("mine", module="beta"), activation("c")]


class Ears:
    """Listens to a world as a controller does."""

    def __init__(self, there: World) -> None:
        self.there = there
        self.heard: list[str] = []
        there.modules.follow(self.wake)
        for edge in there.modules.declaration.edges:
            there.reads.stores[edge.kind].subscribe(self._follower(edge))
        self.heard.clear()

    def wake(self, keys: Iterable[ObjectKey]) -> None:
        self.heard += [key.name for key in keys]

    def after(self, obj: Resource) -> set[str]:
        """Who is woken when this comes."""
        self.heard.clear()
        self.there.put(obj)
        return set(self.heard)

    def _follower(self, edge: Edge[View]) -> Callable[[View | None, View | None], None]:
        def told(old: View | None, new: View | None) -> None:
            if edge.changed(old, new):
                self.wake(edge.wakes(old, new))

        return told


def edge_of(there: World, kind: Kind) -> Edge[View]:
    return next(edge for edge in there.modules.declaration.edges if edge.kind == kind)


def test_a_heartbeat_of_what_everybody_requires_wakes_nobody() -> None:
    basis = kustomization("infrastructure-basis", ours=False)
    ears = Ears(World(CROWD, basis, *(activation(f"m{number}") for number in range(MANY))))
    looking = kustomization("infrastructure-basis", ours=False, ready="Unknown", reason="Progressing")
    for beat in (looking, basis, kustomization("infrastructure-basis", ours=False, message="again")):
        assert ears.after(beat) == set()


def test_everybody_is_woken_once_what_they_require_fails_and_once_it_recovers() -> None:
    basis = kustomization("infrastructure-basis", ours=False)
    ears = Ears(World(CROWD, basis, *(activation(f"m{number}") for number in range(MANY))))
    failed = kustomization("infrastructure-basis", ours=False, ready="False")
    looking = kustomization("infrastructure-basis", ours=False, ready="Unknown")
    assert [len(ears.after(each)) for each in (failed, looking, failed, looking, basis)] == [
        MANY,
        0,
        0,
        0,
        MANY,
    ]


def test_a_kustomization_wakes_its_module_whatever_changes() -> None:
    live = kustomization("app-b", module="b")
    ears = Ears(World(CHAIN, *ALL, live))
    assert ears.after(kustomization("app-b", module="b", message="again")) == {"mine"}


def test_a_kustomization_that_comes_or_goes_wakes_the_dependants() -> None:
    ears = Ears(World(CHAIN, *ALL))
    live = kustomization("app-b", module="b", ready=None)
    assert ears.after(live) == {"mine", "a"}
    ears.heard.clear()
    ears.there.drop(live)
    assert set(ears.heard) == {"mine", "a"}


def test_a_kustomization_wakes_the_activation_that_its_label_or_a_status_names() -> None:
    claimed = activation("foo", status={"kustomization": "app-old"})
    ears = Ears(World(CHAIN, *ALL, claimed))
    assert ears.after(kustomization("app-old", module="c")) == {"foo", "c"}


@pytest.mark.req("MS-098")
def test_an_activation_wakes_its_siblings_and_its_dependants() -> None:
    ears = Ears(World(CHAIN, *ALL))
    assert ears.after(activation("other", module="b")) == {"other", "mine", "a"}
    assert ears.after(activation("mine", module="beta", enabled=False, generation=2)) == {
        "other",
        "mine",
        "a",
    }
    assert ears.after(activation("mine", module="c", generation=3)) == {"mine", "other", "a", "c"}


def test_f01_a_status_or_a_finalizer_of_an_activation_wakes_nobody_else() -> None:
    ears = Ears(World(CHAIN, *ALL))
    assert ears.after(activation("c", status={"phase": "Ready"}, finalizers=["x"])) == set()


def test_the_deletion_of_an_activation_wakes_who_needs_it() -> None:
    ears = Ears(World(CHAIN, *ALL))
    assert ears.after(activation("c", dying=True, finalizers=["x"])) == {"c", "mine"}
    ears.heard.clear()
    ears.there.drop(ALL[2])
    assert set(ears.heard) == {"mine"}


def test_another_source_wakes_all_and_anything_else_of_an_appliance_nobody() -> None:
    ears = Ears(World(CHAIN, *ALL, appliance()))
    assert ears.after(appliance({"a": {"enabled": True}}, status={"phase": "Ready"}, generation=2)) == set()
    other = {"kind": "GitRepository", "name": "mine"}
    assert ears.after(appliance(source=other, name="other")) == set()
    assert ears.after(appliance(source=other)) == {"a", "mine", "c"}


def test_a_definition_wakes_who_promised_it_and_who_waits_for_those() -> None:
    there = World(CHAIN, *ALL)
    edge = edge_of(there, CUSTOM_RESOURCE_DEFINITION)
    assert edge.changed(None, crd("things.example.com", established=True))
    assert edge.changed(crd("things.example.com"), crd("things.example.com", established=True))
    assert not edge.changed(None, crd("things.example.com"))
    assert {key.name for key in edge.wakes(None, crd("things.example.com"))} == {"mine", "a"}
    assert set(edge.wakes(None, crd("other.example.com"))) == set()


def test_a_catalog_wakes_only_those_of_whom_it_says_something_else() -> None:
    ears = Ears(World(CHAIN, *ALL, activation("foo")))
    changed = {key: definition.model_dump(by_alias=True) for key, definition in CHAIN.modules.items()}
    del changed["basis"]
    ears.there.catalogs.put(catalog(**changed))
    assert ears.heard == []
    ears.there.catalogs.put(catalog(**{**changed, "c": {**changed["c"], "kustomizationName": "new-c"}}))
    assert set(ears.heard) == {"c", "mine"}
    ears.heard.clear()
    ears.there.catalogs.put(catalog(**{**changed, "c": changed["c"], "foo": {}}))
    assert set(ears.heard) == {"c", "mine", "foo"}


def test_the_first_catalog_wakes_all() -> None:
    ears = Ears(World(None, *ALL))
    ears.there.catalogs.put(CHAIN)
    assert set(ears.heard) == {"a", "mine", "c"}


@pytest.mark.parametrize("kind", [MODULE_ACTIVATION, KUSTOMIZATION, APPLIANCE])
def test_a_kind_that_can_be_read_again_wakes_all(kind: Kind) -> None:
    ears = Ears(World(CHAIN, *ALL))
    ears.there.reads.enter(kind, InformerState.FAILING)
    ears.heard.clear()
    ears.there.reads.enter(kind, InformerState.SYNCED)
    assert set(ears.heard) == {"a", "mine", "c"}


def test_every_kind_that_is_read_has_an_edge_with_a_reason() -> None:
    declaration = World(CHAIN).modules.declaration
    assert {edge.kind for edge in declaration.edges} == {
        MODULE_ACTIVATION,
        KUSTOMIZATION,
        APPLIANCE,
        CUSTOM_RESOURCE_DEFINITION,
    }
    assert all(edge.why for edge in declaration.edges)


def test_a_stale_status_of_a_new_generation_is_a_change_of_readiness() -> None:
    ears = Ears(World(CHAIN, *ALL, kustomization("app-b", module="b")))
    edited = kustomization("app-b", module="b", generation=2, observed=1)
    assert ears.after(edited) == {"mine", "a"}
    looking = {"observedGeneration": 1, "conditions": [condition("Unknown", observed=2)]}
    assert ears.after(kustomization("app-b", module="b", generation=2, status=looking)) == {"mine"}


@pytest.mark.parametrize(
    ("broken", "child"),
    [
        ("b", kustomization("app-b", module="b", ready="False")),
        ("basis", kustomization("infrastructure-basis", ours=False, ready="False")),
    ],
)
def test_dependants_are_woken_by_a_module_whose_entry_is_invalid(broken: str, child: Resource) -> None:
    entries: dict[str, dict[str, Any]] = {"a": {"requires": ["b", "basis"]}, "b": {}, broken: {"path": 5}}
    ears = Ears(World(catalog(**entries), *ALL))
    assert "a" in ears.after(child)
