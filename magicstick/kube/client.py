"""JSON verbs on any kind, and watches.

Guarantees: every mutating request passes the fence immediately before it is sent; no mutating request
is ever sent twice (save once more after a 401, which the server has refused before acting); a request
body never appears in an error. Reading requests are repeated a few times when no answer came.

Assumes one event loop. A write that failed with `Unavailable` may have been applied.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode

from typing_extensions import TypeVar  # with defaults, which typing has from 3.13 on

from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import Invalid
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.responses import status_of
from magicstick.kube.transport import Fence, Observer, Request, Transport
from magicstick.kube.wire import ListPage, WatchEvent, decode, decode_event, decoder_of, encode

V = TypeVar("V", bound=View, default=Resource)
Body = Mapping[str, Any]

PAGE_SIZE = 500
IDLE_TIMEOUT_S = 72.0
"""A stream that is silent for so long is dead: the server sends a bookmark about each minute."""

NO_NAMES = frozenset({"", ".", ".."})
NAME_LIMIT = 253

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def _no_fence() -> None:
    """The fence of a process that may always write."""


class Client:
    """The API of one cluster. See the module for what it guarantees.

    Args:
        config: address and credentials.
        user_agent: our name in the server's audit log.
        field_manager: our name in `metadata.managedFields`.
        fence: raises `FenceClosed` when this process may not write now; asked before each write.
        observer: told (method, host, HTTP status, 0 for none) of each request, for metrics.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str,
        field_manager: str,
        fence: Fence = _no_fence,
        observer: Observer | None = None,
    ) -> None:
        self._transport = Transport(config, user_agent=user_agent, fence=fence, observer=observer)
        self._call(field_manager)

    def speaking_as(self, field_manager: str) -> Self:
        """The same connections under another name in `metadata.managedFields`; they are closed once."""
        other = copy(self)
        other._call(field_manager)  # noqa: SLF001 - of this very class
        return other

    def _call(self, field_manager: str) -> None:
        self.field_manager = field_manager
        written = {"fieldManager": field_manager, "fieldValidation": "Strict"}
        self._apply_query = urlencode({**written, "force": "true"})
        self._write_query = urlencode(written)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; watches that are open and requests from now on are `Unavailable`."""
        await self._transport.close()

    # -- verbs -------------------------------------------------------------------------------------

    async def get(self, kind: Kind, key: ObjectKey, *, view: type[V] = Resource) -> V:  # type: ignore[assignment] # the default of V
        """One object.

        Raises:
            NotFound: it does not exist.
            ApiError: as the class says.
        """
        return decode(decoder_of(view), await self._read(_path(kind, key)))

    async def pages(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        view: type[V] = Resource,  # type: ignore[assignment] # the default of V
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        resource_version: str | None = None,
    ) -> AsyncGenerator[ListPage[V], None]:
        """The pages of a list, which is complete only when the iterator ends without an error.

        Raises:
            KindNotServed: the kind is not there.
            Gone: the list took longer than the server keeps its version; start again.
        """
        decoder = decoder_of(ListPage[view])  # type: ignore[valid-type] # the type is made at run time
        path, query = _collection(kind, namespace), _selectors(label_selector, field_selector)
        query["limit"] = str(page_size)
        if resource_version is not None:
            query["resourceVersion"] = resource_version
        while True:
            page = decode(decoder, await self._read(path, urlencode(query), collection=True))
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
        path = _collection(kind, _key(body).namespace)
        return _resource(await self._write("POST", path, self._write_query, JSON, body))

    async def apply(
        self, kind: Kind, body: Body, *, subresource: str | None = None, force: bool = True
    ) -> Resource:
        """Server-side apply as our field manager, with strict field validation.

        A `metadata.uid` in the body makes it a precondition: an object that was replaced meanwhile
        answers `Conflict` instead of being taken over.
        """
        path = _path(kind, _key(body), subresource)
        query = self._apply_query if force else self._write_query
        return _resource(await self._write("PATCH", path, query, APPLY, body))

    async def merge_patch(
        self, kind: Kind, key: ObjectKey, body: Body, *, subresource: str | None = None
    ) -> Resource:
        """JSON merge patch. A `metadata.resourceVersion` in the body makes it conditional."""
        path = _path(kind, key, subresource)
        return _resource(await self._write("PATCH", path, self._write_query, MERGE_PATCH, body))

    async def json_patch(self, kind: Kind, key: ObjectKey, operations: Sequence[Body]) -> Resource:
        """JSON patch; a failed `test` answers `Invalid`."""
        path = _path(kind, key)
        return _resource(await self._write("PATCH", path, self._write_query, JSON_PATCH, operations))

    async def replace(self, kind: Kind, body: Body) -> Resource:
        """PUT. A `metadata.resourceVersion` in the body makes it conditional."""
        path = _path(kind, _key(body))
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
        answer = await self._write("DELETE", _path(kind, key), "", JSON, body)
        return None if status_of(answer) is not None else _resource(answer)

    async def watch(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        view: type[V] = Resource,  # type: ignore[assignment] # the default of V
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        send_initial_events: bool = False,
        timeout_s: float,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
    ) -> AsyncGenerator[WatchEvent[V], None]:
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
        decoder = decoder_of(WatchEvent[view])  # type: ignore[valid-type] # the type is made at run time
        lines = self._transport.lines(_collection(kind, namespace), urlencode(query), idle_timeout_s)
        async with aclosing(lines):
            async for line in lines:
                yield decode_event(decoder, line)

    # -- requests ----------------------------------------------------------------------------------

    async def _read(self, path: str, query: str = "", *, collection: bool = False) -> bytes:
        return await self._transport.send(Request("GET", path, query, collection=collection))

    async def _write(self, method: str, path: str, query: str, content_type: str, body: object) -> bytes:
        request = Request(method, path, query, encode(body), content_type, collection=method == "POST")
        return await self._transport.send(request)


def _key(body: Body) -> ObjectKey:
    metadata = body["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata.get("name", ""))


def _collection(kind: Kind, namespace: str) -> str:
    return kind.path(_segment(kind, namespace) if namespace else "")


def _path(kind: Kind, key: ObjectKey, subresource: str | None = None) -> str:
    namespace = _segment(kind, key.namespace) if kind.namespaced else ""
    return kind.path(namespace, _segment(kind, key.name), subresource)


def _segment(kind: Kind, name: str) -> str:
    """A name as a part of a path, so that a name someone made up leads nowhere else.

    Raises:
        Invalid: no object can have it, and the request was not sent.
    """
    if name in NO_NAMES or "/" in name or "%" in name:
        raise Invalid(f"not sent: {name[:NAME_LIMIT]!r} is no name or namespace of {kind}")
    return quote(name, safe=":")


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    query = {}
    if label_selector:
        query["labelSelector"] = label_selector
    if field_selector:
        query["fieldSelector"] = field_selector
    return query


def _resource(body: bytes) -> Resource:
    return decode(decoder_of(Resource), body)


__all__ = ["Client", "Fence", "ListPage", "Observer", "WatchEvent"]
