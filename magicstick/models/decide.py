"""The decision about one model (spec: models §9).

A list of rules in the order of the specification's table; the first that has something to say decides.
What serves the model then has rules of its own: `kubeai`, `freetoken`. Each rule is pure, total, and
speaks of the next steps only: after a write everything is observed anew.

What holds throughout:
    - What serves a model is deleted only for a disabled or deleted activation, for a slot that it lost,
      and when it is of another backend or place than the model is now. No bad input deletes anything.
    - What cannot be read changes nothing.
    - An object that is not ours is neither written nor deleted.
    - An activation that is being deleted, or disabled, causes no creation.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from magicstick.api.kinds import HOST_OPERATION
from magicstick.api.model_activation import ModelActivationSpec
from magicstick.kube.errors import ApiError, Forbidden, NameConflict, NamespaceTerminating, Rejected
from magicstick.models import freetoken, kubeai
from magicstick.models.observation import ModelObservation, Runtime
from magicstick.models.places import belongs
from magicstick.models.plans import kept, released, removal, report
from magicstick.models.publication import publication
from magicstick.models.realtime import decide as realtime
from magicstick.models.realtime.failures import failure
from magicstick.models.resolved import (
    Refusal,
    ResolvedFreeToken,
    ResolvedKubeAi,
    ResolvedLocal,
    ResolvedRealtime,
)
from magicstick.models.status import ModelPhase, ModelReason, Outcome
from magicstick.modules.facts import State
from magicstick.runtime.plan import Plan

NO_FIELD: Final = "<nil>"
NAMED_FIELDS: Final = 5

Rule = Callable[[ModelObservation], Plan | None]


def decide(o: ModelObservation, now: datetime) -> Plan:
    """What to do next for this model, and the status that it has now."""
    for rule in RULES:
        plan = rule(o)
        if plan is not None:
            return plan
    match o.resolved:
        case ResolvedKubeAi():
            return kubeai.decide(o, o.resolved, now)
        case ResolvedFreeToken():
            return freetoken.decide(o, o.resolved)
        case ResolvedRealtime():
            return realtime.decide(o, o.resolved)
        case _:
            return publication(o)


def decide_failure(o: ModelObservation, error: ApiError) -> Plan:
    """What to report after a step failed; an error that says nothing of the object keeps its status.

    The server's own words stay in the operator's log: they may quote anything (spec: models §9).
    """
    if o.serves_realtime and (found := failure(o, error)) is not None:
        phase, reason, message = found
        return report(o, phase, reason, message)
    match error:
        case NameConflict():
            return report(o, ModelPhase.DEGRADED, ModelReason.NAME_CONFLICT, f"{error.message}.")
        case Forbidden():
            message = "The operator lacks a right that it needs for this model. Its log names the request."
            return report(o, ModelPhase.DEGRADED, ModelReason.PERMISSION_DENIED, message)
        case Rejected():
            message = f"The API server refuses what the model needs{_because(error)}. "
            message += "The operator's log says why."
            return report(o, ModelPhase.DEGRADED, ModelReason.API_REJECTED, message)
        case NamespaceTerminating():
            message = f"Namespace {o.namespace} does not exist or is being deleted."
            return report(o, ModelPhase.WAITING_FOR_NAMESPACE, ModelReason.WAITING_FOR_NAMESPACE, message)
        case _:
            return kept(o, ModelReason.API_UNAVAILABLE, "The API server does not answer as it should.")


# --- the rules, by the rows of the table -----------------------------------------------------------


def _not_ours(o: ModelObservation) -> Plan | None:
    return None if o.ours else Plan(Outcome.NOT_OURS)


def _blind(o: ModelObservation) -> Plan | None:
    """Unless what serves the model can be told, nothing is made, removed or released."""
    return kept(o, ModelReason.API_UNAVAILABLE, f"{o.blind}.") if o.blind else None


def _leaving(o: ModelObservation) -> Plan | None:
    """Rows 1 and 2."""
    return (_remove(o, "deleted") or released()) if o.dying else None


def _disabled(o: ModelObservation) -> Plan | None:
    """Rows 4 and 5."""
    if o.enabled:
        return None
    message = f"Model {o.name} is switched off."
    return _remove(o, "disabled") or report(o, ModelPhase.DISABLED, ModelReason.DISABLED, message)


def _pods_unreadable(o: ModelObservation) -> Plan | None:
    """Without Pods nothing can be said of a runtime that there is."""
    if o.pods is not None or not o.runtimes:
        return None
    return kept(o, ModelReason.API_UNAVAILABLE, "Pods cannot be read now.")


def _cache_cleanup(o: ModelObservation) -> Plan | None:
    """Row 6: what runs is neither stopped nor changed."""
    if not (o.local and o.cleanup):
        return None
    message = f"{o.cleanup} No runtime is started meanwhile (see {HOST_OPERATION.plural})."
    return report(o, ModelPhase.STARTING, ModelReason.MODEL_CACHE_MAINTENANCE, message)


def _sharing_unsettled(o: ModelObservation) -> Plan | None:
    """Rows 8 and 10."""
    if o.sharing is None or o.sharing.phase == "Ready":
        return None
    if o.sharing.phase == "Blocked":
        return report(o, ModelPhase.DEGRADED, ModelReason.GPU_SHARING_BLOCKED, o.sharing.message)
    return report(o, ModelPhase.STARTING, ModelReason.WAITING_FOR_GPU_SHARING, o.sharing.message)


def _shared_gpu_for_freetoken(o: ModelObservation) -> Plan | None:
    """Row 9, before row 10: what the user has to change does not depend on the state of the sharing."""
    wanted = isinstance(o.spec, ModelActivationSpec) and o.spec.local.engine == "FreeToken"
    if o.sharing is None or o.sharing.mode == "exclusive" or not wanted:
        return None
    message = "FreeToken needs whole GPUs. Turn the sharing of the GPU off, or choose another engine."
    return report(o, ModelPhase.DEGRADED, ModelReason.FREETOKEN_REQUIRES_WHOLE_GPU, message)


def _unresolvable(o: ModelObservation) -> Plan | None:
    """What is not known now is not wrong."""
    if not o.unknown:
        return None
    reason = ModelReason.CATALOG_UNAVAILABLE if o.without_catalog else ModelReason.API_UNAVAILABLE
    return kept(o, reason, f"{o.unknown}.")


def _refused(o: ModelObservation) -> Plan | None:
    """Rows 7, 11 and 12: what runs already is left as it is."""
    if not isinstance(o.resolved, Refusal):
        return None
    return report(o, ModelPhase.DEGRADED, o.resolved.reason, f"{o.resolved.message}.")


def _missing_module(o: ModelObservation) -> Plan | None:
    """Row 13."""
    missing = [each for each in o.modules if each.readiness.state is State.NOT_READY]
    if not missing:
        return None
    names = ", ".join(each.name for each in missing)
    why = "; ".join(f"{each.name} {each.readiness.why}" for each in missing)
    message = f"Waiting for modules: {names} ({why})."
    return report(o, ModelPhase.WAITING_FOR_MODULES, ModelReason.WAITING_FOR_MODULES, message)


def _unclear_module(o: ModelObservation) -> Plan | None:
    """What is not known now is not missing."""
    for each in o.modules:
        if each.readiness.state is State.UNKNOWN:
            return kept(o, ModelReason.API_UNAVAILABLE, f"Module {each.name} {each.readiness.why}.")
    return None


def _no_gpu(o: ModelObservation) -> Plan | None:
    """Row 14; a target without resources needs none. A realtime model has a device check of its own."""
    if isinstance(o.resolved, ResolvedRealtime):
        missing = o.resolved.missing
        return (
            report(o, ModelPhase.WAITING_FOR_GPU, ModelReason.WAITING_FOR_GPU, missing) if missing else None
        )
    if not isinstance(o.resolved, ResolvedLocal):
        return None
    target = o.resolved.target
    if not target.resource_names or target.allocatable >= 1:
        return None
    resources = " or ".join(target.resource_names)
    message = f"Waiting for {target.display_name}: no Ready node has an allocatable {resources}."
    return report(o, ModelPhase.WAITING_FOR_GPU, ModelReason.WAITING_FOR_GPU, message)


def _previous_runtime(o: ModelObservation) -> Plan | None:
    """Rows 15 and 17: found by their labels, whatever the status says of them (spec: models §12)."""
    previous = [each for each in o.runtimes if not belongs(each, o.resolved)]
    if not previous:
        return None
    message = f"The previous runtime is being stopped: {_named(previous)}."
    return report(o, ModelPhase.STARTING, ModelReason.RETIRING_PREVIOUS_RUNTIME, message, removal(previous))


RULES: Final[tuple[Rule, ...]] = (
    _not_ours,
    _blind,
    _leaving,
    _disabled,
    _pods_unreadable,
    _cache_cleanup,
    _shared_gpu_for_freetoken,
    _sharing_unsettled,
    _unresolvable,
    _refused,
    _missing_module,
    _unclear_module,
    _no_gpu,
    _previous_runtime,
)


# --- shared ----------------------------------------------------------------------------------------


def _remove(o: ModelObservation, why: str) -> Plan | None:
    """Removal in progress; None once nothing of ours is left."""
    if not o.runtimes:
        return None
    message = f"Model {o.name} is being {why}, and its runtime is being removed: {_named(o.runtimes)}."
    return report(o, ModelPhase.REMOVING, ModelReason.REMOVING, message, removal(o.runtimes))


def _because(error: Rejected) -> str:
    """The fields that are refused, as far as any is named: of a whole object the server says `<nil>`."""
    fields = sorted({field for field, _ in error.causes} - {"", NO_FIELD})
    if not fields:
        return ""
    more = f" and {len(fields) - NAMED_FIELDS} more" if len(fields) > NAMED_FIELDS else ""
    return f" because of {', '.join(fields[:NAMED_FIELDS])}{more}"


def _named(runtimes: tuple[Runtime, ...] | list[Runtime]) -> str:
    return ", ".join(sorted(f"{each.kind.kind} {each.live.metadata.key}" for each in runtimes))
