"""RS256, the signature that Keycloak puts under its tokens, and the keys that it publishes (RFC 7518, 7517).

Verifying handles nothing secret, and is one power and one comparison: what must have been signed is written
out whole and compared whole (RFC 8017 §8.2.2), so that there is no padding to be read too kindly. It spares
the identity provider tokens that are made up; a token is believed only if the provider accepts it as well.
"""

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

ALGORITHM: Final = "RS256"
SMALLEST_BITS: Final = 2048
LARGEST_BITS: Final = 8192
"""More would make the verification of made-up tokens expensive."""
SMALLEST_EXPONENT: Final = 3
LARGEST_EXPONENT: Final = 2**32
MOST_KEYS: Final = 100

_SHA256_PREFIX: Final = bytes.fromhex("3031300d060960864801650304020105000420")
"""What stands before the digest: the DER encoding of DigestInfo for SHA-256 (RFC 8017 §9.2)."""


class UnreadableKeysError(Exception):
    """What was published is no set of keys."""


@dataclass(frozen=True, slots=True)
class RsaKey:
    """A public key."""

    modulus: int
    exponent: int

    @property
    def usable(self) -> bool:
        """Whether it is of a size and form that signatures may be trusted with."""
        return (
            SMALLEST_BITS <= self.modulus.bit_length() <= LARGEST_BITS
            and self.modulus % 2 == 1
            and SMALLEST_EXPONENT <= self.exponent < LARGEST_EXPONENT
            and self.exponent % 2 == 1
        )

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is the owner's, and for this message."""
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != size or number >= self.modulus:
            return False
        signed = pow(number, self.exponent, self.modulus).to_bytes(size, "big")
        return hmac.compare_digest(signed, _encoded(message, size))


def _encoded(message: bytes, size: int) -> bytes:
    """EMSA-PKCS1-v1_5 with SHA-256."""
    end = _SHA256_PREFIX + hashlib.sha256(message).digest()
    return b"\x00\x01" + b"\xff" * (size - len(end) - 3) + b"\x00" + end


def unbase64(text: str) -> bytes:
    """base64url without padding, as tokens and keys are written.

    Raises:
        ValueError: it is none.
    """
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("no base64url") from error


class _Jwk(msgspec.Struct, frozen=True):
    kty: str
    kid: str
    n: str = ""
    e: str = ""
    use: str = "sig"
    alg: str = ALGORITHM

    def key(self) -> RsaKey | None:
        """The key, where it is one for RS256 that may be used."""
        if (self.kty, self.use, self.alg) != ("RSA", "sig", ALGORITHM):
            return None
        try:
            key = RsaKey(int.from_bytes(unbase64(self.n), "big"), int.from_bytes(unbase64(self.e), "big"))
        except ValueError:
            return None
        return key if key.usable else None


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[Any]


def read_keys(document: bytes) -> Mapping[str, RsaKey]:
    """The keys for RS256 of a JWK set, by id. Entries of other kinds or that cannot be read are left out.

    Raises:
        UnreadableKeysError: it is no set of keys.
    """
    try:
        entries = msgspec.json.decode(document, type=_KeySet).keys
    except (msgspec.DecodeError, RecursionError):
        raise UnreadableKeysError("no set of keys") from None
    read = (_read(entry) for entry in entries[:MOST_KEYS])
    return {jwk.kid: key for jwk in read if jwk is not None and (key := jwk.key()) is not None}


def _read(entry: object) -> _Jwk | None:
    try:
        return msgspec.convert(entry, _Jwk)
    except msgspec.ValidationError:
        return None
