"""The reconciler of the Appliance: what it watches, and what it sees."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final, Protocol

import structlog

from magicstick.api.kinds import APP_INSTANCE, APPLIANCE, MODEL_ACTIVATION, MODULE_ACTIVATION
from magicstick.appliance.aggregate import Entries
from magicstick.appliance.decide import ApplianceObservation, decide, report
from magicstick.appliance.seeding import Seeding, seeding
from magicstick.appliance.sources import (
    hardware_entry,
    instance_entries,
    instance_entry,
    model_entries,
    model_entry,
    module_entries,
    module_entry,
    reported_instances,
    reported_models,
)
from magicstick.appliance.status import Outcome, Phase
from magicstick.catalogs.loader import Problem
from magicstick.gpu.facts import HardwareFacts, edges
from magicstick.kube.errors import ApiError
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.modules.ports import Modules, Reads, WakeUp, on_new_state
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration, Edge

COALESCE_S = 1.0
"""Many modules change together; one status a second tells it all."""

_KINDS: Final = (MODULE_ACTIVATION, APP_INSTANCE, MODEL_ACTIVATION, NODE, CUSTOM_RESOURCE_DEFINITION)

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

    def __init__(self, hardware: HardwareFacts, reads: Reads, catalogs: AllCatalogs, resync_s: float) -> None:
        self._facts = facts = hardware.modules
        self._hardware = hardware
        self._reads = reads
        self._catalogs = catalogs
        self._told: frozenset[str] = frozenset()
        self._key = ObjectKey(facts.site.appliance_namespace, facts.site.appliance_name)
        self._declaration = _declare(hardware, self._key, resync_s)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells: a catalog, a kind that can be read."""
        self._catalogs.subscribe(lambda _name, _old, _new: wake([self._key]))
        on_new_state(self._reads, _KINDS, lambda: wake([self._key]))
        self._hardware.follow(lambda: wake([self._key]))

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
            entries=self._entries(appliance),
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

    def _entries(self, appliance: Resource) -> Entries:
        """Everything that belongs to the Appliance; of kinds that cannot be read, what was told last."""
        site, status = self._facts.site, appliance.status
        instances, models = self._read(APP_INSTANCE), self._read(MODEL_ACTIVATION)
        return Entries(
            tuple(module_entries(self._facts)),
            reported_instances(status, _unreadable(APP_INSTANCE))
            if instances is None
            else instance_entries(instances, site),
            reported_models(status, _unreadable(MODEL_ACTIVATION))
            if models is None
            else model_entries(models, site),
            tuple(map(hardware_entry, self._hardware.provider_states())),
        )

    def _read(self, kind: Kind) -> Iterable[Resource] | None:
        """All objects of a kind of ours; None while they cannot be read, which is no absence."""
        namespace = self._facts.site.appliance_namespace
        if self._reads.state(kind, namespace) is not InformerState.SYNCED:
            return None
        return self._reads.store(kind, namespace).list()

    def _tell_unknown(self, wanted: Seeding) -> None:
        """Say once that a name in `spec.modules` means nothing."""
        unknown = frozenset(wanted.unknown)
        if new := unknown - self._told:
            log.warning("the Appliance lists unknown modules; they are ignored", modules=sorted(new))
        self._told = unknown


def _unreadable(kind: Kind) -> str:
    return f"{kind.kind}s cannot be read now. What else stands here is as it was last."


def _declare(hardware: HardwareFacts, key: ObjectKey, resync_s: float) -> Declaration:
    def the_appliance(_old: View | None, _new: View | None) -> Iterable[ObjectKey]:
        return [key]

    namespace = hardware.modules.site.appliance_namespace
    return Declaration(
        name="appliance",
        primary=APPLIANCE,
        namespace=namespace,
        owns_status=True,
        writes=frozenset({MODULE_ACTIVATION}),
        workers=1,
        coalesce_s=COALESCE_S,
        edges=(
            Edge(
                MODULE_ACTIVATION,
                the_appliance,
                "which default modules are missing, and how each module stands",
                _told_apart(partial(module_entry, "")),
                namespace=namespace,
            ),
            Edge(
                APP_INSTANCE,
                the_appliance,
                "how each application instance stands",
                _told_apart(instance_entry),
                namespace=namespace,
            ),
            Edge(
                MODEL_ACTIVATION,
                the_appliance,
                "how each model stands",
                _told_apart(model_entry),
                namespace=namespace,
            ),
            *edges(hardware, the_appliance),
        ),
        requeue_s={**dict.fromkeys(Phase, resync_s), Outcome.HELD: resync_s, Outcome.LEAVING: None},
    )


def _told_apart(entry: Callable[[Resource], object]) -> Callable[[View | None, View | None], bool]:
    """The predicate that passes what looks different in the status of the Appliance."""

    def told_apart(old: View | None, new: View | None) -> bool:
        if not (isinstance(old, Resource) and isinstance(new, Resource)):
            return True
        return (
            old.metadata.generation != new.metadata.generation
            or old.metadata.dying != new.metadata.dying
            or entry(old) != entry(new)
        )

    return told_apart
