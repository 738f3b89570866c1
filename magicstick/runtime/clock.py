"""Time as controllers see it, injected so that tests own it."""

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Two readings: one to measure with, one to write down."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; only differences mean something."""
        ...

    def now(self) -> datetime:
        """The present in UTC, aware of its zone."""
        ...


class SleepingClock(Clock, Protocol):
    """A clock that can also be waited on."""

    async def sleep(self, seconds: float) -> None:
        """Come back after so many seconds of `monotonic`; at once for zero and less."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def now(self) -> datetime:
        """See `Clock`."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """See `SleepingClock`."""
        await asyncio.sleep(max(0.0, seconds))


async def within(clock: SleepingClock, seconds: float, work: Coroutine[object, object, T]) -> T:
    """What `work` returns, if it does so within `seconds` of this clock.

    `asyncio.timeout` does the same on the loop's own clock, which tests cannot move.

    Raises:
        TimeoutError: it did not; `work` was cancelled and has ended.
    """
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError(f"not done after {seconds:g} s")
        return task.result()
    finally:
        for pending in (task, alarm):
            pending.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)


def microtime(moment: datetime) -> str:
    """As the API writes a MicroTime: UTC with six decimals and `Z` (Leases, Events)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
