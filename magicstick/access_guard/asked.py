"""What the gateway asks: about which instance, on whose behalf (spec: companions §2.1, §2.2).

The path is compared as it was sent, neither decoded nor normalised: whatever is not literally the prefix,
a name and a uid is refused, so there are no two ways to write one instance. What follows the uid comes
from the client, and is ignored. Of the headers only the two that can carry a token are looked at.

A token that can be read in two ways is no token: two Authorization headers, or two different cookies.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from magicstick.access_guard.identifiers import is_askable
from magicstick.runtime.logs import Secret

METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
COOKIE: Final = "MagicStickAccessToken"
LARGEST_TOKEN: Final = 16 * 1024
NOBODY: Final = Secret("")

_TARGET: Final = re.compile(
    r"/internal/instance-access/(?P<name>[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/(?P<uid>[A-Za-z0-9._:-]{1,160})"
)
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question."""

    name: str
    """The instance's name."""
    uid: str
    """The uid that the route was made for; another one is another instance, whatever its name."""
    token: Secret = NOBODY
    """A signed token as it was sent, not looked into yet; `NOBODY` where there is none that could be one."""


def read(method: str, target: str, authorization: Sequence[str], cookies: Sequence[str]) -> Asked | None:
    """The question in a request; None where it is none.

    Args:
        method: the client's method.
        target: path and query as they stand in the request line.
        authorization: the values of all Authorization headers.
        cookies: the values of all Cookie headers.
    """
    path = re.split(r"[?#]", target, maxsplit=1)[0]
    found = _TARGET.match(path)
    if method not in METHODS or found is None or path[found.end() : found.end() + 1] not in {"", "/"}:
        return None
    if not is_askable(found["uid"]):
        return None
    return Asked(found["name"], found["uid"], _token(authorization, cookies))


def _token(authorization: Sequence[str], cookies: Sequence[str]) -> Secret:
    given = {value.strip() for value in authorization} - {""}
    if not given:
        given = {f"Bearer {value}" for value in _cookies(cookies)}
    if len(given) != 1:
        return NOBODY
    (value,) = given
    bearer = _BEARER.fullmatch(value) if len(value) <= LARGEST_TOKEN + len("Bearer ") else None
    return Secret(bearer[1]) if bearer else NOBODY


def _cookies(headers: Sequence[str]) -> set[str]:
    """The values of the one cookie that matters."""
    pairs = (pair.partition("=") for header in headers for pair in header.split(";"))
    return {value.strip() for name, _, value in pairs if name.strip() == COOKIE} - {""}
