"""Which subject stands for a module, for its catalog, and for what cannot be read."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.kinds import CONFIG_MAP, Kind
from magicstick.why.causes import MODULE, Cause, Hint, Subject
from magicstick.why.sight import Sight

ANY: Final = "*"
"""In place of a name, where all objects of a kind are meant."""


def module_subject(module: str, sight: Sight) -> Subject:
    """What stands for a module: its activation, the Kustomization of a static one, or the module itself."""
    definition = sight.facts.catalog.modules.get(module) if sight.facts.catalog is not None else None
    if definition is not None and definition.static:
        return sight.place(KUSTOMIZATION, sight.facts.flux_name(module) or module)
    activation = sight.facts.activation(module)
    if activation is not None:
        return Subject.of(MODULE_ACTIVATION, activation.metadata.key)
    return Subject(MODULE, module)


def catalog_subject(sight: Sight) -> Subject:
    """The ConfigMap of the module catalog."""
    settings = sight.settings
    return Subject(CONFIG_MAP, settings.module_catalog_name, settings.module_catalog_namespace)


def not_in_catalog(subject: Subject, sight: Sight) -> Cause:
    """The root for a module that the catalog does not know."""
    catalog = sight.facts.catalog
    known = sorted(catalog.modules) if catalog is not None else []
    near = get_close_matches(subject.name, known, n=1)
    text = f"Did you mean {near[0]}? " if near else ""
    place = catalog_subject(sight)
    look = place.command("get", "-o", "yaml")
    return Cause(subject, "is not in the module catalog", hint=Hint(f"{text}See what the catalog has.", look))


def unread(kinds: Iterable[Kind], sight: Sight) -> Iterator[Subject]:
    """Subjects of those kinds that cannot be read."""
    for kind in kinds:
        if not sight.known(kind):
            yield sight.place(kind, ANY)
