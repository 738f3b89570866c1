"""Which activations have to be looked at again after a change of something that they depend on.

The cost of a change is that of what it concerns: an activation, its siblings, and its dependants only
where the change can mean something to them. A Kustomization whose readiness stays what it was wakes no
dependant, however often Flux looks at it.
"""

from collections.abc import Iterable, Iterator

from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.discovery import CrdView
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.modules.activations import module_text
from magicstick.modules.facts import ModuleFacts, label_of, source_of
from magicstick.modules.readiness_memory import ReadinessMemory


def identity_changed(old: View | None, new: View | None) -> bool:
    """Passes creation, deletion, the start of a deletion, and changes of the spec."""
    if old is None or new is None:
        return True
    a, b = old.metadata, new.metadata
    return a.uid != b.uid or a.generation != b.generation or a.dying != b.dying


def establishment_changed(old: View | None, new: View | None) -> bool:
    """Whether a CustomResourceDefinition became established, or is it no more."""
    before, after = (isinstance(each, CrdView) and each.established for each in (old, new))
    return before != after


class Wakes:
    """From changes to the keys of activations. Remembers the last certain readiness of each module."""

    def __init__(self, facts: ModuleFacts) -> None:
        self._facts = facts
        self._memory = ReadinessMemory(facts)

    def by_activation(self, old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
        """Its siblings, one of which may speak for the module now, and its dependants."""
        modules = {self._facts.module_of(each) for each in (old, new) if each is not None}
        return self._keys(modules | self._dependants(modules))

    def by_kustomization(self, old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
        """Its module; and that module's dependants when it came, went, or changed its readiness."""
        present = [each for each in (old, new) if each is not None]
        name = present[0].metadata.name
        modules = {self._facts.canonical(label) for each in present if (label := label_of(each))}
        named = self._named(name, modules)
        if named is not None:
            modules.add(named)
            if self._memory.flipped(name, named, new) or new is None:
                modules |= self._dependants({named})
        yield from self._keys(modules)
        yield from (each.metadata.key for each in self._facts.claimants(name))

    def by_appliance(self, _old: Resource | None, _new: Resource | None) -> Iterable[ObjectKey]:
        """All, since each one's Kustomization names the source."""
        return self._facts.activations.keys()

    def source_changed(self, old: View | None, new: View | None) -> bool:
        """Whether our Appliance names another source now."""
        site = self._facts.site
        ours = [
            each if isinstance(each, Resource) and each.metadata.name == site.appliance_name else None
            for each in (old, new)
        ]
        return source_of(ours[0], site) != source_of(ours[1], site)

    def by_definition(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """The modules that wait for this CustomResourceDefinition, and their dependants."""
        latest = new or old
        if latest is None or self._facts.names is None:
            return ()
        modules = set(self._facts.names.modules_with_crd(latest.metadata.name))
        return self._keys(modules | self._dependants(modules))

    def by_catalog(self, old: ModuleCatalog | None, new: ModuleCatalog) -> Iterator[ObjectKey]:
        """The activations for which the two catalogs say different things."""
        for activation in self._facts.activations.list():
            text = module_text(activation)
            if old is None or _meaning(old, text) != _meaning(new, text):
                yield activation.metadata.key

    def _named(self, name: str, labelled: Iterable[str]) -> str | None:
        """The module whose readiness is that of this Kustomization, also while its entry is invalid."""
        names = self._facts.names
        if names is None:
            return None
        invalid = (each for each in labelled if each in names.catalog.invalid)
        return names.module_of(name) or next(invalid, None)

    def _keys(self, modules: Iterable[str]) -> Iterator[ObjectKey]:
        for module in modules:
            for activation in self._facts.activations_of(module):
                yield activation.metadata.key

    def _dependants(self, modules: Iterable[str]) -> set[str]:
        catalog = self._facts.catalog
        if catalog is None:
            return set()
        return {dependant for module in modules for dependant in catalog.dependants(module)}


def _meaning(catalog: ModuleCatalog, text: str) -> tuple[object, ...]:
    """Everything that a catalog says of what a user calls `text`."""
    key = catalog.canonical(text)
    required = tuple(
        (each, catalog.flux_name(each), catalog.modules.get(each)) for each in catalog.requires(key)
    )
    return key, catalog.modules.get(key), catalog.invalid.get(key), catalog.cycle_of(key), required
