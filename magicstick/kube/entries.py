"""The content of a store: entries by key, their indexes, and those who are told of changes."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import structlog

from magicstick.kube.index import Index
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import View

V = TypeVar("V", bound=View)

Change = Callable[[V | None, V | None], None]
"""What a subscriber is: told (old, new); `old` is None for a new entry, `new` for one that went."""

log = structlog.get_logger(__name__)


class Entries(Generic[V]):
    """Entries whose indexes and subscribers follow every change. Knows nothing of versions."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._entries: dict[ObjectKey, V] = {}
        self._indexes: dict[str, Index[V]] = {}
        self._subscribers: list[_Subscriber[V]] = []
        self._withdrawn: dict[ObjectKey, V] = {}
        """What subscribers know of a kind that went, to tell them the difference when it returns."""

    def get(self, key: ObjectKey) -> V | None:
        """The entry, or None."""
        return self._entries.get(key)

    def items(self) -> tuple[tuple[ObjectKey, V], ...]:
        """All entries with their keys, as of now."""
        return tuple(self._entries.items())

    def keys(self) -> tuple[ObjectKey, ...]:
        """All keys, as of now."""
        return tuple(self._entries)

    def values(self) -> tuple[V, ...]:
        """All entries, as of now."""
        return tuple(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: ObjectKey, obj: V) -> None:
        """Set an entry. Content that changed under the same version is taken, but told nobody."""
        entry = self._entries.get(key)
        known = self._withdrawn.pop(key, None) if entry is None else entry
        self._entries[key] = obj
        for index in self._indexes.values():
            index.change(key, entry, obj)
        if known is None or _identity(known) != _identity(obj):
            self._tell(known, obj)

    def remove(self, key: ObjectKey) -> None:
        """Remove an entry. KeyError when it is not there."""
        entry = self._entries.pop(key)
        for index in self._indexes.values():
            index.change(key, entry, None)
        self._tell(entry, None)

    def withdraw(self) -> None:
        """Be empty without telling anybody; `settle_withdrawn` makes up for it."""
        self._withdrawn.update(self._entries)
        self._entries.clear()
        for index in self._indexes.values():
            index.clear()

    def settle_withdrawn(self) -> None:
        """Tell of each withdrawn entry that did not come back that it went."""
        withdrawn, self._withdrawn = self._withdrawn, {}
        for entry in withdrawn.values():
            self._tell(entry, None)

    def index(self, name: str, function: Callable[[V], Iterable[str]]) -> None:
        """Keep an index from now on; ValueError when the name stands for another function."""
        known = self._indexes.get(name)
        if known is not None:
            if known.function != function:
                raise ValueError(f"the store of {self._name} has an index {name!r} of another function")
            return
        index = Index(name, function)
        for key, entry in self._entries.items():
            index.change(key, None, entry)
        self._indexes[name] = index

    def by_index(self, name: str, value: str) -> tuple[V, ...]:
        """The entries that have `value` in the index; KeyError for an index that nobody made."""
        return tuple(self._entries[key] for key in self._indexes[name].keys(value))

    def subscribe(self, handler: Change[V]) -> None:
        """Tell `handler` of every entry there is, then of every change."""
        subscriber = _Subscriber[V](handler, self._name)
        self._subscribers.append(subscriber)
        for entry in self.values():
            subscriber.tell(None, entry)

    def _tell(self, old: V | None, new: V | None) -> None:
        for subscriber in self._subscribers:
            subscriber.tell(old, new)


def _identity(obj: View) -> tuple[str, str]:
    return obj.metadata.uid, obj.metadata.resource_version


class _Subscriber(Generic[V]):
    """A handler whose failures stay its own. The first of a row is logged with its traceback."""

    def __init__(self, handler: Change[V], store: str) -> None:
        self._handler = handler
        self._store = store
        self._failing = False

    def tell(self, old: V | None, new: V | None) -> None:
        try:
            self._handler(old, new)
        except Exception:
            if not self._failing:
                log.exception("subscriber failed; others are told as usual", store=self._store)
            self._failing = True
        else:
            self._failing = False
