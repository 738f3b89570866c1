"""From an answer to the exception that says what it means.

Bodies are Status JSON as a rule, but proxies and the API server itself also answer with plain text
(an API group that is not there: 404 in text) or nothing; the HTTP status decides then.
"""

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
        return _of_text(code, headers, body, collection=collection)
    return of_status(code, headers, status, collection=collection)


def of_status(code: int, headers: Mapping[str, str], status: Status, *, collection: bool) -> ApiError:
    """The exception for an answer, or for an ERROR event of a watch, that carries a Status."""
    code = code or status.code
    details = status.details or Details()
    causes = tuple((cause.field, cause.message) for cause in details.causes)
    namespace = _namespace_trouble(code, status, details)
    if namespace:
        return NamespaceTerminating(status.message, code=code, reason=status.reason, causes=causes)
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        wish = headers.get("Retry-After") or str(details.retry_after_seconds or "")
        return TooManyRequests(status.message, retry_after_s=retry_after_s(wish))
    if status.reason in {"Expired", "Gone"}:
        code = HTTPStatus.GONE
    kind = _class_of(code, status.reason, collection=collection)
    return kind(status.message, code=code, reason=status.reason, causes=causes)


def _namespace_trouble(code: int, status: Status, details: Details) -> bool:
    """A create that failed because its namespace is being deleted (403) or is not there (404)."""
    if code == HTTPStatus.NOT_FOUND:
        return details.kind == "namespaces"
    if code in {HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT}:
        return any(cause.reason == "NamespaceTerminating" for cause in details.causes) or (
            "because it is being terminated" in status.message
        )
    return False


def _class_of(code: int, reason: str, *, collection: bool) -> type[ApiError]:
    if code == HTTPStatus.NOT_FOUND:
        return KindNotServed if collection else NotFound
    if code == HTTPStatus.CONFLICT:
        return AlreadyExists if reason == "AlreadyExists" else Conflict
    if code in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return Invalid
    if code == HTTPStatus.INTERNAL_SERVER_ERROR and not reason:
        # Server-side apply answers so for objects that can never be applied (two list entries of one
        # key): not a fault that passes, so it is reported like any other refusal.
        return Rejected
    by_code: dict[int, type[ApiError]] = {
        HTTPStatus.UNAUTHORIZED: Unauthorized,
        HTTPStatus.FORBIDDEN: Forbidden,
        HTTPStatus.GONE: Gone,
    }
    if code in by_code:
        return by_code[code]
    return Unavailable if code >= HTTPStatus.INTERNAL_SERVER_ERROR else Rejected


def _of_text(code: int, headers: Mapping[str, str], body: bytes, *, collection: bool) -> ApiError:
    text = " ".join(body[: 4 * TEXT_LIMIT].decode(errors="replace").split())[:TEXT_LIMIT]
    message = f"HTTP {code}: {text}" if text else f"HTTP {code} without a body"
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(message, retry_after_s=retry_after_s(headers.get("Retry-After")))
    if code == HTTPStatus.NOT_FOUND:
        # A missing object is always told as Status; text means that the path leads nowhere.
        return KindNotServed(message, code=code)
    if code == HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(message, code=code)
    return _class_of(code, "", collection=collection)(message, code=code)


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
    return min(max(wish, 0.0), MAX_RETRY_AFTER_S)
