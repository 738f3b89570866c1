"""HTTP to the identity provider.

Guarantees: answers are bounded in size; redirects are not followed, since they would carry tokens elsewhere;
no error holds anything of a request or an answer, since both may hold tokens.

Assumes that whoever asks bounds the time, as `guard` does for every fact.
"""

from http import HTTPStatus
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from magicstick.access_guard.connections import Connections, NoAnswerError, Target, request_bytes
from magicstick.kube.wire import decoder_of

T = TypeVar("T")

CONNECTIONS: Final = 100
FORM: Final = "application/x-www-form-urlencoded"


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
            return decoder_of(type_).decode(self.expect(what))
        except (msgspec.DecodeError, RecursionError):
            raise IdentityUnavailableError(f"{what}: the answer is not as it must be") from None


class Provider:
    """Connections to wherever it is asked. Use as a context."""

    async def __aenter__(self) -> Self:
        self._connections = Connections(CONNECTIONS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.close()

    async def get(self, url: str, token: str = "") -> Answer:
        """GET, with a bearer token where one is given.

        Raises:
            IdentityUnavailableError: no answer came.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return await self._request("GET", url, headers)

    async def post(self, url: str, form: dict[str, str]) -> Answer:
        """POST of a form.

        Raises:
            IdentityUnavailableError: no answer came.
        """
        return await self._request("POST", url, {"Content-Type": FORM}, urlencode(form).encode())

    async def _request(self, method: str, url: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        try:
            target = Target.of(url)
            request = request_bytes(method, target, {"Accept": "application/json", **headers}, body)
            return Answer(*await self._connections.exchange(target.origin, request))
        except NoAnswerError as error:
            raise IdentityUnavailableError(str(error)) from None
        except (OSError, ValueError) as error:
            raise IdentityUnavailableError(type(error).__name__) from None
