"""A proxy between the operator and the API server that breaks things on demand.

It speaks plain HTTP on loopback to the operator and TLS to the API server, relays every request as it
is (credentials included), and asks its faults first. A fault decides by the request whether it acts;
the first one that acts wins. Faults are added and removed while requests run.

    async with FaultProxy(cluster.url, cluster.ca_file) as proxy:
        with proxy.fault(Answer(429, retry_after=1), when=is_list_or_watch):
            ...
        proxy.reset_all()
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

MUTATING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
)


@dataclass(frozen=True, slots=True)
class Call:
    """What a fault sees of a request."""

    method: str
    path: str
    query: str
    number: int
    """Counts all requests from 1."""
    mutation: int
    """Counts mutating requests from 1; 0 for a reading request."""

    @property
    def watch(self) -> bool:
        return "watch=" in self.query

    @property
    def mutating(self) -> bool:
        return self.method in MUTATING

    @property
    def reading(self) -> bool:
        return self.method == "GET"


When = Callable[[Call], bool]


def anything(_: Call) -> bool:
    return True


def mutating(call: Call) -> bool:
    return call.mutating


def watching(call: Call) -> bool:
    return call.watch


def reading(call: Call) -> bool:
    return call.reading


def touching(plural: str) -> When:
    """Requests whose path names this plural."""
    return lambda call: f"/{plural}" in call.path


def first_tries() -> When:
    """The first write of each verb to each path."""
    tried: set[tuple[str, str]] = set()

    def first(call: Call) -> bool:
        is_first = call.mutating and (call.method, call.path) not in tried
        tried.add((call.method, call.path))
        return is_first

    return first


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer in the server's stead; the request is not relayed."""

    status: int
    body: str = ""
    retry_after: float | None = None
    content_type: str = "text/plain"


@dataclass(frozen=True, slots=True)
class Reset:
    """Break the connection before the request is relayed."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Relay the request, wait for the answer, then break the connection instead of passing it on."""


@dataclass(slots=True)
class Hold:
    """Keep the request until `release` is called, then relay it."""

    _open: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0

    def release(self) -> None:
        self._open.set()

    async def wait(self) -> None:
        self.held += 1
        await self._open.wait()


@dataclass(slots=True)
class HalfOpen:
    """Relay the request, but pass no byte of the answer on: the connection looks alive and is not.

    Streams that run already fall silent too.
    """


Action = Answer | Reset | LoseAnswer | Hold | HalfOpen


@dataclass(slots=True, eq=False)
class Fault:
    """An action with its condition. `hits` counts how often it acted."""

    action: Action
    when: When
    hits: int = 0
    limit: int | None = None

    def acts(self, call: Call) -> bool:
        if self.limit is not None and self.hits >= self.limit:
            return False
        if not self.when(call):
            return False
        self.hits += 1
        return True

    def silences(self, call: Call) -> bool:
        """Whether the answer to this call, which may have begun long ago, is held back now."""
        return isinstance(self.action, HalfOpen) and self.limit is None and self.when(call)


class FaultProxy:
    """See the module's docstring. `url` is where the operator connects to."""

    def __init__(self, upstream: str, ca_file: Path) -> None:
        self._upstream = upstream.rstrip("/")
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._faults: list[Fault] = []
        self._transports: dict[asyncio.WriteTransport, None] = {}  # in the order of their requests
        self._handling: set[asyncio.Task[object]] = set()
        self._calls = 0
        self._mutations = 0
        self._severed = False
        self._changed = asyncio.Event()
        self.calls: list[Call] = []
        self.url = ""
        self.after_mutation: Callable[[Call], Awaitable[None]] | None = None
        """Awaited after each mutating request was answered by the server, before the answer is passed on."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0, force_close=False),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reset_all()
        # A stream whose client is gone would wait for the server's next word, and outlive the test.
        for task in self._handling:
            task.cancel()
        await asyncio.gather(*self._handling, return_exceptions=True)
        await self._runner.cleanup()
        await self._session.close()

    @contextlib.contextmanager
    def fault(self, action: Action, when: When = anything, *, limit: int | None = None) -> Iterator[Fault]:
        """The action is in force within the block; `limit` bounds how often it acts."""
        fault = Fault(action, when, limit=limit)
        self._faults.append(fault)
        self._wake()
        try:
            yield fault
        finally:
            self._faults.remove(fault)
            if isinstance(action, Hold):
                action.release()
            self._wake()

    @property
    def mutations(self) -> int:
        """How many mutating requests arrived so far."""
        return self._mutations

    def reset_all(self) -> None:
        """Break every connection with a request or a watch on it, whatever it is doing."""
        for transport in tuple(self._transports):
            transport.abort()

    def reset(self, share: float, chance: random.Random) -> int:
        """Break each such connection with this probability; how many were broken."""
        chosen = [each for each in self._transports.copy() if chance.random() < share]
        for transport in chosen:
            transport.abort()
        return len(chosen)

    def sever(self) -> None:
        """Let nothing through from now on, in either direction: what a process sends after its death.

        A request that was relayed already may still be carried out, as it may be after a real death.
        """
        self._severed = True
        self.reset_all()

    def release(self) -> None:
        """End every fault that is in force, so that a graceful end can reach the server."""
        for fault in self._faults:
            fault.limit = 0
            if isinstance(fault.action, Hold):
                fault.action.release()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _note(self, request: web.Request) -> Call:
        self._calls += 1
        mutation = 0
        if request.method in MUTATING:
            self._mutations += 1
            mutation = self._mutations
        call = Call(request.method, request.path, request.query_string, self._calls, mutation)
        self.calls.append(call)
        return call

    def _fault_for(self, call: Call) -> Fault | None:
        return next((fault for fault in self._faults if fault.acts(call)), None)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        transport = cast("asyncio.WriteTransport | None", request.transport)
        if transport is None:  # gone before we looked
            return web.Response()
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._transports[transport] = None
        self._handling.add(task)
        try:
            return await self._serve(request, transport)
        finally:
            self._handling.discard(task)
            self._transports.pop(transport, None)

    async def _serve(self, request: web.Request, transport: asyncio.WriteTransport) -> web.StreamResponse:
        if self._severed:
            transport.abort()
            return web.Response()
        call = self._note(request)
        fault = self._fault_for(call)
        action = fault.action if fault else None
        if isinstance(action, Answer):
            await request.read()
            return _answer(action)
        if isinstance(action, Reset):
            transport.abort()
            return web.Response()
        if isinstance(action, Hold):
            await action.wait()
        return await self._relay(request, transport, call, lose=isinstance(action, LoseAnswer))

    async def _relay(
        self, request: web.Request, transport: asyncio.WriteTransport, call: Call, *, lose: bool
    ) -> web.StreamResponse:
        body = await request.read()
        headers = _forwarded(request.headers)
        try:
            upstream = await self._session.request(
                request.method,
                f"{self._upstream}{request.raw_path}",
                headers=headers,
                data=body or None,
                allow_redirects=False,
            )
        except aiohttp.ClientError:
            transport.abort()
            return web.Response()
        async with upstream:
            if call.mutating:
                content = await upstream.read()
                if self.after_mutation is not None:
                    await self.after_mutation(call)
                if lose:
                    transport.abort()
                    return web.Response()
                return web.Response(
                    status=upstream.status, headers=_forwarded(upstream.headers), body=content
                )
            return await self._stream(request, upstream, transport, call, lose=lose)

    async def _stream(
        self,
        request: web.Request,
        upstream: aiohttp.ClientResponse,
        transport: asyncio.WriteTransport,
        call: Call,
        *,
        lose: bool,
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status, headers=_forwarded(upstream.headers))
        await self._while_half_open(call)
        try:
            await response.prepare(request)
            async for chunk in self._chunks(upstream):
                await self._while_half_open(call)
                await response.write(chunk)
                if lose:
                    transport.abort()
                    return response
            await response.write_eof()
        except (aiohttp.ClientError, ConnectionError):
            transport.abort()
        return response

    async def _while_half_open(self, call: Call) -> None:
        while any(fault.silences(call) for fault in self._faults):
            await self._changed.wait()

    @staticmethod
    async def _chunks(upstream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        async for chunk in upstream.content.iter_any():
            yield chunk


def _answer(action: Answer) -> web.Response:
    headers = {} if action.retry_after is None else {"Retry-After": f"{action.retry_after:g}"}
    return web.Response(
        status=action.status, text=action.body, headers=headers, content_type=action.content_type
    )


def _forwarded(headers: "aiohttp.typedefs.LooseHeaders") -> CIMultiDict[str]:
    return CIMultiDict(
        (name, value) for name, value in CIMultiDict(headers).items() if name.lower() not in HOP_BY_HOP
    )
