"""Which activations are not ours, how failures are reported, and which states a person has to end."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.kube.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NameConflict,
    NamespaceTerminating,
    Unavailable,
)
from magicstick.kube.objects import Resource
from magicstick.modules.decide import decide, decide_failure
from magicstick.modules.observation import ModuleObservation
from magicstick.runtime.plan import Finalizer
from tests.support.module_objects import activation, catalog, kustomization
from tests.support.module_plans import message, observed, stands, told
from tests.support.module_world import World

OURS = [labels.MODULE_FINALIZER]
BASIS = kustomization("infrastructure-basis", ours=False)
CATALOG = catalog(
    leaf={"requires": ["basis"]},
    top={"requires": ["leaf"]},
    sized={"requires": ["basis"], "parameters": [{"name": "storage", "substitution": "SIZE"}]},
    ring={"requires": ["gnir"]},
    gnir={"requires": ["ring"]},
)


def seen(name: str, *others: Resource) -> ModuleObservation:
    """What is observed of the activation `name`, among the others."""
    return observed(World(CATALOG, BASIS, *others), name)


@pytest.mark.parametrize("reference", [{"name": "other"}, {"name": "local", "namespace": "elsewhere"}])
@pytest.mark.parametrize("life", [{}, {"dying": True}])
def test_the_activation_of_another_appliance_is_left_alone(
    reference: dict[str, str], life: dict[str, Any]
) -> None:
    theirs = activation("leaf", spec={"applianceRef": reference}, finalizers=OURS, **life)
    plan = decide(seen("leaf", theirs, stands("leaf")))
    assert (plan.steps, plan.status, plan.finalizer) == ((), None, Finalizer.KEEP)


@pytest.mark.parametrize(
    "reference", [None, {}, {"name": "local"}, {"name": "local", "namespace": "ai-system"}]
)
def test_an_absent_or_default_reference_means_ours(reference: Any) -> None:
    plan = decide(seen("leaf", activation("leaf", spec={"applianceRef": reference}), stands("leaf")))
    assert told(plan)[0] == "Ready"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Invalid("spec.path: is bad", code=422), ("Degraded", "ApiRejected", "app-leaf")),
        (Forbidden("not allowed", code=403), ("Degraded", "ApiRejected", "app-leaf")),
        (NameConflict("exists"), ("Degraded", "KustomizationConflict", "")),
        (NamespaceTerminating("is going"), ("Reconciling", "WaitingForNamespace", "app-leaf")),
    ],
)
def test_a_refused_write_is_reported(error: ApiError, expected: tuple[str, str, str]) -> None:
    plan = decide_failure(seen("leaf", activation("leaf"), stands("leaf")), error)
    assert told(plan) == expected
    assert error.message in message(plan)
    assert plan.steps == ()


def test_an_unavailable_server_keeps_the_status() -> None:
    known = seen("leaf", activation("leaf", status={"phase": "Ready"}))
    assert decide_failure(known, Unavailable("time-out")).status is None
    fresh = seen("leaf", activation("leaf"))
    assert told(decide_failure(fresh, Unavailable("time-out")))[:2] == ("Reconciling", "ApiUnavailable")


STALLED_STATES = {
    "UnknownModule": activation("foo"),
    "StaticModule": activation("basis"),
    "DependencyCycle": activation("ring"),
    "InvalidParameter": activation("sized", parameters={"storage": "big"}),
    "InvalidSpec": activation("leaf", enabled="yes"),
}


@pytest.mark.parametrize("reason", STALLED_STATES)
def test_what_only_a_person_can_end_is_stalled(reason: str) -> None:
    made = STALLED_STATES[reason]
    plan = decide(seen(made.metadata.name, made))
    assert told(plan)[1] == reason
    assert [each["type"] for each in (plan.status or {})["conditions"]] == ["Ready", "Stalled"]


def test_what_comes_by_itself_is_reconciling() -> None:
    plan = decide(seen("top", activation("top")))
    assert [each["type"] for each in (plan.status or {})["conditions"]] == ["Ready", "Reconciling"]


@pytest.mark.parametrize(("module", "logged"), [("leaf", "leaf"), ("m" * 200_000, "m" * 252 + "…")])
def test_the_log_names_the_module_and_steps_depend_on_each_other(module: str, logged: str) -> None:
    plan = decide(seen("mine", activation("mine", module=module)))
    assert plan.log == {"module": logged}
    assert plan.independent is False
