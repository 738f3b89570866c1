"""How Langfuse reaches what it shares with its gateway: parts of addresses, and addresses of parts.

Whatever goes into a URL is percent-encoded, and whatever comes out of one is decoded. No error quotes a
value: it may hold a password.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

REDIS_PORT: Final = 6379
_SCHEMES: Final = {"redis": False, "rediss": True}


class AddressError(ValueError):
    """The text is no address of the kind that is wanted; the message says what is."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """What Langfuse wants to know of a Redis."""

    host: str
    port: int
    password: str
    tls: bool = False

    def data(self) -> Mapping[str, str]:
        """As the keys of a Secret; Langfuse's operator reads `tls` only where it is referred to."""
        parts = {"host": self.host, "port": str(self.port), "password": self.password}
        return {**parts, "tls": "true"} if self.tls else parts


def redis_address(url: str) -> RedisAddress:
    """The parts of `redis://[user]:password@host[:port][/database]`, or of `rediss://…`.

    Raises:
        AddressError: it is no such address.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port or REDIS_PORT
    except ValueError as error:
        raise AddressError("must be a URL") from error
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise AddressError("must begin with redis:// or rediss:// and name a host")
    return RedisAddress(parts.hostname, port, unquote(parts.password or ""), _SCHEMES[parts.scheme])


def database_url(user: str, password: str, host: str, port: int, database: str) -> str:
    """The address of a PostgreSQL database, without a query string (spec: palena §7.3)."""
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"postgresql://{login}@{host}:{port}/{quote(database, safe='')}"
