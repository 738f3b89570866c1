"""What actors have in common: they follow collections of the API server, and work on one object at a time."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypeAlias

import aiohttp
import msgspec

from hack.bare import BareClient

DIRECTIONS = "devcluster.magicstick.dev"
"""Prefix of the annotations by which a person, or a test in another process, directs an actor."""
RETRY_S = 0.1
AGAIN_S = 0.5
"""After so long what failed is tried again."""
FAILURES = (RuntimeError, OSError, TimeoutError, aiohttp.ClientError)
"""What a request of BareClient ends with when it does not succeed."""

Object: TypeAlias = Mapping[str, Any]
Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is empty."""

log = logging.getLogger(__name__)


class Collection:
    """A local copy of a collection, and a call for each change of it, one after the other.

    Guarantees: an object is never replaced by an older version of itself, also when `put` brought a newer
    one than the watch; after an interruption everything is listed anew, and what is gone is told.

    Attributes:
        items: by key.
        listed: set once all that was there at the beginning is in `items`; before, absence means nothing.
    """

    def __init__(
        self,
        client: BareClient,
        path: str,
        changed: Callable[[str, Object], Awaitable[None] | None],
        *,
        query: str = "",
    ) -> None:
        """`changed` is told the type of a change (MODIFIED or DELETED) and the object.

        `query` narrows the collection, by a selector for example; it is encoded already.
        """
        self._client = client
        self._path = path
        self._query = query
        self._changed = changed
        self.items: dict[Key, Object] = {}
        self.listed = asyncio.Event()

    async def follow(self) -> None:
        """Never returns; a server that is away, or does not serve the kind yet, is asked again."""
        while True:
            try:
                await self._once()
            except FAILURES as failure:
                log.debug("%s: %s", self._path, failure)
                await asyncio.sleep(RETRY_S)  # there is nothing to wait on

    def put(self, obj: Object) -> bool:
        """What a write returned; False when a newer version is there. It is told when the watch tells it."""
        known = self.items.get(key_of(obj))
        if known is not None and _version(known) > _version(obj):
            return False
        self.items[key_of(obj)] = obj
        return True

    async def _once(self) -> None:
        listing = await self._client.get(f"{self._path}?{self._query}".removesuffix("?"))
        head = {"apiVersion": listing["apiVersion"], "kind": listing["kind"].removesuffix("List")}
        listed: dict[Key, Object] = {key_of(item): {**head, **item} for item in listing["items"]}
        for key in self.items.keys() - listed.keys():
            await self._tell("DELETED", self.items.pop(key))
        self.items = listed
        self.listed.set()
        for item in list(listed.values()):
            await self._tell("MODIFIED", item)
        version = listing["metadata"]["resourceVersion"]
        query = f"{self._query}&watch=1&resourceVersion={version}".removeprefix("&")
        async for line in self._client.stream(f"{self._path}?{query}"):
            event = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                return
            await self._see(event["type"], event["object"])

    async def _see(self, type_: str, obj: Object) -> None:
        if type_ == "DELETED":
            self.items.pop(key_of(obj), None)
            await self._tell("DELETED", obj)
        elif self.put(obj):
            await self._tell("MODIFIED", obj)

    async def _tell(self, type_: str, obj: Object) -> None:
        told = self._changed(type_, obj)
        if told is not None:
            await told


class Workers:
    """At most one piece of work for each key at a time; whoever is woken meanwhile works once more."""

    def __init__(self, work: Callable[[Key], Awaitable[None]]) -> None:
        self._work = work
        self._again: dict[Key, bool] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def wake(self, key: Key) -> None:
        """Have a key looked at soon. Nothing before `run` began, which looks at what is listed then."""
        if self._tasks is None:
            return
        if key in self._again:
            self._again[key] = True
            return
        self._again[key] = False
        self._tasks.create_task(self._run(key))

    async def run(self, *others: Coroutine[Any, Any, None]) -> None:
        """Work, with the loops that wake us, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            for other in others:
                group.create_task(other)
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None  # before the others end, which wake us until they have

    async def _run(self, key: Key) -> None:
        while True:
            self._again[key] = False
            try:
                await self._work(key)
            except FAILURES as failure:
                log.info("%s: %s", "/".join(key), failure)
                await asyncio.sleep(AGAIN_S)
                continue
            if not self._again[key]:
                del self._again[key]
                return


class Gate:
    """Open or shut; who comes to a shut one waits."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def shut(self) -> None:
        """Let nobody through until `open`."""
        self._open.clear()

    def open(self) -> None:
        """Let everybody through."""
        self._open.set()

    async def passed(self) -> None:
        """Returns once it is open."""
        await self._open.wait()


@contextlib.asynccontextmanager
async def in_background(*actors: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run actors within the block; a fault of theirs is raised at its end."""
    tasks = [asyncio.create_task(actor) for actor in actors]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def key_of(obj: Object) -> Key:
    """(namespace, name)."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def direction(obj: Object, name: str) -> str:
    """What an annotation of ours says; empty without."""
    return str(obj["metadata"].get("annotations", {}).get(f"{DIRECTIONS}/{name}", ""))


def condition(obj: Object, type_: str) -> Object:
    """The condition of this type; empty when it is not there."""
    return next((each for each in conditions(obj) if each.get("type") == type_), {})


def conditions(obj: Object) -> Iterator[Object]:
    """All conditions of an object's status."""
    yield from obj.get("status", {}).get("conditions") or []


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
