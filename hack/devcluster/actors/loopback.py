"""HTTP servers on loopback, of which actors are made: away and back on one port, with a door to shut."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self

from aiohttp import web

from hack.devcluster.layout import LOOPBACK


class LoopbackServer:
    """Every request goes to `_answer`. It listens at `port`, or at one that is free, for its whole life."""

    def __init__(self, port: int = 0) -> None:
        self.host = LOOPBACK
        """Where it listens from the next start on."""
        self._runner: web.AppRunner | None = None
        self._port = port

    @property
    def port(self) -> int:
        """Where it listens, or did; 0 before the first time."""
        return self._port

    @property
    def url(self) -> str:
        """The same as an address."""
        return f"http://{self.host}:{self._port}"

    async def start(self, port: int = 0) -> None:
        """Listen; at the port of the last time, unless one is given.

        Raises:
            OSError: somebody else has the port.
        """
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.host, port or self._port).start()
        except OSError:
            await self.stop()
            raise
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Be away: connections are refused. What is known stays known."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Listen within the block."""
        await self.start()
        try:
            yield self
        finally:
            await self.stop()

    async def _answer(self, request: web.Request) -> web.Response:
        raise NotImplementedError


class DoorServer(LoopbackServer):
    """One that can let callers wait: `_answer` passes `_admitted` first."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._open = asyncio.Event()
        self._open.set()
        self._waiting = 0
        self._changed = asyncio.Condition()

    def shut(self) -> None:
        """Answer nobody until `open`; connections are accepted and hang."""
        self._open.clear()

    def open(self) -> None:
        """Answer again."""
        self._open.set()

    async def until_waiting(self, count: int, *, deadline_s: float = 20.0) -> None:
        """Wait until so many callers stand before the shut door."""
        async with self._changed, asyncio.timeout(deadline_s):
            await self._changed.wait_for(lambda: self._waiting >= count)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Listen within the block; who still waits at its end is let in."""
        async with super().running():
            try:
                yield self
            finally:
                self.open()

    async def _admitted(self) -> None:
        """Wait until the door is open, and let those know who wait for callers."""
        if self._open.is_set():
            return
        self._waiting += 1
        async with self._changed:
            self._changed.notify_all()
        try:
            await self._open.wait()
        finally:
            self._waiting -= 1
