"""The guard's HTTP: what is sent, what counts as an answer, and which connections are used again."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.access_guard.connections import (
    IDLE_S,
    LARGEST_ANSWER,
    Connections,
    NoAnswerError,
    Origin,
    Reply,
    Target,
    request_bytes,
)
from tests.support.certificates import client_certificate

pytestmark = pytest.mark.anyio

ORIGIN = Origin("id.example.com", 8080, tls=False)
ASKED = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
DEADLINE_S = 10.0


def answer(body: bytes = b"yes", status: str = "200 OK", *headers: str) -> bytes:
    """An answer of the usual form."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


END = b"<end>"
"""Behind what the server sends last before it ends the connection."""


class Server:
    """Answers each request of a connection with the next piece of the connection's script.

    Attributes:
        asked: for each connection that came, the requests on it.
        answering: nothing is answered while it is not set.
    """

    def __init__(self, scripts: Sequence[Sequence[bytes]]) -> None:
        self.asked: list[list[bytes]] = []
        self.arrived = asyncio.Condition()
        self.answering = asyncio.Event()
        self.answering.set()
        self._scripts = list(scripts)
        self._tasks: list[asyncio.Task[None] | None] = []

    async def ended(self) -> None:
        """Wait until no connection is left."""
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*filter(None, self._tasks))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script, mine = self._scripts[len(self.asked)], list[bytes]()
        self.asked.append(mine)
        self._tasks.append(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for piece in script:
                mine.append(await reader.readuntil(b"\r\n\r\n"))
                async with self.arrived:
                    self.arrived.notify_all()
                await self.answering.wait()
                writer.write(piece.removesuffix(END))
                await writer.drain()
                if piece.endswith(END):
                    break
            else:
                await reader.read()  # until the other side ends it
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def until_asked(self, count: int) -> None:
        async with self.arrived, asyncio.timeout(DEADLINE_S):
            await self.arrived.wait_for(lambda: sum(map(len, self.asked)) >= count)


@contextlib.asynccontextmanager
async def serving(*scripts: Sequence[bytes]) -> AsyncIterator[tuple[Server, Origin]]:
    served = Server(scripts)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    async with server:
        yield served, Origin("127.0.0.1", server.sockets[0].getsockname()[1], tls=False)
        await served.ended()


@contextlib.asynccontextmanager
async def connected(
    *scripts: Sequence[bytes], most: int = 10, now: Callable[[], float] | None = None
) -> AsyncIterator[tuple[Server, Callable[[], "asyncio.Task[Reply]"]]]:
    """A server with a script for each connection, and a way to ask it."""
    async with serving(*scripts) as (server, origin):
        connections = Connections(most, now) if now is not None else Connections(most)

        def ask() -> "asyncio.Task[Reply]":
            return asyncio.create_task(within(connections, origin))

        try:
            yield server, ask
        finally:
            connections.close()


async def within(connections: Connections, origin: Origin) -> Reply:
    async with asyncio.timeout(DEADLINE_S):
        return await connections.exchange(origin, ASKED)


# --- what is sent -----------------------------------------------------------------------------------


def test_a_request_is_written_as_http_has_it() -> None:
    target = Target.of("http://id.example.com:8080/realms/a?first=0")
    sent = request_bytes("POST", target, {"Authorization": "Bearer a.b.c"}, b"x=1")
    assert sent == (
        b"POST /realms/a?first=0 HTTP/1.1\r\nHost: id.example.com:8080\r\nAuthorization: Bearer a.b.c\r\n"
        b"Content-Length: 3\r\n\r\nx=1"
    )


@given(st.text(max_size=20))
def test_no_value_ends_its_line(value: str) -> None:
    plain = Target(ORIGIN, "/")
    try:
        sent = request_bytes("GET", plain, {"A": value})
    except ValueError:
        return
    assert sent == f"GET / HTTP/1.1\r\nHost: id.example.com:8080\r\nA: {value}\r\n\r\n".encode()
    assert sent.count(b"\n") == 4


@pytest.mark.parametrize("path", ["/a b", "/a\r\nB: c", "/ä", "/a\tb", "/a\x00"])
def test_a_path_that_is_none_is_not_sent(path: str) -> None:
    with pytest.raises(ValueError, match="no request may"):
        request_bytes("GET", Target(ORIGIN, path), {})


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("http://a.example.com", "a.example.com", 80, "/", "a.example.com"),
        ("https://a.example.com/x?y=%2F", "a.example.com", 443, "/x?y=%2F", "a.example.com"),
        ("https://a.example.com:8443/x", "a.example.com", 8443, "/x", "a.example.com:8443"),
        ("http://[::1]:8080/a%2Fb/../c", "::1", 8080, "/a%2Fb/../c", "[::1]:8080"),
    ],
)
def test_a_url_is_asked_for_as_it_stands(url: str, host: str, port: int, path: str, authority: str) -> None:
    target = Target.of(url)
    assert (target.origin.host, target.origin.port, target.path) == (host, port, path)
    assert target.origin.tls == url.startswith("https")
    assert target.origin.authority == authority


@pytest.mark.parametrize("url", ["", "a.example.com", "ftp://a.example.com", "http:///x", "http://a:port/"])
def test_what_is_no_url_is_an_error(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|[Pp]ort"):
        Target.of(url)


# --- what counts as an answer -----------------------------------------------------------------------

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nye\r\n1\r\ns\r\n0\r\n\r\n"
ON_THE_WAY = b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        (answer(), Reply(200, b"yes")),
        (answer(b""), Reply(200, b"")),
        (answer(b"no", "404 Not Found"), Reply(404, b"no")),
        (answer(b"", "302 Found", "Location: http://elsewhere.example.com/"), Reply(302, b"")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", Reply(204, b"")),
        (CHUNKED, Reply(200, b"yes")),
        (ON_THE_WAY + answer(), Reply(200, b"yes")),
        (answer(b"x" * LARGEST_ANSWER), Reply(200, b"x" * LARGEST_ANSWER)),
    ],
    ids=["plain", "empty", "error", "redirect", "no content", "in chunks", "after a word", "the largest"],
)
async def test_a_whole_answer_is_taken_and_its_connection_used_again(sent: bytes, reply: Reply) -> None:
    async with connected([sent, sent]) as (server, ask):
        assert await ask() == reply
        assert await ask() == reply
        assert server.asked == [[ASKED, ASKED]]


@pytest.mark.parametrize(
    "sent",
    [
        END,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nye<end>",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the connection ends<end>",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<end>",
        b"<html>",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\nother",
        answer(b"x" * (LARGEST_ANSWER + 1)),
    ],
    ids=[
        "nothing",
        "less than it said",
        "only its connection ends it",
        "half a chunk",
        "no HTTP",
        "no status",
        "two lengths",
        "length and chunks",
        "another protocol",
        "too large",
    ],
)
async def test_what_is_not_whole_or_odd_is_no_answer_and_its_connection_is_over(sent: bytes) -> None:
    async with connected([sent], [answer()]) as (server, ask):
        with pytest.raises(NoAnswerError):
            await ask()
        assert await ask() == Reply(200, b"yes")
        assert server.asked == [[ASKED], [ASKED]], "nothing was asked twice"


@given(st.binary(max_size=60), st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", answer()[:-3]]))
def test_no_bytes_of_a_server_are_anything_but_an_answer_or_none(noise: bytes, head: bytes) -> None:
    async def ask() -> None:
        async with connected([head + noise + END], [END]) as (_, asking):
            with contextlib.suppress(NoAnswerError):
                assert (await asking()).status >= 200

    asyncio.run(ask())


# --- which connections are used again ---------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        answer(b"yes", "200 OK", "Connection: close"),
        answer() + answer(b"more than was asked for"),
        answer() + b"HTTP",
    ],
    ids=["it says so", "another answer behind", "the beginning of one"],
)
async def test_a_connection_that_is_not_clean_is_not_used_again(sent: bytes) -> None:
    async with connected([sent, answer(b"wrong")], [answer(b"right")]) as (server, ask):
        assert await ask() == Reply(200, b"yes")
        assert await ask() == Reply(200, b"right")
        assert server.asked == [[ASKED], [ASKED]]


async def test_an_idle_connection_that_the_server_gave_up_costs_no_answer() -> None:
    async with connected([answer(), END], [answer(b"again")]) as (server, ask):
        assert await ask() == Reply(200, b"yes")
        assert await ask() == Reply(200, b"again")
        assert server.asked == [[ASKED, ASKED], [ASKED]]


async def test_a_connection_that_was_idle_for_long_is_not_used_again() -> None:
    moments = [0.0]
    async with connected([answer(), answer()], [answer(b"new")], now=lambda: moments[0]) as (_, ask):
        await ask()
        moments[0] += IDLE_S - 1
        assert await ask() == Reply(200, b"yes")
        moments[0] += IDLE_S
        assert await ask() == Reply(200, b"new")


async def test_half_an_answer_on_a_connection_that_was_idle_is_not_asked_for_again() -> None:
    async with connected([answer(), answer()[:-1] + END], [answer()]) as (server, ask):
        await ask()
        with pytest.raises(NoAnswerError):
            await ask()
        assert len(server.asked) == 1


async def test_whoever_leaves_leaves_no_answer_to_the_next() -> None:
    async with connected([answer(b"of others")] * 2, [answer(b"mine")]) as (server, ask):
        server.answering.clear()
        leaving = ask()
        await server.until_asked(1)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        following = ask()
        await server.until_asked(2)
        server.answering.set()
        assert await following == Reply(200, b"mine")
        assert len(server.asked) == 2


async def test_there_are_never_more_connections_than_the_bound() -> None:
    async with connected([answer(), answer(), answer()], most=1) as (server, ask):
        assert tuple(await asyncio.gather(ask(), ask(), ask())) == (Reply(200, b"yes"),) * 3
        assert len(server.asked) == 1


async def test_nobody_at_home_and_a_certificate_that_nobody_vouches_for_are_errors(tmp_path: Path) -> None:
    connections = Connections(1)
    async with serving() as (_, gone):
        pass
    with pytest.raises(ConnectionRefusedError):
        await within(connections, gone)
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(*client_certificate(tmp_path))
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=own)
    async with server:
        with pytest.raises(OSError, match="certificate"):
            await within(connections, Origin("127.0.0.1", server.sockets[0].getsockname()[1], tls=True))
