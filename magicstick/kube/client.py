"""JSON verbs on any kind, and watches.

Guarantees: every mutating request passes the fence immediately before it is sent; no mutating request
is ever sent twice (save once more after a 401, which the server has refused before acting); a request
body never appears in an error. Reading requests are repeated a few times when no answer came.

Assumes one event loop. A write that failed with `Unavailable` may have been applied.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast
from urllib.parse import urlencode

import aiohttp
import msgspec
from multidict import CIMultiDict
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from yarl import URL

from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import ApiError, TooManyRequests, Unavailable
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.responses import Status, error_of, of_status, status_of

V = TypeVar("V", bound=View)
Body = Mapping[str, Any]
Fence = Callable[[], None]
Observer = Callable[[str, str, int], None]
"""Told (method, host, HTTP status or 0) of every answer."""

REQUEST_TIMEOUT_S = 30.0
PAGE_SIZE = 500
READ_ATTEMPTS = 3
IDLE_TIMEOUT_S = 72.0
"""A stream that is silent for so long is dead: the server sends a bookmark about each minute."""

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ListPage(msgspec.Struct, Generic[V], frozen=True):
    """One page of a list."""

    metadata: ListMeta
    items: list[V]

    @property
    def resource_version(self) -> str:
        """The version of the whole list, the same on every page."""
        return self.metadata.resource_version


class WatchEvent(msgspec.Struct, Generic[V], frozen=True):
    """ADDED, MODIFIED, DELETED or BOOKMARK, with the object in the reader's view."""

    type: str
    object: V


class _RawEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_raw_event = msgspec.json.Decoder(_RawEvent)
_watch_status = msgspec.json.Decoder(Status)
_encode = msgspec.json.Encoder().encode
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def _decoder(type_: object) -> msgspec.json.Decoder[Any]:
    """Decoders are built once per type."""
    found = _decoders.get(type_)
    if found is None:
        found = _decoders[type_] = msgspec.json.Decoder(cast("type[Any]", type_))
    return found


def _no_fence() -> None:
    """The fence of a process that may always write."""


class Client:
    """See the module's docstring."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str,
        field_manager: str,
        fence: Fence = _no_fence,
        observer: Observer | None = None,
    ) -> None:
        self._config = config
        self._user_agent = user_agent
        self.field_manager = field_manager
        self._fence = fence
        self._observer = observer
        self._host = URL(config.url).authority
        self._apply_query = urlencode(
            {"fieldManager": field_manager, "force": "true", "fieldValidation": "Strict"}
        )
        self._write_query = urlencode({"fieldManager": field_manager, "fieldValidation": "Strict"})
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- verbs -------------------------------------------------------------------------------------

    async def get(self, kind: Kind, key: ObjectKey, *, view: type[V] = Resource) -> V:  # type: ignore[assignment] # mypy: default of a type variable
        """One object.

        Raises:
            NotFound: it does not exist.
            ApiError: as the class says.
        """
        body = await self._read(kind.path(key.namespace, key.name), "", collection=False)
        return cast("V", _decoder(view).decode(body))

    async def pages(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        view: type[V] = Resource,  # type: ignore[assignment] # mypy: default of a type variable
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        resource_version: str | None = None,
    ) -> AsyncIterator[ListPage[V]]:
        """The pages of a list, which is complete only when the iterator ends without an error.

        Raises:
            KindNotServed: the kind is not there.
            Gone: the list took longer than the server keeps its version; start again.
        """
        decoder = _decoder(ListPage[view])  # type: ignore[valid-type] # the type is made at run time
        query = _selectors(label_selector, field_selector)
        query["limit"] = str(page_size)
        if resource_version is not None:
            query["resourceVersion"] = resource_version
        while True:
            body = await self._read(kind.path(namespace), urlencode(query), collection=True)
            page = cast("ListPage[V]", decoder.decode(body))
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_
            query.pop("resourceVersion", None)

    async def create(self, kind: Kind, body: Body) -> Resource:
        """POST, with strict field validation.

        Raises:
            AlreadyExists: an object of this name is there.
        """
        namespace = body["metadata"].get("namespace", "")
        answer = await self._write("POST", kind.path(namespace), self._write_query, JSON, body)
        return _resource(answer)

    async def apply(
        self, kind: Kind, body: Body, *, subresource: str | None = None, force: bool = True
    ) -> Resource:
        """Server-side apply as our field manager, with strict field validation.

        A `metadata.uid` in the body makes it a precondition: an object that was replaced meanwhile
        answers `Conflict` instead of being taken over.
        """
        metadata = body["metadata"]
        path = kind.path(metadata.get("namespace", ""), metadata["name"], subresource)
        query = self._apply_query if force else self._write_query
        return _resource(await self._write("PATCH", path, query, APPLY, body))

    async def merge_patch(
        self, kind: Kind, key: ObjectKey, body: Body, *, subresource: str | None = None
    ) -> Resource:
        """JSON merge patch. A `metadata.resourceVersion` in the body makes it conditional."""
        path = kind.path(key.namespace, key.name, subresource)
        return _resource(await self._write("PATCH", path, self._write_query, MERGE_PATCH, body))

    async def json_patch(self, kind: Kind, key: ObjectKey, operations: Sequence[Body]) -> Resource:
        """JSON patch; a failed `test` answers `Invalid`."""
        path = kind.path(key.namespace, key.name)
        return _resource(await self._write("PATCH", path, self._write_query, JSON_PATCH, operations))

    async def replace(self, kind: Kind, body: Body) -> Resource:
        """PUT. A `metadata.resourceVersion` in the body makes it conditional."""
        metadata = body["metadata"]
        path = kind.path(metadata.get("namespace", ""), metadata["name"])
        return _resource(await self._write("PUT", path, self._write_query, JSON, body))

    async def delete(
        self,
        kind: Kind,
        key: ObjectKey,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
    ) -> Resource | None:
        """Delete, if the preconditions hold.

        Returns:
            The object where it lives on until its finalizers are gone, None where it is gone.

        Raises:
            NotFound: it is not there.
            Conflict: a precondition does not hold.
        """
        conditions = {
            name: value
            for name, value in (("uid", uid), ("resourceVersion", resource_version))
            if value is not None
        }
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        body = {**options, "preconditions": conditions} if conditions else options
        answer = await self._write("DELETE", kind.path(key.namespace, key.name), "", JSON, body)
        return None if status_of(answer) is not None else _resource(answer)

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        view: type[V] = Resource,  # type: ignore[assignment] # mypy: default of a type variable
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        send_initial_events: bool = False,
        timeout_s: float,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
    ) -> AsyncIterator[WatchEvent[V]]:
        """Events after `resource_version`, bookmarks included, until the server ends the stream.

        With `send_initial_events` all existing objects come first, as ADDED events, ended by a bookmark
        annotated `k8s.io/initial-events-end`; a server without that feature answers `Invalid`.

        Raises:
            Gone: the version is too old.
            Unavailable: the connection broke, or no byte came for `idle_timeout_s`.
            ApiError: as the class says; ERROR events too.
        """
        query = _selectors(label_selector, field_selector)
        query |= {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(int(timeout_s))}
        if resource_version:
            query["resourceVersion"] = resource_version
        if send_initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        decoder = _decoder(view)
        async for line in self._lines(kind.path(namespace), urlencode(query), idle_timeout_s):
            event = _raw_event.decode(line)
            if event.type == "ERROR":
                raise of_status(0, {}, _watch_status.decode(event.object), collection=True)
            yield WatchEvent(event.type, cast("V", decoder.decode(event.object)))

    # -- transport ---------------------------------------------------------------------------------

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._config.tls or True, limit=0, keepalive_timeout=90)
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={"User-Agent": self._user_agent, "Accept": JSON},
                skip_auto_headers=("Accept-Encoding",),
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _url(self, path: str, query: str) -> URL:
        return URL(f"{self._config.url}{path}?{query}" if query else self._config.url + path, encoded=True)

    async def _headers(self, content_type: str | None, *, fresh: bool = False) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict()
        authorization = await self._config.authorization(fresh=fresh)
        if authorization:
            headers["Authorization"] = authorization
        if content_type:
            headers["Content-Type"] = content_type
        return headers

    async def _read(self, path: str, query: str, *, collection: bool) -> bytes:
        """GET, repeated when no answer came; the server's own wish to wait is left to the caller."""
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(READ_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=1),
            retry=retry_if_exception(_no_answer),
            reraise=True,
        ):
            with attempt:
                return await self._request("GET", path, query, None, None, collection=collection)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _write(self, method: str, path: str, query: str, content_type: str, body: object) -> bytes:
        data = _encode(body)
        return await self._request(method, path, query, content_type, data, collection=method == "POST")

    async def _request(
        self,
        method: str,
        path: str,
        query: str,
        content_type: str | None,
        data: bytes | None,
        *,
        collection: bool,
    ) -> bytes:
        """One request; once more with fresh credentials after a 401."""
        url = self._url(path, query)
        code, headers, body = await self._exchange(method, url, data, await self._headers(content_type))
        if code == HTTPStatus.UNAUTHORIZED:
            fresh = await self._headers(content_type, fresh=True)
            code, headers, body = await self._exchange(method, url, data, fresh)
        if code >= HTTPStatus.BAD_REQUEST:
            raise error_of(code, headers, body, collection=collection)
        return body

    async def _exchange(
        self, method: str, url: URL, data: bytes | None, headers: CIMultiDict[str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        if method != "GET":
            self._fence()
        code = 0
        try:
            async with self._open().request(
                method, url, data=data, headers=headers, allow_redirects=False
            ) as response:
                code = response.status
                return code, response.headers, await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{method} {url.path}: {type(error).__name__}: {error}", code=0) from error
        finally:
            if self._observer is not None:
                self._observer(method, self._host, code)

    async def _lines(self, path: str, query: str, idle_timeout_s: float) -> AsyncIterator[bytes]:
        """The lines of a stream, however long they are and however the network splits them."""
        url = self._url(path, query)
        timeout = aiohttp.ClientTimeout(total=None, connect=REQUEST_TIMEOUT_S, sock_read=idle_timeout_s)
        for fresh in (False, True):
            headers = await self._headers(None, fresh=fresh)
            try:
                async with self._open().request(
                    "GET", url, headers=headers, timeout=timeout, allow_redirects=False
                ) as response:
                    if self._observer is not None:
                        self._observer("GET", self._host, response.status)
                    if response.status == HTTPStatus.UNAUTHORIZED and not fresh:
                        continue
                    if response.status >= HTTPStatus.BAD_REQUEST:
                        raise error_of(
                            response.status, response.headers, await response.read(), collection=True
                        )
                    async for line in _split(response.content):
                        yield line
                    return
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                raise Unavailable(f"watch {path}: {type(error).__name__}: {error}", code=0) from error


async def _split(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Complete lines. A line that the stream's end cuts off is dropped: its event comes again."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            piece = chunk[start:end]
            line = b"".join((*parts, piece)) if parts else piece
            parts.clear()
            start = end + 1
            if line:
                yield line
        if start < len(chunk):
            parts.append(chunk[start:])


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def _resource(body: bytes) -> Resource:
    return cast("Resource", _decoder(Resource).decode(body))


def _no_answer(error: BaseException) -> bool:
    """Whether a reading request may simply be repeated: nothing was answered at all."""
    return isinstance(error, Unavailable) and not isinstance(error, TooManyRequests) and error.code == 0


__all__ = [
    "ApiError",
    "Client",
    "ListPage",
    "WatchEvent",
]
