"""Waiting for what tells nobody, and has to be asked: rights and rules that a server takes up in its time."""

import asyncio
from collections.abc import Awaitable, Callable

PERIOD_S = 0.05
DEADLINE_S = 30.0
"""For a busy machine; nobody waits longer than it takes."""


async def until(what: str, holds: Callable[[], Awaitable[bool]], *, deadline_s: float = DEADLINE_S) -> None:
    """Ask again and again until it holds; fails with `what` after the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    while not await holds():
        assert loop.time() < deadline, f"not within {deadline_s:g} s: {what}"
        await asyncio.sleep(PERIOD_S)
