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
    """An error: phase Error, and looked at again after 10 s, 20 s, …"""
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
    raise NotImplementedError
