"""LiteLLM over HTTP: the five calls that the catalog makes (spec: companions §1.2).

Guarantees: bounded in time and size; a call that may be made twice is repeated a few times, as far as
`Retry-After` allows; the fence is asked right before each call that changes something; no error holds
anything of a request or an answer, since both may hold keys; redirects are not followed, since they would
carry the master key elsewhere.

Failure modes: a call that ended with `Unreachable` may have been carried out.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import aiohttp
import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from magicstick.model_catalog.inventory import Deployment, UnreadableInventoryError, deployments
from magicstick.model_catalog.values import Object
from magicstick.runtime.clock import SleepingClock
from magicstick.runtime.logs import Secret

TIMEOUT_S: Final = 20.0
LARGEST_ANSWER: Final = 32 * 1024 * 1024
ATTEMPTS: Final = 3
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 10.0
"""A server that asks for more patience is left alone for this pass."""
SUCCESS: Final = frozenset({HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED})
NO_SUCH_CALL: Final = b'"detail":"notfound"'
"""What LiteLLM's web framework answers for a path that it does not know, without spaces, in lower case."""


NOTHING_LOADED: Final = b"llmmodellistnotloaded"
"""What LiteLLM answers with 500 as long as it knows no model at all, told in the same way."""


class LiteLlmError(Exception):
    """A call did not succeed. The message is for people and holds no value."""


class NotLoaded(LiteLlmError):
    """LiteLLM has loaded no models: it has none, or it is being started and has not looked yet."""


class MissingMasterKeyError(LiteLlmError):
    """No call was made."""


class Refused(LiteLlmError):
    """LiteLLM said no, and will again until something changes."""


class UnreadableAnswer(LiteLlmError):
    """LiteLLM, or whatever answers in its place, said something that is not understood."""


class Unreachable(LiteLlmError):
    """No usable answer; `answered` where a server said so itself, and `retry_after_s` as it asked."""

    def __init__(self, message: str, *, answered: bool = False, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.answered = answered
        self.retry_after_s = retry_after_s


class _NoSuchCall(Refused):
    """This LiteLLM does not know the call."""


class LiteLlm:
    """One LiteLLM. Use as a context; see the module."""

    def __init__(
        self,
        base_url: str,
        master_key: Secret,
        clock: SleepingClock,
        *,
        fence: Callable[[], None] = lambda: None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._base = base_url.rstrip("/")
        self._key = master_key
        self._clock = clock
        self._fence = fence
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._patches: bool | None = None
        """Whether it knows PATCH; None until it was tried, and again after it was away."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def inventory(self) -> tuple[Deployment, ...]:
        """All deployments.

        Raises:
            NotLoaded: it knows none, which is no proof that there is none.
            UnreadableAnswer: the answer is no list of models; it says nothing of what there is.
            LiteLlmError: as the class says.
        """
        try:
            answer = await self._repeatedly("GET", "/model/info")
        except Unreachable:
            self._patches = None
            raise
        try:
            return deployments(msgspec.json.decode(answer or b"{}"))
        except (msgspec.DecodeError, UnreadableInventoryError, RecursionError):
            raise UnreadableAnswer("the answer to GET /model/info is no list of models") from None

    async def create(self, body: Object) -> None:
        """Add a deployment. Never sent twice."""
        await self._send("POST", "/model/new", body)

    async def update(self, deployment_id: str, body: Object) -> None:
        """Change a deployment; fields that the body lacks stay as they are."""
        if self._patches is not False:
            try:
                await self._repeatedly("PATCH", f"/model/{quote(deployment_id, safe='')}/update", body)
            except _NoSuchCall:
                self._patches = False
            else:
                self._patches = True
                return
        await self._repeatedly("POST", "/model/update", body)

    async def delete(self, deployment_id: str) -> None:
        """Remove a deployment."""
        await self._repeatedly("POST", "/model/delete", {"id": deployment_id})

    async def _repeatedly(self, method: str, path: str, body: Object | None = None) -> bytes:
        """For calls that may be made twice."""
        retrying = AsyncRetrying(
            sleep=self._clock.sleep,
            stop=stop_after_attempt(ATTEMPTS),
            wait=_wait_s,
            retry=retry_if_exception(_passes_soon),
            reraise=True,
        )
        return await retrying(self._send, method, path, body)

    async def _send(self, method: str, path: str, body: Object | None = None) -> bytes:
        if not self._key.get_secret_value():
            raise MissingMasterKeyError("LITELLM_MASTER_KEY is not set")
        if method != "GET":
            self._fence()
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self._key.get_secret_value()}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        what = f"{method} {path.partition('/update')[0] if method == 'PATCH' else path}"
        try:
            async with self._session.request(
                method, self._base + path, data=data, headers=headers, allow_redirects=False
            ) as response:
                return _judged(what, response.status, response.headers, await _body(response))
        except TimeoutError:
            raise Unreachable(f"{what}: no answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(f"{what}: {type(error).__name__}") from None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The whole answer.

    Raises:
        UnreadableAnswer: it is larger than any list of models.
    """
    read = bytearray()
    async for chunk in response.content.iter_any():
        read += chunk
        if len(read) > LARGEST_ANSWER:
            raise UnreadableAnswer(f"the answer is larger than {LARGEST_ANSWER} bytes")
    return bytes(read)


def _judged(what: str, status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """The body of a success. The status alone is told of anything else."""
    if status in SUCCESS:
        return body
    said, begins = f"{what}: HTTP {status}", b"".join(body[:200].split()).lower()
    if status == HTTPStatus.INTERNAL_SERVER_ERROR and NOTHING_LOADED in begins:
        raise NotLoaded("has loaded no models")
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Unreachable(said, answered=True, retry_after_s=_retry_after_s(headers.get("Retry-After", "")))
    unknown = status == HTTPStatus.NOT_FOUND and NO_SUCH_CALL in begins
    if unknown or status == HTTPStatus.METHOD_NOT_ALLOWED:
        raise _NoSuchCall(said)
    raise Refused(said)


def _retry_after_s(value: str) -> float:
    """The seconds that a server asks for; a date counts as nothing."""
    return float(value) if value.isascii() and value.isdigit() and len(value) < len("100000") else 0.0


def _passes_soon(error: BaseException) -> bool:
    return isinstance(error, Unreachable) and error.retry_after_s <= LONGEST_WAIT_S


def _wait_s(state: RetryCallState) -> float:
    """What the server asks for, or a little longer each time."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.retry_after_s if isinstance(error, Unreachable) else 0.0
    return max(asked_s, FIRST_WAIT_S * float(2 ** (state.attempt_number - 1)))
