"""What a signed token says, before anybody is asked whether it is true (spec: companions §2.3)."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import msgspec

from magicstick.access_guard.signatures import ALGORITHMS, unbase64
from magicstick.runtime.logs import Secret


class _Header(msgspec.Struct, frozen=True):
    alg: str
    kid: str
    crit: Any = None


class Claims(msgspec.Struct, frozen=True):
    """The claims that matter. `exp` is in seconds since 1970."""

    iss: str
    azp: str
    exp: float
    sub: str = ""
    realm_access: Any = None

    @property
    def roles(self) -> frozenset[str]:
        """The realm roles; none where they are not a list of texts."""
        access = self.realm_access
        names = access.get("roles") if isinstance(access, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return frozenset()
        return frozenset(names)


@dataclass(frozen=True, slots=True)
class Token:
    """A token, taken apart. Nothing in it may be believed before the signature is verified."""

    algorithm: str
    """With which algorithm it is said to be signed; only the key tells which one may be used."""
    kid: str
    """Which key is said to have signed it."""
    claims: Claims
    signed: bytes
    signature: bytes


def take_apart(token: Secret) -> Token | None:
    """The parts; None where it is no token that the realm could have signed.

    Another algorithm than those of `ALGORITHMS` is refused here, "none" included, and so is a header that
    demands what we do not understand (`crit`).
    """
    text = token.get_secret_value()
    signed, _, signature = text.rpartition(".")
    head, _, payload = signed.partition(".")
    try:
        header = msgspec.json.decode(unbase64(head), type=_Header)
        claims = msgspec.json.decode(unbase64(payload), type=Claims)
        parts = Token(header.alg, header.kid, claims, signed.encode("ascii"), unbase64(signature))
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    return parts if header.alg in ALGORITHMS and header.crit is None else None


def acceptable(claims: Claims, issuer: str, clients: AbstractSet[str], now_s: float) -> bool:
    """Whether the token is of the realm, for one of the clients, and not over yet."""
    return claims.iss.rstrip("/") == issuer and claims.azp in clients and claims.exp > now_s
