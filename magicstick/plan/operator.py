"""The reconcilers as the operator makes them, and whom a change wakes; without anything that acts."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from magicstick.api.kinds import GROUP, PALENA_GROUP
from magicstick.catalogs.loader import Catalogs
from magicstick.composition.apps import apps
from magicstick.composition.models import models
from magicstick.composition.palena import palena
from magicstick.composition.platform import platform
from magicstick.kube.cache import Caches
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.scope import Scope
from magicstick.kube.store import Store
from magicstick.models.catalog_facts import PublishedModels
from magicstick.models.ports import Seams
from magicstick.modules.facts import ModuleFacts
from magicstick.plan.unknown import PlannedEntropy
from magicstick.runtime.clock import Clock
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Edge, Followed, meaning_changed
from magicstick.runtime.settings import Settings

Wake = Callable[[str, Iterable[ObjectKey]], None]
"""Told (name of a reconciler, keys that it has to look at)."""


@dataclass(frozen=True, slots=True)
class Halves:
    """Which halves of the operator are asked: what nobody asks need not be read."""

    appliance: bool = True
    palena: bool = False

    @classmethod
    def of(cls, groups: Container[str], settings: Settings) -> Self:
        """Those that objects of these API groups concern. What is of neither surrounds the appliance.

        The appliance knows nothing of Palena; models of Palena may stand on models of the appliance.
        """
        palena = PALENA_GROUP in groups
        return cls(GROUP in groups or not palena, palena or settings.magicstick_enable_palena)


@dataclass(frozen=True, slots=True)
class ApplianceHalf:
    """What others ask of the appliance's half."""

    catalogs: Catalogs
    modules: ModuleFacts


@dataclass(frozen=True, slots=True)
class Operator:
    """As much of it as is asked. The caches are to be run and synced before anything is asked."""

    caches: Caches
    reconcilers: Mapping[str, Followed]
    appliance: ApplianceHalf | None
    halves: Halves

    @classmethod
    def over(
        cls, caches: Caches, settings: Settings, clock: Clock, halves: Halves | None = None
    ) -> "Operator":
        """The operator that these settings describe, over these caches. None: the appliance's half."""
        wanted = halves or Halves()
        discovery = Discovery(caches.add(CUSTOM_RESOURCE_DEFINITION, view=CrdView).store)
        found: list[Followed] = []
        appliance = None
        if wanted.appliance:
            appliance = ApplianceHalf(*_appliance(caches, settings, discovery, clock, found))
        if wanted.palena:
            reads = Reads(caches)
            found += _declared(palena(reads, settings, discovery, PlannedEntropy()), reads)
        return cls(caches, {each.declaration.name: each for each in found}, appliance, wanted)

    @property
    def declarations(self) -> Iterator[Declaration]:
        """What each reads and writes."""
        return (each.declaration for each in self.reconcilers.values())

    @property
    def kinds(self) -> frozenset[Kind]:
        """Everything that is read."""
        return frozenset(scope.kind for each in self.declarations for scope in scopes(each))

    def store(self, declaration: Declaration) -> Store[Resource]:
        """The primary objects of a reconciler."""
        return self.caches.store_of(declaration.scope)

    def follow(self, wake: Wake) -> None:
        """Have `wake` called for every change from now on, as in the daemon."""
        listening = False

        def tell(name: str, keys: Iterable[ObjectKey]) -> None:
            if listening:
                wake(name, keys)

        for name, each in self.reconcilers.items():
            each.follow(lambda keys, name=name: tell(name, keys))  # type: ignore[misc] # binds the name now
            self._follow(each.declaration, tell)
        # A store tells a new subscriber of everything that it holds: that is no news here.
        listening = True

    def _follow(self, declaration: Declaration, tell: Wake) -> None:
        def primary(old: Resource | None, new: Resource | None) -> None:
            latest = new or old
            if latest is not None and meaning_changed(old, new):
                tell(declaration.name, [latest.metadata.key])

        def along(edge: Edge[Any]) -> Callable[[View | None, View | None], None]:
            def changed(old: View | None, new: View | None) -> None:
                if edge.changed(old, new):
                    tell(declaration.name, edge.wakes(old, new))

            return changed

        self.store(declaration).subscribe(primary)
        for edge in declaration.edges:
            self.caches.store_of(edge.scope).subscribe(along(edge))


def _appliance(
    caches: Caches, settings: Settings, discovery: Discovery, clock: Clock, found: list[Followed]
) -> tuple[Catalogs, ModuleFacts]:
    """Adds the reconcilers of the appliance to those that were found."""
    reads, catalogs = Reads(caches), Catalogs(caches, settings)
    # What a label says counts at once: nobody is to wait for a plan until it has settled.
    base = platform(reads, catalogs, settings, discovery, clock, settle_s=0.0)
    facts, seams = base.modules.facts, Seams(publication=PublishedModels(reads))
    made = (
        *base.reconcilers,
        *models(facts, reads, catalogs, settings, clock, seams),
        *apps(facts, reads, catalogs, settings, discovery),
    )
    found += _declared(made, reads)
    return catalogs, facts


def _declared(found: Iterable[Followed], reads: Reads) -> Iterator[Followed]:
    for each in found:
        reads.declare(each.declaration)
        yield each


def scopes(declaration: Declaration) -> Iterator[Scope]:
    """Everything that a reconciler reads."""
    yield declaration.scope
    yield from (edge.scope for edge in declaration.edges)
