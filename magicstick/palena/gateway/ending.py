"""The end of a gateway: LiteLLM, then Redis, then the database, each only when the one before is gone.

(spec: palena §4.7). Consumers do not hold it up: that would keep a namespace from being deleted for ever.
With `deletionPolicy: Retain`, the data stays, and with it every Secret without which it is worth nothing, and
the walls around it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.facts import Place
from magicstick.palena.common.kinds import NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.owners import is_owned_by
from magicstick.palena.common.retention import released, spared
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.common.teardown import Stage, Target
from magicstick.palena.gateway import names
from magicstick.palena.gateway.observation import GatewayObservation, places
from magicstick.palena.gateway.policies import CNPG_INTERNAL, DEFAULT_DENY

ORPHAN: Final = "orphan"
"""The finalizer of a deletion that is to leave everything that was made."""


def stages(o: GatewayObservation) -> Sequence[Stage]:
    """What has to go, or has to be let go, in order."""
    if ORPHAN in o.subject.live.metadata.finalizers:
        return (_kept(o, "what was made for the gateway", places(o.name)),)
    return (*_litellm(o), *_redis(o), *_database(o))


def retains(o: GatewayObservation) -> bool:
    """Whether data outlives the gateway, also where its spec cannot be read but for this field."""
    policy: object = o.subject.live.spec.get("deletionPolicy", "Delete")
    return policy != "Delete"


def _litellm(o: GatewayObservation) -> Iterator[Stage]:
    name = names.instance(o.name)
    yield Stage(f"LiteLLMInstance {name}", _targets(o, (LITELLM_INSTANCE, name)))


def _redis(o: GatewayObservation) -> Iterator[Stage]:
    """The volume goes with the StatefulSet, unless it is told in time to leave it."""
    name = names.redis(o.name)
    workload = ((STATEFUL_SET, name), (SERVICE, name), (SERVICE, names.redis_headless(o.name)))
    volume = o.find(PERSISTENT_VOLUME_CLAIM, names.redis_claim(o.name))
    first = tuple(spared(o.owner, o.find(STATEFUL_SET, name), volume)) if retains(o) else ()
    yield Stage(f"StatefulSet and Services of {name}", _targets(o, *workload), first)
    if not retains(o):
        yield Stage(f"Secret {name}", _targets(o, (SECRET, name)))


def _database(o: GatewayObservation) -> Iterator[Stage]:
    """A database that is kept runs on, so the walls around it stay as well."""
    name = names.cluster(o.name)
    if not retains(o):
        yield Stage(f"Cluster {name}", _targets(o, (CNPG_CLUSTER, name)))
        return
    walls = tuple((NETWORK_POLICY, names.policy(o.name, each)) for each in (DEFAULT_DENY, CNPG_INTERNAL))
    secrets = ((SECRET, names.keys_secret(o.name)), (SECRET, names.redis(o.name)))
    guarded = walls if o.find(CNPG_CLUSTER, name) is not None else ()
    yield _kept(o, "the data that is kept", (*guarded, (CNPG_CLUSTER, name), *secrets))


def _kept(o: GatewayObservation, what: str, wanted: Sequence[Place]) -> Stage:
    return Stage(what, steps=tuple(released(o.owner, ((kind, o.find(kind, name)) for kind, name in wanted))))


def _targets(o: GatewayObservation, *wanted: Place) -> tuple[Target, ...]:
    return tuple(Target(kind, live) for kind, live in _ours(o, wanted))


def _ours(o: GatewayObservation, wanted: Sequence[Place]) -> Iterator[tuple[Kind, Resource]]:
    for kind, name in wanted:
        live = o.find(kind, name)
        if live is not None and is_owned_by(live, o.owner):
            yield kind, live
