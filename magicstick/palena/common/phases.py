"""Phases, how a pass ends, and when it is looked again (spec: palena §2.1, §2.2)."""

from enum import IntEnum, StrEnum
from typing import Final


class Phase(StrEnum):
    """`status.phase` of every kind of Palena's."""

    PENDING = "Pending"
    """Accepted, and nothing done yet, or a referenced object does not exist."""
    PROVISIONING = "Provisioning"
    """Something is not ready, and never was all of it."""
    RUNNING = "Running"
    """Everything is ready."""
    DEGRADED = "Degraded"
    """Something is not ready although everything once was, or only an optional part is missing."""
    ERROR = "Error"
    """Something failed: a prerequisite, a reference or a Secret is wrong, or a child failed for good."""
    DELETING = "Deleting"
    """The object is being deleted, and what was made for it is being removed."""


class Outcome(StrEnum):
    """How a pass ended; the keys of `REQUEUE_S`."""

    HEALTHY = "Healthy"
    NOT_READY = "NotReady"
    MISSING = "Missing"
    """A prerequisite or a referenced object does not exist."""
    FAILED = "Failed"
    DELETING = "Deleting"
    PAUSED = "Paused"
    IGNORED = "Ignored"
    """A dying object without our finalizer: it is none of our business any more."""
    RELEASED = "Released"
    """Our finalizer goes."""


REQUEUE_S: Final[dict[str, float | None]] = {
    Outcome.HEALTHY: 60.0,
    Outcome.NOT_READY: 15.0,
    Outcome.MISSING: 30.0,
    Outcome.FAILED: 10.0,
    Outcome.DELETING: 15.0,
    Outcome.PAUSED: 60.0,
    Outcome.IGNORED: None,
    Outcome.RELEASED: None,
}
"""Seconds until an object is looked at again without any event."""

FAILING: Final = frozenset({Outcome.FAILED})
"""Outcomes whose delay doubles with each one in a row, up to 300 s."""


class Weight(IntEnum):
    """How much a finding counts: the heaviest one decides when an object is looked at again."""

    FINE = 0
    WAITING = 1
    """Something is not ready and will be by itself."""
    ABSENT = 2
    """A referenced Palena object does not exist."""
    PREREQUISITE = 3
    """A kind that is needed is not served."""
    FAILED = 4
    """Only a change by somebody helps: an error."""


OUTCOME_OF: Final = {
    Weight.FINE: Outcome.HEALTHY,
    Weight.WAITING: Outcome.NOT_READY,
    Weight.ABSENT: Outcome.MISSING,
    Weight.PREREQUISITE: Outcome.MISSING,
    Weight.FAILED: Outcome.FAILED,
}
