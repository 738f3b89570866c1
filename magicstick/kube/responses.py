"""From an answer to the exception that says what it means.

Bodies are Status JSON as a rule, but proxies and the API server itself also answer with plain text
(an API group that is not there: 404 in text), HTML or nothing; the HTTP status decides then. A
redirect is no answer of an API server: `Unavailable`.
"""

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec

from magicstick.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    Rejected,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

MAX_RETRY_AFTER_S = 120.0
DEFAULT_RETRY_AFTER_S = 1.0
TEXT_LIMIT = 200
UID = "metadata.uid"
PASSING = ("etcdserver:", "rpc error:", "context deadline exceeded", "context canceled", "unexpected EOF")
"""How messages of a 500 without a reason begin that tell of the server's own trouble."""


class Cause(msgspec.Struct, frozen=True):
    """`details.causes[]` of a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """`details` of a Status."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True):
    """The API's way to say how a request ended."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_status = msgspec.json.Decoder(Status)


def status_of(body: bytes) -> Status | None:
    """The Status in a body; None for any other content."""
    try:
        status = _status.decode(body)
    except msgspec.DecodeError:
        return None
    return status if status.kind == "Status" else None


def error_of(code: int, headers: Mapping[str, str], body: bytes, *, collection: bool) -> ApiError:
    """The exception for an unsuccessful answer.

    Args:
        code: HTTP status.
        headers: of the answer, for Retry-After.
        body: of the answer.
        collection: whether the request named a collection; a 404 there means that the kind is not served.
    """
    status = status_of(body)
    if status is None:
        return _of_text(code, headers, body)
    return of_status(code, headers, status, collection=collection)


def of_status(code: int, headers: Mapping[str, str], status: Status, *, collection: bool) -> ApiError:
    """The exception for an answer, or for an ERROR event of a watch, that carries a Status."""
    code = code or status.code
    details = status.details or Details()
    causes = tuple((cause.field, cause.message) for cause in details.causes)
    message = status.message or f"HTTP {code}"
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        wish = headers.get("Retry-After") or str(details.retry_after_seconds or "")
        return TooManyRequests(message, retry_after_s=retry_after_s(wish))
    kind: type[ApiError]
    if _namespace_trouble(code, status, details):
        kind = NamespaceTerminating
    elif _kind_is_going(code, status):
        kind = KindNotServed
    elif code == HTTPStatus.UNPROCESSABLE_ENTITY and any(cause.field == UID for cause in details.causes):
        # An apply that carries the uid of the object's predecessor.
        kind = Conflict
    elif status.reason in {"Expired", "Gone"}:
        kind = Gone
    elif code == HTTPStatus.NOT_FOUND:
        # An object that is missing is named; a path that leads nowhere has nothing to name.
        kind = KindNotServed if collection or not details.name else NotFound
    elif code == HTTPStatus.INTERNAL_SERVER_ERROR and not status.reason:
        kind = _of_unexplained(status.message)
    else:
        kind = _of_code(code, status.reason)
    return kind(message, code=code, reason=status.reason, causes=causes)


def _namespace_trouble(code: int, status: Status, details: Details) -> bool:
    """A create that failed because its namespace is being deleted (403) or is not there (404)."""
    if code == HTTPStatus.NOT_FOUND:
        return details.kind == "namespaces"
    if code in {HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT}:
        return any(cause.reason == "NamespaceTerminating" for cause in details.causes) or (
            "because it is being terminated" in status.message
        )
    return False


def _kind_is_going(code: int, status: Status) -> bool:
    """A create of a kind whose definition is being deleted: a matter of time, and of nobody's rights."""
    return code == HTTPStatus.FORBIDDEN and "custom resource definition is terminating" in status.message


def _of_unexplained(message: str) -> type[ApiError]:
    """The class of a 500 without a reason.

    Server-side apply answers so for an object that can never be applied (two list entries of one key),
    lists do for one that cannot be converted: no fault that passes, so it counts as any other refusal.
    What the storage or the connection to it reports in the same way does pass.
    """
    return Unavailable if message.startswith(PASSING) else Rejected


def _of_code(code: int, reason: str) -> type[ApiError]:
    if code == HTTPStatus.CONFLICT:
        return AlreadyExists if reason == "AlreadyExists" else Conflict
    by_code: dict[int, type[ApiError]] = {
        HTTPStatus.BAD_REQUEST: Invalid,
        HTTPStatus.UNAUTHORIZED: Unauthorized,
        HTTPStatus.FORBIDDEN: Forbidden,
        HTTPStatus.GONE: Gone,
        HTTPStatus.UNPROCESSABLE_ENTITY: Invalid,
        HTTPStatus.REQUEST_TIMEOUT: Unavailable,
    }
    if code in by_code:
        return by_code[code]
    refused = HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR
    return Rejected if refused else Unavailable


def _of_text(code: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    text = " ".join(body[: 4 * TEXT_LIMIT].decode(errors="replace").split())[:TEXT_LIMIT]
    message = f"HTTP {code}: {text}" if text else f"HTTP {code} without a body"
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(message, retry_after_s=retry_after_s(headers.get("Retry-After")))
    # A missing object is always told as Status; text means that the path leads nowhere.
    kind = KindNotServed if code == HTTPStatus.NOT_FOUND else _of_code(code, "")
    return kind(message, code=code)


def retry_after_s(value: str | None) -> float:
    """Seconds of a Retry-After header (a number or an HTTP date), within reason."""
    if not value:
        return DEFAULT_RETRY_AFTER_S
    try:
        wish = float(value)
    except ValueError:
        try:
            wish = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return DEFAULT_RETRY_AFTER_S
    return DEFAULT_RETRY_AFTER_S if math.isnan(wish) else min(max(wish, 0.0), MAX_RETRY_AFTER_S)
