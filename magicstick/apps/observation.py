"""Everything that a decision about one instance is made from, as one frozen value."""

from dataclasses import dataclass, field
from typing import Final

from magicstick.api.app_instance import AppInstanceSpec, AppInstanceStatus
from magicstick.api.appliance import Source
from magicstick.api.parse import InvalidSpec
from magicstick.apps.ports import Domains, GatewaySite, LiveAccess
from magicstick.catalogs.applications import ApplicationDefinition
from magicstick.kube.objects import Resource
from magicstick.modules.activations import enabled
from magicstick.modules.facts import Readiness
from magicstick.modules.objects import Site
from magicstick.runtime.plan import Create

UNKNOWN_DOMAINS: Final = Domains("", "", "")
"""Nobody could read the settings yet."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the application catalog says of the application."""

    definition: ApplicationDefinition | None = None
    """None when there is no usable entry."""
    problem: str = ""
    """Why the entry cannot be used; "" when there is no entry at all."""


@dataclass(frozen=True, slots=True)
class RequiredModule:
    """One module that the application needs."""

    name: str
    readiness: Readiness


@dataclass(frozen=True, slots=True)
class Place:
    """The target namespace."""

    exists: bool = True
    dying: bool = False
    service: Resource | None = None
    """The Service there that has the name of the instance's backend, whosever it is."""


@dataclass(frozen=True, slots=True)
class InstanceObservation:
    """One instance and its surroundings, read from the caches at one moment."""

    instance: Resource
    spec: AppInstanceSpec | InvalidSpec
    status: AppInstanceStatus
    """What was reported last; while something is waited for, its addresses stay."""
    site: Site = field(default_factory=Site)
    gateway: GatewaySite = field(default_factory=GatewaySite)
    ours: bool = True
    """False when the instance belongs to another Appliance; nothing else counts then."""
    blind: str = ""
    """Why the objects of the instance cannot be told now; "" when they can."""
    releases: tuple[Resource, ...] = ()
    """All HelmReleases of ours that install this instance."""
    stranger: Resource | None = None
    """The HelmRelease of somebody else that has the instance's name."""
    live: LiveAccess = field(default_factory=LiveAccess)
    """What stands of the way in."""
    unserved: tuple[str, ...] = ()
    """Definitions of Flux and the gateway, without which nothing can be made, that are not served."""
    entry: Entry | None = None
    """None while there never was a good application catalog."""
    unknown: str = ""
    """Why what the instance needs cannot be told now; "" when it can."""
    domains: Domains = UNKNOWN_DOMAINS
    """Under which names the appliance is served; unknown only together with `unknown`."""
    host_owner: str = ""
    """The older instance that is served under the host name of this one; "" when there is none."""
    modules: tuple[RequiredModule, ...] = ()
    """What the application requires, in order."""
    requests: tuple[Create, ...] = ()
    """Makes the activations of required modules that have none."""
    missing_crds: tuple[str, ...] = ()
    """Definitions that the application requires and that are not established."""
    place: Place = field(default_factory=Place)
    source: Source | None = None
    """Where Flux takes the chart from; None while the Appliance cannot be read."""
    retries: bool = True
    """Whether the served HelmRelease knows the strategy that tries again."""

    @property
    def name(self) -> str:
        """Of the instance, and of its release."""
        return self.instance.metadata.name

    @property
    def generation(self) -> int:
        """The generation that a status speaks of."""
        return self.instance.metadata.generation

    @property
    def dying(self) -> bool:
        """Whether the instance is being deleted."""
        return self.instance.metadata.dying

    @property
    def enabled(self) -> bool:
        """Whether the instance is wanted; what is no boolean does not switch it off."""
        return enabled(self.instance) is not False

    @property
    def application(self) -> str:
        """The key of the application, as far as the spec says."""
        return application_of(self.instance)

    @property
    def definition(self) -> ApplicationDefinition | None:
        """The usable entry of the application catalog."""
        return self.entry.definition if self.entry is not None else None

    @property
    def release(self) -> Resource | None:
        """The HelmRelease that has the instance's own name."""
        return next((each for each in self.releases if each.metadata.name == self.name), None)


def application_of(instance: Resource) -> str:
    """The application that an instance names; "" where it names none."""
    value = instance.spec.get("application")
    return value if isinstance(value, str) else ""
