"""HTTP as cheap as it can be made, for both sides of the guard while it is measured.

Whoever asks it and whoever it asks share its processors, so what they need would be measured with it. Neither
is HTTP in full: requests and answers come whole, one at a time on a connection, and have no chunks.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = b"\r\ncontent-length:"
NO_ANSWER: Final = 0

Answering = Callable[[str, str, bytes], bytes | None]
"""From method, path with query, and head of a request to the body of a yes; None for 404."""


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(LENGTH)
    return int(rest.partition(b"\r\n")[0]) if found else 0


class _Whole(asyncio.Protocol):
    """Gathers messages until they are whole."""

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, rest = self._received.partition(HEAD_END)
        if found and len(rest) >= _length(head):
            self._received = b""
            self._take(head)

    def _take(self, head: bytes) -> None:
        raise NotImplementedError


class _Served(_Whole):
    def __init__(self, answering: Answering) -> None:
        super().__init__()
        self._answering = answering

    def _take(self, head: bytes) -> None:
        method, path, _ = head.partition(b"\r\n")[0].decode().split(" ")
        body = self._answering(method, path, head)
        status = b"404 Not Found" if body is None else b"200 OK"
        length = b"Content-Length: %d" % len(body or b"")
        self._transport.write(b"HTTP/1.1 " + status + b"\r\n" + length + HEAD_END + (body or b""))


async def serve(answering: Answering, host: str, port: int) -> None:
    """Answer until cancelled."""
    server = await asyncio.get_running_loop().create_server(lambda: _Served(answering), host, port)
    await server.serve_forever()


class _Asking(_Whole):
    def ask(self, request: bytes) -> "asyncio.Future[int]":
        self._answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answered

    def _take(self, head: bytes) -> None:
        self._answered.set_result(int(head.split(b" ", 2)[1]))

    def connection_lost(self, _: Exception | None) -> None:
        if not self._answered.done():
            self._answered.set_result(NO_ANSWER)


class Asker:
    """Asks one server, on so many connections as a gateway would have."""

    def __init__(self, host: str, port: int, most: int) -> None:
        self._host, self._port = host, port
        self._places = asyncio.Semaphore(most)
        self._idle: deque[_Asking] = deque()

    async def ask(self, path: str, token: str) -> int:
        """The status of the answer; `NO_ANSWER` where the connection ended without one."""
        head = f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\nAuthorization: Bearer {token}"
        async with self._places:
            connection = self._idle.pop() if self._idle else await self._connect()
            status = await connection.ask(head.encode() + HEAD_END)
            if status != NO_ANSWER:
                self._idle.append(connection)
            return status

    async def _connect(self) -> _Asking:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(_Asking, self._host, self._port)
        return connection
