"""What changes after a first look, until the command is ended.

The operator's own informers do the watching: they survive broken connections, expired versions and
definitions that come and go, and lose no change that lasts. What they tell twice is told once here.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from magicstick.cli.get.items import Item, Whole, items_of
from magicstick.cli.get.options import Query
from magicstick.cli.get.reading import Found
from magicstick.kube.client import Client
from magicstick.kube.informer import Informer, InformerState, Tuning
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.scope import Scope
from magicstick.kube.store import ADDED, DELETED, MODIFIED

TUNING: Final = Tuning(grace_s=5.0, longest_pause_s=2.0)
"""A person who looks on wants to know of an outage, and of its end, sooner than decisions do."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one object: ADDED, MODIFIED or DELETED."""

    type: str
    obj: Whole
    items: tuple[Item, ...] = ()
    """The lines that are there now."""
    gone: tuple[Item, ...] = ()
    """The lines that are not there any more."""


class Follower:
    """Follows one kind, and tells `tell` of each change and `note` of what holds it up."""

    def __init__(
        self,
        client: Client,
        query: Query,
        kind: Kind,
        seen: Iterable[Whole],
        *,
        tell: Callable[[Change], None],
        note: Callable[[str], None],
    ) -> None:
        self._wanted = [each for each in query.wanted if each.source == kind]
        self._tell = tell
        self._note = note
        self._known = {obj.metadata.key: obj for obj in seen}
        self._trouble = ""
        scope = Scope(kind, query.namespace, label_selector=query.selector)
        self._informer = Informer(client, scope, Whole, on_state=self._on_state, tuning=TUNING)
        self._informer.store.subscribe(self._on_change)

    async def run(self) -> None:
        """Follow until cancelled."""
        await self._informer.run()

    def _on_change(self, old: Whole | None, new: Whole | None) -> None:
        if new is not None:
            self._present(new)
        elif old is not None:
            self._gone(old)

    def _present(self, obj: Whole) -> None:
        before = self._known.get(obj.metadata.key)
        if before is not None and before.metadata.resource_version == obj.metadata.resource_version:
            return
        self._known[obj.metadata.key] = obj
        items = self._items(obj)
        past = () if before is None else self._items(before)
        left = {item.key for item in past} - {item.key for item in items}
        if items or past:
            gone = tuple(item for item in past if item.key in left)
            self._tell(Change(ADDED if before is None else MODIFIED, obj, items, gone))

    def _gone(self, obj: Whole) -> None:
        if self._known.pop(obj.metadata.key, None) is not None and (items := self._items(obj)):
            self._tell(Change(DELETED, obj, (), items))

    def _items(self, obj: Whole) -> tuple[Item, ...]:
        return tuple(item for wanted in self._wanted for item in items_of(wanted, obj))

    def _on_state(self, informer: Informer[Whole]) -> None:
        kind, reason = informer.scope.kind, informer.reason
        if informer.state is InformerState.SYNCED:
            for obj in self._vanished():
                self._gone(obj)
            if self._trouble:
                self._note(f"{kind} can be read again")
            self._trouble = ""
        elif informer.state is InformerState.FAILING:
            self._hold_up(f"{kind} cannot be read now, trying again: {reason}")
        elif informer.state is InformerState.ABSENT:
            self._hold_up(f"the cluster does not know {kind}, waiting for it")

    def _hold_up(self, trouble: str) -> None:
        """Tell of a trouble once, however often it is met."""
        if trouble != self._trouble:
            self._note(trouble)
        self._trouble = trouble

    def _vanished(self) -> list[Whole]:
        """What was there at the first look and is not in the informer's first list."""
        there: set[ObjectKey] = set(self._informer.store.keys())
        return [obj for key, obj in self._known.items() if key not in there]


async def follow(
    client: Client, query: Query, found: Found, *, tell: Callable[[Change], None], note: Callable[[str], None]
) -> None:
    """Tell of each change after what was found, until cancelled or until `tell` raises."""
    changes: asyncio.Queue[Change] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        for kind in query.sources:
            seen = [obj for obj in found.objects if obj.kind == kind.kind]
            follower = Follower(client, query, kind, seen, tell=changes.put_nowait, note=note)
            group.create_task(follower.run())
        while True:
            tell(await changes.get())
