"""RSA, as far as an identity provider signs tokens with it. The keys are for play: anybody can make them."""

import functools
import hashlib
import json
import random
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

BITS = 2048
EXPONENT = 65537
ROUNDS = 8
SMALL_PRIMES = [
    number for number in range(3, 2000, 2) if all(number % each for each in range(3, 45, 2) if each < number)
]
DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")


def base64url(content: bytes) -> str:
    """Without padding."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def token(header: Mapping[str, Any], claims: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """Signed claims."""
    signed = ".".join(
        base64url(json.dumps(part).encode()) for part in ({"typ": "JWT", **header}, dict(claims))
    )
    return f"{signed}.{base64url(sign(signed.encode()))}"


@dataclass(frozen=True)
class SigningKey:
    """A pair of keys. The same seed gives the same pair."""

    kid: str
    modulus: int
    secret: int

    @classmethod
    def make(cls, kid: str, seed: int = 0) -> "SigningKey":
        """The pair of this name and seed; found once in a process."""
        return _made(kid, seed)

    @property
    def jwk(self) -> dict[str, str]:
        """The public half, as it is published."""
        n = base64url(self.modulus.to_bytes(BITS // 8, "big"))
        return {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.kid, "n": n, "e": "AQAB"}

    def token(self, claims: Mapping[str, Any], **header: Any) -> str:
        """Signed claims."""
        return token({"alg": "RS256", "kid": self.kid, **header}, claims, self.sign)

    def sign(self, message: bytes) -> bytes:
        """RSASSA-PKCS1-v1_5 with SHA-256."""
        end = DIGEST_INFO + hashlib.sha256(message).digest()
        padded = b"\x00\x01".ljust(BITS // 8 - len(end) - 1, b"\xff") + b"\x00" + end
        return pow(int.from_bytes(padded, "big"), self.secret, self.modulus).to_bytes(BITS // 8, "big")


@functools.cache
def _made(kid: str, seed: int) -> SigningKey:
    chance = random.Random(f"{kid} {seed}")  # noqa: S311 - it is meant to repeat itself
    first, second = _prime(chance), _prime(chance)
    return SigningKey(kid, first * second, pow(EXPONENT, -1, (first - 1) * (second - 1)))


def _prime(chance: random.Random) -> int:
    """Half as long as a modulus, with its two highest bits set, and one less no multiple of the exponent."""
    top = 3 << (BITS // 2 - 2)
    while True:
        number = chance.getrandbits(BITS // 2) | top | 1
        if (
            number % EXPONENT != 1
            and all(number % small for small in SMALL_PRIMES)
            and _passes(number, chance)
        ):
            return number


def _passes(number: int, chance: random.Random) -> bool:
    """Miller and Rabin's test."""
    odd = number - 1
    halvings = (odd & -odd).bit_length() - 1
    odd >>= halvings
    return all(_is_no_witness(chance.randrange(2, number - 1), number, odd, halvings) for _ in range(ROUNDS))


def _is_no_witness(base: int, number: int, odd: int, halvings: int) -> bool:
    power = pow(base, odd, number)
    if power in {1, number - 1}:
        return True
    for _ in range(halvings - 1):
        power = power * power % number
        if power == number - 1:
            return True
    return False
