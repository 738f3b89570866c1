"""The reconciler of observabilities: what it watches, and what it sees of one."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    CNPG_DATABASE_ROLE,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    PALENA_GATEWAY,
    PALENA_OBSERVABILITY,
)
from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.api.palena.shared import Reference
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.palena.common import gateway_names
from magicstick.palena.common.addresses import CLUSTER_DOMAIN
from magicstick.palena.common.children import text
from magicstick.palena.common.declaring import declare
from magicstick.palena.common.edges import definitions, gateway_changed, owned, read_secrets, schema
from magicstick.palena.common.facts import PalenaFacts
from magicstick.palena.common.frame import Subject
from magicstick.palena.common.gateways import find_gateway
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.references import Target
from magicstick.palena.common.referrers import Reference as Referred
from magicstick.palena.common.referrers import Referrers
from magicstick.palena.common.secrets import SECRET, Entropy, draw
from magicstick.palena.observability.callbacks import Shape
from magicstick.palena.observability.database import role_recipe
from magicstick.palena.observability.decide import decide, decide_failure, needed_kinds
from magicstick.palena.observability.keys import keys_recipe
from magicstick.palena.observability.named import secret_names
from magicstick.palena.observability.names import Names
from magicstick.palena.observability.observation import ObservabilityObservation, Place, Schemas
from magicstick.palena.observability.redis import redis_source
from magicstick.runtime.plan import Plan
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Edge, meaning_changed

NAME: Final = "palena-observability"


class ObservabilityReconciler:
    """Keeps Langfuse, its database and the gateway's callback for each PalenaObservability, and its status.

    The watch needs: PalenaObservabilities and PalenaGateways, the objects that are made for observabilities,
    all Secrets, Clusters, Databases, DatabaseRoles, LiteLLMInstances, LangfuseInstances, and the definitions
    of the foreign kinds.
    """

    def __init__(
        self,
        facts: PalenaFacts,
        reads: Reads,
        entropy: Entropy,
        *,
        shape: Shape | None = None,
        domain: str = CLUSTER_DOMAIN,
    ) -> None:
        self._facts = facts
        self._entropy = entropy
        self._shape = shape
        self._domain = domain
        self._referrers = Referrers(reads, PALENA_OBSERVABILITY, references_of)
        self._sources = Referrers(reads, PALENA_GATEWAY, _redis_of)
        self._declaration = self._declare()

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: Callable[[Iterable[ObjectKey]], None]) -> None:
        """Nothing but watched objects matters here."""

    async def observe(self, key: ObjectKey) -> ObservabilityObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        live = self._facts.find(PALENA_OBSERVABILITY, *key)
        return None if live is None else self._observation(live)

    def decide(self, observation: ObservabilityObservation, now: datetime) -> Plan:
        """See `decide.decide`."""
        return decide(observation, now)

    def decide_failure(self, observation: ObservabilityObservation, error: ApiError, now: datetime) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error, now)

    # --- observing -------------------------------------------------------------------------------

    def _observation(self, live: Resource) -> ObservabilityObservation:
        spec, facts = parse(PalenaObservabilitySpec, live), self._facts
        needed = () if isinstance(spec, InvalidSpec) else needed_kinds(spec)
        subject = Subject(live, spec, facts.prerequisites(*needed), facts.blind(READ))
        standing = ObservabilityObservation(subject, NOWHERE, shape=self._shape, domain=self._domain)
        reference = gateway_ref(live)
        if subject.blind or reference is None:
            return standing
        gateway = find_gateway(facts, reference, live.metadata.namespace)
        target, gateway_spec = gateway.target, gateway.spec
        found = {place: facts.find(*place) for place in self._places(live, spec, target, gateway_spec)}
        known = {place: each for place, each in found.items() if each is not None}
        complete = replace(
            standing,
            gateway=target,
            gateway_spec=gateway_spec,
            live=known,
            cluster=facts.find(CNPG_CLUSTER, target.namespace, gateway_names.cluster(target.name)),
            instance=facts.find(LITELLM_INSTANCE, target.namespace, gateway_names.instance(target.name)),
            older=self._older(live, target),
            schemas=self._schemas(),
        )
        return complete if isinstance(spec, InvalidSpec) else self._with_fresh(complete, spec)

    def _with_fresh(
        self, o: ObservabilityObservation, spec: PalenaObservabilitySpec
    ) -> ObservabilityObservation:
        """With new values for what its Secrets lack."""
        keys = keys_recipe(o.names, o.namespace, o.domain)
        role = role_recipe(o.names, spec.database.owner, o.gateway.namespace)
        return replace(
            o,
            fresh_keys=draw(keys, o.beside(SECRET, o.names.api_keys), self._entropy),
            fresh_role=draw(role, o.at_gateway(SECRET, o.names.role), self._entropy),
        )

    def _places(
        self,
        live: Resource,
        spec: PalenaObservabilitySpec | InvalidSpec,
        target: Target,
        gateway: PalenaGatewaySpec | None,
    ) -> Iterator[Place]:
        home, there = live.metadata.namespace, target.namespace
        names = Names(live.metadata.name)
        yield from ((SECRET, home, each) for each in (names.api_keys, names.database, names.redis))
        yield LANGFUSE_INSTANCE, home, names.langfuse
        yield from ((SECRET, there, each) for each in (names.api_keys, names.role))
        yield from ((kind, there, names.langfuse) for kind in (CNPG_DATABASE, CNPG_DATABASE_ROLE))
        yield from ((NETWORK_POLICY, there, each) for each in (names.to_postgres, names.to_redis))
        if gateway is not None:
            yield SECRET, there, redis_source(target.name, gateway)[0]
        if not isinstance(spec, InvalidSpec):
            yield from ((SECRET, home, each) for each in secret_names(spec))

    def _schemas(self) -> Schemas:
        facts = self._facts
        return Schemas(
            langfuse=facts.schema(LANGFUSE_INSTANCE),
            litellm=facts.schema(LITELLM_INSTANCE),
            cluster=facts.schema(CNPG_CLUSTER),
            database=facts.schema(CNPG_DATABASE),
            role=facts.schema(CNPG_DATABASE_ROLE),
            roles_served=facts.prerequisites(CNPG_DATABASE_ROLE).met,
        )

    def _older(self, live: Resource, target: Target) -> str:
        """The observability whose the callback of this gateway is, if it is another's: the oldest one's.

        One that is going, wants no callback, or may not use the gateway, stands in nobody's way.
        """
        keys = self._referrers.of(PALENA_GATEWAY, target.namespace, target.name)
        rivals = (self._facts.find(PALENA_OBSERVABILITY, *key) for key in keys if key != live.metadata.key)
        older = [each for each in rivals if each is not None and _age(each) < _age(live)]
        found = sorted((each for each in older if self._observes(each, target)), key=_age)
        return f"PalenaObservability {found[0].metadata.key}" if found else ""

    def _observes(self, live: Resource, target: Target) -> bool:
        spec = parse(PalenaObservabilitySpec, live)
        if isinstance(spec, InvalidSpec) or live.metadata.dying or not spec.callback.enabled:
            return False
        reference = Reference(name=target.name, namespace=target.namespace)
        return find_gateway(self._facts, reference, live.metadata.namespace).target.permitted

    # --- waking ----------------------------------------------------------------------------------

    def _declare(self) -> Declaration:
        foreign = (LANGFUSE_INSTANCE, LITELLM_INSTANCE, CNPG_CLUSTER, CNPG_DATABASE, CNPG_DATABASE_ROLE)
        edges = (
            *_own_edges(),
            read_secrets(self._by_secret, "whether what Langfuse is given is there, and the same"),
            Edge(
                PALENA_GATEWAY,
                self._referrers.wakes(PALENA_GATEWAY),
                "whether the gateway is ready, and what it shares",
                gateway_changed,
            ),
            Edge(
                PALENA_OBSERVABILITY,
                self._by_rival,
                "whose the callback of a gateway is",
                meaning_changed,
            ),
            Edge(LITELLM_INSTANCE, self._by_gateways_own, "whether the callback stands as it should"),
            Edge(CNPG_CLUSTER, self._by_gateways_own, "what CloudNativePG says of the role"),
            definitions(foreign, self._everyone, "whether the operators are there that are needed"),
            *(schema(kind, self._everyone) for kind in foreign),
        )
        return declare(NAME, PALENA_OBSERVABILITY, edges=edges, writes=WRITTEN)

    def _everyone(self) -> Iterable[ObjectKey]:
        return self._facts.keys(PALENA_OBSERVABILITY)

    def _by_secret(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """Those who name the Secret, and those whose gateway takes its Redis from it."""
        changed = new or old
        if changed is None:
            return ()
        place = (SECRET, *changed.metadata.key)
        gateways = self._sources.of(*place)
        behind = (key for each in gateways for key in self._referrers.of(PALENA_GATEWAY, *each))
        return dict.fromkeys((*self._referrers.of(*place), *behind))

    def _by_gateways_own(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """The observabilities of the gateway whose Cluster or LiteLLMInstance changed."""
        changed = new or old
        gateway = gateway_names.gateway_of(changed.metadata.name) if changed is not None else ""
        if changed is None or not gateway:
            return ()
        return self._referrers.of(PALENA_GATEWAY, changed.metadata.namespace, gateway)

    def _by_rival(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """The other observabilities of the gateway that one is for; itself hears of its changes anyway."""
        changed = new if new is not None else old
        if not isinstance(changed, Resource):
            return ()
        gateways = [each for each in references_of(changed) if each[0] == PALENA_GATEWAY]
        found = (key for each in gateways for key in self._referrers.of(*each))
        return [key for key in found if key != changed.metadata.key]


WRITTEN: Final = (
    SECRET,
    NETWORK_POLICY,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    CNPG_CLUSTER,
    CNPG_DATABASE,
    CNPG_DATABASE_ROLE,
)

READ: Final = (*WRITTEN, PALENA_GATEWAY)
"""What a decision rests on: none is made while one of these cannot be read."""

NOWHERE: Final = Target("", "")
"""The gateway of an observability that names none."""


def gateway_ref(observability: Resource) -> Reference | None:
    """Its gateway, from the object as it is stored; None where it names none.

    What was made beside the gateway has to go also when the rest of the spec cannot be read.
    """
    name = text(observability.spec, "gatewayRef", "name")
    namespace = text(observability.spec, "gatewayRef", "namespace")
    return Reference(name=name, namespace=namespace) if name else None


def references_of(observability: Resource) -> Iterable[Referred]:
    """What it refers to: its gateway, and Secrets, those beside the gateway included."""
    home, name = observability.metadata.key
    names = Names(name)
    yield from ((SECRET, home, each) for each in (names.api_keys, names.database, names.redis))
    spec = parse(PalenaObservabilitySpec, observability)
    if not isinstance(spec, InvalidSpec):
        yield from ((SECRET, home, each) for each in secret_names(spec))
    reference = gateway_ref(observability)
    if reference is None:
        return
    namespace, gateway = reference.place(home)
    yield PALENA_GATEWAY, namespace, gateway
    yield from ((SECRET, namespace, each) for each in (names.api_keys, names.role))


def _redis_of(gateway: Resource) -> Iterable[Referred]:
    """The Secret that a gateway's Redis is known by."""
    spec = parse(PalenaGatewaySpec, gateway)
    if isinstance(spec, InvalidSpec):
        return ()
    return ((SECRET, gateway.metadata.namespace, redis_source(gateway.metadata.name, spec)[0]),)


def _age(live: Resource) -> tuple[str, str, str]:
    return live.metadata.creation_timestamp, *live.metadata.key


def _own_edges() -> tuple[Edge[Any], ...]:
    whys: dict[Kind, str] = {
        LANGFUSE_INSTANCE: "what its operator says of Langfuse",
        CNPG_DATABASE: "what CloudNativePG says of the database",
        CNPG_DATABASE_ROLE: "what CloudNativePG says of the role",
        SECRET: "whether what is generated is there",
    }
    return (
        *(owned(kind, PALENA_OBSERVABILITY, why, labelled=False) for kind, why in whys.items()),
        owned(NETWORK_POLICY, PALENA_OBSERVABILITY, "whether Langfuse gets through the gateway's walls"),
    )
