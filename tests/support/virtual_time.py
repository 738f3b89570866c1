"""Time that moves only when a test says so."""

import heapq
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualTime:
    """A `Clock` and `Timers` in one."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._numbers = itertools.count()
        self._timers: list[tuple[float, int, _Timer]] = []

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now

    def now(self) -> datetime:
        return START + timedelta(seconds=self._now - 1000.0)

    def call_at(self, when: float, callback: Callable[[], None], /) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def next_timer(self) -> float | None:
        """The time of the earliest timer that was not cancelled."""
        return min((when for when, _, timer in self._timers if timer.callback is not None), default=None)

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire in order, each at its own time."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self._now = max(self._now, when)
            if timer.callback is not None:
                timer.callback()
        self._now = end


def seeded(seed: int = 0) -> random.Random:
    """Chance that repeats itself."""
    return random.Random(seed)
