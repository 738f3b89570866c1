"""The checks behind `/livez` and `/readyz`. Each gives a function that says what is wrong, "" for nothing.

Alive means that a restart would not help. An API server that is away, a missing right or a long backlog are
therefore no reasons; a part that has stopped trying is one.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from magicstick.kube.informer import InformerState
from magicstick.runtime.clock import Clock
from magicstick.runtime.collectors import ActivityView, QueueView
from magicstick.runtime.health import Check

SILENT_TIMES: Final = 3.0
"""A watch that has neither heard nor tried anything for so many idle time-outs is stuck."""
PASS_LIMIT_S: Final = 300.0
"""No pass takes so long: it ends with the first of its requests that is not answered in time."""
ELECTION_TIMES: Final = 2.0
"""The lease's loop comes round several times in a renewal deadline; in so many without, it is stuck."""


class InformerView(Protocol):
    """What is to be seen of an informer (`kube.informer.Informer`)."""

    @property
    def scope(self) -> object:
        """What it watches, for people."""
        ...

    @property
    def counters(self) -> ActivityView:
        """What it did so far."""
        ...

    @property
    def state(self) -> InformerState:
        """How far it is."""
        ...

    @property
    def reason(self) -> str:
        """Why it is absent or failing."""
        ...

    @property
    def last_event_age(self) -> float | None:
        """Seconds since the server last showed a sign of life; None while the kind is absent."""
        ...


class LeaseView(Protocol):
    """What is to be seen of the lease (`runtime.lease.Lease`)."""

    @property
    def held(self) -> bool:
        """Whether this process may write now."""
        ...

    @property
    def last_attempt(self) -> float:
        """When the loop last came round."""
        ...


Informers = Callable[[], Iterable[InformerView]]


class SilentWatches:
    """Finds watches that are stuck: nothing heard, and nothing tried either, for far too long."""

    def __init__(self, informers: Informers, clock: Clock, idle_timeout_s: float) -> None:
        self._informers, self._clock = informers, clock
        self._limit_s = SILENT_TIMES * idle_timeout_s
        self._seen: dict[str, tuple[int, float]] = {}
        """Of each informer the sum of its counters, and when it was first that high."""

    def __call__(self) -> str:
        """The check."""
        stuck = sorted(str(informer.scope) for informer in self._informers() if self._is_stuck(informer))
        return f"nothing heard or tried for {self._limit_s:.0f} s: {', '.join(stuck)}" if stuck else ""

    def _is_stuck(self, informer: InformerView) -> bool:
        counters, now = informer.counters, self._clock.monotonic()
        tried = counters.lists + counters.watches + counters.expired + counters.failures
        known = self._seen.get(str(informer.scope))
        if known is None or known[0] != tried:
            known = self._seen[str(informer.scope)] = (tried, now)
        heard_s = informer.last_event_age
        return heard_s is not None and min(heard_s, now - known[1]) > self._limit_s


def stuck_election(lease: LeaseView, clock: Clock, renew_deadline_s: float) -> Check:
    """Whether the lease's loop still comes round; whether it wins is another matter."""

    def check() -> str:
        age = clock.monotonic() - lease.last_attempt
        limit = ELECTION_TIMES * renew_deadline_s
        return f"the lease's loop has not come round for {age:.0f} s" if age > limit else ""

    return check


def stuck_work(queues: Callable[[], Iterable[tuple[str, QueueView]]]) -> Check:
    """Whether any pass takes longer than a pass can. How many keys wait does not matter."""

    def check() -> str:
        ages = ((name, queue.longest_work_s()) for name, queue in queues())
        stuck = [f"{name} ({age:.0f} s)" for name, age in ages if age > PASS_LIMIT_S]
        return f"a pass does not end: {', '.join(stuck)}" if stuck else ""

    return check


def not_synced(informers: Informers) -> Check:
    """Whether every kind that is served is known. One whose definition is absent has nothing to know."""

    def check() -> str:
        missing = [
            f"{informer.scope} ({informer.state}{f': {informer.reason}' if informer.reason else ''})"
            for informer in informers()
            if informer.state not in (InformerState.SYNCED, InformerState.ABSENT)
        ]
        return f"not synced: {', '.join(missing)}" if missing else ""

    return check


def not_leading(lease: LeaseView) -> Check:
    """Whether this process does the work. One that stands by is not ready: nothing of it is to be seen."""

    def check() -> str:
        return "" if lease.held else "the lease is not held"

    return check
