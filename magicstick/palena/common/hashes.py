"""Hashes on Pod templates, from which a changed configuration becomes a rollout (spec: palena §1, §6.4)."""

import hashlib
from collections.abc import Mapping


def config_hash(text: str) -> str:
    """SHA-256 of a configuration's whole text, as 64 lower-case hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def secret_hash(values: Mapping[str, str]) -> str:
    """A hash of secret values by key, which does not depend on their order and gives none of them away."""
    digest = hashlib.sha256()
    for key in sorted(values):
        for part in (key, values[key]):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()
