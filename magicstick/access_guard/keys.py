"""The keys of the realm, as far as they may be believed (spec: companions §2.3)."""

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Final

from magicstick.access_guard.provider import IdentityUnavailableError, Provider
from magicstick.access_guard.signatures import PublicKey, UnreadableKeysError, read_keys
from magicstick.runtime.clock import Clock

GOOD_FOR_S: Final = 600.0
UNKNOWN_AFTER_S: Final = 10.0
"""A key that is not there is looked for anew at most this often: tokens that are made up name any key."""
FAILED_AFTER_S: Final = 1.0
"""After a failure nobody is asked for so long."""
WHAT: Final = "the realm's keys"


class SigningKeys:
    """See the module.

    Guarantees: no key is used that was read more than ten minutes ago; one that was rotated in is found at
    once, or ten seconds after the last look.

    Attributes:
        edition: another number whenever the set has become another one, so that what was believed because
            of a key is not believed for longer than the key is.
    """

    def __init__(self, provider: Provider, url: str, clock: Clock) -> None:
        self._provider, self._url, self._clock = provider, url, clock
        self.edition = 0
        self._keys: Mapping[str, PublicKey] = {}
        self._read_at = -inf
        self._failed_at = -inf
        self._failure = ""
        self._reading = asyncio.Lock()

    async def find(self, kid: str) -> PublicKey | None:
        """The key of this id; None where the realm has none.

        Raises:
            IdentityUnavailableError: the keys cannot be read, and those that are known are too old.
        """
        if not self._settled(kid):
            async with self._reading:  # whoever waited here finds what the first one read
                if not self._settled(kid):
                    await self._read()
        return self._keys.get(kid)

    def _settled(self, kid: str) -> bool:
        """Whether what is known answers for this key."""
        age = self._age(self._read_at)
        return age < GOOD_FOR_S and (kid in self._keys or age < UNKNOWN_AFTER_S)

    async def _read(self) -> None:
        if self._age(self._failed_at) < FAILED_AFTER_S:
            raise IdentityUnavailableError(self._failure)
        try:
            keys = read_keys((await self._provider.get(self._url)).expect(WHAT))
        except (IdentityUnavailableError, UnreadableKeysError) as error:
            self._failed_at, self._failure = self._clock.monotonic(), f"{WHAT}: {error}"
            raise IdentityUnavailableError(self._failure) from None
        self._read_at = self._clock.monotonic()
        self.edition += keys != self._keys
        self._keys = keys

    def _age(self, moment: float) -> float:
        return self._clock.monotonic() - moment
