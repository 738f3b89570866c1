"""What tests ask of a plan for a model."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from magicstick.kube.objects import Resource
from magicstick.models.decide import decide
from magicstick.models.observation import ModelObservation
from magicstick.models.status import HEALTHY
from magicstick.runtime.conditions import check_conditions, conditions_of, find, merge_conditions
from magicstick.runtime.plan import Apply, Delete, Plan
from tests.support.model_objects import NOW, activation


def told(plan: Plan) -> tuple[str, str]:
    """(phase, reason) of the plan's status, which is well formed."""
    status = status_of(plan)
    conditions = [{**each, "lastTransitionTime": "x"} for each in status["conditions"]]
    generation = status["observedGeneration"]
    obj = {"metadata": {"generation": generation}, "status": {**status, "conditions": conditions}}
    assert check_conditions(obj) == []
    ready = find(status["conditions"], "Ready") or {}
    assert (ready["status"] == "True") == (status["phase"] in HEALTHY)
    assert ready["message"] == status["message"]
    return status["phase"], ready["reason"]


def status_of(plan: Plan) -> Mapping[str, Any]:
    assert plan.status is not None
    return plan.status


def message(plan: Plan) -> str:
    return str(status_of(plan)["message"])


def condition(plan: Plan, type_: str) -> str:
    """Whether a condition of the plan's status holds."""
    return str((find(status_of(plan)["conditions"], type_) or {})["status"])


def deletions(plan: Plan) -> list[tuple[str, str, str, str | None]]:
    """(kind, name, uid, resourceVersion) of all that the plan deletes, in order."""
    return [
        (step.kind.kind, step.key.name, step.uid, step.resource_version)
        for step in plan.steps
        if isinstance(step, Delete)
    ]


def applied(plan: Plan) -> list[Mapping[str, Any]]:
    """All that the plan applies, in order."""
    return [step.body for step in plan.steps if isinstance(step, Apply)]


def stored(plan: Plan, before: Resource | None = None, now: datetime = NOW) -> Resource:
    """The activation with the plan's status in it, as the server would hold it."""
    found = before or activation()
    status = dict(status_of(plan))
    status["conditions"] = merge_conditions(conditions_of(found.status), status["conditions"], now)
    return activation(
        found.metadata.name, spec=dict(found.spec), generation=found.metadata.generation, status=status
    )


def decided(o: ModelObservation, now: datetime = NOW) -> Plan:
    """The plan, which never makes anything for a model that nobody wants."""
    plan = decide(o, now)
    if o.dying or not o.enabled:
        assert not applied(plan)
    return plan
