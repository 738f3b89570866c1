"""HTTP to one API server: one session, one pool, credentials that rotate, and the fence.

Verbs and paths are the caller's (`magicstick.kube.client`); here bytes go out and come in.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple

import aiohttp
from aiohttp.connector import Connection
from multidict import CIMultiDict
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from yarl import URL

from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import Unavailable
from magicstick.kube.responses import error_of
from magicstick.kube.wire import LineSplitter

Fence = Callable[[], None]
"""Raises `FenceClosed` when this process may not write now."""
Observer = Callable[[str, str, int], None]
"""Told (method, host, HTTP status or 0 for no answer) of every request."""

GET = "GET"
CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 30.0
KEEPALIVE_S = 60.0
"""Shorter than the 90 s after which API servers close an idle connection, which would be a race."""
REQUEST_LIMITS = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
ATTEMPTS = 3
MAX_PAUSE_S = 1.0
GOODBYE_S = 1.0
CLOSED = "the client is closed"


class Request(NamedTuple):
    """What is asked, by the caller's words."""

    method: str
    path: str
    query: str = ""
    data: bytes | None = None
    content_type: str | None = None
    collection: bool = False
    """Whether a 404 says that the kind is not served."""


class _Answer(NamedTuple):
    code: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """See the module.

    Guarantees: nothing that changes the server is sent while the fence is closed, nor twice, save
    after a 401 (the server has then done nothing). Reading requests that got no answer, and any that
    found no connection, are tried `ATTEMPTS` times within seconds. Bodies appear in no error.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str,
        fence: Fence,
        observer: Observer | None = None,
        limits: aiohttp.ClientTimeout = REQUEST_LIMITS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._config = config
        self._user_agent = user_agent
        self._fence = fence
        self._observer = observer
        self._limits = limits
        self._pause = pause
        self._host = URL(config.url).authority
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._streams: set[aiohttp.ClientResponse] = set()
        self._connections = _Connections()
        self._header_sets: dict[str | None, CIMultiDict[str]] = {}
        self._header_authorization: str | None = None

    async def close(self) -> None:
        """End all connections; streams that are open and requests from now on are `Unavailable`."""
        self._closed = True
        for stream in self._streams:
            # Closing its connection alone leaves the reader waiting.
            stream.content.set_exception(aiohttp.ClientConnectionError(CLOSED))
        if self._session is not None:
            await self._session.close()
            await self._connections.over(GOODBYE_S)

    async def send(self, request: Request) -> bytes:
        """The body of a successful answer.

        Raises:
            FenceClosed: not sent.
            ApiError: as the class says.
        """
        try:
            return await self._send_authorized(request)
        except Unavailable as error:
            if not _may_repeat(request, error):
                raise
        # The first repetition is immediate: most often the server had closed an idle connection.
        retrying = AsyncRetrying(
            stop=stop_after_attempt(ATTEMPTS - 1),
            wait=wait_random_exponential(multiplier=0.1, max=MAX_PAUSE_S),
            retry=retry_if_exception(lambda error: _may_repeat(request, error)),
            sleep=self._pause,
            reraise=True,
        )
        return await retrying(self._send_authorized, request)

    async def lines(self, path: str, query: str, idle_timeout_s: float) -> AsyncGenerator[bytes, None]:
        """The lines of a stream, until the server ends it. Close it (`aclosing`) when leaving early.

        Raises:
            Unavailable: the connection broke, or no byte came for `idle_timeout_s`.
            ApiError: the server refused, as the class says.
        """
        url = self._url(path, query)
        limits = aiohttp.ClientTimeout(
            total=None, connect=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_timeout_s
        )
        try:
            async with self._stream(url, limits) as response:
                splitter = LineSplitter()
                async for chunk in response.content.iter_any():
                    for line in splitter.feed(chunk):
                        yield line
        except aiohttp.SocketTimeoutError as error:
            raise Unavailable(f"watch {path}: idle, no byte for {idle_timeout_s:g} s") from error
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"watch {path}: {_say(error)}") from error

    @asynccontextmanager
    async def _stream(
        self, url: URL, limits: aiohttp.ClientTimeout
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """An open stream; once more with fresh credentials after a 401."""
        response = await self._open(GET, url, None, await self._headers(None), limits)
        if response.status == HTTPStatus.UNAUTHORIZED:
            response.release()
            headers = await self._headers(None, refused=True)
            response = await self._open(GET, url, None, headers, limits)
        async with response:
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                body = await response.read()
                raise error_of(response.status, response.headers, body, collection=True)
            self._streams.add(response)
            try:
                yield response
            finally:
                self._streams.discard(response)

    async def _send_authorized(self, request: Request) -> bytes:
        """One request; once more with fresh credentials after a 401."""
        answer = await self._exchange(request, await self._headers(request.content_type))
        if answer.code == HTTPStatus.UNAUTHORIZED:
            headers = await self._headers(request.content_type, refused=True)
            answer = await self._exchange(request, headers)
        if answer.code >= HTTPStatus.MULTIPLE_CHOICES:
            raise error_of(answer.code, answer.headers, answer.body, collection=request.collection)
        return answer.body

    async def _exchange(self, request: Request, headers: CIMultiDict[str]) -> _Answer:
        if request.method != GET:
            self._fence()  # at once, to spare a connection; the session asks again before it writes
        try:
            url = self._url(request.path, request.query)
            async with await self._open(request.method, url, request.data, headers) as response:
                return _Answer(response.status, response.headers, await response.read())
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{request.method} {request.path}: {_say(error)}") from error

    async def _open(
        self,
        method: str,
        url: URL,
        data: bytes | None,
        headers: CIMultiDict[str],
        limits: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        """Send, and receive the head of the answer."""
        code = 0
        try:
            response = await self._get_session().request(
                method,
                url,
                data=data,
                headers=headers,
                allow_redirects=False,
                ssl=self._config.tls or True,
                server_hostname=self._config.server_name,
                proxy=self._config.proxy,
                timeout=limits or self._limits,
            )
            code = response.status
            return response
        finally:
            if self._observer is not None:
                self._observer(method, self._host, code)

    def _get_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unavailable(CLOSED)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
                headers={"User-Agent": self._user_agent, "Accept": "application/json"},
                skip_auto_headers=("Accept-Encoding",),
                cookie_jar=aiohttp.DummyCookieJar(),
                request_class=_request_class(self._fence, self._connections),
            )
            # aiohttp would send a PUT or DELETE again when a kept connection broke, though the server
            # may have acted on the first.
            self._session._retry_connection = False  # noqa: SLF001 # there is no public way
        return self._session

    def _url(self, path: str, query: str) -> URL:
        return URL(f"{self._config.url}{path}?{query}" if query else self._config.url + path, encoded=True)

    async def _headers(self, content_type: str | None, *, refused: bool = False) -> CIMultiDict[str]:
        """The headers of a request; built once for each content type and credential."""
        authorization = await self._config.authorization(refused=refused)
        if authorization != self._header_authorization:
            self._header_sets.clear()
            self._header_authorization = authorization
        headers = self._header_sets.get(content_type)
        if headers is None:
            headers = self._header_sets[content_type] = CIMultiDict()
            if authorization:
                headers["Authorization"] = authorization
            if content_type:
                headers["Content-Type"] = content_type
        return headers


class _Connections:
    """The connections that are not over yet, those included that only say goodbye in TLS."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Future[None], asyncio.Transport | None] = {}

    def note(self, connection: Connection) -> None:
        """Remember a connection until it is over."""
        end = connection.protocol.closed if connection.protocol is not None else None
        if end is not None and end not in self._ends:
            self._ends[end] = connection.transport
            end.add_done_callback(self._over)

    async def over(self, timeout_s: float) -> None:
        """Wait until none is left; those that are when the time is over end without an answer."""
        if self._ends:
            await asyncio.wait(tuple(self._ends), timeout=timeout_s)
        for transport in tuple(self._ends.values()):
            if transport is not None:
                transport.abort()

    def _over(self, end: asyncio.Future[None]) -> None:
        self._ends.pop(end, None)
        if not end.cancelled():
            end.exception()  # how it ended was told to whoever used it


def _request_class(fence: Fence, connections: _Connections) -> type[aiohttp.ClientRequest]:
    """Requests that ask the fence when they have their connection, immediately before they are written."""

    class FencedRequest(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            connections.note(conn)
            if self.method != GET:
                fence()
            return await super().send(conn)

    return FencedRequest


def _may_repeat(request: Request, error: BaseException) -> bool:
    """Whether nothing was answered to a reading request, or nothing was sent of any."""
    if not isinstance(error, Unavailable) or error.code:
        return False
    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientSSLError | TimeoutError):
        return False  # a certificate will not be trusted in a second, and time was given already
    unsent = isinstance(cause, aiohttp.ClientConnectorError)
    return unsent or (request.method == GET and cause is not None)


def _say(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
