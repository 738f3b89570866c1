"""Timers that survive a restart: how long a Pod is awaited, and how often an ended one was replaced.

Both stand in the status and count for one revision of the runtime: the uid of its Model, the generation
of the activation, and a digest of the desired Model without its replicas. So neither a wait state in
between nor KubeAI's autoscaler restarts them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from magicstick.api.model_activation_status import PodCreation, PodRecovery
from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import timestamp

NO_POD_TIMEOUT_S: Final = 120
"""So long KubeAI may take to make a Pod (spec: models §2)."""
MAX_ATTEMPTS: Final = 5
_FIRST_WAIT_S: Final = 30
_LONGEST_WAIT_S: Final = 300
_REPLICAS: Final = frozenset({"replicas", "minReplicas", "maxReplicas"})
_ROUNDING: Final = timedelta(seconds=1)
"""Times are stored in whole seconds, rounded up so that nothing ends early: one may lie ahead by less."""


def revision(model: Resource, generation: int, body: Mapping[str, Any]) -> str:
    """What a timer counts for."""
    spec = {field: value for field, value in body["spec"].items() if field not in _REPLICAS}
    desired = json.dumps([body["metadata"].get("annotations", {}), spec], sort_keys=True)
    digest = hashlib.sha256(desired.encode()).hexdigest()[:16]
    return f"{model.metadata.uid}:{generation}:{digest}"


def moment(text: str, now: datetime) -> datetime | None:
    """A stored time, in UTC; None for one that is none, has no zone, or lies ahead."""
    try:
        found = datetime.fromisoformat(text)
        utc = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if found.tzinfo is None or utc > now + _ROUNDING:
        return None
    return utc


def stamp(now: datetime) -> str:
    """A time to store: in whole seconds, never before `now`."""
    up = now if now.microsecond == 0 else now.replace(microsecond=0) + _ROUNDING
    return timestamp(up.astimezone(UTC))


@dataclass(frozen=True, slots=True)
class Awaited:
    """Since when a Pod of a revision is awaited."""

    revision: str
    since: datetime

    @classmethod
    def of(cls, stored: PodCreation | None, revision: str, now: datetime) -> Self:
        """What is stored, where it is of this revision and its time can be; else from now on."""
        since = moment(stored.since, now) if stored is not None and stored.revision == revision else None
        return cls(revision, since if since is not None else now)

    def left_s(self, now: datetime) -> float:
        """Seconds until it has taken too long; 0 or less once it has."""
        return NO_POD_TIMEOUT_S - (now - self.since).total_seconds()

    def status(self) -> dict[str, str]:
        """As `status.podCreation`."""
        return {"revision": self.revision, "since": stamp(self.since)}


@dataclass(frozen=True, slots=True)
class Recovery:
    """How often an ended Pod of a revision was replaced."""

    revision: str
    attempts: int = 0
    last_attempt: str = ""
    last_pod_uid: str = ""
    last_failure: str = ""

    @classmethod
    def of(cls, stored: PodRecovery | None, revision: str) -> Self:
        """What is stored, where it is of this revision; else a fresh start."""
        if stored is None or stored.revision != revision:
            return cls(revision)
        return cls(revision, stored.attempts, stored.last_attempt, stored.last_pod_uid, stored.last_failure)

    @property
    def exhausted(self) -> bool:
        """Whether no further Pod is replaced, however long one waits."""
        return self.attempts >= MAX_ATTEMPTS

    def left_s(self, now: datetime) -> float:
        """Seconds until the next attempt; 0 or less when it may begin. What is no time holds up nothing."""
        last = moment(self.last_attempt, now)
        if last is None or self.attempts == 0:
            return 0.0
        wait_s: float = min(_LONGEST_WAIT_S, _FIRST_WAIT_S << (self.attempts - 1))
        return wait_s - (now - last).total_seconds()

    def next(self, pod_uid: str, failure: str, now: datetime) -> Self:
        """One attempt more."""
        return type(self)(self.revision, self.attempts + 1, stamp(now), pod_uid, failure)

    def status(self) -> dict[str, object] | None:
        """As `status.podRecovery`; None before the first attempt."""
        if self.attempts == 0:
            return None
        return {
            "revision": self.revision,
            "attempts": self.attempts,
            "lastAttempt": self.last_attempt,
            "lastPodUid": self.last_pod_uid,
            "lastFailure": self.last_failure,
        }
