"""How a direct runtime is rolled out, whatever it is (spec: models §13, realtime §9)."""

from collections.abc import Mapping
from typing import Final

from magicstick.kube.objects import Resource
from magicstick.models.kinds import DEPLOYMENT
from magicstick.models.observation import CheckState, ModelObservation
from magicstick.models.places import belongs
from magicstick.models.plans import still_serving
from magicstick.models.resolved import ResolvedFreeToken, ResolvedRealtime
from magicstick.models.status import ModelPhase
from magicstick.runtime.conditions import conditions_of, cut, find

DETAIL_LIMIT: Final = 500

State = tuple[ModelPhase, str, str]
"""Phase, reason and message of a runtime that is not fine."""


def live_deployment(o: ModelObservation, model: ResolvedFreeToken | ResolvedRealtime) -> Resource | None:
    """The Deployment that serves the model as it is resolved now; None while there is none."""
    found = (each for each in o.runtimes if each.kind == DEPLOYMENT and belongs(each, model))
    return next((each.live for each in found), None)


def failed_rollout(live: Resource, failing: Mapping[str, str]) -> str | None:
    """What the first condition says that has the value that means failure; None while none has."""
    for type_, value in failing.items():
        found = find(conditions_of(live.status), type_)
        if found is not None and found.get("status") == value:
            return cut(str(found.get("message", "")), DETAIL_LIMIT)
    return None


def health_problem(o: ModelObservation, reason: str, otherwise: str) -> State | None:
    """With a replica that is ready: None once its health is known to be good, or was and nobody can tell.

    `otherwise` is what is said where nobody has asked yet.
    """
    if o.check.state is CheckState.PASSED:
        return None
    if o.check.state is CheckState.UNKNOWN and still_serving(o):
        return None
    return ModelPhase.STARTING, reason, o.check.message or otherwise
