"""The API keys of the project, which Langfuse is seeded with and LiteLLM sends (spec: palena §7.5).

They are made before Langfuse, so that it registers exactly this pair. Langfuse takes them once: another pair
in the Secret would be refused, so they are never made anew while there is a LangfuseInstance.
"""

from dataclasses import dataclass, field

from magicstick.api.kinds import LANGFUSE_INSTANCE
from magicstick.palena.common.addresses import CLUSTER_DOMAIN, service_url
from magicstick.palena.common.desired import Desired, applied, conflict
from magicstick.palena.common.secrets import (
    NAME_CONFLICT,
    SECRET,
    SecretRecipe,
    SecretState,
    copy_of,
    ensure,
    values_of,
)
from magicstick.palena.observability.callbacks import HOST, KEYS, PUBLIC_KEY, SECRET_KEY
from magicstick.palena.observability.names import LANGFUSE, WEB_PORT, Names
from magicstick.palena.observability.observation import ObservabilityObservation
from magicstick.runtime.plan import Step


def internal_url(names: Names, namespace: str, domain: str = CLUSTER_DOMAIN) -> str:
    """Where Langfuse is reached within the cluster."""
    return service_url(names.web, namespace, WEB_PORT, domain=domain)


def keys_recipe(names: Names, namespace: str, domain: str = CLUSTER_DOMAIN) -> SecretRecipe:
    """The Secret of the pair, and of where to send it."""
    return SecretRecipe(
        name=names.api_keys,
        component=LANGFUSE,
        generated={
            PUBLIC_KEY: lambda entropy: f"pk-lf-{entropy.uuid()}",
            SECRET_KEY: lambda entropy: f"sk-lf-{entropy.uuid()}",
        },
        derived=lambda _: {HOST: internal_url(names, namespace, domain)},
        vital=frozenset({PUBLIC_KEY, SECRET_KEY}),
    )


@dataclass(frozen=True, slots=True)
class KeysState:
    """What there is of the keys, and what has to be written."""

    problem: str = ""
    """Why there are none: `SECRET_LOST` or `NAME_CONFLICT`; "" otherwise."""
    message: str = ""
    complete: bool = False
    """Whether they are all beside the observability."""
    beside_gateway: bool = False
    """Whether they are all where LiteLLM looks for them."""
    steps: tuple[Step, ...] = field(default=(), repr=False)


def keys_state(o: ObservabilityObservation) -> KeysState:
    """The keys, with a copy beside a gateway that is elsewhere."""
    seeded = o.beside(LANGFUSE_INSTANCE, o.names.langfuse) is not None
    made: SecretState = ensure(
        keys_recipe(o.names, o.namespace, o.domain),
        o.owner,
        o.beside(SECRET, o.names.api_keys),
        o.fresh_keys,
        data_lives=f"LangfuseInstance {o.names.langfuse}" if seeded else "",
    )
    if made.problem:
        return KeysState(made.problem, made.message)
    if not o.elsewhere or not made.complete:
        return KeysState(complete=made.complete, beside_gateway=made.complete, steps=made.steps)
    body = copy_of(o.owner, o.names.api_keys, LANGFUSE, o.gateway.namespace, made.values)
    copy = Desired(SECRET, body, o.at_gateway(SECRET, o.names.api_keys))
    if taken := conflict(o.owner, (copy,)):
        return KeysState(NAME_CONFLICT, taken)
    there = values_of(copy.live).keys() >= set(KEYS)
    steps = (*made.steps, *applied(o.owner, (copy,)))
    return KeysState(complete=True, beside_gateway=there, steps=steps)
