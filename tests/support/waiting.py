"""Waiting for a condition, and a clock whose waits take no time."""

import asyncio
from collections.abc import Callable
from random import Random

DEADLINE_S = 30.0
"""For a busy machine; nobody waits longer than it takes."""


async def eventually(holds: Callable[[], object], *, deadline_s: float = DEADLINE_S) -> None:
    """Come back once `holds()` is true; TimeoutError when it does not become so in time."""
    async with asyncio.timeout(deadline_s):
        while not holds():  # noqa: ASYNC110 # what is waited for has no event
            await asyncio.sleep(0.001)


class SkippingClock:
    """A clock of the Kubernetes layer on which nobody waits: each wait jumps to its end.

    `waits` are the seconds that were asked for. While `hold` is in force, waits stay until their event,
    `step` or `release`, for tests that look at what holds in the meantime.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.held = False
        self._waiting = 0
        self._release = asyncio.Event()

    def monotonic(self) -> float:
        """Seconds, advanced by waits alone."""
        return self.now

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Note the wait and jump to its end, or stay until the event while `hold` is in force."""
        self.waits.append(timeout_s)
        if self.held:
            self._waiting += 1
            await _first(event, self._release)
            self._waiting -= 1
        else:
            await asyncio.sleep(0)
        if not event.is_set():
            self.now += timeout_s
        return event.is_set()

    def hold(self) -> None:
        """From now on waits last until their event, or `release`."""
        self.held = True

    def release(self) -> None:
        """Let the waits that are held end, each at its end; later ones jump again."""
        self.held = False
        self._let_go()

    async def step(self) -> None:
        """Let the wait that is held end, and come back when the next one is held."""
        await eventually(lambda: self._waiting)
        count = len(self.waits)
        self._let_go()
        await eventually(lambda: self._waiting and len(self.waits) > count)

    def _let_go(self) -> None:
        self._release.set()
        self._release = asyncio.Event()


async def _first(*events: asyncio.Event) -> None:
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def dice(seed: int = 1) -> Random:
    """Chance that is the same in every run."""
    return Random(seed)  # guards no secret
