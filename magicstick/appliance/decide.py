"""The decision about the Appliance: seed what is missing, then say how everything stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from magicstick.api.kinds import MODULE_ACTIVATION
from magicstick.appliance.aggregate import Entries, appliance_status
from magicstick.appliance.seeding import Seeding
from magicstick.appliance.status import Outcome
from magicstick.catalogs.loader import Problem
from magicstick.kube.objects import Resource
from magicstick.modules.objects import Site, auto_activation
from magicstick.runtime.plan import Create, Plan


@dataclass(frozen=True, slots=True)
class ApplianceObservation:
    """The Appliance and everything that belongs to it, read from the caches at one moment."""

    appliance: Resource
    site: Site
    known: bool = True
    """False while activations or catalogs cannot be read; nothing else counts then."""
    catalogs_usable: bool = True
    """Whether there is a good copy of every catalog that things are made from."""
    problems: Mapping[str, Problem] = field(default_factory=dict)
    """What is wrong with the catalogs, by name."""
    entries: Entries = field(default_factory=Entries)
    seeding: Seeding = field(default_factory=Seeding)


def decide(o: ApplianceObservation) -> Plan:
    """Creations of missing default modules, and the complete status. Total."""
    if o.appliance.metadata.dying:
        return Plan(Outcome.LEAVING)
    if not o.known:
        return Plan(Outcome.HELD)
    steps = tuple(Create(MODULE_ACTIVATION, auto_activation(module, o.site)) for module in o.seeding.create)
    return report(o, steps)


def report(o: ApplianceObservation, steps: tuple[Create, ...] = ()) -> Plan:
    """The status as it is; also what is said after a creation was refused, since others may go on."""
    status = appliance_status(
        o.appliance.metadata.generation,
        o.entries,
        o.seeding.seeded,
        o.problems,
        catalogs_usable=o.catalogs_usable,
    )
    return Plan(status["phase"], steps, status=status, independent=True)
