"""An API server on loopback that does what the test says, and nothing else.

    async with ScriptedServer() as server:
        server.answer("GET", "/api/v1/pods", listing([pod("a")], "7"))
        server.answer("PATCH", "/api/v1/pods/a", Reset(), Answer(200, pod("a")))
        stream = await server.stream("/api/v1/pods")      # the next watch that a client opens
        await stream.send("ADDED", pod("b"))
        await stream.end()

Answers of a verb and path are given in order; the last one stays. What is not scripted is answered as
an API server answers an unknown path: 404 with a text. Watches (`watch=1`) are the verb `WATCH`: where
nothing is scripted for it they become streams that the test feeds.
"""

import asyncio
import socket
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web

DEADLINE_S = 10.0
"""How long a test waits for a client before it fails."""

Content = Mapping[str, Any] | bytes | str


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    """The HTTP method, `WATCH` for a watch."""
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.body)


@dataclass(frozen=True)
class Answer:
    """A whole answer; `body` is sent as JSON when it is a mapping. Held back until `after` is set."""

    status: int = 200
    body: Content = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    after: asyncio.Event | None = None


@dataclass(frozen=True)
class Reset:
    """The connection is reset: at once, or in the middle of a body of which `sent` arrived."""

    sent: bytes = b""


@dataclass(frozen=True)
class Hang:
    """The connection stays open and silent, like a half-open one."""


Reply = Answer | Reset | Hang
Script = Reply | Callable[[Seen], Reply]


def status(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """A failure as the API server words it."""
    return Answer(code, failure(code, reason, message, details=details), headers or {})


def failure(
    code: int, reason: str = "", message: str = "", *, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A Status object, as in the bodies of failures and in ERROR events."""
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "code": code,
    }
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    return body


def listing(items: Iterable[Mapping[str, Any]], resource_version: str, continue_: str = "") -> Answer:
    """One page of a list."""
    metadata = {"resourceVersion": resource_version, **({"continue": continue_} if continue_ else {})}
    return Answer(200, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


class Stream:
    """A watch that a client has open."""

    def __init__(self, request: Seen, response: web.StreamResponse, transport: asyncio.Transport) -> None:
        self.request = request
        self._response = response
        self._transport = transport
        self.over = asyncio.Event()
        """Set when the server's side is to end."""
        self.gone = asyncio.Event()
        """Set when the connection is over, whoever ended it."""

    async def send(self, type_: str, obj: Mapping[str, Any]) -> None:
        """One event."""
        await self.raw(event_line(type_, obj))

    async def bookmark(self, resource_version: str, *, initial_events_end: bool = False) -> None:
        """A bookmark, also the one that ends the initial events."""
        metadata: dict[str, Any] = {"resourceVersion": resource_version}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        await self.send("BOOKMARK", {"metadata": metadata})

    async def raw(self, *pieces: bytes) -> None:
        """Bytes, each piece in a chunk of its own."""
        for piece in pieces:
            await self._response.write(piece)

    async def end(self) -> None:
        """End as a server does whose `timeoutSeconds` are over."""
        self.over.set()
        await self.left()

    def reset(self) -> None:
        """Break the connection."""
        _reset(self._transport)
        self.over.set()

    async def left(self) -> None:
        """Wait until the connection is over; TimeoutError when it stays."""
        async with asyncio.timeout(DEADLINE_S):
            await self.gone.wait()


def event_line(type_: str, obj: Mapping[str, Any]) -> bytes:
    """A watch event as it stands in the stream."""
    return msgspec.json.encode({"type": type_, "object": obj}) + b"\n"


class ScriptedServer:
    """See the module's docstring. `requests` has everything that arrived, in order."""

    def __init__(self) -> None:
        self.requests: list[Seen] = []
        self._scripts: dict[tuple[str, str], deque[Script]] = defaultdict(deque)
        self._streams: dict[str, asyncio.Queue[Stream]] = defaultdict(asyncio.Queue)
        self._open: set[Stream] = set()
        self._arrival = asyncio.Condition()
        self._closing = asyncio.Event()
        self._runner = web.ServerRunner(
            web.Server(self._handle, handler_cancellation=True), shutdown_timeout=DEADLINE_S
        )
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens; keeps its port over `stop` and `start`."""
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        for stream in tuple(self._open):
            stream.over.set()
        await self._runner.cleanup()

    async def start(self) -> None:
        """Listen (again)."""
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Refuse new connections and reset the open streams."""
        for site in tuple(self._runner.sites):
            await site.stop()
        for stream in tuple(self._open):
            stream.reset()

    def answer(self, method: str, path: str, *script: Script) -> None:
        """Replace what is still scripted for a verb (`GET`, `PATCH`, … or `WATCH`) and path."""
        self._scripts[method, path] = deque(script)

    def unscript(self, method: str, path: str) -> None:
        """Forget the script: an unknown path again, or for `WATCH` a stream."""
        self._scripts.pop((method, path), None)

    async def stream(self, path: str) -> Stream:
        """The next watch of a path that a client opened; TimeoutError when none comes."""
        async with asyncio.timeout(DEADLINE_S):
            return await self._streams[path].get()

    def seen(self, method: str, path: str | None = None) -> list[Seen]:
        """The requests of a verb so far."""
        return [
            request
            for request in self.requests
            if request.method == method and (path is None or request.path == path)
        ]

    async def arrived(self, method: str, path: str, count: int = 1) -> Sequence[Seen]:
        """Wait until `count` such requests have arrived; TimeoutError when they do not."""
        async with asyncio.timeout(DEADLINE_S), self._arrival:
            await self._arrival.wait_for(lambda: len(self.seen(method, path)) >= count)
        return self.seen(method, path)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        query = dict(request.query)
        method = "WATCH" if query.get("watch") in {"1", "true"} else request.method
        seen = Seen(method, request.path, query, request.headers, await request.read())
        async with self._arrival:
            self.requests.append(seen)
            self._arrival.notify_all()
        script = self._scripts.get((method, request.path))
        if script:
            reply = script[0] if len(script) == 1 else script.popleft()
            return await self._reply(reply if isinstance(reply, Reply) else reply(seen), request, transport)
        if method == "WATCH":
            return await self._feed(seen, request, transport)
        return web.Response(status=404, text="404 page not found\n")

    async def _reply(
        self, reply: Reply, request: web.BaseRequest, transport: asyncio.Transport
    ) -> web.StreamResponse:
        if isinstance(reply, Hang):
            await self._closing.wait()
            return web.Response(status=503)
        if isinstance(reply, Reset):
            partial = web.StreamResponse()
            if reply.sent:
                partial.content_length = len(reply.sent) + 1
                await partial.prepare(request)
                await partial.write(reply.sent)
            _reset(transport)
            return partial
        if reply.after is not None:
            await reply.after.wait()
        headers = dict(reply.headers)
        if isinstance(reply.body, Mapping):
            headers.setdefault("Content-Type", "application/json")
        return web.Response(status=reply.status, body=_bytes(reply.body), headers=headers)

    async def _feed(
        self, seen: Seen, request: web.BaseRequest, transport: asyncio.Transport
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = Stream(seen, response, transport)
        self._open.add(stream)
        self._streams[seen.path].put_nowait(stream)
        try:
            await stream.over.wait()
        finally:
            self._open.discard(stream)
            stream.gone.set()
        return response


def _bytes(body: Content) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _reset(transport: asyncio.Transport) -> None:
    """Close with RST, as a dying peer or a middlebox does."""
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
