"""What `why` sees, made of a few objects: stores in states that a test sets, and nothing that runs."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.loader import Problem
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import View
from magicstick.kube.store import MODIFIED, Store
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import Site
from magicstick.runtime.settings import Settings
from magicstick.why.edges import Graph, around
from magicstick.why.sight import Sight
from tests.support.module_world import FakeDefinitions

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Shelf:
    """Stores by kind; empty and synced until something is put in, or a state is set."""

    def __init__(self) -> None:
        self.stores: dict[Kind, Store[Any]] = {}
        self.states: dict[Kind, InformerState] = {}

    def put(self, kind: Kind, *objects: View) -> None:
        for each in objects:
            self.store(kind).event(MODIFIED, each)

    def store(self, kind: Kind, *_scope: str | None, **_named: str | None) -> Store[Any]:
        if kind not in self.stores:
            self.stores[kind] = Store(kind.plural)
            self.stores[kind].replace([], 0)
        return self.stores[kind]

    def state(self, kind: Kind, *_scope: str | None, **_named: str | None) -> InformerState:
        return self.states.get(kind, InformerState.SYNCED)

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        """Nothing changes here."""


class Copies:
    """Catalogs that a test sets."""

    def __init__(self, modules: ModuleCatalog | None) -> None:
        self.modules = modules
        self.applications: ApplicationCatalog | None = None
        self.compute_targets: ComputeTargetCatalog | None = None
        self.problems: Mapping[str, Problem] = {}

    def subscribe(self, handler: Callable[[str, Any, Any], None]) -> None:
        """Nothing changes here."""


def sight(
    shelf: Shelf,
    modules: ModuleCatalog | None,
    *,
    definitions: FakeDefinitions | None = None,
    reasons: Mapping[Kind, str] | None = None,
) -> Sight:
    """What there is to see of these objects at `NOW`."""
    settings = Settings(magicstick_enable_palena=True)
    copies, known = Copies(modules), definitions or FakeDefinitions()
    return Sight(
        stores=shelf,
        reason=lambda kind: (reasons or {}).get(kind, ""),
        settings=settings,
        facts=ModuleFacts(shelf, copies, Site.of(settings), known),
        catalogs=copies,
        appliance=None,
        hardware={},
        graph=Graph(around(settings)),
        now=NOW,
    )
