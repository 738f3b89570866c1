"""What a step found out, and the conditions and the status that come of all findings.

(spec: palena §2.2, §2.3, §2.4)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from magicstick.kube.objects import Resource
from magicstick.palena.common.phases import OUTCOME_OF, Outcome, Phase, Weight
from magicstick.runtime.conditions import (
    READY,
    RECONCILING,
    STALLED,
    Condition,
    State,
    condition,
    conditions_of,
    cut,
    find,
    timestamp,
)

Status = dict[str, Any]

NOT_REACHED: Final = "NotReached"
DELETING: Final = "Deleting"
PREREQUISITES_MET: Final = "PrerequisitesMet"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition, and how much it counts.

    `degrades`: it makes the object Degraded also where it was never ready: an optional part is missing,
    or something was lost that only a person can bring back. `stalled`: only a person can go on.
    """

    type: str
    state: State
    reason: str
    message: str
    weight: Weight = Weight.FINE
    degrades: bool = False
    stalled: bool = False

    @property
    def holds(self) -> bool:
        """Whether the condition is True."""
        return self.state == "True"


def fine(type_: str, reason: str, message: str) -> Verdict:
    """The condition holds."""
    return Verdict(type_, "True", reason, message)


def waiting(type_: str, reason: str, message: str, *, degrades: bool = False) -> Verdict:
    """Something is not ready yet, or not any more; looked at again after 15 s."""
    return Verdict(type_, "False", reason, message, Weight.WAITING, degrades=degrades)


def absent(type_: str, reason: str, message: str, *, degrades: bool = False) -> Verdict:
    """A referenced Palena object does not exist; looked at again after 30 s."""
    return Verdict(type_, "False", reason, message, Weight.ABSENT, degrades=degrades)


def lost(type_: str, reason: str, message: str) -> Verdict:
    """Something that only a person can bring back is gone; the message says how (fault F19)."""
    return Verdict(type_, "False", reason, message, Weight.WAITING, degrades=True, stalled=True)


def failed(type_: str, reason: str, message: str, state: State = "False") -> Verdict:
    """An error: phase Error, and looked at again after 10 s, then after twice that, and so on."""
    return Verdict(type_, state, reason, message, Weight.FAILED, stalled=True)


def prerequisite(type_: str, reason: str, message: str) -> Verdict:
    """A kind that is needed is not served: phase Error, and looked at again after 30 s."""
    return Verdict(type_, "False", reason, message, Weight.PREREQUISITE, stalled=True)


@dataclass(frozen=True, slots=True)
class Summary:
    """All findings about one object, aggregated."""

    phase: Phase
    outcome: Outcome
    status: Status
    """Complete, still without transition times."""


def summarise(
    live: Resource,
    order: Sequence[str],
    verdicts: Sequence[Verdict],
    *,
    now: datetime,
    ready_reason: str,
    ready_message: str,
    fields: Mapping[str, Any] | None = None,
) -> Summary:
    """The status of `live` from what its steps found out.

    Args:
        live: the object, with its former status.
        order: the types of its conditions, `Ready` last.
        verdicts: what was found, each type at most once. One of type `Ready` says what is needed for
            readiness beyond the others. A type of `order` without a verdict was not reached: its former
            condition stays.
        now: when the object is ready for the first time, `status.readySince`.
        ready_reason: of `Ready` while it is True.
        ready_message: of `Ready` while it is True.
        fields: the kind's own fields of the status. What was known before and is not given is dropped.
    """
    found = {each.type: each for each in verdicts}
    aspects = [_aspect(type_, found.get(type_), live) for type_ in order if type_ != READY]
    extra = found.get(READY)
    failing = [each for each in (*aspects, *([extra] if extra else [])) if not each.holds]
    since = live.status.get("readySince")
    phase = _phase(failing, ever_ready=bool(since))
    ready = _ready(failing, ready_reason, ready_message)
    conditions = [_condition(each, live) for each in (*aspects, ready)]
    if failing:
        stalled = (phase is Phase.ERROR and _heaviest(failing).stalled) or _first(failing).stalled
        type_ = STALLED if stalled else RECONCILING
        conditions.append(condition(type_, "True", ready.reason, ready.message, live.metadata.generation))
    status: Status = {
        "observedGeneration": live.metadata.generation,
        "phase": phase.value,
        "message": cut(ready.message),
        **{name: value for name, value in (fields or {}).items() if value is not None},
        "conditions": conditions,
    }
    if since or not failing:
        status["readySince"] = since or timestamp(now)
    return Summary(phase, OUTCOME_OF[max((each.weight for each in failing), default=Weight.FINE)], status)


def deleting(live: Resource, order: Sequence[str], message: str) -> Status:
    """The status of a dying object: its fields and aspects stay as they were."""
    aspects = [_aspect(type_, None, live) for type_ in order if type_ != READY]
    ready = Verdict(READY, "False", DELETING, message)
    generation = live.metadata.generation
    return {
        **live.status,
        "observedGeneration": generation,
        "phase": Phase.DELETING.value,
        "message": cut(message),
        "conditions": [
            *(_condition(each, live) for each in (*aspects, ready)),
            condition(RECONCILING, "True", DELETING, message, generation),
        ],
    }


def paused(summary: Summary) -> Status:
    """The status of an object for which nothing is written: what would have to be done stays to be read."""
    status = dict(summary.status)
    status["message"] = cut(f"paused: {status['message']}")
    return status


def _aspect(type_: str, verdict: Verdict | None, live: Resource) -> Verdict:
    """What was found; or else what was known before, which still counts; or else that nothing is known."""
    if verdict is not None:
        return verdict
    former = find(conditions_of(live.status), type_) or {}
    state, reason, message = (former.get(name) for name in ("status", "reason", "message"))
    if state in ("True", "False") and isinstance(reason, str) and isinstance(message, str):
        weight = Weight.FINE if state == "True" else Weight.WAITING
        return Verdict(type_, "True" if state == "True" else "False", reason, message, weight)
    return Verdict(type_, "Unknown", NOT_REACHED, "an earlier step has to come first", Weight.WAITING)


def _condition(verdict: Verdict, live: Resource) -> Condition:
    return condition(verdict.type, verdict.state, verdict.reason, verdict.message, live.metadata.generation)


def _first(failing: Sequence[Verdict]) -> Verdict:
    """The first that tells something: that a step was not reached only follows from another."""
    return next((each for each in failing if each.reason != NOT_REACHED), failing[0])


def _heaviest(failing: Sequence[Verdict]) -> Verdict:
    return max(failing, key=lambda each: each.weight)


def _phase(failing: Sequence[Verdict], *, ever_ready: bool) -> Phase:
    """An error counts wherever it is; else the first of what is missing decides."""
    if not failing:
        return Phase.RUNNING
    if _heaviest(failing).weight >= Weight.PREREQUISITE:
        return Phase.ERROR
    first = _first(failing)
    if ever_ready or first.degrades:
        return Phase.DEGRADED
    return Phase.PENDING if first.weight is Weight.ABSENT else Phase.PROVISIONING


def _ready(failing: Sequence[Verdict], reason: str, message: str) -> Verdict:
    if not failing:
        return fine(READY, reason, message)
    first = _first(failing)
    text = first.message if first.type == READY else f"{first.type}: {first.message}"
    return Verdict(READY, "False", first.reason, text)
