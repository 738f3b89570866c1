"""The Redis of an observability: its gateway's, one of Langfuse's operator, or somebody else's.

(spec: palena §7.1, §10)
"""

from dataclasses import dataclass
from typing import Final

from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.palena.common import gateway_names
from magicstick.palena.common.desired import Desired
from magicstick.palena.common.owners import metadata
from magicstick.palena.common.secrets import SECRET, SECRET_INVALID, SecretValue, read_key, secret
from magicstick.palena.observability.connections import AddressError, RedisAddress, redis_address
from magicstick.palena.observability.names import LANGFUSE
from magicstick.palena.observability.observation import ObservabilityObservation

URL_KEY: Final = "url"
"""Under which the gateway keeps the address of a Redis of its own."""


@dataclass(frozen=True, slots=True)
class RedisState:
    """What Langfuse is told of its Redis."""

    trouble: SecretValue | None = None
    """What is wrong; None when nothing is."""
    wanted: tuple[Desired, ...] = ()
    tls: bool = False


def redis_state(
    o: ObservabilityObservation, spec: PalenaObservabilitySpec, gateway: PalenaGatewaySpec
) -> RedisState:
    """The Secret with the parts of the address, as far as we make one."""
    external = spec.redis.external
    if spec.redis.mode == "external" and external is not None:
        given = external.secret_ref
        live = o.beside(SECRET, given.name)
        keys = (given.host_key, given.port_key, given.password_key)
        found = (read_key(live, o.namespace, given.name, key) for key in keys)
        return RedisState(next((each for each in found if not each.valid), None))
    if spec.redis.mode == "managed":
        return RedisState()
    return _shared(o, gateway)


def _shared(o: ObservabilityObservation, gateway: PalenaGatewaySpec) -> RedisState:
    name, key = redis_source(o.gateway.name, gateway)
    url = read_key(o.at_gateway(SECRET, name), o.gateway.namespace, name, key)
    if not url.valid:
        return RedisState(url)
    try:
        address = redis_address(url.value)
    except AddressError as error:
        message = f"the key {key} of the Secret {o.gateway.namespace}/{name} {error}"
        return RedisState(SecretValue(reason=SECRET_INVALID, message=message))
    return RedisState(None, (_parts(o, address),), address.tls)


def redis_source(gateway: str, spec: PalenaGatewaySpec) -> tuple[str, str]:
    """(Secret, key) that hold the address of a gateway's Redis."""
    external = spec.redis.external
    if spec.redis.mode == "external" and external is not None:
        return external.secret_ref.name, external.secret_ref.url_key
    return gateway_names.redis(gateway), URL_KEY


def _parts(o: ObservabilityObservation, address: RedisAddress) -> Desired:
    body = secret(metadata(o.owner, o.names.redis, LANGFUSE), address.data())
    return Desired(SECRET, body, o.beside(SECRET, o.names.redis))
