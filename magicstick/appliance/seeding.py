"""Which default modules of an Appliance are activated, once (spec: magicstick-api §4.3).

First the activation is created, then its module is recorded in `status.seededModules`; a process that
dies in between finds the activation there and records it. What is recorded is never seeded again, so an
activation that a user deletes stays deleted. The record lives and dies with the Appliance.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.objects import Resource
from magicstick.modules.facts import ModuleFacts

RECORD_LIMIT: Final = 256
"""Most modules that the schema lets `status.seededModules` hold; what cannot be recorded is not seeded."""


@dataclass(frozen=True, slots=True)
class Seeding:
    """What seeding wants now."""

    create: tuple[str, ...] = ()
    """Modules whose activation is to be created, sorted."""
    seeded: tuple[str, ...] = ()
    """The record as it should be, sorted: what it held, and what exists now."""
    unknown: tuple[str, ...] = ()
    """Names in `spec.modules` that mean no module."""


def seeding(appliance: Resource, facts: ModuleFacts) -> Seeding:
    """What to seed for an Appliance. Nothing without a catalog; assumes that activations are readable."""
    recorded, catalog = _recorded(appliance), facts.catalog
    if catalog is None:
        return Seeding(seeded=tuple(sorted(recorded)))
    wanted = set(_enabled(appliance))
    named = {catalog.canonical(name) for name in wanted}
    done = {catalog.canonical(name) for name in recorded}
    open_ = {module for module in named - done if _may_be_seeded(catalog, module)}
    existing = {module for module in open_ if _exists(module, facts)}
    seeded = tuple(sorted(recorded | existing)[:RECORD_LIMIT])
    create = sorted(module for module in open_ - existing if facts.may_activate(module))
    unknown = tuple(sorted(name for name in wanted if not _is_known(catalog, name)))
    return Seeding(tuple(create[: RECORD_LIMIT - len(seeded)]), seeded, unknown)


def _enabled(appliance: Resource) -> Iterator[str]:
    """The names whose entry says literally true; anything else seeds nothing, and removes nothing."""
    modules = appliance.spec.get("modules")
    for name, entry in modules.items() if isinstance(modules, Mapping) else ():
        if isinstance(entry, Mapping) and entry.get("enabled") is True:
            yield name


def _recorded(appliance: Resource) -> set[str]:
    recorded = appliance.status.get("seededModules")
    return (
        {each for each in recorded if isinstance(each, str)} if isinstance(recorded, list | tuple) else set()
    )


def _may_be_seeded(catalog: ModuleCatalog, module: str) -> bool:
    definition = catalog.modules.get(module)
    return definition is not None and not definition.static


def _exists(module: str, facts: ModuleFacts) -> bool:
    """Whether an activation is there to stay; one that is being deleted is neither there nor gone."""
    activation = facts.activation(module)
    return activation is not None and not activation.metadata.dying


def _is_known(catalog: ModuleCatalog, name: str) -> bool:
    module = catalog.canonical(name)
    return module in catalog.modules or module in catalog.invalid
