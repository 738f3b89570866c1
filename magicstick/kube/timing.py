"""Time and chance for everything that waits, so that tests can inject both."""

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """A clock that never goes back, and a wait on it."""

    def monotonic(self) -> float:
        """Seconds since some moment."""
        ...

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait until `event` is set (True) or `timeout_s` seconds are over (False)."""
        ...


class SystemClock:
    """The real one."""

    def monotonic(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return time.monotonic()

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait until `event` is set (True) or `timeout_s` seconds are over (False)."""
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class Backoff:
    """Growing, jittered delays: each is the last one times `factor`, plus up to `jitter` times itself.

    The defaults are those of Kubernetes' own reflectors: at most one request in 0.8 s to 1.6 s at
    first, in 30 s to 60 s later; small again once nothing failed for `reset_after_s`.
    """

    clock: Clock
    chance: random.Random
    initial_s: float = 0.8
    cap_s: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset_after_s: float = 120.0
    _base_s: float = field(default=0.0, init=False)
    _asked_at: float = field(default=0.0, init=False)

    def reset(self) -> None:
        """Begin anew: what failed before has worked since."""
        self._base_s = 0.0

    def next(self) -> float:
        """The seconds to wait now, after one more failure."""
        now = self.clock.monotonic()
        quiet = now - self._asked_at > self.reset_after_s
        self._base_s = (
            self.initial_s if quiet or not self._base_s else min(self._base_s * self.factor, self.cap_s)
        )
        delay_s = self._base_s * (1 + self.jitter * self.chance.random())
        self._asked_at = now + delay_s
        return delay_s
