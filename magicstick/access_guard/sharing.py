"""Work that is shared, and answers that are kept for a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from magicstick.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

PATIENCE_S: Final = 0.5
"""Work that takes longer is not waited for by the next: it may be one request that was lost."""


class SingleFlight(Generic[K, T]):
    """Calls for one key at the same time share one piece of work.

    Guarantees: the work whose result a call gets began after the call was made, so that what is shared is
    never older than the question. A call that finds work already under way therefore waits for its end, or
    until it has taken too long, and shares the next piece with all others that wait. A caller who leaves
    ends nobody else's work.

    Assumes that work ends by itself, in bounded time.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._waiting: dict[K, asyncio.Task[T]] = {}
        self._working: dict[K, asyncio.Task[T]] = {}
        self._all: set[asyncio.Task[T]] = set()

    def share(self, key: K, work: Callable[[], Awaitable[T]]) -> "asyncio.Future[T]":
        """What `work` will return or raise, begun by this call or by another one for the same key."""
        task = self._waiting.get(key)
        if task is None:
            task = asyncio.create_task(self._after(key, self._working.get(key), work))
            self._waiting[key] = task
            self._all.add(task)
            task.add_done_callback(self._ended)
        return asyncio.shield(task)

    async def close(self) -> None:
        """Cancel all work, and wait until it has ended."""
        tasks = tuple(self._all)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _after(self, key: K, before: asyncio.Task[T] | None, work: Callable[[], Awaitable[T]]) -> T:
        try:
            if before is not None:
                await asyncio.wait((before,), timeout=self._patience_s)
        finally:
            mine = self._waiting.pop(key)
        self._working[key] = mine
        try:
            return await work()
        finally:
            if self._working.get(key) is mine:
                del self._working[key]

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._all.discard(task)
        if not task.cancelled():
            task.exception()  # told to those who wait; where nobody does any more, nobody misses it


class Remembered(Generic[K, T]):
    """Answers that are good for some seconds. Never more than `most`: the oldest go first."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._entries: dict[K, tuple[float, T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> T | None:
        """The answer, as long as it is good."""
        found = self._entries.get(key)
        if found is None or found[0] <= self._clock.monotonic():
            return None
        return found[1]

    def put(self, key: K, value: T, for_s: float) -> None:
        """Keep an answer for so many seconds; not at all for zero and less."""
        now = self._clock.monotonic()
        self._entries.pop(key, None)
        if for_s > 0:
            self._entries[key] = now + for_s, value
        self._drop(now)

    def _drop(self, now: float) -> None:
        """Drop the oldest while they are over or too many; so each entry costs its removal once."""
        while self._entries:
            oldest = next(iter(self._entries))
            if len(self._entries) <= self._most and self._entries[oldest][0] > now:
                return
            del self._entries[oldest]
