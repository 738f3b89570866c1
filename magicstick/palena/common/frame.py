"""The frame of every decision of Palena's: the same steps in the same order (spec: palena §2).

dying?  ─ finalizer absent → nothing; else → teardown
paused? ─ the status says so, and nothing but it is written
finalizer → spec → prerequisites → steps in the order of dependency → status once → requeue
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from magicstick.api.base import Model
from magicstick.api.parse import InvalidSpec
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.owners import Owner
from magicstick.palena.common.prerequisites import Prerequisites
from magicstick.palena.common.teardown import Stage
from magicstick.palena.common.verdicts import PREREQUISITES_MET, Verdict
from magicstick.runtime.plan import Notice, Plan, Step

S = TypeVar("S", bound=Model)


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


@dataclass(frozen=True, slots=True)
class Subject(Generic[S]):
    """One object, and what every decision about it begins with."""

    live: Resource
    spec: S | InvalidSpec
    prerequisites: Prerequisites = field(default_factory=Prerequisites)

    @property
    def paused(self) -> bool:
        """Whether nothing is to be written for it but its status."""
        raise NotImplementedError

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
        stages: the teardown of the kind; asked only for a dying object that has our finalizer.
        now: the time.
    """
    raise NotImplementedError


def decide_failure(subject: Subject[S], frame: KindFrame, error: ApiError, now: datetime) -> Plan:
    """What to report after a step failed: phase Error, the server's words on the condition it concerns."""
    raise NotImplementedError
