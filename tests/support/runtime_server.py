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

from hack.devcluster.actors.loopback import LoopbackServer
from hack.devcluster.layout import LOOPBACK
from magicstick.models.endpoints import Endpoint


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; `content` is JSON unless it is bytes. With `silent` nothing ever comes."""

    status: int = 200
    content: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False


class RuntimeServer(LoopbackServer):
    """See the module. `calls` has each request as `METHOD path`, `bodies` what was posted."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Reply] = {}
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[Mapping[str, str]] = []
        self.called = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

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
