"""The decision about one module while something that it needs cannot be read."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.modules.decide import decide
from magicstick.modules.observation import ModuleObservation
from magicstick.runtime.plan import Finalizer
from tests.support.module_objects import activation, catalog, kustomization
from tests.support.module_plans import applied, message, observed, stands, told
from tests.support.module_world import World

OURS = [labels.MODULE_FINALIZER]
BASIS = kustomization("infrastructure-basis", ours=False)
LEAF: dict[str, Any] = {"requires": ["basis"]}
CATALOG = catalog(leaf=LEAF, top={"requires": ["leaf"]})


def world(*objects: Resource) -> World:
    return World(CATALOG, BASIS, *objects)


def seen(name: str, *others: Resource, there: World | None = None) -> ModuleObservation:
    """What is observed of the activation `name`, among the others."""
    return observed(there or world(*others), name)


UNREADABLE = [
    (MODULE_ACTIVATION, InformerState.FAILING),
    (KUSTOMIZATION, InformerState.FAILING),
    (KUSTOMIZATION, InformerState.SYNCING),
    (APPLIANCE, InformerState.FAILING),
    (APPLIANCE, InformerState.ABSENT),
]
WANTED = [
    {"enabled": True},
    {"enabled": True, "status": {"phase": "Ready"}},
]


@pytest.mark.parametrize(("kind", "state"), UNREADABLE)
@pytest.mark.parametrize("options", WANTED)
def test_what_cannot_be_read_changes_nothing(
    kind: Kind, state: InformerState, options: dict[str, Any]
) -> None:
    there = world(activation("top", **options), activation("leaf"), stands("top"), stands("leaf"))
    there.reads.states[kind] = state
    plan = decide(seen("top", there=there))
    assert plan.steps == ()
    if options.get("status"):
        assert plan.status is None
    else:
        assert told(plan)[:2] == ("Reconciling", "ApiUnavailable")


@pytest.mark.parametrize(("kind", "state"), UNREADABLE[:3])
@pytest.mark.parametrize("options", [{"enabled": False}, {"dying": True, "finalizers": OURS}])
def test_what_cannot_be_read_removes_and_releases_nothing(
    kind: Kind, state: InformerState, options: dict[str, Any]
) -> None:
    there = world(activation("leaf", **options))
    there.reads.states[kind] = state
    plan = decide(seen("leaf", there=there))
    assert (plan.steps, plan.finalizer is Finalizer.REMOVE) == ((), False)


def test_a_dependency_that_flux_is_looking_at_again_is_not_missing() -> None:
    looking = kustomization("app-leaf", module="leaf", ready="Unknown")
    before = activation("top", status={"phase": "Ready"})
    plan = decide(seen("top", before, activation("leaf"), looking, stands("top")))
    assert (plan.steps, plan.status) == ((), None)


@pytest.mark.req("MS-114")
def test_a_dependency_that_flux_is_looking_at_again_opens_no_gate() -> None:
    looking = kustomization("app-leaf", module="leaf", ready="Unknown")
    plan = decide(seen("top", activation("top"), activation("leaf"), looking))
    assert plan.steps == ()


def test_a_missing_dependency_suspends_though_another_is_unclear() -> None:
    both = catalog(leaf=LEAF, top={"requires": ["leaf", "basis"]})
    looking = kustomization("app-leaf", module="leaf", ready="Unknown")
    there = World(both, activation("top"), activation("leaf"), looking, stands("top"))
    assert applied(decide(seen("top", there=there)))["suspend"] is True


@pytest.mark.parametrize("options", [*WANTED, {"enabled": False}, {"dying": True, "finalizers": OURS}])
def test_without_a_catalog_nothing_is_generated_removed_or_released(options: dict[str, Any]) -> None:
    there = World(None, BASIS, activation("leaf", **options), stands("leaf"))
    plan = decide(seen("leaf", there=there))
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)
    if not options.get("status"):
        assert told(plan)[:2] == ("Reconciling", "CatalogUnavailable")


def test_kustomizations_that_are_not_served_are_waited_for() -> None:
    there = world(activation("leaf"))
    there.reads.enter(KUSTOMIZATION, InformerState.ABSENT)
    plan = decide(seen("leaf", there=there))
    assert told(plan) == ("WaitingForCRD", "WaitingForCRD", "")
    assert "kustomizations.kustomize.toolkit.fluxcd.io" in message(plan)
    assert plan.steps == ()


@pytest.mark.parametrize("state", [InformerState.ABSENT, InformerState.SYNCED])
def test_without_flux_nothing_keeps_an_activation_from_going(state: InformerState) -> None:
    there = world(activation("leaf", dying=True, finalizers=OURS))
    there.reads.enter(KUSTOMIZATION, state)
    assert decide(seen("leaf", there=there)).finalizer is Finalizer.REMOVE
