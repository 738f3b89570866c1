"""HTTP/1.1 as far as the guard needs it: short requests, and answers that are taken whole.

Each question costs up to three of them, and what a general client does for a request was more than half of
the guard's processor time. Parsing is the library's (`httptools`, the parser of Node.js); here are the bytes
of a request, the end of an answer, and connections that are used again.

Guarantees: nothing is written into a request that would end a line. An answer is whole, or there is none: one
that only ends with its connection is none, since nobody could tell whether it is whole, nor is one above the
bound. A connection is used for one request at a time, and never again after anything odd, so that no answer
is taken for that to another request.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

LARGEST_ANSWER: Final = 1024 * 1024
IDLE_S: Final = 30.0
"""Less than after which servers close a connection that nobody uses."""
FINAL: Final = 200
"""From this status on it is an answer; before, a word on the way to one."""
MOST_TARGETS: Final = 4096
"""So many URLs are remembered taken apart: the same people come again and again."""
PORTS: Final = {"http": 80, "https": 443}


class NoAnswerError(Exception):
    """No whole answer came. The message holds nothing of request or answer."""


class _StaleError(NoAnswerError):
    """The connection ended before a byte of the answer came, as one does that the server had given up."""


class Reply(NamedTuple):
    """Status and body, whatever they are."""

    status: int
    body: bytes


class Origin(NamedTuple):
    """A server."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


class Target(NamedTuple):
    """A server, and what is asked of it."""

    origin: Origin
    path: str
    """With its query."""

    @staticmethod
    @lru_cache(maxsize=MOST_TARGETS)
    def of(url: str) -> "Target":
        """What a URL names.

        Raises:
            ValueError: it is no URL for HTTP.
        """
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("no URL for HTTP")
        origin = Origin(parts.hostname, parts.port or PORTS[parts.scheme], parts.scheme == "https")
        query = f"?{parts.query}" if parts.query else ""
        return Target(origin, (parts.path or "/") + query)


def request_bytes(method: str, target: Target, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A request as it is sent.

    Raises:
        ValueError: something would end its line, or is no ASCII.
    """
    length = {"Content-Length": str(len(body))} if body else {}
    fields = {"Host": target.origin.authority, **headers, **length}
    lines = [f"{method} {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if not all(line.isascii() and line.isprintable() for line in lines) or " " in target.path:
        raise ValueError("a request holds what no request may")
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection(asyncio.Protocol):
    """One connection, which calls `ended` when it is over."""

    def __init__(self, ended: Callable[["_Connection"], None]) -> None:
        self.usable = False
        self.idle_since = 0.0
        self._ended = ended
        self._waiting: asyncio.Future[Reply] | None = None
        self._body = bytearray()
        self._begun = False

    def ask(self, request: bytes) -> asyncio.Future[Reply]:
        """Send a request; the answer that comes. At most one at a time."""
        self._parser = httptools.HttpResponseParser(self)
        self._begun = False
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def close(self) -> None:
        """Never use it again."""
        self.usable = False
        self._transport.abort()

    # -- asyncio.Protocol ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        if self._waiting is None or self._waiting.done():  # nobody has asked for this
            self.close()
            return
        self._begun = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):  # too large is a callback's error
            self._fail(NoAnswerError("the answer is no HTTP, or too large"))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self.usable = False
        reason = "the connection ended" if exc is None else type(exc).__name__
        self._fail(NoAnswerError(reason) if self._begun else _StaleError(reason))
        self._ended(self)

    # -- httptools -------------------------------------------------------------------------------------

    def on_body(self, body: bytes) -> None:
        """A part of the body came."""
        self._body += body
        if len(self._body) > LARGEST_ANSWER:
            raise ValueError("too large")

    def on_message_begin(self) -> None:
        """An answer begins, and what came before it was none yet."""
        self._body.clear()
        if self._waiting is None or self._waiting.done():  # one more than was asked for
            self.close()

    def on_message_complete(self) -> None:
        """An answer is whole, or was a word on the way to one."""
        status = self._parser.get_status_code()
        if status >= FINAL and self._waiting is not None and not self._waiting.done():
            self.usable = self._parser.should_keep_alive()
            self._waiting.set_result(Reply(status, bytes(self._body)))

    def _fail(self, error: NoAnswerError) -> None:
        self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)


@cache
def believed_by_the_system() -> ssl.SSLContext:
    """Certificates of the authorities that this machine knows."""
    return ssl.create_default_context()


class Connections:
    """Connections to some servers, so many to each at a time. `close` ends them."""

    def __init__(
        self,
        most: int,
        now: Callable[[], float] = time.monotonic,
        *,
        tls: Callable[[], ssl.SSLContext | None] = believed_by_the_system,
        server_name: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Both are asked for each new connection, where the URL wants TLS.

        Args:
            most: connections to one server; who finds all of them in use waits.
            now: a clock that only goes forward.
            tls: whom to believe, and as whom to come.
            server_name: the name that the certificate has, where it is not the host's.
        """
        self._most, self._now, self._tls, self._server_name = most, now, tls, server_name
        self._places: dict[Origin, asyncio.Semaphore] = {}
        self._idle: dict[Origin, deque[_Connection]] = {}
        self._all: set[_Connection] = set()

    async def exchange(self, origin: Origin, request: bytes) -> Reply:
        """The answer to a request; sent once more where a connection was over that had been idle.

        Raises:
            NoAnswerError: there is none.
            OSError: nobody listens there, or the certificate cannot be believed.
        """
        async with self._places.setdefault(origin, asyncio.Semaphore(self._most)):
            known = self._known(origin)
            if known is not None:
                try:
                    return await self._exchange(origin, known, request)
                except _StaleError:
                    pass
            return await self._exchange(origin, await self._connect(origin), request)

    def close(self) -> None:
        """End all connections."""
        for connection in tuple(self._all):
            connection.close()

    async def _exchange(self, origin: Origin, connection: _Connection, request: bytes) -> Reply:
        done = False
        try:
            answer = await connection.ask(request)
            done = True
            return answer
        finally:
            if done and connection.usable:
                connection.idle_since = self._now()
                self._idle.setdefault(origin, deque()).append(connection)
            else:
                connection.close()

    def _known(self, origin: Origin) -> _Connection | None:
        """The connection that was used last, if it may still be used."""
        idle, now = self._idle.get(origin), self._now()
        while idle:
            connection = idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_S:
                return connection
            connection.close()
        return None

    async def _connect(self, origin: Origin) -> _Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._all.discard),
            origin.host,
            origin.port,
            ssl=self._tls() if origin.tls else None,
            server_hostname=self._server_name() if origin.tls else None,
        )
        self._all.add(connection)
        return connection
