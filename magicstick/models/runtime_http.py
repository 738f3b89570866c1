"""HTTP to the runtimes of models: what is asked of a Pod may be slow, broken or hostile.

Guarantees: each request is bounded in time and each answer in size; redirects are not followed, so that
nobody is asked but the Pod; no cookie, proxy or compression comes in between; no connection outlives its
request, since an address may be another Pod's next; the fence is asked right before each call that
changes something; no error holds anything of an answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import aiohttp
import msgspec

from magicstick.kube.errors import FenceClosed
from magicstick.runtime.clock import SleepingClock, within

TIMEOUT_S: Final = 5.0
"""For one request, its connection included (spec: models §2)."""
LARGEST_ANSWER: Final = 1 << 20


class NoAnswer(Exception):
    """There was no answer that says anything. The message is for people."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    body: bytes

    @property
    def succeeded(self) -> bool:
        """Whether the server says that it did what it was asked."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def fields(self) -> Mapping[str, object] | None:
        """The JSON object in the body; None where there is none."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class RuntimeHttp:
    """Use as a context; see the module."""

    def __init__(
        self, clock: SleepingClock, *, fence: Callable[[], None], timeout_s: float = TIMEOUT_S
    ) -> None:
        self._clock = clock
        self._fence = fence
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            # How many may ask at a time is decided before the clock of a request starts.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, url: str) -> Answer:
        """What a GET brings.

        Raises:
            NoAnswer: nothing, in time.
        """
        return await self._bounded("GET", url, None)

    async def post(self, url: str, body: Mapping[str, object]) -> Answer:
        """What a POST brings. It may have been carried out although there was no answer.

        Raises:
            NoAnswer: nothing, in time; or this process may change nothing now.
        """
        try:
            self._fence()
        except FenceClosed:
            raise NoAnswer("another process leads") from None
        return await self._bounded("POST", url, body)

    async def _bounded(self, method: str, url: str, body: Mapping[str, object] | None) -> Answer:
        try:
            return await within(self._clock, self._timeout_s, self._send(method, url, body))
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(type(error).__name__) from None

    async def _send(self, method: str, url: str, body: Mapping[str, object] | None) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        async with self._session.request(
            method, url, data=data, headers=headers, allow_redirects=False
        ) as response:
            read = bytearray()
            async for chunk in response.content.iter_any():
                read += chunk
                if len(read) > LARGEST_ANSWER:
                    raise NoAnswer(f"the answer is larger than {LARGEST_ANSWER} bytes")
            return Answer(response.status, bytes(read))
