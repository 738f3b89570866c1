"""The frame of every decision of Palena's: the same steps in the same order (spec: palena §2).

dying?  ─ finalizer absent → nothing; else → teardown
paused? ─ the status says so, and nothing but it is written
finalizer → spec → prerequisites → steps in the order of dependency → status once → requeue
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from magicstick.api.base import Model
from magicstick.api.parse import InvalidSpec
from magicstick.kube.errors import ApiError, NameConflict, NamespaceTerminating, Rejected
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common import labels
from magicstick.palena.common.owners import Owner
from magicstick.palena.common.phases import Outcome, Weight
from magicstick.palena.common.prerequisites import Prerequisites
from magicstick.palena.common.secrets import NAME_CONFLICT
from magicstick.palena.common.teardown import Stage, teardown
from magicstick.palena.common.verdicts import (
    PREREQUISITES_MET,
    Summary,
    Verdict,
    deleting,
    failed,
    paused,
    summarise,
    waiting,
)
from magicstick.runtime.conditions import READY
from magicstick.runtime.plan import Finalizer, Notice, Plan, Step

S = TypeVar("S", bound=Model)

INVALID_SPEC: Final = "InvalidSpec"
READ_FAILED: Final = "ReadFailed"
APPLY_REJECTED: Final = "ApplyRejected"
API_UNAVAILABLE: Final = "ApiUnavailable"
NAMESPACE_TERMINATING: Final = "NamespaceTerminating"

_COMMON: Final = frozenset({"observedGeneration", "phase", "readySince", "message", "conditions"})
"""The fields that every status has; the others are the kind's own."""


@dataclass(frozen=True, slots=True)
class KindFrame:
    """What is the same for all objects of a kind."""

    kind: Kind
    order: tuple[str, ...]
    """The types of its conditions, `Ready` last."""
    ready_reason: str
    ready_message: str
    prerequisites_type: str = PREREQUISITES_MET
    """The condition that says that a needed kind is not served."""
    blames: Callable[[Kind, ObjectKey], str] = lambda _kind, _key: READY
    """Which condition tells that a write of this object failed."""
    refusals: Mapping[str, str] = field(default_factory=dict)
    """The reason of a condition when the server refuses such a write, if not `APPLY_REJECTED`."""


@dataclass(frozen=True, slots=True)
class Subject(Generic[S]):
    """One object, and what every decision about it begins with."""

    live: Resource
    spec: S | InvalidSpec
    prerequisites: Prerequisites = field(default_factory=Prerequisites)
    blind: str = ""
    """Why nothing can be concluded of what was not found; "" when everything can be read."""

    @property
    def paused(self) -> bool:
        """Whether nothing is to be written for it but its status."""
        return self.live.metadata.annotations.get(labels.PAUSED) == labels.TRUE

    def owner(self, kind: Kind) -> Owner:
        """Itself, as the owner of what it generates."""
        return Owner.of(kind, self.live)


@dataclass(frozen=True, slots=True)
class Findings:
    """What the steps of one kind came to.

    `steps` are all that has to be true now, in the order of dependency; what nothing has to be done for
    costs nothing. A condition that was not reached has no verdict.
    """

    verdicts: tuple[Verdict, ...] = ()
    steps: tuple[Step, ...] = field(default=(), repr=False)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The kind's own fields of the status."""
    notices: tuple[Notice, ...] = ()


def decide(
    subject: Subject[S],
    frame: KindFrame,
    *,
    findings: Callable[[S], Findings],
    stages: Callable[[], Sequence[Stage]],
    now: datetime,
) -> Plan:
    """The plan for one object.

    Args:
        subject: the object.
        frame: its kind.
        findings: the steps of the kind; asked only for a live object whose spec can be read and whose
            prerequisites are met.
        stages: the teardown of the kind; asked only for a dying object that has our finalizer, and whose
            surroundings can be read.
        now: the time.
    """
    metadata = subject.live.metadata
    if metadata.dying:
        if labels.FINALIZER not in metadata.finalizers:
            return Plan(Outcome.IGNORED)
        # What could not be read is not gone: nobody is let go because of it.
        left = (Stage("what was made for it", unknown=subject.blind),) if subject.blind else stages()
        return teardown(subject.live, left, frame.order, now)
    found = _find(subject, frame, findings)
    summary = _summarise(subject, frame, found.verdicts, now, found.fields)
    if subject.paused:
        return Plan(Outcome.PAUSED, status=paused(summary))
    missing = labels.FINALIZER not in metadata.finalizers
    return Plan(
        summary.outcome,
        found.steps,
        Finalizer.ADD if missing else Finalizer.KEEP,
        summary.status,
        notices=found.notices,
    )


def _find(subject: Subject[S], frame: KindFrame, findings: Callable[[S], Findings]) -> Findings:
    """What the steps found, or why they were not reached; what is known of earlier passes then stays."""
    former = {name: value for name, value in subject.live.status.items() if name not in _COMMON}
    if isinstance(subject.spec, InvalidSpec):
        return Findings((failed(READY, INVALID_SPEC, str(subject.spec)),), fields=former)
    if not subject.prerequisites.met:
        return Findings((subject.prerequisites.verdict(frame.prerequisites_type),), fields=former)
    met = (subject.prerequisites.verdict(),) if PREREQUISITES_MET in frame.order else ()
    if subject.blind:
        unread = Verdict(READY, "False", READ_FAILED, subject.blind, Weight.FAILED)
        return Findings((*met, unread), fields=former)
    found = findings(subject.spec)
    return replace(found, verdicts=(*met, *found.verdicts))


def _summarise(
    subject: Subject[S],
    frame: KindFrame,
    verdicts: tuple[Verdict, ...],
    now: datetime,
    fields: Mapping[str, Any],
) -> Summary:
    return summarise(
        subject.live,
        frame.order,
        verdicts,
        now=now,
        ready_reason=frame.ready_reason,
        ready_message=frame.ready_message,
        fields=fields,
    )


def decide_failure(subject: Subject[S], frame: KindFrame, error: ApiError, now: datetime) -> Plan:
    """What to report after a step failed: the server's words, on the condition that the step is about.

    Phase Error, save in a namespace that is being deleted, where nothing can be made any more.
    """
    former = {name: value for name, value in subject.live.status.items() if name not in _COMMON}
    type_ = frame.blames(*error.about) if error.about is not None else READY
    verdict = verdict_on(error, type_, frame.refusals.get(type_, APPLY_REJECTED))
    if subject.live.metadata.dying:
        message = f"what was made for it cannot be removed: {error.message}"
        return Plan(Outcome.DELETING, status=deleting(subject.live, frame.order, message))
    summary = _summarise(subject, frame, (verdict,), now, former)
    return Plan(summary.outcome, status=summary.status)


def verdict_on(error: ApiError, type_: str, refusal: str = APPLY_REJECTED) -> Verdict:
    """A failed request as a condition, with the server's words; `refusal` is the reason of a refused one."""
    match error:
        case NamespaceTerminating():
            return waiting(type_, NAMESPACE_TERMINATING, error.message)
        case NameConflict():
            return failed(type_, NAME_CONFLICT, error.message)
        case Rejected():
            return failed(type_, refusal, error.message)
        case _:
            return Verdict(type_, "False", API_UNAVAILABLE, error.message, Weight.FAILED)
