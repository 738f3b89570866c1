"""The namespaces that Paperclip makes for its companies: bounded, and closed but for two ways out.

Paperclip creates and deletes them itself. Each is bound to the one instance that it was made by, while that
instance is wanted; one without such an owner loses its permission to reach out, and keeps its bounds
(spec: modules-and-apps §11).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

import structlog

from magicstick.api.kinds import APP_INSTANCE
from magicstick.apps.facts import InstanceFacts, target_of
from magicstick.apps.kinds import LIMIT_RANGE, NETWORK_POLICY, RESOURCE_QUOTA
from magicstick.apps.objects import is_ours
from magicstick.apps.observation import application_of
from magicstick.apps.tenant_objects import (
    COMPANY,
    EGRESS,
    MANAGED_BY,
    PLUGIN,
    Tenant,
    concurrent_agents,
    egress,
    limits,
    quota,
)
from magicstick.kube.errors import ApiError
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import NAMESPACE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.modules.activations import belongs_to, enabled
from magicstick.modules.ports import Reads, WakeUp, on_new_state
from magicstick.modules.wakes import identity_changed
from magicstick.runtime.plan import Apply, Delete, Plan
from magicstick.runtime.reconciler import Declaration, Edge, meaning_changed

log = structlog.get_logger(__name__)

APPLICATION: Final = "paperclip"
_SELECTOR: Final = f"{MANAGED_BY}={PLUGIN}"
_WRITES: Final = (NETWORK_POLICY, RESOURCE_QUOTA, LIMIT_RANGE)


class TenantOutcome(StrEnum):
    """How a pass over a namespace ended."""

    NOT_OURS = "NotOurs"
    """Paperclip did not make it, or it is going; it is never touched."""
    HELD = "Held"
    """Whose it is, or what is in it, is not known now; nothing is changed."""
    BOUND = "Bound"
    """It has an owner, and what belongs in it."""
    UNOWNED = "Unowned"
    """It has none, or several; nothing in it may reach out by our doing."""
    FAILED = "Failed"
    """The API server refused a step."""


@dataclass(frozen=True, slots=True)
class TenantObservation:
    """One namespace, and whose it is."""

    namespace: Resource
    ours: bool = True
    known: bool = True
    """Whether instances and policies can be read."""
    owner: Resource | None = None
    litellm_namespace: str = "ai"
    policy: Resource | None = None
    """The NetworkPolicy of our name in it, whosever it is."""


class TenantReconciler:
    """Looks at each namespace that says it is Paperclip's. Writes no status: the object is not ours."""

    def __init__(self, facts: InstanceFacts, reads: Reads, litellm_namespace: str, resync_s: float) -> None:
        self._facts = facts
        self._reads = reads
        self._litellm_namespace = litellm_namespace
        self._declaration = Declaration(
            name="tenants",
            primary=NAMESPACE,
            owns_status=False,
            writes=frozenset(_WRITES),
            edges=(
                Edge(
                    APP_INSTANCE,
                    self._by_instance,
                    "whose namespace it is, and how many agents may run",
                    identity_changed,
                    namespace=facts.site.appliance_namespace,
                ),
                *map(_content_edge, _WRITES),
            ),
            requeue_s={**dict.fromkeys(TenantOutcome, resync_s), TenantOutcome.NOT_OURS: None},
        )

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called when instances or policies can be read again."""
        on_new_state(self._reads, (APP_INSTANCE, *_WRITES), lambda: wake(self._reads.store(NAMESPACE).keys()))

    async def observe(self, key: ObjectKey) -> TenantObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        namespace: Resource | None = self._reads.store(NAMESPACE).get(key)
        if namespace is None:
            return None
        if not _is_tenant(namespace) or namespace.metadata.dying:
            return TenantObservation(namespace, ours=False)
        policy: Resource | None = self._reads.store(NETWORK_POLICY).get(ObjectKey(key.name, EGRESS))
        known, owner = self._known(), self._owner(namespace)
        return TenantObservation(
            namespace, known=known, owner=owner, litellm_namespace=self._litellm_namespace, policy=policy
        )

    def decide(self, observation: TenantObservation, now: datetime) -> Plan:  # noqa: ARG002 - no clock here
        """See the module's docstring."""
        return decide(observation)

    def decide_failure(
        self,
        observation: TenantObservation,
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """There is no status of ours to report in: it is logged, and tried again slowly."""
        name = observation.namespace.metadata.name
        log.warning("a namespace of Paperclip cannot be bound", namespace=name, error=error.message)
        return Plan(TenantOutcome.FAILED)

    def _known(self) -> bool:
        home = self._facts.site.appliance_namespace
        places = ((APP_INSTANCE, home), *((kind, "") for kind in _WRITES))
        return all(self._reads.state(kind, place) is InformerState.SYNCED for kind, place in places)

    def _owner(self, namespace: Resource) -> Resource | None:
        """The single instance that the namespace is named after; None for none and for several."""
        company = namespace.metadata.labels.get(COMPANY, "")
        name = namespace.metadata.name.removesuffix(f"-{company}")
        if not company or name == namespace.metadata.name:
            return None
        instance = self._facts.instance(name)
        return instance if instance is not None and _owns(instance, self._facts) else None

    def _by_instance(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """The namespaces that are named after an instance of Paperclip."""
        names = {
            each.metadata.name
            for each in (old, new)
            if each is not None and application_of(each) == APPLICATION
        }
        for namespace in self._reads.store(NAMESPACE).list() if names else ():
            if any(namespace.metadata.name.startswith(f"{name}-") for name in names):
                yield namespace.metadata.key


def decide(o: TenantObservation) -> Plan:
    """What to do next in a namespace. Pure and total."""
    if not o.ours:
        return Plan(TenantOutcome.NOT_OURS)
    if not o.known:
        return Plan(TenantOutcome.HELD)
    if o.owner is None:
        return Plan(TenantOutcome.UNOWNED, _closing(o.policy))
    values = o.owner.spec.get("values")
    tenant = Tenant(
        namespace=o.namespace.metadata.name,
        company=o.namespace.metadata.labels[COMPANY],
        instance=o.owner.metadata.name,
        target=target_of(o.owner),
        litellm_namespace=o.litellm_namespace,
        agents=concurrent_agents(values if isinstance(values, Mapping) else {}),
    )
    steps = (
        Apply(NETWORK_POLICY, egress(tenant)),
        Apply(RESOURCE_QUOTA, quota(tenant)),
        Apply(LIMIT_RANGE, limits(tenant)),
    )
    return Plan(TenantOutcome.BOUND, steps, independent=True)


def _closing(policy: Resource | None) -> tuple[Delete, ...]:
    if policy is None or policy.metadata.dying or not is_ours(policy):
        return ()
    return (Delete(NETWORK_POLICY, policy.metadata.key, policy.metadata.uid),)


def _is_tenant(namespace: Resource) -> bool:
    return namespace.metadata.labels.get(MANAGED_BY) == PLUGIN


def _owns(instance: Resource, facts: InstanceFacts) -> bool:
    return (
        application_of(instance) == APPLICATION
        and enabled(instance) is not False
        and not instance.metadata.dying
        and belongs_to(instance, facts.site)
    )


def _in_namespace(old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
    changed = new or old
    return () if changed is None else (ObjectKey("", changed.metadata.namespace),)


def _content_edge(kind: Kind) -> Edge[Resource]:
    return Edge(kind, _in_namespace, _WHY[kind], meaning_changed, label_selector=_SELECTOR)


_WHY: Final = {
    NETWORK_POLICY: "whether what runs there may reach LiteLLM and Paperclip, and nothing else",
    RESOURCE_QUOTA: "whether all that runs there together is bounded",
    LIMIT_RANGE: "whether each container that runs there is bounded",
}
