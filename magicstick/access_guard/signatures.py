"""RS256 and ES256 as Keycloak signs tokens with them, and keys as it publishes them (RFC 7518, 7517).

Which of the two a key is for is said by the key, never by a token alone: a token that names another
algorithm than its key's is not verified (RFC 8725 §3.1). Keys are checked when they are read, so that none is
used that is too weak, or so large that made-up tokens would be expensive.
"""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

RS256, ES256 = ALGORITHMS = ("RS256", "ES256")
SMALLEST_BITS: Final = 2048
LARGEST_BITS: Final = 8192
"""More would make the verification of made-up tokens expensive."""
SMALLEST_EXPONENT: Final = 3
LARGEST_EXPONENT: Final = 2**32
COORDINATE: Final = 32
"""Bytes of a coordinate of P-256, and of each half of a signature; neither may be shortened."""
MOST_KEYS: Final = 100

_SHA256: Final = SHA256()
_PKCS1: Final = PKCS1v15()
_ECDSA: Final = ECDSA(_SHA256)


class UnreadableKeysError(Exception):
    """What was published is no set of keys."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures may be trusted with, for one algorithm."""

    key: RSAPublicKey | EllipticCurvePublicKey

    @property
    def algorithm(self) -> str:
        """The one of `ALGORITHMS` that it is for."""
        return RS256 if isinstance(self.key, RSAPublicKey) else ES256

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature is the owner's, and for this message."""
        try:
            if isinstance(self.key, RSAPublicKey):
                self.key.verify(signature, message, _PKCS1, _SHA256)
            else:
                self.key.verify(_der(signature), message, _ECDSA)
        except (InvalidSignature, ValueError):
            return False
        return True


def _der(signature: bytes) -> bytes:
    """The two numbers of an ECDSA signature, which a token has side by side, as the library wants them.

    Raises:
        ValueError: it is of another length.
    """
    if len(signature) != 2 * COORDINATE:
        raise ValueError("no signature for P-256")
    return encode_dss_signature(_number(signature[:COORDINATE]), _number(signature[COORDINATE:]))


def unbase64(text: str) -> bytes:
    """base64url without padding, as tokens and keys are written.

    Raises:
        ValueError: it is none.
    """
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("no base64url") from error


def _number(content: bytes) -> int:
    return int.from_bytes(content, "big")


class _Jwk(msgspec.Struct, frozen=True):
    kty: str
    kid: str
    n: str = ""
    e: str = ""
    crv: str = ""
    x: str = ""
    y: str = ""
    use: str = "sig"
    alg: str = ""

    def key(self) -> PublicKey | None:
        """The key, where it is one for an algorithm of ours that may be used."""
        try:
            match (self.kty, self.use, self.alg, self.crv):
                case ("RSA", "sig", "" | "RS256", ""):
                    return _rsa(_number(unbase64(self.n)), _number(unbase64(self.e)))
                case ("EC", "sig", "" | "ES256", "P-256"):
                    return _p256(unbase64(self.x), unbase64(self.y))
        except ValueError:  # the library's word for a key that is none, a point beside the curve included
            return None
        return None


def _rsa(modulus: int, exponent: int) -> PublicKey | None:
    usable = (
        SMALLEST_BITS <= modulus.bit_length() <= LARGEST_BITS
        and modulus % 2 == 1
        and SMALLEST_EXPONENT <= exponent < LARGEST_EXPONENT
        and exponent % 2 == 1
    )
    return PublicKey(RSAPublicNumbers(exponent, modulus).public_key()) if usable else None


def _p256(x: bytes, y: bytes) -> PublicKey | None:
    if not len(x) == len(y) == COORDINATE:
        return None
    return PublicKey(EllipticCurvePublicNumbers(_number(x), _number(y), SECP256R1()).public_key())


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[Any]


def read_keys(document: bytes) -> Mapping[str, PublicKey]:
    """The keys of a JWK set that we can verify with, by id. Others and those that are odd are left out.

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
