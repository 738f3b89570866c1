"""ECDSA over P-256, as far as an identity provider signs tokens with it. The keys are for play."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from hack.devcluster.actors.rsa_keys import base64url, token

SIZE = 32


@dataclass(frozen=True)
class EcSigningKey:
    """A pair of keys. The same name gives the same pair."""

    kid: str

    @property
    def _secret(self) -> ec.EllipticCurvePrivateKey:
        number = int.from_bytes(hashlib.sha256(self.kid.encode()).digest()[:-1], "big")
        return ec.derive_private_key(number, ec.SECP256R1())

    @property
    def jwk(self) -> dict[str, str]:
        """The public half, as it is published."""
        point = self._secret.public_key().public_numbers()
        x, y = (base64url(number.to_bytes(SIZE, "big")) for number in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid, "x": x, "y": y}

    def token(self, claims: Mapping[str, Any], **header: Any) -> str:
        """Signed claims."""
        return token({"alg": "ES256", "kid": self.kid, **header}, claims, self.sign)

    def sign(self, message: bytes) -> bytes:
        """ECDSA with SHA-256, both numbers side by side (RFC 7518 §3.4)."""
        both = decode_dss_signature(self._secret.sign(message, ec.ECDSA(SHA256())))
        return b"".join(number.to_bytes(SIZE, "big") for number in both)
