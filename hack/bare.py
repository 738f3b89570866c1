"""A bare asyncio client: the yardstick of the measurements, and the hands of actors and tests.

It shares no code with the operator and decides nothing. aiohttp and msgspec are what the operator uses
as well,
so that the difference is what watching, deciding and comparing cost.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec
import tenacity
from yarl import URL

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
MANAGER = "bare"
GOODBYE_S = 10.0
"""So long is waited for the ends of streams: their sockets must not outlive the event loop."""
T = TypeVar("T")


class RefusedError(RuntimeError):
    """An answer from 400 up."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _asks_to_wait(error: BaseException) -> bool:
    return isinstance(error, RefusedError) and error.code == HTTPStatus.TOO_MANY_REQUESTS


class BareClient:
    """Requests with a token over TLS; raises RefusedError for any answer from 400 up."""

    def __init__(self, url: str, ca_file: Path, token: str, *, user_agent: str = "bare") -> None:
        self._url = url.rstrip("/")
        self._ca_file = ca_file
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": user_agent}
        self._ends: set[asyncio.Future[None]] = set()
        """Of the connections of streams; those that were left in the middle say goodbye on their own."""

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context(cafile=str(self._ca_file))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0), headers=self._headers
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        if self._ends:
            await asyncio.wait(self._ends, timeout=GOODBYE_S)

    async def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> bytes:
        """One request; the body of the answer."""
        async with self._session.request(
            method,
            URL(self._url + path, encoded=True),
            data=None if body is None else msgspec.json.encode(body),
            headers={"Content-Type": content_type},
        ) as response:
            answer = await response.read()
            if response.status >= HTTPStatus.BAD_REQUEST:
                said = answer[:300].decode(errors="replace")
                raise RefusedError(response.status, f"{method} {path}: {response.status} {said}")
            return answer

    async def create(self, path: str, body: Any) -> bytes:
        """POST of one object."""
        return await self.send("POST", path, body)

    async def apply(self, path: str, body: Any, *, manager: str = MANAGER) -> bytes:
        """Server-side apply, forced, with strict field validation."""
        query = f"?fieldManager={manager}&force=true&fieldValidation=Strict"
        return await self.send("PATCH", path + query, body, content_type=APPLY)

    async def merge(self, path: str, body: Any) -> bytes:
        """Merge patch."""
        return await self.send("PATCH", path, body, content_type=MERGE)

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch, until the caller stops."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(URL(self._url + path, encoded=True), timeout=timeout) as response:
            self._note(response)
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    def _note(self, response: aiohttp.ClientResponse) -> None:
        protocol = response.connection.protocol if response.connection is not None else None
        end = protocol.closed if protocol is not None else None
        if end is not None and end not in self._ends:
            self._ends.add(end)
            end.add_done_callback(self._over)

    def _over(self, end: asyncio.Future[None]) -> None:
        self._ends.discard(end)
        if not end.cancelled():
            end.exception()  # how it ended does not matter to anybody

    @tenacity.retry(
        retry=tenacity.retry_if_exception(_asks_to_wait),
        wait=tenacity.wait_fixed(0.2),
        stop=tenacity.stop_after_delay(10),
        reraise=True,
    )
    async def get(self, path: str) -> Any:
        """GET, decoded. Asked again while the server asks to wait, as it does for a kind that is new."""
        return msgspec.json.decode(await self.send("GET", path))

    async def find(self, path: str) -> Any | None:
        """GET, decoded; None when the server says that it is not there."""
        try:
            return await self.get(path)
        except RefusedError as refused:
            if refused.code == HTTPStatus.NOT_FOUND:
                return None
            raise


async def spread(
    items: Sequence[T], work: Callable[[T], Awaitable[object]], *, concurrency: int
) -> list[float]:
    """`work` on every item, `concurrency` at a time; the seconds each took, in the order of ending."""
    waiting = iter(items)
    took: list[float] = []

    async def worker(mine: Iterable[T]) -> None:
        for item in mine:
            begun = time.perf_counter()
            await work(item)
            took.append(time.perf_counter() - begun)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker(waiting))
    return took
