"""How the process ends.

    first SIGTERM or SIGINT    the work is cancelled and has `drain_s` seconds to end
    second signal              the process ends on the spot, exit code 128 + the signal's number
    drain time over            the process ends on the spot, exit code 1

Guarantees: a process that was asked to end is gone after `drain_s` seconds, whatever its work does. Work that
ends in time ends it gracefully: exit code 0.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import structlog

from magicstick.runtime.clock import SleepingClock, SystemClock

log = structlog.get_logger(__name__)

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
TOO_SLOW: Final = 1
SIGNALLED: Final = 128

EndNow = Callable[[int], object]


async def run_until_signal(
    work: Callable[[], Awaitable[None]],
    *,
    drain_s: float,
    clock: SleepingClock | None = None,
    end_now: EndNow = os._exit,
) -> None:
    """Run `work` until it returns, or until a signal cancels it. What it raises passes through."""
    ending = _Ending(drain_s, clock or SystemClock(), end_now)
    with ending.signals(), ending.scope:
        await work()


class _Ending:
    """What the signals of one run lead to."""

    def __init__(self, drain_s: float, clock: SleepingClock, end_now: EndNow) -> None:
        self.scope = anyio.CancelScope()
        self._drain_s, self._clock, self._end_now = drain_s, clock, end_now
        self._alarm: asyncio.Task[None] | None = None

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Receive the signals while the block runs."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._received, number)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            if self._alarm is not None:
                self._alarm.cancel()

    def _received(self, number: signal.Signals) -> None:
        if self._alarm is not None:
            log.warning("stopping at once: asked a second time", signal=number.name)
            self._end_now(SIGNALLED + number)
            return
        log.info("stopping", signal=number.name, drain_seconds=self._drain_s)
        self._alarm = asyncio.ensure_future(self._end_when_over())
        self.scope.cancel()

    async def _end_when_over(self) -> None:
        await self._clock.sleep(self._drain_s)
        log.error("stopping at once: work did not end in time", drain_seconds=self._drain_s)
        self._end_now(TOO_SLOW)
