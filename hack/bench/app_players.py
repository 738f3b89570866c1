"""Whoever acts on instances besides the operator, played as fast as this process can.

Helm installs every release and Envoy Gateway accepts every policy, in each generation, at once. The actors of
the development cluster keep to the contracts of the real programs in every detail; with hundreds of
instances they, and not the operator, would be measured.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from hack.bare import BareClient, RefusedError
from hack.bench import app_objects as objects
from hack.devcluster.actors.following import Collection, Object

AT_ONCE: Final = 16
"""Objects that are reported of at a time."""
GONE: Final = 404

Report = tuple[str, dict[str, Any]]
"""Path and body of a status."""


class AppPlayers:
    """See the module.

    Attributes:
        ready: the instances that are Ready at their present generation.
        present: the instances that there are.
    """

    def __init__(self, client: BareClient) -> None:
        self.ready: set[str] = set()
        self.present: set[str] = set()
        self._client = client
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._changed = asyncio.Condition()
        self._reported: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["AppPlayers"]:
        """Play within the block; a fault of a player ends it."""
        followers = [
            Collection(self._client, path, changed).follow()
            for path, changed in (
                (objects.RELEASES, self._reporting(objects.RELEASES, objects.installed)),
                (objects.POLICIES, self._reporting(objects.POLICIES, objects.accepted)),
                (objects.INSTANCES, self._see_instance),
            )
        ]
        workers = [self._report() for _ in range(AT_ONCE)]
        async with asyncio.TaskGroup() as group:
            playing = [group.create_task(each) for each in (*followers, *workers)]
            yield self
            for each in playing:
                each.cancel()

    async def until(self, holds: Callable[["AppPlayers"], bool], what: str, deadline_s: float) -> None:
        """Wait until this holds of what is seen of instances."""
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(lambda: holds(self)), deadline_s)
            except TimeoutError:
                raise TimeoutError(f"{what}: {len(self.ready)} are Ready of {len(self.present)}") from None

    async def until_ready(self, count: int, deadline_s: float) -> None:
        """Wait until so many instances are Ready."""
        await self.until(lambda seen: len(seen.ready) >= count, f"{count} instances Ready", deadline_s)

    def _reporting(
        self, path: str, status: Callable[[Object], dict[str, Any]]
    ) -> Callable[[str, Object], None]:
        """Report of each object of a collection, once in each generation."""

        def see(type_: str, obj: Object) -> None:
            metadata = obj["metadata"]
            if type_ != "DELETED" and self._reported.get(metadata["uid"]) != metadata["generation"]:
                self._reported[metadata["uid"]] = metadata["generation"]
                self._reports.put_nowait((f"{path}/{metadata['name']}/status", status(obj)))

        return see

    async def _report(self) -> None:
        while True:
            path, body = await self._reports.get()
            try:
                await self._client.merge(path, body)
            except RefusedError as refused:
                if refused.code != GONE:  # it went meanwhile
                    raise

    async def _see_instance(self, type_: str, instance: Object) -> None:
        metadata, status = instance["metadata"], instance.get("status", {})
        current = status.get("observedGeneration") == metadata["generation"]
        async with self._changed:
            _put(self.present, metadata["name"], belongs=type_ != "DELETED")
            ready = type_ != "DELETED" and current and status.get("phase") == "Ready"
            _put(self.ready, metadata["name"], belongs=ready)
            self._changed.notify_all()


def _put(names: set[str], name: str, *, belongs: bool) -> None:
    if belongs:
        names.add(name)
    else:
        names.discard(name)
