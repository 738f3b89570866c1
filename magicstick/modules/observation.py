"""Everything that a decision about one module is made from, as one frozen value."""

from dataclasses import dataclass, field

from magicstick.api.appliance import Source
from magicstick.api.module_activation import ModuleActivationSpec
from magicstick.api.parse import InvalidSpec
from magicstick.catalogs.modules import ModuleDefinition
from magicstick.kube.objects import Resource
from magicstick.modules.facts import Readiness
from magicstick.modules.objects import Site


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """What the catalog says of the module."""

    definition: ModuleDefinition | None = None
    """None when there is no usable entry."""
    problem: str = ""
    """Why the entry is disabled; "" when there is no entry at all."""
    cycle: tuple[str, ...] = ()
    """The modules that require each other in a circle with this one."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One required module."""

    module: str
    flux_name: str | None
    """Name of its Kustomization; None for a module that the catalog does not have."""
    exists: bool
    """Whether that Kustomization exists, ready or not."""
    readiness: Readiness


@dataclass(frozen=True, slots=True)
class ModuleObservation:
    """One activation and its surroundings, read from the caches at one moment."""

    activation: Resource
    module: str
    """The canonical key of what the activation calls its module."""
    spec: ModuleActivationSpec | InvalidSpec
    site: Site
    ours: bool = True
    """False when the activation belongs to another Appliance; nothing else counts then."""
    entry: CatalogEntry | None = None
    """None while there never was a good catalog; nothing else counts then."""
    blind: str = ""
    """Why nothing can be concluded now; "" when everything can be read."""
    speaker: str = ""
    """The activation that speaks for the module instead of this one; "" when this one does."""
    flux_served: bool = True
    """False when the server serves no Kustomizations."""
    live: Resource | None = None
    """The Kustomization that has the module's name, whosever it is."""
    generated: tuple[Resource, ...] = ()
    """All Kustomizations of ours that stand for the module, under its present name or a former one."""
    dependencies: tuple[Dependency, ...] = ()
    """What the module requires, in catalog order."""
    needs: tuple[str, ...] = ()
    """The modules whose activation has to be made for this one."""
    source: Source | None = field(default_factory=lambda: Source(kind="GitRepository", name="flux-system"))
    """Where Flux takes the module from; None while the Appliance cannot be read."""
    missing_crds: tuple[str, ...] | None = ()
    """Definitions that the module has to bring and has not; None while that is not known."""

    @property
    def generation(self) -> int:
        """The generation that a status speaks of."""
        return self.activation.metadata.generation

    @property
    def definition(self) -> ModuleDefinition | None:
        """The usable entry of the catalog."""
        return self.entry.definition if self.entry is not None else None

    @property
    def flux_name(self) -> str:
        """The name of the module's Kustomization; "" without a usable entry."""
        return self.definition.kustomization_name if self.definition is not None else ""

    @property
    def standing(self) -> str:
        """The name of a Kustomization of ours that stands for the module; "" when none does."""
        names = [each.metadata.name for each in self.generated]
        return self.flux_name if self.flux_name in names else next(iter(names), "")
