"""What modules need of the rest of the operator, as protocols, and how they hear of what no edge tells."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.store import Store
from magicstick.modules.objects import SiteSettings

WakeUp = Callable[[Iterable[ObjectKey]], None]
"""Puts keys into a controller's queue: `runtime.controller.Controller.wake`."""


class Reads(Protocol):
    """Where stores come from, and whether they can be believed; `kube.cache.Caches` is the real one."""

    def store(self, kind: Kind, namespace: str = "", name: str | None = None) -> Store[Any]:
        """The store of a kind in a scope."""
        ...

    def state(self, kind: Kind, namespace: str = "", name: str | None = None) -> InformerState:
        """Whether that store can be believed."""
        ...

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        """Call the handler when the state of a kind changes."""
        ...


class Modules(Protocol):
    """The module catalog, and news of it; `catalogs.loader.Catalogs` is the real one."""

    @property
    def modules(self) -> ModuleCatalog | None:
        """The last good copy; None before the first."""
        ...

    def subscribe(self, handler: Callable[[str, Any, Any], None]) -> None:
        """Call `handler(name, old copy, new copy)` after each change of a catalog or of its problem."""
        ...


class Definitions(Protocol):
    """Which CustomResourceDefinitions are there; `kube.discovery.Discovery` is the real one."""

    def established(self, crd_name: str) -> bool | None:
        """Whether it is Established; None while nothing is known."""
        ...


class ModuleSettings(SiteSettings, Protocol):
    """What the reconcilers need of the settings; `runtime.settings.Settings` has all of it."""

    @property
    def requeue_seconds(self) -> float: ...  # noqa: D102 - named like its variable


def on_new_catalog(catalogs: Modules, handler: Callable[[ModuleCatalog | None, ModuleCatalog], None]) -> None:
    """Call `handler(old, new)` whenever another module catalog comes into force."""

    def changed(_name: str, old: object, new: object) -> None:
        if isinstance(new, ModuleCatalog) and new is not old:
            handler(old if isinstance(old, ModuleCatalog) else None, new)

    catalogs.subscribe(changed)


def on_new_state(reads: Reads, kinds: Iterable[Kind], handler: Callable[[], None]) -> None:
    """Call `handler()` whenever one of the kinds can be read again, or cannot any more."""
    watched = frozenset(kinds)

    def changed(kind: Kind, _state: InformerState) -> None:
        if kind in watched:
            handler()

    reads.subscribe_state(changed)
