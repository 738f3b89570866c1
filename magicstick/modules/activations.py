"""Which activation speaks for a module, whatever the users called it.

An activation is indexed by what its user wrote, never by the canonical key: what a name means depends
on the catalog, which may change at any time, and an index must not. A module's activations are those
found under one of its spellings whose name the catalog resolves to it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from magicstick.api import labels
from magicstick.catalogs.modules import BUILT_IN_ALIASES, STATIC_KUSTOMIZATIONS, ModuleCatalog
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.modules.objects import Site

MODULE_INDEX: Final = "module"
"""Activations by `module_text`, Kustomizations of ours by their module label; both in lower case."""

KUSTOMIZATION_INDEX: Final = "kustomization"
"""Activations by the Kustomization that their status names."""


def module_text(activation: Resource) -> str:
    """What the activation calls its module; its own name where it says nothing."""
    text = activation.spec.get("module")
    return (text.strip() if isinstance(text, str) else "") or activation.metadata.name


def enabled(activation: Resource) -> bool | None:
    """Whether the module is wanted; absent means yes. None for a value that is no boolean."""
    value = activation.spec.get("enabled")
    if value is None:
        return True
    return value if isinstance(value, bool) else None


def belongs_to(activation: Resource, site: Site) -> bool:
    """Whether `spec.applianceRef` means the Appliance of this site; what is absent does."""
    reference = activation.spec.get("applianceRef")
    if not isinstance(reference, Mapping):
        return True
    name = reference.get("name", site.appliance_name)
    namespace = reference.get("namespace", site.appliance_namespace)
    return bool(name == site.appliance_name and namespace == site.appliance_namespace)


def auto_enabled(activation: Resource) -> bool:
    """Whether the operator made the activation, and nobody has touched it since."""
    return activation.metadata.annotations.get(labels.AUTO_ENABLED) == labels.TRUE


def first_of(module: str, activations: Iterable[Resource]) -> Resource | None:
    """The one that speaks for the module; None when there is none.

    One that is being deleted comes after all others: the module stays while another wants it. Then the
    one whose name is the canonical key, the oldest, the first by name (spec: magicstick-api §4.2).
    """
    return min(activations, key=lambda each: _rank(module, each), default=None)


def _rank(module: str, activation: Resource) -> tuple[bool, bool, str, str]:
    metadata = activation.metadata
    return metadata.dying, metadata.name != module, metadata.creation_timestamp, metadata.name


def index_activations(store: Store[Resource]) -> Store[Resource]:
    """Make sure of the indexes by which activations are looked up."""
    store.index(MODULE_INDEX, _by_text)
    store.index(KUSTOMIZATION_INDEX, _by_kustomization)
    return store


def _by_text(activation: Resource) -> tuple[str, ...]:
    return (module_text(activation).casefold(),)


def _by_kustomization(activation: Resource) -> tuple[str, ...]:
    name = activation.status.get("kustomization")
    return (name,) if isinstance(name, str) and name else ()


class Names:
    """What one catalog's names lead to. Made once per catalog."""

    def __init__(self, catalog: ModuleCatalog) -> None:
        self.catalog = catalog
        self._spellings: dict[str, set[str]] = {}
        for key, definition in catalog.modules.items():
            self._spell(key, *definition.aliases)
        for key in catalog.invalid:
            self._spell(key, *catalog.invalid_aliases.get(key, ()))
        for alias in BUILT_IN_ALIASES:
            self._spell(catalog.canonical(alias), alias)
        self._by_flux_name: dict[str | None, str] = {
            **{name: key for key, name in STATIC_KUSTOMIZATIONS.items() if key in catalog.invalid},
            **{catalog.flux_name(key): key for key in catalog.modules},
        }
        self._by_crd: dict[str, list[str]] = {}
        for key, definition in catalog.modules.items():
            for crd in definition.required_crds if definition.wait_for_ready else ():
                self._by_crd.setdefault(crd, []).append(key)

    def spellings(self, module: str) -> Iterable[str]:
        """In lower case, all texts that may mean the module."""
        return self._spellings.get(module, {module.casefold()})

    def module_of(self, flux_name: str) -> str | None:
        """The module whose readiness is that of this Kustomization."""
        return self._by_flux_name.get(flux_name)

    def modules_with_crd(self, crd: str) -> Iterable[str]:
        """The modules that are ready only when this definition is established."""
        return self._by_crd.get(crd, ())

    def _spell(self, key: str, *names: str) -> None:
        self._spellings.setdefault(key, {key.casefold()}).update(name.casefold() for name in names)
