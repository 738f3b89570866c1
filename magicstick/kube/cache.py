"""All informers of the process: who is watched, what state each is in, and write-through to all.

Each kind stands on its own: one that is absent or cannot be read holds up no other. Informers may be
added while the caches run, and follow their CustomResourceDefinition as it comes and goes.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Protocol, TypeVar, overload

import anyio
import anyio.abc
import structlog

from magicstick.kube.informer import Informer, InformerState, Source, Tuning
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.projection import Projection
from magicstick.kube.pulse import Pulse
from magicstick.kube.scope import Scope
from magicstick.kube.store import Store
from magicstick.kube.timing import Clock, SystemClock

V = TypeVar("V", bound=View)

StateHandler = Callable[[Kind, InformerState], None]

log = structlog.get_logger(__name__)


class NotCachedError(LookupError):
    """No cache can tell: the kind is not watched as a whole object, or not synced at this moment."""


class NotSyncedError(TimeoutError):
    """Some kinds that are served did not sync in time. `missing` names each, with its reason."""

    def __init__(self, missing: tuple[str, ...], timeout_s: float) -> None:
        super().__init__(f"not synced within {timeout_s:g} s: {', '.join(missing)}")
        self.missing = missing


class KnowsServed(Protocol):
    """What the caches need of discovery."""

    def is_served(self, kind: Kind) -> bool:
        """Whether the kind's definition is there, established, and serves the version."""
        ...

    def subscribe(self, handler: Callable[..., None]) -> object:
        """Call the handler, with anything, after each change."""
        ...


class Caches:
    """See the module.

    Without a discovery (`follow`), absent kinds are looked for at the server instead.
    """

    def __init__(
        self,
        source: Source,
        *,
        tuning: Tuning | None = None,
        clock: Clock | None = None,
        chance: Random | None = None,
    ) -> None:
        self._source = source
        self._tuning = tuning or Tuning()
        self._clock = clock or SystemClock()
        self._chance = chance or Random()  # noqa: S311 # spreads requests, guards no secret
        self._informers: dict[Scope, Informer[Any]] = {}
        self._projections: dict[Kind, list[Projection[Any]]] = {}
        self._served: dict[Kind, bool | None] = {}
        self._handlers: list[StateHandler] = []
        self._discovery: KnowsServed | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._pulse = Pulse()

    # --- what is watched -------------------------------------------------------------------------

    @overload
    def add(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        name: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Informer[Resource]: ...

    @overload
    def add(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        name: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        view: type[V],
    ) -> Informer[V]: ...

    def add(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        name: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        view: type[View] = Resource,
    ) -> Informer[Any]:
        """Watch a kind, from now on if the caches run. Asking for the same again gives the same.

        Raises:
            ValueError: the same is watched with another view, or a selector is none.
        """
        return self.watch(Scope(kind, namespace, name, label_selector, field_selector), view)

    def watch(self, scope: Scope, view: type[View]) -> Informer[Any]:
        """The same as `add` for a scope."""
        kind, known = scope.kind, self._informers.get(scope)
        if known is not None:
            if known.view is not view:
                raise ValueError(f"{known.scope} is watched with another view already")
            return known
        informer: Informer[Any] = Informer(
            self._source,
            scope,
            view,
            served=lambda: self._is_served(kind),
            on_state=self._on_state,
            tuning=self._tuning,
            clock=self._clock,
            chance=self._chance,
        )
        self._informers[scope] = informer
        self._projections.setdefault(kind, []).append(Projection(informer))
        if self._group is not None:
            self._group.start_soon(informer.run)
        return informer

    def informer(self, kind: Kind, namespace: str = "", name: str | None = None) -> Informer[Any]:
        """The only informer of a place, whatever it selects by. Where there are several: `informer_of`.

        Raises:
            KeyError: nobody added it, or there are several.
        """
        place = (kind, namespace, name)
        found = [
            informer
            for scope, informer in self._informers.items()
            if (scope.kind, scope.namespace, scope.name) == place
        ]
        if len(found) != 1:
            trouble = "is watched by several selectors" if found else "is not watched"
            raise KeyError(f"{Scope(*place)} {trouble}")
        return found[0]

    def informer_of(self, scope: Scope) -> Informer[Any]:
        """The informer of exactly this scope. KeyError when nobody added it."""
        found = self._informers.get(scope)
        if found is None:
            raise KeyError(f"{scope} is not watched")
        return found

    def store_of(self, scope: Scope) -> Store[Any]:
        """The store of exactly this scope, in the view with which it was added. Raises like `informer_of`."""
        return self.informer_of(scope).store

    def state_of(self, scope: Scope) -> InformerState:
        """The state of exactly this scope. Raises like `informer_of`."""
        return self.informer_of(scope).state

    def informers(self) -> Iterator[Informer[Any]]:
        """Every informer, for metrics and health."""
        return iter(tuple(self._informers.values()))

    def store(self, kind: Kind, namespace: str = "", name: str | None = None) -> Store[Any]:
        """The store of a place, in the view with which it was added. Raises like `informer`."""
        return self.informer(kind, namespace, name).store

    def state(self, kind: Kind, namespace: str = "", name: str | None = None) -> InformerState:
        """The state of a place. Raises like `informer`."""
        return self.informer(kind, namespace, name).state

    def subscribe_state(self, handler: StateHandler) -> None:
        """Call `handler(kind, state)` when an informer's state changes.

        A kind becomes ABSENT before its store is emptied. An empty store of an absent kind says
        nothing of any object, and no subscriber of the store is told of deletions.
        """
        self._handlers.append(handler)

    # --- running ---------------------------------------------------------------------------------

    def follow(self, discovery: KnowsServed) -> None:
        """Start and stop informers with the definitions that `discovery` knows of.

        It counts only while the definitions themselves are watched by these caches, and synced.
        """
        self._discovery = discovery
        discovery.subscribe(self._on_discovery)

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                for informer in self._informers.values():
                    group.start_soon(informer.run)
                await anyio.sleep_forever()
            finally:
                self._group = None

    async def wait_synced(self, timeout_s: float) -> None:
        """Wait until every kind that is served is SYNCED. Nothing is waited for that is known to fail.

        Raises:
            NotSyncedError: the rest of them is FAILING, or not all were in time; it names the missing ones.
        """
        begun = self._clock.monotonic()
        while missing := self._missing():
            passed_s = self._clock.monotonic() - begun
            left_s = timeout_s - passed_s if self._undecided() else 0.0
            if left_s <= 0 or not await self._clock.wait(self._pulse.next(), left_s):
                raise NotSyncedError(missing, passed_s)

    def _undecided(self) -> bool:
        return any(informer.state is InformerState.SYNCING for informer in self._informers.values())

    def _missing(self) -> tuple[str, ...]:
        return tuple(
            f"{informer.scope} ({informer.state}{': ' if informer.reason else ''}{informer.reason})"
            for informer in self._informers.values()
            if informer.state not in (InformerState.SYNCED, InformerState.ABSENT)
        )

    # --- reading and write-through for the applier -----------------------------------------------

    def live(self, kind: Kind, key: ObjectKey) -> Resource | None:
        """The object as the caches know it; None when it does not exist.

        Raises:
            NotCachedError: no synced cache holds whole objects of this kind at this place; where one does
                that is limited by a selector, what it lacks may exist all the same.
        """
        found: Resource | None
        for projection in self._projections.get(kind, ()):
            if projection.tells_absence_of(key):
                found = projection.informer.store.get(key)
                return found
        for projection in self._projections.get(kind, ()):
            found = projection.known(key)
            if found is not None:
                return found
        raise NotCachedError(f"{kind} {key}")

    def written(self, kind: Kind, obj: Resource) -> None:
        """Take what a write returned into every store that it belongs to."""
        for projection in self._projections.get(kind, ()):
            projection.written(obj)

    def deleted(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        """Take that the object with this uid does not exist any more."""
        for projection in self._projections.get(kind, ()):
            projection.informer.store.deleted(key, uid)

    # --- states ----------------------------------------------------------------------------------

    def _is_served(self, kind: Kind) -> bool | None:
        """What discovery says; None when it cannot tell and the server should be asked."""
        definitions = self._informers.get(Scope(CUSTOM_RESOURCE_DEFINITION))
        if kind.built_in or self._discovery is None or definitions is None:
            return None
        if definitions.state is not InformerState.SYNCED:
            return None
        return self._discovery.is_served(kind)

    def _on_discovery(self, *_: object) -> None:
        for informer in self._informers.values():
            kind = informer.scope.kind
            served = self._is_served(kind)
            if self._served.get(kind) != served:
                informer.recheck()
        for kind in self._projections:
            self._served[kind] = self._is_served(kind)

    def _on_state(self, informer: Informer[Any]) -> None:
        if informer.scope.kind == CUSTOM_RESOURCE_DEFINITION:
            self._on_discovery()
        for handler in self._handlers:
            try:
                handler(informer.scope.kind, informer.state)
            except Exception:
                log.exception("state handler failed; others are told as usual", scope=str(informer.scope))
        self._pulse.beat()
