"""Which keys of which Secrets of theirs users name in Palena's objects, and what such a value looks like."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from magicstick.api import kinds
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.model import PalenaModelSpec
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.api.palena.shared import SecretKeyRef
from magicstick.api.palena.ui import PalenaUISpec
from magicstick.api.parse import parse
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import text
from magicstick.palena.observability.named import named_keys
from magicstick.plan.unknown import ASSUMED


class NamedKey(NamedTuple):
    """One key of a Secret beside the object that names it."""

    secret: str
    key: str
    value: str = ASSUMED
    """What it could be, as far as its form is checked."""


def named_secrets(kind: Kind, live: Resource) -> dict[ObjectKey, dict[str, str]]:
    """The Secrets that an object names: for each what its keys could be. {} where its spec cannot be read."""
    found: dict[ObjectKey, dict[str, str]] = {}
    for each in _READERS[kind](live) if kind in _READERS else ():
        found.setdefault(ObjectKey(live.metadata.namespace, each.secret), {})[each.key] = each.value
    return found


def _gateway(live: Resource) -> Iterator[NamedKey]:
    spec = parse(PalenaGatewaySpec, live)
    if not isinstance(spec, PalenaGatewaySpec):
        return
    if spec.database.external is not None:
        place = spec.database.external.secret_ref
        yield NamedKey(place.name, place.url_key, f"postgresql://{ASSUMED}")
    if spec.redis.external is not None:
        address = spec.redis.external.secret_ref
        yield NamedKey(address.name, address.url_key, f"redis://{ASSUMED}:6379/0")
    yield from _of([spec.litellm.master_key_secret_ref], f"sk-{ASSUMED}")


def _model(live: Resource) -> Iterator[NamedKey]:
    spec = parse(PalenaModelSpec, live)
    if isinstance(spec, PalenaModelSpec):
        yield from _of([spec.provider.api_key_secret_ref])


def _ui(live: Resource) -> Iterator[NamedKey]:
    spec = parse(PalenaUISpec, live)
    if not isinstance(spec, PalenaUISpec):
        return
    oidc = spec.auth.oidc
    yield from _of([spec.gateway_key.secret_ref, oidc.client_id_ref, oidc.client_secret_ref])
    if spec.mongodb.secret_ref is not None:
        yield NamedKey(
            spec.mongodb.secret_ref.name, spec.mongodb.secret_ref.uri_key, f"mongodb://{ASSUMED}:27017"
        )
    for variable in spec.extra_env:
        source = variable.value_from or {}
        name, key = (text(source, "secretKeyRef", field) for field in ("name", "key"))
        if name and key:
            yield NamedKey(name, key)


def _observability(live: Resource) -> Iterator[NamedKey]:
    spec = parse(PalenaObservabilitySpec, live)
    if not isinstance(spec, PalenaObservabilitySpec):
        return
    yield from (NamedKey(name, key) for name, key in named_keys(spec))
    if spec.database.external is not None:
        place = spec.database.external.secret_ref
        yield NamedKey(place.name, place.url_key, f"postgresql://{ASSUMED}")
    if spec.redis.external is not None:
        parts = spec.redis.external.secret_ref
        yield from (NamedKey(parts.name, key) for key in (parts.host_key, parts.port_key, parts.password_key))


def _of(references: Iterable[SecretKeyRef | None], value: str = ASSUMED) -> Iterator[NamedKey]:
    return (NamedKey(each.name, each.key, value) for each in references if each is not None)


_READERS: Final[Mapping[Kind, Callable[[Resource], Iterator[NamedKey]]]] = {
    kinds.PALENA_GATEWAY: _gateway,
    kinds.PALENA_MODEL: _model,
    kinds.PALENA_UI: _ui,
    kinds.PALENA_OBSERVABILITY: _observability,
}
"""PalenaMCPServers name none."""
