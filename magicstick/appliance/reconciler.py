"""The reconciler of the Appliance: what it watches, and what it sees."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Protocol

import structlog

from magicstick.api.kinds import APPLIANCE, MODULE_ACTIVATION
from magicstick.appliance.aggregate import Entries
from magicstick.appliance.decide import ApplianceObservation, decide, report
from magicstick.appliance.entries import ModuleEntry, entry_key
from magicstick.appliance.seeding import Seeding, seeding
from magicstick.appliance.status import Outcome, Phase
from magicstick.catalogs.loader import Problem
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.modules.activations import auto_enabled, belongs_to, first_of
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import Site
from magicstick.modules.ports import Modules, Reads, WakeUp, on_new_state
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration, Edge

COALESCE_S = 1.0
"""Many modules change together; one status a second tells it all."""

log = structlog.get_logger(__name__)


class AllCatalogs(Modules, Protocol):
    """All catalogs; `catalogs.loader.Catalogs` is the real one."""

    @property
    def known(self) -> bool:
        """Whether each was read or could not be."""
        ...

    @property
    def usable(self) -> bool:
        """Whether there is a good copy of each that things are made from."""
        ...

    @property
    def problems(self) -> Mapping[str, Problem]:
        """What is wrong now, by catalog."""
        ...


class ApplianceReconciler:
    """Seeds the default modules of the one Appliance, and keeps its status. Never writes its spec."""

    def __init__(self, facts: ModuleFacts, reads: Reads, catalogs: AllCatalogs, resync_s: float) -> None:
        self._facts = facts
        self._reads = reads
        self._catalogs = catalogs
        self._told: frozenset[str] = frozenset()
        self._key = ObjectKey(facts.site.appliance_namespace, facts.site.appliance_name)
        self._declaration = _declare(facts.site, self._key, resync_s)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells: a catalog, a kind that can be read."""
        self._catalogs.subscribe(lambda _name, _old, _new: wake([self._key]))
        on_new_state(self._reads, [MODULE_ACTIVATION], lambda: wake([self._key]))

    async def observe(self, key: ObjectKey) -> ApplianceObservation | None:
        """None also for any other Appliance: there is one."""
        appliance = self._facts.appliance
        if key != self._key or appliance is None:
            return None
        site, catalogs = self._facts.site, self._catalogs
        if not catalogs.known or self._facts.blind_to_activations():
            return ApplianceObservation(appliance, site, known=False)
        wanted = seeding(appliance, self._facts)
        self._tell_unknown(wanted)
        return ApplianceObservation(
            appliance,
            site,
            catalogs_usable=catalogs.usable,
            problems=catalogs.problems,
            entries=Entries(tuple(module_entries(self._facts))),
            seeding=wanted,
        )

    def decide(self, observation: ApplianceObservation, now: datetime) -> Plan:  # noqa: ARG002 - no clock here
        """See `decide.decide`."""
        return decide(observation)

    def decide_failure(
        self,
        observation: ApplianceObservation,
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """A default module that cannot be made does not keep the status from telling of the others."""
        log.warning("a write for the Appliance was refused", error=error.message)
        return report(observation)

    def _tell_unknown(self, wanted: Seeding) -> None:
        """Say once that a name in `spec.modules` means nothing."""
        unknown = frozenset(wanted.unknown)
        if new := unknown - self._told:
            log.warning("the Appliance lists unknown modules; they are ignored", modules=sorted(new))
        self._told = unknown


def module_entries(facts: ModuleFacts) -> Iterator[ModuleEntry]:
    """One entry for each module that has an activation of our Appliance, sorted by module."""
    grouped: dict[str, list[Resource]] = {}
    for activation in facts.activations.list():
        if belongs_to(activation, facts.site):
            grouped.setdefault(facts.module_of(activation), []).append(activation)
    for module in sorted(grouped):
        speaker = first_of(module, grouped[module])
        if speaker is not None:
            yield module_entry(entry_key(module), speaker)


def module_entry(module: str, activation: Resource) -> ModuleEntry:
    """The entry of a module; a status of an earlier generation says nothing of what is wanted now."""
    status, auto = activation.status, auto_enabled(activation)
    kustomization = _text(status.get("kustomization"))
    if status.get("observedGeneration") != activation.metadata.generation or not status.get("phase"):
        message = "The activation is new or has changed."
        return ModuleEntry(module, Phase.RECONCILING.value, kustomization, auto, message)
    return ModuleEntry(module, _text(status["phase"]), kustomization, auto, _text(status.get("message")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _declare(site: Site, key: ObjectKey, resync_s: float) -> Declaration:
    def the_appliance(_old: Resource | None, _new: Resource | None) -> Iterable[ObjectKey]:
        return [key]

    return Declaration(
        name="appliance",
        primary=APPLIANCE,
        namespace=site.appliance_namespace,
        owns_status=True,
        writes=frozenset({MODULE_ACTIVATION}),
        workers=1,
        coalesce_s=COALESCE_S,
        edges=(
            Edge(
                MODULE_ACTIVATION,
                the_appliance,
                "which default modules are missing, and how each module stands",
                _told_apart,
                namespace=site.appliance_namespace,
            ),
        ),
        requeue_s={**dict.fromkeys(Phase, resync_s), Outcome.HELD: resync_s, Outcome.LEAVING: None},
    )


def _told_apart(old: View | None, new: View | None) -> bool:
    """Whether an activation looks different in the status of the Appliance."""
    if not (isinstance(old, Resource) and isinstance(new, Resource)):
        return True
    return (
        old.metadata.generation != new.metadata.generation
        or old.metadata.dying != new.metadata.dying
        or _line(old) != _line(new)
    )


def _line(activation: Resource) -> ModuleEntry:
    return module_entry("", activation)
