"""The reconciler of gateways: what it watches, and what it sees of one."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE, PALENA_GATEWAY, PALENA_MODEL
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.palena.common import labels
from magicstick.palena.common.declaring import declare
from magicstick.palena.common.edges import definitions, owned, read_secrets, schema
from magicstick.palena.common.facts import PalenaFacts, Place
from magicstick.palena.common.frame import Subject
from magicstick.palena.common.kinds import NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.model_refs import gateways_of
from magicstick.palena.common.referrers import Reference, Referrers
from magicstick.palena.common.secrets import SECRET, Entropy, draw
from magicstick.palena.common.storage_classes import classes, growing
from magicstick.palena.gateway import names
from magicstick.palena.gateway.decide import decide, decide_failure
from magicstick.palena.gateway.observation import (
    GatewayObservation,
    Site,
    keys_recipe,
    named_secrets,
    needed_kinds,
    places,
    redis_recipe,
)
from magicstick.runtime.plan import Plan
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Edge, meaning_changed

NAME: Final = "palena-gateway"


class GatewayReconciler:
    """Keeps database, cache, LiteLLM and NetworkPolicies of each PalenaGateway, and its status.

    The watch needs: PalenaGateways and PalenaModels, the objects that are made for gateways, Secrets,
    Clusters, LiteLLMInstances, StorageClasses, and the definitions of foreign kinds.
    """

    def __init__(self, facts: PalenaFacts, reads: Reads, entropy: Entropy, site: Site) -> None:
        self._facts = facts
        self._reads = reads
        self._entropy = entropy
        self._site = site
        self._readers = Referrers(reads, PALENA_GATEWAY, _references)
        self._models = Referrers(reads, PALENA_MODEL, gateways_of)
        self._declaration = declare(
            NAME, PALENA_GATEWAY, edges=(*_own_edges(), *self._surrounding_edges()), writes=READ
        )

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: Callable[[Iterable[ObjectKey]], None]) -> None:
        """Nothing but watched objects matters here."""

    async def observe(self, key: ObjectKey) -> GatewayObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        live = self._facts.find(PALENA_GATEWAY, *key)
        return None if live is None else self._observation(live)

    def decide(self, observation: GatewayObservation, now: datetime) -> Plan:
        """See `decide.decide`."""
        return decide(observation, now)

    def decide_failure(self, observation: GatewayObservation, error: ApiError, now: datetime) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error, now)

    # --- observing -------------------------------------------------------------------------------

    def _observation(self, gateway: Resource) -> GatewayObservation:
        facts, (namespace, name) = self._facts, gateway.metadata.key
        spec = parse(PalenaGatewaySpec, gateway)
        needed = () if isinstance(spec, InvalidSpec) else needed_kinds(spec)
        external = isinstance(spec, PalenaGatewaySpec) and spec.database.mode == "external"
        read = tuple(kind for kind in READ if not (external and kind == CNPG_CLUSTER))
        subject = Subject(gateway, spec, facts.prerequisites(*needed), facts.blind(read))
        if subject.blind:
            return GatewayObservation(subject)
        wanted = (place for place in (*places(name), *_named(spec)) if place[0] in read)
        live = facts.present(namespace, wanted)
        return GatewayObservation(
            subject=subject,
            live=live,
            fresh_redis=draw(
                redis_recipe(name, namespace), live.get((SECRET, names.redis(name))), self._entropy
            ),
            fresh_keys=draw(keys_recipe(name), live.get((SECRET, names.keys_secret(name))), self._entropy),
            cluster_schema=facts.schema(CNPG_CLUSTER),
            instance_schema=facts.schema(LITELLM_INSTANCE),
            claim_grows=bool(
                growing(self._reads, [live.get((PERSISTENT_VOLUME_CLAIM, names.redis_claim(name)))])
            ),
            models=len(self._models.of(PALENA_GATEWAY, namespace, name)),
            site=self._site,
        )

    # --- waking ----------------------------------------------------------------------------------

    def _everyone(self) -> Iterable[ObjectKey]:
        return self._facts.keys(PALENA_GATEWAY)

    def _surrounding_edges(self) -> tuple[Edge[Any], ...]:
        foreign = (CNPG_CLUSTER, LITELLM_INSTANCE)
        return (
            read_secrets(
                self._readers.wakes(SECRET),
                "the addresses and keys that gateways are given, and those that CloudNativePG makes",
            ),
            Edge(
                PERSISTENT_VOLUME_CLAIM,
                _by_claim,
                "whether the data of Redis lives, and how large its volume is",
                label_selector=labels.OURS,
            ),
            Edge(
                PALENA_MODEL,
                _by_model,
                "how many models refer to the gateway",
                meaning_changed,
            ),
            classes("whether the volume of Redis may grow"),
            definitions(foreign, self._everyone, "whether CloudNativePG and the LiteLLM operator are there"),
            *(schema(kind, self._everyone) for kind in foreign),
        )


READ: Final = (
    SECRET,
    STATEFUL_SET,
    SERVICE,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    CNPG_CLUSTER,
    LITELLM_INSTANCE,
)
"""What a decision rests on, and what is written: none is made while one of these cannot be read."""


def _named(spec: PalenaGatewaySpec | InvalidSpec) -> tuple[Place, ...]:
    return () if isinstance(spec, InvalidSpec) else tuple((SECRET, name) for name in named_secrets(spec))


def _references(gateway: Resource) -> Iterable[Reference]:
    """The Secrets that a gateway reads: its own, those that it names, and that of its Cluster."""
    namespace, name = gateway.metadata.key
    spec = parse(PalenaGatewaySpec, gateway)
    own = tuple(wanted for kind, wanted in places(name) if kind == SECRET)
    named = () if isinstance(spec, InvalidSpec) else named_secrets(spec)
    return tuple((SECRET, namespace, each) for each in (*own, *named))


def _by_claim(old: View | None, new: View | None) -> Iterable[ObjectKey]:
    """A StatefulSet's volumes have no owner of ours, but the labels that it gives them."""
    changed = new or old
    if changed is None:
        return ()
    name = changed.metadata.labels.get(labels.OWNER_LABELS[PALENA_GATEWAY])
    return (ObjectKey(changed.metadata.namespace, name),) if name else ()


def _by_model(old: View | None, new: View | None) -> Iterable[ObjectKey]:
    """The gateways that a model names, and those that it named before."""
    models = (each for each in (old, new) if isinstance(each, Resource))
    return dict.fromkeys(
        ObjectKey(namespace, name) for each in models for _, namespace, name in gateways_of(each)
    )


def _own_edges() -> tuple[Edge[Any], ...]:
    """What is made for gateways: a change or a deletion wakes the gateway."""
    whys: dict[Kind, str] = {
        STATEFUL_SET: "whether Redis is ready",
        SERVICE: "whether Redis is reached as it should be",
        NETWORK_POLICY: "whether nothing is let in but what the gateway needs",
    }
    return (
        *(owned(kind, PALENA_GATEWAY, why) for kind, why in whys.items()),
        owned(CNPG_CLUSTER, PALENA_GATEWAY, "what CloudNativePG says of the database", labelled=False),
        owned(LITELLM_INSTANCE, PALENA_GATEWAY, "what its operator says of LiteLLM", labelled=False),
    )
