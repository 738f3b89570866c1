"""The local copy of one list of objects: immutable entries by key, indexes, one resourceVersion.

Three writers feed a store, in any interleaving, on one event loop and without ever awaiting inside:

- the **watch** (`event`): ordered; after an event of version *n* everything up to *n* is known;
- a **relist** (`relist`, `replace`): a consistent list of one version, streamed in item by item;
- the **applier** (`written`, `deleted`): what our own requests returned, ahead of the watch.

Guarantees
    1. Relist equals replay: whatever the interleaving, once the watch has caught up the content is
       that of the server, and each subscriber has been told exactly the changes that lead from the
       content it knew to the content there is.
    2. An entry is never taken back to an older version: neither by an older response, nor by a list
       or an event that is older than a write-through.
    3. What the watch saw deleted is not brought back by a response that arrives late, and what our
       own request deleted is not brought back by events or lists from before the deletion.
    4. Deletions of a relist are atomic: nothing is removed before the list is complete, and a list
       that breaks off removes nothing. What it had brought until then are newer versions, and stays.
    5. A list that is older than what the store knew before the list was asked for means that the
       server lost history (it was restored from a backup). Such a list replaces everything that was
       known before, write-throughs included.
    6. No subscriber is called for a version that the store already has. One that raises is logged
       and harms neither the store nor the others.

Assumptions
    resourceVersions of one kind are comparable integers (Kubernetes guarantees it); lists and watches
    are consistent reads, never served from a server's stale cache.

Failure modes
    `event` raises `Gone` when the stream contradicts the store: it went backwards, or it passed a
    write-through without delivering it. Both happen only when the server lost history; only a new
    list helps, as with an expired version.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from magicstick.kube.entries import Change, Entries
from magicstick.kube.errors import Gone
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import View

V = TypeVar("V", bound=View)

ADDED = "ADDED"
MODIFIED = "MODIFIED"
DELETED = "DELETED"

__all__ = ["ADDED", "DELETED", "MODIFIED", "Change", "Relist", "Store", "version"]


def version(obj: View) -> int:
    """The resourceVersion of a view as a number; 0 when it has none. ValueError for any other text."""
    return int(obj.metadata.resource_version or 0)


@dataclass(slots=True)
class _Ledger:
    """What a store knows beyond its entries."""

    synced: bool = False
    resource_version: int = 0
    unconfirmed: dict[ObjectKey, int] = field(default_factory=dict)
    """Versions of write-throughs that the watch has still to deliver."""
    dead: set[str] = field(default_factory=set)
    """uids that our requests deleted and whose deletion the watch has still to deliver."""

    def confirm(self, resource_version: int) -> None:
        """A list of this version holds every write up to it."""
        for key in [key for key, written in self.unconfirmed.items() if written <= resource_version]:
            del self.unconfirmed[key]


class Store(Generic[V]):
    """See the module. `name` appears in logs only."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._entries = Entries[V](name)
        self._ledger = _Ledger()

    # --- reading ---------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """From the first complete list until the kind is withdrawn. Only then does the content count."""
        return self._ledger.synced

    @property
    def resource_version(self) -> int:
        """What list and watch have reached; write-throughs are not counted."""
        return self._ledger.resource_version

    def get(self, key: ObjectKey) -> V | None:
        """The entry, or None. Conclude absence from None only while `synced`."""
        return self._entries.get(key)

    def list(self) -> tuple[V, ...]:
        """All entries, as of now."""
        return self._entries.values()

    def keys(self) -> tuple[ObjectKey, ...]:
        """The keys of all entries, as of now."""
        return self._entries.keys()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: ObjectKey) -> bool:
        return self._entries.get(key) is not None

    def index(self, name: str, function: Callable[[V], Iterable[str]]) -> None:
        """Keep an index: `function` gives the values of an entry. Naming the same twice is harmless.

        ValueError when the name stands for another function already.
        """
        self._entries.index(name, function)

    def by_index(self, name: str, value: str) -> tuple[V, ...]:
        """The entries that have `value` in the index `name`. KeyError for an index nobody made."""
        return self._entries.by_index(name, value)

    def subscribe(self, handler: Change[V]) -> None:
        """Call `handler(old, new)` after each change; first at once with (None, entry) for each entry.

        Handlers run inside the change: they are quick, and write to no store.
        """
        self._entries.subscribe(handler)

    # --- the watch -------------------------------------------------------------------------------

    def event(self, type_: str, obj: V) -> None:
        """Take one watch event: ADDED, MODIFIED or DELETED.

        Raises `Gone` when the stream contradicts the store; the event is then not taken.
        """
        reached = version(obj)
        self._advance(reached, obj.metadata.key)
        if type_ == DELETED:
            _remove_seen(self._entries, self._ledger, obj)
        elif obj.metadata.uid not in self._ledger.dead:
            entry = self._entries.get(obj.metadata.key)
            if entry is None or version(entry) <= reached:
                self._entries.put(obj.metadata.key, obj)

    def bookmark(self, resource_version: int) -> None:
        """Take that the watch has delivered everything up to this version. Raises like `event`."""
        self._advance(resource_version, None)

    def _advance(self, reached: int, key: ObjectKey | None) -> None:
        ledger = self._ledger
        if reached < ledger.resource_version:
            raise Gone(f"the watch went back from {ledger.resource_version} to {reached}")
        if ledger.unconfirmed:
            if key is not None and ledger.unconfirmed.get(key) == reached:
                del ledger.unconfirmed[key]
            if any(written <= reached for written in ledger.unconfirmed.values()):
                raise Gone(f"the watch passed a write of ours without delivering it, at {reached}")
        ledger.resource_version = reached

    # --- lists -----------------------------------------------------------------------------------

    def relist(self) -> "Relist[V]":
        """Begin to take a consistent list that is asked for from now on: see `Relist`."""
        return Relist(self._entries, self._ledger)

    def replace(self, objects: Iterable[V], resource_version: int) -> None:
        """Take a complete, consistent list of this version that was asked for at this moment."""
        relist = self.relist()
        for obj in objects:
            relist.add(obj)
        relist.commit(resource_version)

    def withdraw(self) -> None:
        """The kind is not served any more: be empty and not `synced`, and tell no subscriber.

        An absent kind says nothing of its objects, so nobody is told that they were deleted. When
        the kind returns, the first complete list tells what became of each.
        """
        self._ledger = _Ledger()
        self._entries.withdraw()

    # --- write-through ---------------------------------------------------------------------------

    def written(self, obj: V) -> None:
        """Take what a write of ours returned, unless the store holds it or its successor already."""
        written = version(obj)
        if written <= self._ledger.resource_version or obj.metadata.uid in self._ledger.dead:
            return
        key = obj.metadata.key
        entry = self._entries.get(key)
        if entry is not None and version(entry) >= written:
            return
        self._ledger.unconfirmed[key] = written
        self._entries.put(key, obj)

    def deleted(self, key: ObjectKey, uid: str) -> None:
        """Take that the object with this uid does not exist any more; one of another uid stays."""
        entry = self._entries.get(key)
        if entry is None or entry.metadata.uid != uid:
            return
        self._ledger.dead.add(uid)
        self._ledger.unconfirmed.pop(key, None)
        self._entries.remove(key)


class Relist(Generic[V]):
    """A list on its way into a store: mark what it names, sweep the rest when it is complete.

    Make one before the list is asked for, since what our writes had returned by then must be in it:
    a list that lacks such a write, or still has what such a deletion removed, is of another history.
    Abandoning one needs no call. While a list streams in, only items that would take an entry to an
    older version wait in memory: whether they may is known with the version of the list.
    """

    def __init__(self, entries: Entries[V], ledger: _Ledger) -> None:
        self._entries = entries
        self._ledger = ledger
        self._named: set[ObjectKey] = set()
        self._held: dict[ObjectKey, V] = {}
        self._dead_before = set(ledger.dead)
        self._known_before = max((ledger.resource_version, *map(version, entries.values())))

    def add(self, obj: V) -> None:
        """Take one item of the list, or a change of one that arrived while it was streaming."""
        key, uid, listed = obj.metadata.key, obj.metadata.uid, version(obj)
        self._named.add(key)
        self._held.pop(key, None)
        if uid in self._ledger.dead and uid not in self._dead_before:
            return
        entry = self._entries.get(key)
        if entry is None or listed > version(entry):
            self._entries.put(key, obj)
        elif listed < version(entry):
            self._held[key] = obj
        elif not _same(obj, entry):
            # The same version with other content: the kind's schema changed, or a history was lost.
            self._entries.put(key, obj)

    def remove(self, obj: V) -> None:
        """Take a deletion that arrived while the list was streaming."""
        self._named.discard(obj.metadata.key)
        self._held.pop(obj.metadata.key, None)
        _remove_seen(self._entries, self._ledger, obj)

    def commit(self, resource_version: int) -> None:
        """The list is complete and of this version: remove what it does not name."""
        ledger = self._ledger
        # An entry up to this version is in the list or does not exist; one above it was written since.
        outdated = max(resource_version, self._known_before)
        ledger.confirm(outdated)
        ledger.dead -= self._dead_before
        ledger.resource_version = resource_version
        ledger.synced = True
        for key, obj in self._held.items():
            entry = self._entries.get(key)
            if entry is None or version(entry) <= outdated:
                self._entries.put(key, obj)
        for key, entry in self._entries.items():
            if key not in self._named and version(entry) <= outdated:
                self._entries.remove(key)
        self._entries.settle_withdrawn()


def _same(one: V, other: V) -> bool:
    """Whether two views have the same content; unknown is no: some nest too deep to be compared."""
    try:
        return one == other
    except RecursionError:
        return False


def _remove_seen(entries: Entries[V], ledger: _Ledger, obj: V) -> None:
    """The watch says that `obj` was deleted; an entry that is newer is its successor and stays."""
    ledger.dead.discard(obj.metadata.uid)
    entry = entries.get(obj.metadata.key)
    if entry is not None and version(entry) <= version(obj):
        entries.remove(obj.metadata.key)
