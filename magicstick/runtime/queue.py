"""The work queue: which key is looked at next.

Guarantees
    - A key is in the queue once, however often it is added.
    - A key is never handed to two workers at a time. Added again while it is worked on, it comes again
      after `done`.
    - Nothing added is lost: after the last `add` of a key there is a `get` of it, unless the queue is
      closed.
    - No key waits for ever: every `AGEING_S` seconds of waiting raise a key by one priority, so that
      a steady flow of urgent keys delays the others but does not starve them.
    - Of several delayed adds of a key the earliest counts; an immediate add cancels the delay.

Assumes one event loop; every method but `get` returns at once. All operations are O(1), delayed adds
O(log n).
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

AGEING_S = 1.0
BACKOFF_BASE_S = 0.005
BACKOFF_CAP_S = 300.0
_BACKOFF_MAX_DOUBLINGS = 20


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


class WorkQueue(Generic[K]):
    """See the module's docstring."""

    def __init__(
        self,
        *,
        timers: Timers | None = None,
        rng: random.Random | None = None,
        metrics: QueueMetrics | None = None,
        ageing_s: float = AGEING_S,
    ) -> None:
        self._timers = timers or asyncio.get_running_loop()
        self._rng = rng or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._metrics: QueueMetrics = metrics or NoMetrics()
        self._ageing_s = ageing_s
        self._lanes: tuple[deque[tuple[K, int]], ...] = tuple(deque() for _ in Priority)
        self._waiting: dict[K, _Waiting] = {}
        self._working: dict[K, float] = {}
        self._again: dict[K, Priority] = {}
        self._due: dict[K, tuple[float, Priority, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._timer: Handle | None = None
        self._timer_at = 0.0
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._number = 0
        self._closed = False

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
        return len(self._due)

    def oldest_wait_s(self) -> float:
        """How long the key that waits longest has waited."""
        now = self._timers.time()
        return max((now - entry.since for entry in self._waiting.values()), default=0.0)

    def longest_work_s(self) -> float:
        """How long the worker that works longest has worked on its key."""
        now = self._timers.time()
        return max((now - begun for begun in self._working.values()), default=0.0)

    def add(self, key: K, priority: Priority = Priority.NORMAL) -> None:
        """The key wants to be looked at now."""
        if self._closed:
            return
        self._due.pop(key, None)
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        entry = self._waiting.get(key)
        if entry is None:
            self._metrics.added()
            self._place(key, _Waiting(priority, self._timers.time(), 0))
            self._wake_one()
        elif priority < entry.priority:
            entry.priority = priority
            self._place(key, entry)

    def add_after(self, key: K, delay_s: float, priority: Priority = Priority.LOW) -> None:
        """The key wants to be looked at in `delay_s` seconds, if nothing brings it earlier."""
        if delay_s <= 0:
            self.add(key, priority)
            return
        if self._closed or key in self._waiting:
            return
        due = self._timers.time() + delay_s
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            return
        self._number += 1
        self._due[key] = (due, priority, self._number)
        heapq.heappush(self._heap, (due, self._number, key))
        self._arm()

    def add_backoff(self, key: K) -> float:
        """The key failed: look at it after 5 ms, 10 ms, … up to 300 s, with jitter. Returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(BACKOFF_BASE_S * 2.0 ** min(failures, _BACKOFF_MAX_DOUBLINGS), BACKOFF_CAP_S)
        delay *= self._rng.uniform(0.75, 1.0)
        self._metrics.retried()
        self.add_after(key, delay, Priority.NORMAL)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts from the shortest delay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; the caller owes a `done`.

        Raises:
            Closed: the queue was closed.
        """
        while True:
            if self._closed:
                raise Closed
            key = self._next()
            if key is not None:
                return key
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_one()  # the wake-up was ours; hand it on
                raise

    def done(self, key: K) -> None:
        """The worker has finished with the key."""
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
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)

    # -- internals ---------------------------------------------------------------------------------

    def _place(self, key: K, entry: _Waiting) -> None:
        """Queue the key in its lane; an older place of it becomes stale and is skipped later."""
        self._number += 1
        entry.number = self._number
        self._waiting[key] = entry
        self._lanes[entry.priority].append((key, entry.number))

    def _next(self) -> K | None:
        """Take the key with the best priority after ageing; among equals the one that waits longest."""
        now = self._timers.time()
        best: tuple[float, float] | None = None
        chosen: deque[tuple[K, int]] | None = None
        for priority, lane in enumerate(self._lanes):
            entry = self._head(lane)
            if entry is None:
                continue
            rank = (priority - (now - entry.since) // self._ageing_s, entry.since)
            if best is None or rank < best:
                best, chosen = rank, lane
        if chosen is None:
            return None
        key, _ = chosen.popleft()
        self._metrics.taken(now - self._waiting.pop(key).since)
        self._working[key] = now
        return key

    def _head(self, lane: deque[tuple[K, int]]) -> _Waiting | None:
        while lane:
            key, number = lane[0]
            entry = self._waiting.get(key)
            if entry is not None and entry.number == number:
                return entry
            lane.popleft()
        return None

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        """Keep one timer, for the earliest delayed key."""
        while self._heap and self._due.get(self._heap[0][2], (0, 0, 0))[2] != self._heap[0][1]:
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
            due = self._due.get(key)
            if due is not None and due[2] == number:
                self.add(key, due[1])
        self._arm()
