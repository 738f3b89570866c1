"""An HTTP server on loopback that answers what a test says: a runtime in a Pod, well or broken.

async with RuntimeServer() as server:
    server.answers["GET /health"] = Reply(200, {"status": "ok"})
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from magicstick.models.endpoints import Endpoint

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `content` is JSON unless it is bytes. With `silent` nothing ever comes."""

    status: int = 200
    content: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False


class RuntimeServer:
    """See the module. `calls` has each request as `METHOD path`, `bodies` what was posted."""

    def __init__(self) -> None:
        self.answers: dict[str, Reply] = {}
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[Mapping[str, str]] = []
        self.called = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def endpoint(self, uid: str = "uid-pod") -> Endpoint:
        """This server, as that of a Pod."""
        return Endpoint(uid, LOOPBACK, self.port)

    async def _answer(self, request: web.Request) -> web.Response:
        call = f"{request.method} {request.path}"
        self.calls.append(call)
        self.headers.append(dict(request.headers))
        if request.can_read_body:
            self.bodies.append(await request.json())
        self.called.set()
        reply = self.answers.get(call, Reply(404, b"404 page not found"))
        if reply.silent:
            await asyncio.Event().wait()
        body = reply.content if isinstance(reply.content, bytes) else json.dumps(reply.content).encode()
        return web.Response(status=reply.status, body=body, headers=dict(reply.headers))
