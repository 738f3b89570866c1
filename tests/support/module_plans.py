"""What tests ask of a plan for a module."""

from collections.abc import Mapping
from typing import Any

from magicstick.kube.objects import Resource
from magicstick.modules.observation import ModuleObservation
from magicstick.modules.reconciler import observe
from magicstick.runtime.conditions import check_conditions, find
from magicstick.runtime.plan import Apply, Plan
from tests.support.module_objects import kustomization
from tests.support.module_world import World


def observed(there: World, name: str) -> ModuleObservation:
    """What is observed of the activation `name`."""
    found = there.activation(name)
    assert found is not None
    return observe(found, there.facts)


def told(plan: Plan) -> tuple[str, str, str]:
    """(phase, reason, kustomization) of the plan's status, which is well formed."""
    status: Mapping[str, Any] = plan.status or {}
    conditions = [{**each, "lastTransitionTime": "x"} for each in status["conditions"]]
    generation = status["observedGeneration"]
    obj = {"metadata": {"generation": generation}, "status": {**status, "conditions": conditions}}
    assert check_conditions(obj) == []
    ready = find(status["conditions"], "Ready") or {}
    assert (ready["status"] == "True") == (status["phase"] in {"Ready", "Suspended", "Disabled"})
    assert ready["message"] == status["message"]
    return status["phase"], ready["reason"], status["kustomization"]


def message(plan: Plan) -> str:
    return str((plan.status or {})["message"])


def stands(name: str) -> Resource:
    """A Kustomization of ours that Flux has applied."""
    return kustomization(f"app-{name}", module=name)


def applied(plan: Plan) -> Mapping[str, Any]:
    """The spec of the one Kustomization that the plan applies."""
    (step,) = [each for each in plan.steps if isinstance(each, Apply)]
    spec: Mapping[str, Any] = step.body["spec"]
    return spec
