"""Virtual time that coroutines can sleep on."""

import asyncio
from collections.abc import Sized
from typing import Final, Protocol, cast

from tests.support.virtual_time import VirtualTime

SETTLE_ROUNDS: Final = 50


class _Loop(Protocol):
    """An event loop of asyncio, whose callbacks that are due are known by no public name."""

    _ready: Sized


async def settle() -> None:
    """Let every task run until it waits for something that only time or the test can bring."""
    loop = cast("_Loop", asyncio.get_running_loop())
    for _ in range(SETTLE_ROUNDS):
        await asyncio.sleep(0)
        if not loop._ready:
            return


class SleepingTime(VirtualTime):
    """A `SleepingClock`: sleepers wake when the test lets their time come."""

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        timer = self.call_at(self.monotonic() + max(0.0, seconds), woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    async def elapse(self, seconds: float) -> None:
        """Let time pass; whoever wakes does what it does at that moment, before time goes on."""
        end = self.monotonic() + seconds
        await settle()
        while (due := self.next_timer()) is not None and due <= end:
            self.advance(max(0.0, due - self.monotonic()))
            await settle()
        self.advance(max(0.0, end - self.monotonic()))
        await settle()
