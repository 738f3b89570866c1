"""One exception class per meaning of a failed request.

    ApiError
    ├── NotFound              404: the object is not there
    │   └── KindNotServed     404 for the collection: the kind itself is not served (any body)
    ├── Conflict              409: resourceVersion, uid or field-manager conflict; read again; 422 about
    │   │                     `metadata.uid` as well, which is the uid conflict of an apply
    │   └── AlreadyExists     409 with reason AlreadyExists
    ├── Gone                  410 or an expired resourceVersion: list again
    ├── Rejected              the server will refuse this request until something changes; 500 without
    │   │                     a reason as well, which is how it answers an apply that can never succeed
    │   ├── Invalid           400, 422: the object breaks its schema or a rule; `causes` name fields
    │   ├── Forbidden         403: RBAC or admission
    │   └── NameConflict      not sent: an object of this name belongs to someone else
    ├── NamespaceTerminating  403/404/409 because the namespace is being deleted or is not there
    ├── Unauthorized          401 after one attempt with fresh credentials
    ├── Unreadable            an answer came that is no JSON, or an object that is not as its view says
    ├── Unavailable           5xx, time-outs, connections lost: the request may have been applied
    │   └── TooManyRequests   429, with `retry_after_s`
    └── FenceClosed           not sent: this process may not write (its lease is not valid)

The class says what a caller may conclude, so nobody looks at status codes. Messages come from the
server and are cut to `MESSAGE_LIMIT` characters; request bodies never appear in them.
"""

from collections.abc import Sequence

from magicstick.kube.kinds import Kind, ObjectKey

MESSAGE_LIMIT = 1024


class ApiError(Exception):
    """A request that did not succeed. `code` is the HTTP status, 0 when there was no answer."""

    about: tuple[Kind, ObjectKey] | None = None
    """The object that a step of a plan was about to write; None where no step was."""

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        reason: str = "",
        causes: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(message[:MESSAGE_LIMIT])
        self.message = message[:MESSAGE_LIMIT]
        self.code = code
        self.reason = reason
        self.causes = tuple(causes)
        """(field, message) of each cause that the server named."""


class NotFound(ApiError):
    """The object does not exist."""


class KindNotServed(NotFound):
    """The server does not serve this kind in this version (its CRD is absent or not established)."""


class Conflict(ApiError):
    """The object changed, was replaced, or a field is owned by another manager."""


class AlreadyExists(Conflict):
    """An object of this name exists already."""


class Gone(ApiError):
    """The requested resourceVersion is too old; only a new list helps."""


class Rejected(ApiError):
    """The server refuses the request, and will again until the object, a rule or a right changes."""


class Invalid(Rejected):
    """The object breaks its schema, an unknown field was sent, or a validation rule refused it."""


class Forbidden(Rejected):
    """The caller lacks the right, or admission refused the request."""


class NameConflict(Rejected):
    """Not sent: an object of this name exists and is not ours. Only its owner can make room."""


class NamespaceTerminating(ApiError):
    """The namespace is being deleted or does not exist: nothing can be created in it now."""


class Unauthorized(ApiError):
    """The credentials are not accepted, even after they were read anew."""


class Unreadable(ApiError):
    """The server said yes in words that we do not understand. A write has happened, most likely."""


class Unavailable(ApiError):
    """No usable answer. A write may or may not have happened; only reading tells."""


class TooManyRequests(Unavailable):
    """The server asks for fewer requests. `retry_after_s` is its wish, in seconds."""

    def __init__(self, message: str, *, retry_after_s: float = 1.0, code: int = 429) -> None:
        super().__init__(message, code=code, reason="TooManyRequests")
        self.retry_after_s = retry_after_s


class FenceClosed(ApiError):
    """Not sent: this process does not hold a valid lease at this moment."""
