"""What a test sees of the cluster: a live copy of a few collections, and a way to wait for a state.

It reads through a client of its own, which shares nothing with the operator's informers.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import aiohttp

from hack.bare import BareClient, RefusedError
from magicstick.kube.wire import shallow

Object = Mapping[str, Any]
DEADLINE_S = 60.0
"""For a busy machine; nobody waits longer than the state takes."""


class Mirror:
    """Collections by path; every change wakes those who wait."""

    def __init__(self, client: BareClient, *paths: str) -> None:
        self._client = client
        self._objects: dict[str, dict[str, Object]] = {path: {} for path in paths}
        self._listed: dict[str, asyncio.Event] = {path: asyncio.Event() for path in paths}
        self._changed = asyncio.Condition()
        self.history: list[tuple[str, str, Object]] = []
        """(path, event type, object) of everything seen, in order."""

    def all(self, path: str) -> Mapping[str, Object]:
        """The objects of a collection by name."""
        return self._objects[path]

    def get(self, path: str, name: str) -> Object | None:
        """One object; None when it is not there."""
        return self._objects[path].get(name)

    async def until(self, what: str, holds: Callable[[], object], *, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the condition holds; fails with `what` and the present state after the deadline."""
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(lambda: bool(holds())), deadline_s)
            except TimeoutError:
                raise AssertionError(f"not within {deadline_s:g} s: {what}\n{self.describe()}") from None

    def describe(self) -> str:
        """The present state, a line an object."""
        return "\n".join(
            f"{path.rsplit('/', 1)[1]}/{name}: {_summary(obj)}"
            for path, objects in self._objects.items()
            for name, obj in sorted(objects.items())
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Mirror"]:
        """Follow the collections within the block; entered once all have been listed."""
        tasks = [asyncio.create_task(self._follow(path)) for path in self._objects]
        try:
            for listed in self._listed.values():
                await asyncio.wait_for(listed.wait(), DEADLINE_S)
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, path: str) -> None:
        while True:
            with contextlib.suppress(RuntimeError, OSError, TimeoutError, aiohttp.ClientError):
                await self._list_and_watch(path)
            await asyncio.sleep(0.05)  # the server is away, or the kind is; nothing tells when it is back

    async def _list_and_watch(self, path: str) -> None:
        try:
            listing = _decoded(await self._client.send("GET", path))
        except RefusedError as refused:
            if refused.code == HTTPStatus.NOT_FOUND:
                await self._replace(path, [])
            raise
        await self._replace(path, listing["items"])
        version = listing["metadata"]["resourceVersion"]
        async for line in self._client.stream(f"{path}?watch=1&resourceVersion={version}"):
            event = _decoded(line)
            if event["type"] == "ERROR":
                return
            async with self._changed:
                self._take(path, event["type"], event["object"])
                self._changed.notify_all()

    async def _replace(self, path: str, items: Sequence[Object]) -> None:
        """These are all that there are; none where the kind is not served."""
        async with self._changed:
            self._objects[path] = {item["metadata"]["name"]: item for item in items}
            self._listed[path].set()
            self._changed.notify_all()

    def _take(self, path: str, type_: str, obj: Object) -> None:
        self.history.append((path, type_, obj))
        if type_ == "DELETED":
            self._objects[path].pop(obj["metadata"]["name"], None)
        else:
            self._objects[path][obj["metadata"]["name"]] = obj


def _decoded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(shallow(text))  # a test put in an object that is nested very deep


def _summary(obj: Object) -> str:
    status = obj.get("status", {})
    conditions = {entry["type"]: entry for entry in status.get("conditions", [])}
    ready = conditions.get("Ready", {})
    dying = " dying" if obj["metadata"].get("deletionTimestamp") else ""
    suspended = " suspended" if obj.get("spec", {}).get("suspend") else ""
    return (
        f"{status.get('phase', '')} Ready={ready.get('status')} {ready.get('reason', '')}{dying}{suspended}"
    )
