"""Which keys of which Secrets the spec of an observability names, beside database and Redis."""

from collections.abc import Iterator, Mapping
from typing import Any

from magicstick.api.palena.observability import PalenaObservabilitySpec

NamedKey = tuple[str, str]
"""(Secret, key), in the observability's namespace."""


def named_keys(spec: PalenaObservabilitySpec) -> tuple[NamedKey, ...]:
    """All of them, each once, in the order of the spec."""
    return tuple(dict.fromkeys(_named(spec)))


def secret_names(spec: PalenaObservabilitySpec) -> tuple[str, ...]:
    """Every Secret that the spec names."""
    found = [name for name, _ in named_keys(spec)]
    if spec.database.external is not None:
        found.append(spec.database.external.secret_ref.name)
    if spec.redis.external is not None:
        found.append(spec.redis.external.secret_ref.name)
    return tuple(dict.fromkeys(found))


def _named(spec: PalenaObservabilitySpec) -> Iterator[NamedKey]:
    for block in (spec.blob_storage.s3, spec.blob_storage.azure, spec.blob_storage.gcs):
        yield from _credentials(block)
    external = spec.clickhouse.external
    if external is not None:
        yield from ((external.secret_ref.name, key) for key in external.secret_ref.keys.values())
    user = spec.seed.admin_user
    if user is not None:
        yield user.password_secret_ref.name, user.password_secret_ref.key


def _credentials(block: Mapping[str, Any] | None) -> Iterator[NamedKey]:
    """Those of a bucket, where they are as Langfuse's operator takes them."""
    credentials = (block or {}).get("credentials")
    reference = credentials.get("secretRef") if isinstance(credentials, Mapping) else None
    if not isinstance(reference, Mapping) or not isinstance(reference.get("name"), str):
        return
    keys = reference.get("keys")
    for key in keys.values() if isinstance(keys, Mapping) else ():
        if isinstance(key, str):
            yield reference["name"], key
