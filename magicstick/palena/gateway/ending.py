"""The end of a gateway: LiteLLM, then Redis, then the database, each only when the one before is gone.

(spec: palena §4.7). Consumers do not hold it up: that would keep a namespace from being deleted for ever.
With `deletionPolicy: Retain`, the data stays, and with it every Secret without which it is worth nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.kinds import PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.labels import RETAINED, TRUE
from magicstick.palena.common.owners import is_owned_by, retain
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.common.teardown import Stage, Target
from magicstick.palena.gateway import names
from magicstick.palena.gateway.observation import GatewayObservation, Place, places
from magicstick.runtime.plan import Patch, Step

ORPHAN: Final = "orphan"
"""The finalizer of a deletion that is to leave everything that was made."""
RETENTION: Final = "persistentVolumeClaimRetentionPolicy"


def stages(o: GatewayObservation) -> Sequence[Stage]:
    """What has to go, or has to be let go, in order."""
    if o.subject.blind:
        return (Stage("what was made for the gateway", unknown=o.subject.blind),)
    if ORPHAN in o.subject.live.metadata.finalizers:
        kept = places(o.name)
        return (Stage("what was made for the gateway", steps=tuple(_released(o, kept))),)
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
    spared = tuple(_spared_volume(o)) if retains(o) else ()
    yield Stage(f"StatefulSet and Services of {name}", _targets(o, *workload), spared)
    if not retains(o):
        yield Stage(f"Secret {name}", _targets(o, (SECRET, name)))


def _database(o: GatewayObservation) -> Iterator[Stage]:
    name = names.cluster(o.name)
    if not retains(o):
        yield Stage(f"Cluster {name}", _targets(o, (CNPG_CLUSTER, name)))
        return
    kept = ((CNPG_CLUSTER, name), (SECRET, names.keys_secret(o.name)), (SECRET, names.redis(o.name)))
    yield Stage("the data that is kept", steps=tuple(_released(o, kept)))


def _targets(o: GatewayObservation, *wanted: Place) -> tuple[Target, ...]:
    return tuple(Target(kind, live) for kind, live in _ours(o, wanted))


def _ours(o: GatewayObservation, wanted: Sequence[Place]) -> Iterator[tuple[Kind, Resource]]:
    for kind, name in wanted:
        live = o.find(kind, name)
        if live is not None and is_owned_by(live, o.owner):
            yield kind, live


def _released(o: GatewayObservation, kept: Sequence[Place]) -> Iterator[Step]:
    """What takes the ownerReference from objects, and marks them for a successor to take over."""
    for kind, live in _ours(o, kept):
        if live.metadata.labels.get(RETAINED) != TRUE or _referred(live, o.owner.uid):
            yield retain(kind, live, o.owner)


def _spared_volume(o: GatewayObservation) -> Iterator[Step]:
    """The StatefulSet is told first, or else it would put its reference back on the volume."""
    policy = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    for kind, live in _ours(o, ((STATEFUL_SET, names.redis(o.name)),)):
        if live.spec.get(RETENTION) != policy:
            yield Patch(kind, live.metadata.key, live.metadata.uid, {"spec": {RETENTION: policy}})
        claim = o.find(PERSISTENT_VOLUME_CLAIM, names.redis_claim(o.name))
        if claim is not None and _referred(claim, live.metadata.uid):
            body = {"metadata": {"ownerReferences": None}}
            yield Patch(PERSISTENT_VOLUME_CLAIM, claim.metadata.key, claim.metadata.uid, body)


def _referred(live: Resource, uid: str) -> bool:
    return any(each.uid == uid for each in live.metadata.owner_references)
