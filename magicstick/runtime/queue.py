"""The work queue: which key is looked at next.

Guarantees
    - A key is in the queue once, however often it is added.
    - A key is never handed to two workers at a time. Added again while it is worked on, it comes again
      after `done`.
    - Nothing added is lost: after the last `add` of a key there is a `get` of it, unless the queue is
      closed.
    - No key waits for ever: a key of priority *p* goes before every key that was added more than
      *p* times `AGEING_S` later, so that a steady flow of urgent keys delays the others but does not
      starve them.
    - Of several delayed adds of a key the earliest counts. An immediate add cancels the delay; only a
      LOW one waits for a back-off to end, since it brings no news.

Assumes one event loop; every method but `get` returns at once. Operations are O(log n) in the number of
keys, those for metrics O(n).
"""

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

AGEING_S = 1.0
BACKOFF_BASE_S = 0.005
BACKOFF_CAP_S = 300.0
BACKOFF_JITTER = 0.25
_BACKOFF_MAX_DOUBLINGS = 20
_COMPACT_ABOVE = 64


class Priority(IntEnum):
    """Smaller comes first."""

    URGENT = 0
    """Deletions, and dependencies that became ready: somebody waits."""
    NORMAL = 1
    """Something changed."""
    LOW = 2
    """Nothing changed as far as we know: resync, first look after the start."""


class Closed(Exception):
    """The queue was closed."""


class Handle(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None:
        """Do not call back."""
        ...


class Timers(Protocol):
    """What the queue needs of an event loop, so that tests can bring their own time."""

    def time(self) -> float:
        """Seconds, monotonic."""
        ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> Handle:
        """Call back at that time."""
        ...


class LoopTimers:
    """The running event loop's timers on the machine's monotonic clock.

    Not the loop's own clock: uvloop's counts whole milliseconds, and a pass is often shorter.
    """

    def time(self) -> float:
        """See `Timers`."""
        return time.monotonic()

    def call_at(self, when: float, callback: Callable[[], None], /) -> Handle:
        """See `Timers`."""
        return asyncio.get_running_loop().call_later(when - time.monotonic(), callback)


class QueueMetrics(Protocol):
    """Told what happens; see `runtime.metrics` for the names that dashboards query."""

    def added(self) -> None:
        """A key entered the queue."""
        ...

    def taken(self, waited_s: float) -> None:
        """A worker took a key."""
        ...

    def finished(self, worked_s: float) -> None:
        """A worker finished with a key."""
        ...

    def retried(self) -> None:
        """A key failed and was added with back-off."""
        ...


class NoMetrics:
    """Metrics that nobody reads."""

    def added(self) -> None:
        """See `QueueMetrics`."""

    def taken(self, waited_s: float) -> None:
        """See `QueueMetrics`."""

    def finished(self, worked_s: float) -> None:
        """See `QueueMetrics`."""

    def retried(self) -> None:
        """See `QueueMetrics`."""


@dataclass(slots=True)
class _Waiting:
    """A queued key: its priority, when it was first added, and the number of its valid place."""

    priority: Priority
    since: float
    number: int


@dataclass(frozen=True, slots=True)
class _Delayed:
    """A key that comes later: when, as what, the number of its valid place, and why."""

    due: float
    priority: Priority
    number: int
    backoff: bool


class WorkQueue(Generic[K]):
    """See the module's docstring.

    Both heaps may hold places that are not valid any more (the key was promoted, taken or cancelled).
    They are told by their number and skipped when they come up.
    """

    def __init__(
        self,
        *,
        timers: Timers | None = None,
        rng: random.Random | None = None,
        metrics: QueueMetrics | None = None,
        ageing_s: float = AGEING_S,
    ) -> None:
        self._timers: Timers = timers or LoopTimers()
        self._rng = rng or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._metrics: QueueMetrics = metrics or NoMetrics()
        self._ageing_s = ageing_s
        self._waiting: dict[K, _Waiting] = {}
        self._ready: list[tuple[float, int, K]] = []
        """Heap of (time of the add plus the handicap of the priority, number, key)."""
        self._working: dict[K, float] = {}
        self._again: dict[K, Priority] = {}
        self._delayed: dict[K, _Delayed] = {}
        self._heap: list[tuple[float, int, K]] = []
        """Heap of (due, number, key)."""
        self._timer: Handle | None = None
        self._timer_at = 0.0
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._number = 0
        self._closed = False

    # -- for metrics and health --------------------------------------------------------------------

    def __len__(self) -> int:
        """Keys that could be taken now, delayed ones not counted."""
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def working(self) -> int:
        """Keys that workers have."""
        return len(self._working)

    @property
    def delayed(self) -> int:
        """Keys that come later."""
        return len(self._delayed)

    def depth(self, priority: Priority) -> int:
        """Keys of one priority that could be taken now."""
        return sum(entry.priority is priority for entry in self._waiting.values())

    def oldest_wait_s(self) -> float:
        """How long the key that waits longest has waited."""
        now = self._timers.time()
        return max((now - entry.since for entry in self._waiting.values()), default=0.0)

    def longest_work_s(self) -> float:
        """How long the worker that works longest has worked on its key."""
        now = self._timers.time()
        return max((now - begun for begun in self._working.values()), default=0.0)

    def failures(self, key: K) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    # -- adding ------------------------------------------------------------------------------------

    def add(self, key: K, priority: Priority = Priority.NORMAL) -> None:
        """The key wants to be looked at now."""
        if self._closed:
            return
        delayed = self._delayed.get(key)
        if delayed is not None:
            if delayed.backoff and priority is Priority.LOW:
                return
            del self._delayed[key]
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        entry = self._waiting.get(key)
        if entry is None:
            self._metrics.added()
            self._place(key, priority, self._timers.time())
            self._wake_one()
        elif priority < entry.priority:
            self._place(key, priority, entry.since)

    def add_after(self, key: K, delay_s: float, priority: Priority = Priority.LOW) -> None:
        """The key wants to be looked at in `delay_s` seconds, if nothing brings it earlier."""
        if delay_s <= 0:
            self.add(key, priority)
        else:
            self._delay(key, delay_s, priority, backoff=False)

    def add_backoff(self, key: K, *, at_least_s: float = 0.0, first_s: float = BACKOFF_BASE_S) -> float:
        """The key failed: look at it after `first_s`, twice that, … up to 300 s, with jitter.

        Returns the delay, in seconds.

        `at_least_s` is a floor under the growing delay, not a part of it. Jitter shortens the one and
        lengthens the other, so that neither the cap nor the floor is ever passed.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        grown = min(first_s * 2.0 ** min(failures, _BACKOFF_MAX_DOUBLINGS), BACKOFF_CAP_S)
        jitter = self._rng.uniform(0.0, BACKOFF_JITTER)
        delay = max(grown * (1.0 - jitter), at_least_s * (1.0 + jitter))
        self._metrics.retried()
        self._delay(key, delay, Priority.LOW, backoff=True)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded, or changed: its next failure starts from the shortest delay."""
        self._failures.pop(key, None)

    # -- working -----------------------------------------------------------------------------------

    async def get(self) -> K:
        """The next key; the caller owes a `done`.

        Raises:
            Closed: the queue was closed.
        """
        while True:
            if self._closed:
                raise Closed
            if self._waiting:
                return self._take()
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if not getter.cancelled():
                    self._wake_one()  # the wake-up was ours; hand it on
                raise

    def done(self, key: K) -> None:
        """The worker has finished with the key. KeyError for one that nobody works on."""
        begun = self._working.pop(key)
        self._metrics.finished(self._timers.time() - begun)
        again = self._again.pop(key, None)
        if again is not None:
            self.add(key, again)

    def close(self) -> None:
        """End every waiting `get`; nothing is handed out any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._getters:
            self._wake_one()

    # -- internals ---------------------------------------------------------------------------------

    def _place(self, key: K, priority: Priority, since: float) -> None:
        """Queue the key; an older place of it is not valid any more."""
        self._number += 1
        self._waiting[key] = _Waiting(priority, since, self._number)
        heapq.heappush(self._ready, (since + priority * self._ageing_s, self._number, key))

    def _take(self) -> K:
        """Take the key with the best priority after ageing; among equals the one that came first."""
        while True:
            _, number, key = heapq.heappop(self._ready)
            entry = self._waiting.get(key)
            if entry is not None and entry.number == number:
                break
        del self._waiting[key]
        now = self._timers.time()
        self._metrics.taken(now - entry.since)
        self._working[key] = now
        return key

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _delay(self, key: K, delay_s: float, priority: Priority, *, backoff: bool) -> None:
        if self._closed or key in self._waiting:
            return
        due = self._timers.time() + delay_s
        known = self._delayed.get(key)
        if known is not None and (known.due <= due or (known.backoff and priority is Priority.LOW)):
            return
        self._number += 1
        self._delayed[key] = _Delayed(due, priority, self._number, backoff)
        heapq.heappush(self._heap, (due, self._number, key))
        self._compact()
        self._arm()

    def _is_due(self, key: K, number: int) -> bool:
        """Whether a place of the heap of delays is still valid."""
        delayed = self._delayed.get(key)
        return delayed is not None and delayed.number == number

    def _compact(self) -> None:
        """Drop invalid places before they outnumber the valid ones: a busy key makes many."""
        if len(self._heap) > 2 * len(self._delayed) + _COMPACT_ABOVE:
            self._heap = [place for place in self._heap if self._is_due(place[2], place[1])]
            heapq.heapify(self._heap)

    def _arm(self) -> None:
        """Keep one timer, for the earliest delayed key."""
        while self._heap and not self._is_due(self._heap[0][2], self._heap[0][1]):
            heapq.heappop(self._heap)
        if not self._heap:
            return
        when = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._timers.call_at(when, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._timers.time()
        while self._heap and self._heap[0][0] <= now:
            _, number, key = heapq.heappop(self._heap)
            if self._is_due(key, number):
                self.add(key, self._delayed.pop(key).priority)
        self._arm()
