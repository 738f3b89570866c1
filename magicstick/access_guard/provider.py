"""HTTP to the identity provider.

Guarantees: bounded in time and size; redirects are not followed, since they would carry tokens elsewhere;
no error holds anything of a request or an answer, since both may hold tokens.
"""

from http import HTTPStatus
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

import aiohttp
import msgspec
from yarl import URL

T = TypeVar("T")

TIMEOUT_S: Final = 5.0
LARGEST_ANSWER: Final = 1024 * 1024
CONNECTIONS: Final = 100
KEEPALIVE_S: Final = 30.0


class IdentityUnavailableError(Exception):
    """The identity provider said nothing that can be used. The message is for people, and holds no value."""


class Answer(NamedTuple):
    """Status and body, whatever they are."""

    status: int
    body: bytes

    def expect(self, what: str) -> bytes:
        """The body of a success.

        Raises:
            IdentityUnavailableError: it is none.
        """
        if self.status != HTTPStatus.OK:
            raise IdentityUnavailableError(f"{what}: HTTP {self.status}")
        return self.body

    def read(self, type_: type[T], what: str) -> T:
        """The content of a success.

        Raises:
            IdentityUnavailableError: it is none, or not as it must be.
        """
        try:
            return msgspec.json.decode(self.expect(what), type=type_)
        except (msgspec.DecodeError, RecursionError):
            raise IdentityUnavailableError(f"{what}: the answer is not as it must be") from None


class Provider:
    """One session. Use as a context."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=self._timeout,
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, keepalive_timeout=KEEPALIVE_S),
            headers={"Accept": "application/json"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def get(self, url: str, token: str = "") -> Answer:
        """GET, with a bearer token where one is given.

        Raises:
            IdentityUnavailableError: no answer came.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return await self._request("GET", url, headers=headers)

    async def post(self, url: str, form: dict[str, str]) -> Answer:
        """POST of a form.

        Raises:
            IdentityUnavailableError: no answer came.
        """
        return await self._request("POST", url, form=form)

    async def _request(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        form: dict[str, str] | None = None,
    ) -> Answer:
        try:
            async with self._session.request(
                method, URL(url, encoded=True), headers=headers, data=form, allow_redirects=False
            ) as response:
                return Answer(response.status, await _body(response))
        except TimeoutError:
            raise IdentityUnavailableError("no answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise IdentityUnavailableError(type(error).__name__) from None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    read = bytearray()
    async for chunk in response.content.iter_any():
        read += chunk
        if len(read) > LARGEST_ANSWER:
            raise IdentityUnavailableError(f"an answer is larger than {LARGEST_ANSWER} bytes")
    return bytes(read)
