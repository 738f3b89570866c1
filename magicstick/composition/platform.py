"""Modules, hardware and the Appliance."""

from dataclasses import dataclass

from magicstick.appliance.reconciler import ApplianceReconciler
from magicstick.catalogs.loader import Catalogs
from magicstick.gpu.facts import HardwareFacts
from magicstick.gpu.reconciler import HardwareReconciler
from magicstick.gpu.sightings import DETECTION_SETTLE_S
from magicstick.kube.discovery import Discovery
from magicstick.modules.orphans import OrphanReconciler
from magicstick.modules.reconciler import ModuleReconciler
from magicstick.runtime.clock import Clock
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Followed
from magicstick.runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class Platform:
    """The reconcilers by name, and what the rest of the operator asks of them."""

    modules: ModuleReconciler
    hardware: HardwareFacts
    appliance: ApplianceReconciler
    reconcilers: tuple[Followed, ...]
    """All of them, to be declared to the `Reads` that they were given."""


def platform(
    reads: Reads,
    catalogs: Catalogs,
    settings: Settings,
    discovery: Discovery,
    clock: Clock,
    *,
    settle_s: float = DETECTION_SETTLE_S,
) -> Platform:
    """The platform's half. `settle_s`: how long a label of a node has to stand before it counts."""
    resync_s = settings.requeue_seconds
    modules = ModuleReconciler(reads, catalogs, settings, discovery)
    facts = HardwareFacts(modules.facts, reads, clock, settle_s=settle_s)
    appliance = ApplianceReconciler(facts, reads, catalogs, resync_s)
    orphans = OrphanReconciler(modules.facts, reads, catalogs, resync_s)
    hardware = HardwareReconciler(facts, catalogs, resync_s)
    return Platform(modules, facts, appliance, (modules, orphans, hardware, appliance))
