"""What the rest of the operator may know of modules: is one ready, and if not, why.

Guarantees
    Everything is read from caches, at the cost of the modules asked for. What cannot be read is UNKNOWN
    and never absent: nobody suspends, deletes or downgrades anything because of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from magicstick.api import labels
from magicstick.api.appliance import Source
from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.catalogs.modules import STATIC_KUSTOMIZATIONS, ModuleCatalog, ModuleDefinition
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.modules.activations import (
    KUSTOMIZATION_INDEX,
    MODULE_INDEX,
    Names,
    belongs_to,
    enabled,
    first_of,
    index_activations,
    module_text,
)
from magicstick.modules.flux import FluxState, verdict
from magicstick.modules.objects import Site
from magicstick.modules.ports import Definitions, Modules, Reads


class Gap(StrEnum):
    """Why a module is not ready, as the end of a sentence that begins with its name.

    Few and coarse: whoever waits for the module is woken when its gap changes, and not otherwise.
    """

    NOT_IN_CATALOG = "is not in the module catalog"
    INVALID_ENTRY = "has an invalid entry in the module catalog"
    NO_ACTIVATION = "has no activation"
    NAME_TAKEN = "has no activation, and an object of another module or Appliance has its name"
    DISABLED = "is disabled"
    BEING_REMOVED = "is being removed"
    NOT_INSTALLED = "is not installed"
    NOT_OURS = "is blocked by a Kustomization that is not ours"
    NOT_READY = "is not ready"
    WITHOUT_CRDS = "lacks a CustomResourceDefinition"


class State(Enum):
    """Whether a module is ready."""

    READY = "ready"
    NOT_READY = "not ready"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Readiness:
    """A module's readiness; `why` completes a sentence that begins with the module's name."""

    state: State
    why: str = ""


READY: Final = Readiness(State.READY)
CHECKING: Final = Readiness(State.UNKNOWN, "is being checked by Flux")
"""It was ready at this generation and Flux has not finished looking at it again."""


def not_ready(gap: Gap) -> Readiness:
    """Certainly not ready."""
    return Readiness(State.NOT_READY, gap.value)


def unknown(why: str) -> Readiness:
    """Nothing may be concluded."""
    return Readiness(State.UNKNOWN, why)


def is_ours(resource: Resource) -> bool:
    """Whether the operator generated the object."""
    return resource.metadata.labels.get(labels.MANAGED_BY) == labels.OPERATOR


def readiness_of(kustomization: Resource | None, *, static: bool) -> Readiness:
    """What a module's Kustomization says of it; those of static modules belong to Git."""
    if kustomization is None:
        return not_ready(Gap.NOT_INSTALLED)
    if not (static or is_ours(kustomization)):
        return not_ready(Gap.NOT_OURS)
    match verdict(kustomization).state:
        case FluxState.READY:
            return READY
        case FluxState.CHECKING:
            return CHECKING
        case _:
            return not_ready(Gap.NOT_READY)


class ModuleFacts:
    """See the module. Cheap to keep; every question is answered from the caches as they are then."""

    def __init__(self, reads: Reads, catalogs: Modules, site: Site, definitions: Definitions) -> None:
        self.site = site
        self._reads = reads
        self._catalogs = catalogs
        self._definitions = definitions
        self._names: Names | None = None

    # --- the catalog -----------------------------------------------------------------------------

    @property
    def names(self) -> Names | None:
        """The names of the catalog in force; None while there never was a good one."""
        catalog = self._catalogs.modules
        if catalog is None:
            return None
        if self._names is None or self._names.catalog is not catalog:
            self._names = Names(catalog)
        return self._names

    @property
    def catalog(self) -> ModuleCatalog | None:
        """The catalog in force; None while there never was a good one."""
        return self._catalogs.modules

    def canonical(self, name: str) -> str:
        """The key of the module that `name` means; unchanged while there is no catalog."""
        return name if self.catalog is None else self.catalog.canonical(name)

    # --- activations -----------------------------------------------------------------------------

    @property
    def activations(self) -> Store[Resource]:
        """All activations, of other Appliances too, with their indexes."""
        return index_activations(self._reads.store(MODULE_ACTIVATION, self.site.appliance_namespace))

    def activations_of(self, module: str) -> tuple[Resource, ...]:
        """The activations of a module by its canonical key, of other Appliances too."""
        found = self._under(self.activations, module)
        return tuple(each for each in found if self.module_of(each) == module)

    def module_of(self, activation: Resource) -> str:
        """The canonical key of the module that the activation means."""
        return self.canonical(module_text(activation))

    def activation(self, module: str) -> Resource | None:
        """The activation that speaks for the module in our Appliance, in whatever state it is."""
        ours = [each for each in self.activations_of(module) if belongs_to(each, self.site)]
        return first_of(module, ours)

    def may_activate(self, module: str) -> bool:
        """Whether an activation of the module can be made: there is none, and its name is free."""
        taken = self.activations.get(ObjectKey(self.site.appliance_namespace, module)) is not None
        return not taken and not self.activations_of(module)

    # --- Kustomizations --------------------------------------------------------------------------

    @property
    def kustomizations(self) -> Store[Resource]:
        """All Kustomizations where ours are generated, with an index of ours by module label."""
        store: Store[Resource] = self._reads.store(KUSTOMIZATION, self.site.flux_namespace)
        store.index(MODULE_INDEX, _by_label)
        return store

    def kustomization(self, name: str) -> Resource | None:
        """A Kustomization by name, whosever it is."""
        return self.kustomizations.get(ObjectKey(self.site.flux_namespace, name))

    def generated(self, module: str) -> tuple[Resource, ...]:
        """The Kustomizations that we generated for a module, under whatever name it had then; by name."""
        found = self._under(self.kustomizations, module)
        labelled = [each for each in found if self.canonical(label_of(each)) == module]
        return tuple(sorted(labelled, key=lambda each: each.metadata.name))

    def claimants(self, name: str) -> tuple[Resource, ...]:
        """The activations whose status names this Kustomization."""
        return self.activations.by_index(KUSTOMIZATION_INDEX, name)

    @property
    def flux_served(self) -> bool:
        """False only when the server certainly serves no Kustomizations."""
        return self._reads.state(KUSTOMIZATION, self.site.flux_namespace) is not InformerState.ABSENT

    def blind(self) -> str:
        """Why nothing can be concluded about any module now; "" when everything can be read.

        A kind that is not served is no obstacle where it is Flux's: then there are no Kustomizations.
        """
        kustomizations = self._reads.state(KUSTOMIZATION, self.site.flux_namespace)
        if why := self.blind_to_activations():
            return why
        if kustomizations not in (InformerState.SYNCED, InformerState.ABSENT):
            return f"Kustomizations cannot be read now ({kustomizations})"
        return ""

    def blind_to_activations(self) -> str:
        """Why an activation that is not in the cache may exist all the same; "" when it does not."""
        state = self._reads.state(MODULE_ACTIVATION, self.site.appliance_namespace)
        return "" if state is InformerState.SYNCED else f"ModuleActivations cannot be read now ({state})"

    # --- readiness -------------------------------------------------------------------------------

    def readiness(self, module: str) -> Readiness:
        """Whether a module, by its canonical key, is ready to be built on (spec: modules-and-apps §6)."""
        catalog = self.catalog
        if catalog is None:
            return unknown("cannot be judged without a module catalog")
        if (why := self.blind()) or not self.flux_served:
            return unknown(f"cannot be judged: {why or 'Kustomizations are not served'}")
        definition = catalog.modules.get(module)
        if module in catalog.invalid:
            return self._installed_before(module)
        if definition is None:
            return not_ready(Gap.NOT_IN_CATALOG)
        gap = None if definition.static else self._activation_gap(module)
        return not_ready(gap) if gap is not None else self._installed(catalog, module, definition)

    def missing_crds(self, definition: ModuleDefinition) -> tuple[str, ...] | None:
        """The definitions that a module waits for; None while that is not known.

        Only modules with `waitForReady` do: Flux skips the health checks of those (spec: modules-and-apps
        §5.3).
        """
        if not definition.wait_for_ready:
            return ()
        answers = {name: self._definitions.established(name) for name in definition.required_crds}
        if None in answers.values():
            return None
        return tuple(name for name, established in answers.items() if not established)

    def _under(self, store: Store[Resource], module: str) -> list[Resource]:
        """What a store has under any text that may mean the module."""
        names = self.names
        spellings = {module.casefold()} if names is None else names.spellings(module)
        return [each for text in spellings for each in store.by_index(MODULE_INDEX, text)]

    def flux_name(self, module: str) -> str | None:
        """The Kustomization whose readiness is the module's; of an invalid entry, what there is of it."""
        catalog = self.catalog
        if catalog is None or module not in catalog.invalid:
            return None if catalog is None else catalog.flux_name(module)
        standing = STATIC_KUSTOMIZATIONS.get(module)
        return standing or next((each.metadata.name for each in self.generated(module)), None)

    def _installed_before(self, module: str) -> Readiness:
        """The readiness of a module whose entry is invalid now: what it was, for those that need it.

        A malformed entry costs only that entry: nobody is suspended while the module itself runs on
        (spec: magicstick-api §3).
        """
        static = module in STATIC_KUSTOMIZATIONS
        gap = None if static else self._activation_gap(module)
        if gap is not None:
            return not_ready(gap)
        name = self.flux_name(module)
        return (
            not_ready(Gap.INVALID_ENTRY)
            if name is None
            else readiness_of(self.kustomization(name), static=static)
        )

    def _activation_gap(self, module: str) -> Gap | None:
        """What the activation says against the module; an unreadable one says nothing."""
        activation = self.activation(module)
        if activation is None:
            return Gap.NO_ACTIVATION if self.may_activate(module) else Gap.NAME_TAKEN
        if activation.metadata.dying:
            return Gap.BEING_REMOVED
        return Gap.DISABLED if enabled(activation) is False else None

    def _installed(self, catalog: ModuleCatalog, module: str, definition: ModuleDefinition) -> Readiness:
        live = self.kustomization(catalog.flux_name(module) or "")
        readiness = readiness_of(live, static=definition.static)
        missing = self.missing_crds(definition)
        if readiness.state is not State.READY or missing == ():
            return readiness
        return (
            unknown("has definitions that cannot be read") if missing is None else not_ready(Gap.WITHOUT_CRDS)
        )

    # --- the Appliance ---------------------------------------------------------------------------

    @property
    def appliance(self) -> Resource | None:
        """The Appliance; its absence counts only when `source` is known."""
        key = ObjectKey(self.site.appliance_namespace, self.site.appliance_name)
        store: Store[Resource] = self._reads.store(APPLIANCE, self.site.appliance_namespace)
        return store.get(key)

    def source(self) -> Source | None:
        """Where Flux takes modules from; None while the Appliance cannot be read.

        Without an Appliance, and for each field that it does not give, GitRepository
        flux-system/flux-system (spec: modules-and-apps §2).
        """
        if self._reads.state(APPLIANCE, self.site.appliance_namespace) is not InformerState.SYNCED:
            return None
        return source_of(self.appliance, self.site)


def source_of(appliance: Resource | None, site: Site) -> Source:
    """The source that an Appliance names, with the defaults for what it does not."""
    given = appliance.spec.get("source") if appliance is not None else None
    source: Mapping[str, object] = given if isinstance(given, Mapping) else {}
    return Source(
        kind="GitRepository",
        name=_or_default(source.get("name"), "flux-system"),
        namespace=_or_default(source.get("namespace"), site.flux_namespace),
    )


def _or_default(value: object, default: str) -> str:
    return value if isinstance(value, str) and value else default


def label_of(kustomization: Resource) -> str:
    """The module that a Kustomization was generated for; "" when it does not say."""
    return kustomization.metadata.labels.get(labels.MODULE, "")


def _by_label(kustomization: Resource) -> tuple[str, ...]:
    module = label_of(kustomization)
    return (module.casefold(),) if module and is_ours(kustomization) else ()
