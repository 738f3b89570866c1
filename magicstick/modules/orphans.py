"""Removes Kustomizations of ours that no activation stands behind any more.

That happens when an activation went without its finalizer, or now means another module. Nothing is
removed unless activations and catalog are known: a list that failed shows no absence, and only the
catalog tells which names mean one module (spec: modules-and-apps §5.5).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import structlog

from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.catalogs.modules import RESERVED_KUSTOMIZATIONS
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.modules.facts import ModuleFacts, is_ours, label_of
from magicstick.modules.plans import removal
from magicstick.modules.ports import Modules, Reads, WakeUp, on_new_catalog, on_new_state
from magicstick.modules.wakes import identity_changed
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration, Edge

log = structlog.get_logger(__name__)


class OrphanOutcome(StrEnum):
    """How a pass over a Kustomization ended."""

    NOT_OURS = "NotOurs"
    """The operator did not generate it; it is never touched."""
    CLAIMED = "Claimed"
    """An activation stands behind it."""
    HELD = "Held"
    """Whether one does is not known now; nothing is removed."""
    REMOVING = "Removing"
    """None does: it is resumed, deleted, and gone once Flux has pruned."""
    FAILED = "Failed"
    """The API server refused a step of the removal."""


@dataclass(frozen=True, slots=True)
class OrphanObservation:
    """One Kustomization, and whether anybody stands behind it."""

    kustomization: Resource
    ours: bool
    known: bool
    """Whether activations and catalog can be read."""
    claimed: bool


class OrphanReconciler:
    """Looks at each Kustomization in Flux's namespace. Writes no status: the object is Flux's."""

    def __init__(self, facts: ModuleFacts, reads: Reads, catalogs: Modules, resync_s: float) -> None:
        self._facts = facts
        self._reads = reads
        self._catalogs = catalogs
        self._declaration = _declare(facts, resync_s, self._by_activation)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells: another catalog, a kind that can be read."""
        on_new_catalog(self._catalogs, lambda _old, _new: wake(self._facts.kustomizations.keys()))
        on_new_state(self._reads, [MODULE_ACTIVATION], lambda: wake(self._facts.kustomizations.keys()))

    async def observe(self, key: ObjectKey) -> OrphanObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        kustomization = self._facts.kustomizations.get(key)
        if kustomization is None:
            return None
        ours = is_ours(kustomization) and key.name not in RESERVED_KUSTOMIZATIONS
        known = self._facts.catalog is not None and not self._facts.blind()
        return OrphanObservation(kustomization, ours, known, _claimed(kustomization, self._facts))

    def decide(self, observation: OrphanObservation, now: datetime) -> Plan:  # noqa: ARG002 - no clock here
        """See the module's docstring."""
        if not observation.ours:
            return Plan(OrphanOutcome.NOT_OURS)
        if not observation.known:
            return Plan(OrphanOutcome.HELD)
        if observation.claimed:
            return Plan(OrphanOutcome.CLAIMED)
        return Plan(OrphanOutcome.REMOVING, removal([observation.kustomization]))

    def decide_failure(
        self,
        observation: OrphanObservation,
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """There is no status of ours to report in: it is logged, and tried again slowly."""
        key = str(observation.kustomization.metadata.key)
        log.warning("an orphaned Kustomization cannot be removed", key=key, error=error.message)
        return Plan(OrphanOutcome.FAILED)

    def _by_activation(self, old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
        """What it stood behind, and what it stands behind now."""
        facts = self._facts
        for activation in (old, new):
            if activation is None:
                continue
            for each in facts.generated(facts.module_of(activation)):
                yield each.metadata.key
            name = activation.status.get("kustomization")
            if isinstance(name, str) and name:
                yield ObjectKey(facts.site.flux_namespace, name)


def _claimed(kustomization: Resource, facts: ModuleFacts) -> bool:
    """Whether an activation, of whatever Appliance, stands behind it: by label, by name, or by its status.

    Its status counts for a module that the catalog does not know: the name by which the activation
    called it may have gone with the entry.
    """
    return any(facts.activations_of(module) for module in _modules_of(kustomization, facts)) or any(
        facts.catalog is not None and facts.module_of(each) not in facts.catalog.modules
        for each in facts.claimants(kustomization.metadata.name)
    )


def _modules_of(kustomization: Resource, facts: ModuleFacts) -> Iterator[str]:
    if label := label_of(kustomization):
        yield facts.canonical(label)
    named = facts.names.module_of(kustomization.metadata.name) if facts.names is not None else None
    if named is not None:
        yield named


def _declare(
    facts: ModuleFacts,
    resync_s: float,
    wakes: Callable[[Resource | None, Resource | None], Iterable[ObjectKey]],
) -> Declaration:
    return Declaration(
        name="orphans",
        primary=KUSTOMIZATION,
        namespace=facts.site.flux_namespace,
        owns_status=False,
        writes=frozenset({KUSTOMIZATION}),
        edges=(
            Edge(
                MODULE_ACTIVATION,
                wakes,
                "whether an activation stands behind the Kustomization",
                identity_changed,
                namespace=facts.site.appliance_namespace,
            ),
        ),
        requeue_s={**dict.fromkeys(OrphanOutcome, resync_s), OrphanOutcome.NOT_OURS: None},
    )
