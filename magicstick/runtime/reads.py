"""What a reconciler may read: its own kind, and the kinds of its edges.

A decision that depends on something no edge covers would never be woken by it. So a reconciler gets
these reads instead of the caches, and reading anything else is an error at once, in every test.
"""

from collections.abc import Callable
from typing import Any, Protocol

from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource, View
from magicstick.kube.scope import Scope
from magicstick.kube.store import Store
from magicstick.runtime.reconciler import Declaration


class Stores(Protocol):
    """Where stores come from; `kube.cache.Caches` is the real one."""

    def watch(self, scope: Scope, view: type[View]) -> object:
        """Watch a scope from now on; the same again is harmless, another view of it a ValueError."""
        ...

    def store_of(self, scope: Scope) -> Store[Any]:
        """The store of a scope. KeyError for one that nobody watches, as below."""
        ...

    def state_of(self, scope: Scope) -> InformerState:
        """The state of a scope."""
        ...

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        """Tell `handler` of every change of a state."""
        ...


class ReadNotDeclaredError(LookupError):
    """A reconciler reads what none of its edges covers, or does not say which scope it means."""


class Reads:
    """The stores of one declaration, or of several that share what they read.

    Declaring sees to it that the stores are watched. Namespace and name may be left out where there is
    one declared scope of the kind.
    """

    def __init__(self, stores: Stores, *declarations: Declaration) -> None:
        self._stores = stores
        self._readers: list[str] = []
        self._scopes: dict[Kind, list[Scope]] = {}
        for declaration in declarations:
            self.declare(declaration)

    def declare(self, declaration: Declaration) -> None:
        """Allow what this declaration covers, and watch it.

        Raises:
            ValueError: a scope is watched already, with another view than is asked for here.
        """
        self._readers.append(declaration.name)
        self._watch(declaration.scope, Resource)
        for edge in declaration.edges:
            self._watch(edge.scope, edge.view)

    def _watch(self, scope: Scope, view: type[View] | None) -> None:
        known = self._scopes.setdefault(scope.kind, [])
        if scope not in known:
            known.append(scope)
        if view is None and self._is_watched(scope):
            return
        self._stores.watch(scope, view or Resource)

    def _is_watched(self, scope: Scope) -> bool:
        try:
            self._state(scope)
        except KeyError:
            return False
        return True

    def at(self, scope: Scope) -> Store[Any]:
        """The store of a declared scope."""
        return self._stores.store_of(scope)

    def _state(self, scope: Scope) -> InformerState:
        return self._stores.state_of(scope)

    def store(self, kind: Kind, namespace: str | None = None, name: str | None = None) -> Store[Any]:
        """The store of a kind. What it lacks is absent only while it is `synced`.

        Raises:
            ReadNotDeclaredError: no edge covers it, or several do.
        """
        return self.at(self._scope(kind, namespace, name))

    def stores(self, kind: Kind, namespace: str = "") -> tuple[Store[Any], ...]:
        """Every declared store of lists of the kind; with a namespace, those that its objects would be in.

        Raises:
            ReadNotDeclaredError: no edge covers the kind.
        """
        return tuple(map(self.at, self._lists(kind, namespace)))

    def states(self, kind: Kind) -> tuple[InformerState, ...]:
        """The states of `stores`; raises alike."""
        return tuple(map(self._state, self._lists(kind, "")))

    def _lists(self, kind: Kind, namespace: str) -> list[Scope]:
        declared = [scope for scope in self._scopes.get(kind, ()) if scope.name is None]
        if not declared:
            raise ReadNotDeclaredError(f"{' and '.join(self._readers)}: no edge to {kind} as a list")
        return [scope for scope in declared if not namespace or scope.namespace in ("", namespace)]

    def state(self, kind: Kind, namespace: str | None = None, name: str | None = None) -> InformerState:
        """The state of a kind; raises like `store`."""
        return self._state(self._scope(kind, namespace, name))

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        """Tell `handler` of every change of the state of a declared kind."""
        self._stores.subscribe_state(lambda kind, state: handler(kind, state) if self.covers(kind) else None)

    def covers(self, kind: Kind) -> bool:
        """Whether the declaration reads this kind."""
        return kind in self._scopes

    @property
    def syncing(self) -> tuple[Scope, ...]:
        """Scopes whose first list is still on its way; one that fails or is absent is not waited for."""
        return tuple(
            scope
            for scopes in self._scopes.values()
            for scope in scopes
            if self._state(scope) is InformerState.SYNCING
        )

    def _scope(self, kind: Kind, namespace: str | None, name: str | None) -> Scope:
        declared = self._scopes.get(kind, [])
        if len(declared) == 1 and namespace is None and name is None:
            return declared[0]
        found = [scope for scope in declared if (namespace or "", name) == (scope.namespace, scope.name)]
        if len(found) != 1:
            raise ReadNotDeclaredError(
                f"{' and '.join(self._readers)}: reads {Scope(kind, namespace or '', name)}, "
                f"but declares {', '.join(map(str, declared)) or 'no edge to this kind'}"
            )
        return found[0]
