"""Whom a token speaks of (spec: companions §2.3).

First what costs nothing (form, claims), then the signature, and only then the identity provider, which has
the last word: it knows of sessions that were ended. Its yes is kept for 30 seconds, and never longer than
the token is good, nor than the realm's keys stay as they were.
"""

import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from magicstick.access_guard.decide import ABSENT, Absent, Principal
from magicstick.access_guard.identifiers import is_askable
from magicstick.access_guard.keys import SigningKeys
from magicstick.access_guard.provider import Provider
from magicstick.access_guard.sharing import Remembered
from magicstick.access_guard.tokens import Claims, acceptable, take_apart
from magicstick.runtime.clock import Clock
from magicstick.runtime.logs import Secret

KEPT_S: Final = 30.0
MOST_KEPT: Final = 10_000
REFUSED: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
WHAT: Final = "the token's owner"


class _UserInfo(msgspec.Struct, frozen=True):
    sub: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token has to say."""

    issuer: str
    clients: frozenset[str]


class Principals:
    """See the module."""

    def __init__(
        self, provider: Provider, keys: SigningKeys, userinfo_url: str, expected: Expected, clock: Clock
    ) -> None:
        self._provider, self._keys, self._url = provider, keys, userinfo_url
        self._expected, self._clock = expected, clock
        self._kept: Remembered[bytes, tuple[Principal, int]] = Remembered(clock, MOST_KEPT)
        """With the edition of the keys by which it was believed."""

    def remembered(self, token: Secret) -> Principal | None:
        """The owner of a token, where the provider's yes is still good."""
        kept = self._kept.get(digest_of(token))
        return kept[0] if kept is not None and kept[1] == self._keys.edition else None

    async def find(self, token: Secret) -> Principal | Absent:
        """The owner of a token; ABSENT where it is not valid.

        Raises:
            IdentityUnavailableError: the provider could not tell.
        """
        kept = self.remembered(token)
        if kept is not None:
            return kept
        claims = await self._claims(token)
        if claims is None:
            return ABSENT
        edition = self._keys.edition  # before the question: keys may be read anew while it is answered
        found = await self._confirmed(token, claims)
        if found is not ABSENT:
            left_s = claims.exp - self._clock.now().timestamp()
            self._kept.put(digest_of(token), (found, edition), min(KEPT_S, left_s))
        return found

    async def _claims(self, token: Secret) -> Claims | None:
        """What a token says that the realm has signed, and that may be used here and now."""
        parts = take_apart(token)
        if parts is None:
            return None
        now_s = self._clock.now().timestamp()
        if not acceptable(parts.claims, self._expected.issuer, self._expected.clients, now_s):
            return None
        key = await self._keys.find(parts.kid)
        if key is None or key.algorithm != parts.algorithm:
            return None
        return parts.claims if key.verifies(parts.signed, parts.signature) else None

    async def _confirmed(self, token: Secret, claims: Claims) -> Principal | Absent:
        answer = await self._provider.get(self._url, token.get_secret_value())
        if answer.status in REFUSED:
            return ABSENT
        named = {claims.sub, answer.read(_UserInfo, WHAT).sub} - {""}
        if len(named) != 1:  # nobody, or two
            return ABSENT
        (subject,) = named
        return Principal(subject, claims.roles) if is_askable(subject) else ABSENT


def digest_of(token: Secret) -> bytes:
    """What stands for a token where it must not be kept itself."""
    return hashlib.sha256(token.get_secret_value().encode()).digest()
