"""Everything that a decision about one gateway is made from, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import quote

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE, PALENA_GATEWAY
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.facts import Place
from magicstick.palena.common.kinds import NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.observing import Observed
from magicstick.palena.common.schemas import SchemaNode
from magicstick.palena.common.secrets import SECRET, Fresh, SecretRecipe, Values
from magicstick.palena.gateway import names
from magicstick.palena.gateway.policies import policy_names

PASSWORD_LENGTH: Final = 32
KEY_PREFIX: Final = "sk-"
KEY_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class Site:
    """Where operators that the gateway has to let in run, unless it says otherwise."""

    cnpg_namespace: str = "cnpg-system"
    litellm_operator_namespace: str = "litellm-operator-system"


@dataclass(frozen=True, slots=True)
class GatewayObservation(Observed[PalenaGatewaySpec]):
    """One gateway and what there is under the names of its objects, read at one moment."""

    KIND: ClassVar = PALENA_GATEWAY

    live: Mapping[Place, Resource] = field(default_factory=dict, repr=False)
    """Whosever it is, the Secrets that the gateway names among it; what does not exist is left out."""
    fresh_redis: Fresh = field(default_factory=Fresh)
    fresh_keys: Fresh = field(default_factory=Fresh)
    cluster_schema: SchemaNode | None = field(default=None, repr=False)
    instance_schema: SchemaNode | None = field(default=None, repr=False)
    claim_grows: bool = False
    """Whether the class of Redis' volume lets it grow."""
    models: int = 0
    """How many PalenaModels refer to the gateway."""
    site: Site = field(default_factory=Site)

    def find(self, kind: Kind, name: str) -> Resource | None:
        """What there is under a name beside the gateway."""
        return self.live.get((kind, name))


def redis_recipe(gateway: str, namespace: str) -> SecretRecipe:
    """The Secret of Redis: its password, and how it is reached with it (spec: palena §4.4)."""
    host = names.redis_host(gateway, namespace)

    def derived(values: Values) -> Values:
        address = f"{host}:{names.REDIS_PORT}"
        return {
            names.HOST: host,
            names.PORT: str(names.REDIS_PORT),
            names.URL: f"redis://:{quote(values[names.PASSWORD], safe='')}@{address}/0",
        }

    generated = {names.PASSWORD: lambda entropy: entropy.alphanumeric(PASSWORD_LENGTH)}
    vital = frozenset({names.PASSWORD})
    return SecretRecipe(names.redis(gateway), "redis", generated, derived, vital=vital)


def keys_recipe(gateway: str) -> SecretRecipe:
    """The keys of LiteLLM.

    Not left to its operator, whose Secrets go with the instance: without the salt, what is stored in the
    database cannot be read any more.
    """
    return SecretRecipe(
        names.keys_secret(gateway),
        "litellm",
        {
            names.MASTER_KEY: lambda entropy: KEY_PREFIX + entropy.hex(KEY_LENGTH),
            names.SALT_KEY: lambda entropy: KEY_PREFIX + entropy.hex(KEY_LENGTH),
        },
        vital=frozenset({names.MASTER_KEY, names.SALT_KEY}),
    )


def needed_kinds(spec: PalenaGatewaySpec) -> tuple[Kind, ...]:
    """The foreign kinds without which nothing can be made; CNPG only for a database of our own."""
    return (CNPG_CLUSTER, LITELLM_INSTANCE) if spec.database.mode == "managed" else (LITELLM_INSTANCE,)


def places(gateway: str) -> tuple[Place, ...]:
    """Every object that a gateway may ever have."""
    return (
        (CNPG_CLUSTER, names.cluster(gateway)),
        (SECRET, names.connection_secret(gateway)),
        (SECRET, names.redis(gateway)),
        (SERVICE, names.redis_headless(gateway)),
        (SERVICE, names.redis(gateway)),
        (STATEFUL_SET, names.redis(gateway)),
        (PERSISTENT_VOLUME_CLAIM, names.redis_claim(gateway)),
        (SECRET, names.keys_secret(gateway)),
        (LITELLM_INSTANCE, names.instance(gateway)),
        *((NETWORK_POLICY, name) for name in sorted(policy_names(gateway))),
    )


def named_secrets(spec: PalenaGatewaySpec) -> frozenset[str]:
    """The Secrets of the user's that the gateway reads."""
    found = set()
    if spec.database.external is not None:
        found.add(spec.database.external.secret_ref.name)
    if spec.redis.external is not None:
        found.add(spec.redis.external.secret_ref.name)
    if spec.litellm.master_key_secret_ref is not None:
        found.add(spec.litellm.master_key_secret_ref.name)
    return frozenset(found)
