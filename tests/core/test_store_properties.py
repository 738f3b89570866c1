"""Relist equals replay: a server, our own writes and a store, in any interleaving.

The machine plays an API server with one history of versions. News reaches the store as it would over
the wire: watch events in order but late, responses to our own writes in any order, lists item by item
with everything else going on in between. At any moment everything may be let through (`settle`), and
then the store must hold what the server holds, and the subscriber must have heard the net changes.
"""

import random
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magicstick.kube.errors import Gone
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import ADDED, DELETED, MODIFIED, Relist, Store
from tests.support.effort import examples
from tests.support.objects import widget

NAMES = st.sampled_from(["a", "b", "c", "d"])
SEEDS = st.integers(0, 2**16)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


def identity(obj: Resource | None) -> tuple[str, str] | None:
    return (obj.metadata.uid, obj.metadata.resource_version) if obj else None


@dataclass
class Server:
    """Objects, and the events that the watch has still to deliver."""

    version: int = 10
    highest: int = 10
    """The highest version that any history has reached."""
    uids: int = 0
    writes: int = 0
    objects: dict[str, Resource] = field(default_factory=dict)
    events: list[tuple[str, Resource]] = field(default_factory=list)

    def put(self, name: str) -> Resource:
        self.version += 1
        old = self.objects.get(name)
        if old is None:
            self.uids += 1
        uid = old.metadata.uid if old else f"uid-{self.uids}"
        self.writes += 1
        new = widget(name, self.version, uid=uid, spec={"write": self.writes})
        self.objects[name] = new
        self.events.append((MODIFIED if old else ADDED, new))
        return new

    def remove(self, name: str) -> Resource:
        self.version += 1
        gone = self.objects.pop(name)
        self.events.append((DELETED, widget(name, self.version, uid=gone.metadata.uid)))
        return gone


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.backups: list[tuple[int, dict[str, Resource]]] = []
        self.written: list[Resource] = []
        self.deleted: list[Resource] = []
        self.must_list = True
        self.list: tuple[Relist[Resource], list[Resource], int] | None = None
        self.heard: dict[ObjectKey, tuple[str, str]] = {}
        self.store = Store[Resource]("machine")
        self.store.index("uid", lambda obj: [obj.metadata.uid])
        self.store.subscribe(self.hear)
        self.withdrawn = False

    def hear(self, old: Resource | None, new: Resource | None) -> None:
        some = new or old
        assert some is not None
        assert identity(old) != identity(new), "told of no change"
        assert self.heard.get(some.metadata.key) == identity(old), "told of a change from something unknown"
        told = identity(new)
        if told is None:
            del self.heard[some.metadata.key]
        else:
            self.heard[some.metadata.key] = told

    # --- the server ------------------------------------------------------------------------------

    @rule(name=NAMES)
    def others_write(self, name: str) -> None:
        self.server.put(name)

    @rule(name=NAMES)
    def others_delete(self, name: str) -> None:
        if name in self.server.objects:
            self.server.remove(name)

    @rule(name=NAMES)
    def we_write(self, name: str) -> None:
        self.written.append(self.server.put(name))

    @rule(name=NAMES)
    def we_delete(self, name: str) -> None:
        if name in self.server.objects:
            self.deleted.append(self.server.remove(name))

    # --- responses, in any order -----------------------------------------------------------------

    @precondition(lambda self: self.written)
    @rule(seed=SEEDS)
    def response(self, seed: int) -> None:
        self.store.written(self.written.pop(seed % len(self.written)))

    @precondition(lambda self: self.deleted)
    @rule(seed=SEEDS)
    def deletion_response(self, seed: int) -> None:
        gone = self.deleted.pop(seed % len(self.deleted))
        self.store.deleted(gone.metadata.key, gone.metadata.uid)

    # --- the watch -------------------------------------------------------------------------------

    @precondition(lambda self: not self.must_list and self.list is None)
    @rule(count=st.integers(1, 3))
    def events(self, count: int) -> None:
        for _ in range(min(count, len(self.server.events))):
            type_, obj = self.server.events.pop(0)
            try:
                self.store.event(type_, obj)
            except Gone:
                self.must_list = True
                return

    @precondition(lambda self: not self.must_list and self.list is None and not self.server.events)
    @rule()
    def bookmark(self) -> None:
        try:
            self.store.bookmark(self.server.version)
        except Gone:
            self.must_list = True

    # --- lists -----------------------------------------------------------------------------------

    @precondition(lambda self: self.list is None)
    @rule(seed=SEEDS)
    def begin_list(self, seed: int) -> None:
        items = list(self.server.objects.values())
        random.Random(seed).shuffle(items)  # an order, no secret
        self.server.events.clear()
        self.must_list = True
        self.list = (self.store.relist(), items, self.server.version)

    @precondition(lambda self: self.list is not None)
    @rule(count=st.integers(1, 4))
    def list_items(self, count: int) -> None:
        assert self.list is not None
        relist, items, _ = self.list
        for _ in range(min(count, len(items))):
            relist.add(items.pop())

    @precondition(lambda self: self.list is not None and not self.list[1])
    @rule()
    def complete_list(self) -> None:
        assert self.list is not None
        relist, _, reached = self.list
        self.list = None
        relist.commit(reached)
        self.must_list = False
        self.withdrawn = False

    @precondition(lambda self: self.list is not None)
    @rule()
    def break_list_off(self) -> None:
        self.list = None

    # --- catastrophes ----------------------------------------------------------------------------

    @rule()
    def back_up(self) -> None:
        self.backups.append((self.server.version, dict(self.server.objects)))

    @precondition(lambda self: self.backups)
    @rule(seed=SEEDS)
    def restore(self, seed: int) -> None:
        """History is lost: versions are handed out again, and the next list is from the new history."""
        self.server.highest = max(self.server.highest, self.server.version)
        self.server.version, objects = self.backups[seed % len(self.backups)]
        self.server.objects = dict(objects)
        self.server.events.clear()
        self.backups = [(number, kept) for number, kept in self.backups if number <= self.server.version]
        self.deleted.clear()
        self.list = None
        self.must_list = True

    @rule()
    def kind_goes(self) -> None:
        self.store.withdraw()
        self.list = None
        self.must_list = True
        self.withdrawn = True
        assert not self.store.synced

    # --- what holds ------------------------------------------------------------------------------

    @invariant()
    def heard_is_what_is_there(self) -> None:
        there = {entry.metadata.key: identity(entry) for entry in self.store.list()}
        if self.withdrawn:
            assert there.items() <= self.heard.items()
        else:
            assert self.heard == there

    @invariant()
    def the_index_is_what_is_there(self) -> None:
        for entry in self.store.list():
            assert self.store.by_index("uid", entry.metadata.uid) == (entry,)

    @rule()
    def settle(self) -> None:
        """Let everything through; the store then holds what the server holds.

        After a lost history it does once the new one has come as far as the old one had: until then
        a write of ours from the old history is indistinguishable from one that has yet to be told.
        """
        self.server.version = max(self.server.version, self.server.highest) + 1
        while self.written:
            self.response(0)
        while self.deleted:
            self.deletion_response(0)
        if self.list is not None:
            self.list_items(len(self.list[1]))
            self.complete_list()
        for seed in range(2):
            if self.must_list:
                self.begin_list(seed)
                self.list_items(len(self.server.objects))
                self.complete_list()
            self.events(len(self.server.events))
            if not self.must_list:
                self.bookmark()
        assert not self.must_list, "listed once and still at odds"
        assert {entry.metadata.name: entry for entry in self.store.list()} == self.server.objects
        assert self.store.synced
        assert self.store.resource_version == self.server.version

    def teardown(self) -> None:
        self.settle()


TestStore = StoreMachine.TestCase
TestStore.settings = examples(100, steps=40)
