"""Whoever acts around gateways besides the operator, played as fast as this process can.

Clusters are healthy, Redis and LiteLLM run and models are known to their proxy at once. The actors of the
development cluster keep to the contracts of the real programs; with hundreds of gateways they, and not the
operator, would be measured.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from hack.bare import BareClient
from hack.bench import palena_objects as objects
from hack.devcluster.actors.following import Collection, Object

AT_ONCE: Final = 16
"""Objects that are reported of at a time."""
REPORTS: Final[Mapping[str, Callable[[Object], dict[str, Any]]]] = {
    objects.CLUSTERS: objects.healthy,
    objects.STATEFUL_SETS: objects.running,
    objects.INSTANCES: objects.serving,
    objects.CHILDREN: objects.synced,
}
"""What is reported of each collection's objects, once in each generation."""


class PalenaPlayers:
    """See the module.

    Attributes:
        running_now: path and name of the gateways and models that are Running at their present generation.
    """

    def __init__(self, client: BareClient) -> None:
        self.running_now: set[tuple[str, str]] = set()
        self._client = client
        self._waiting: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        self._reported: dict[str, int] = {}
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["PalenaPlayers"]:
        """Play within the block; a fault of a player ends it."""
        seen = {
            **{path: self._reporting(path) for path in REPORTS},
            **{path: self._counting(path) for path in (objects.GATEWAYS, objects.MODELS)},
        }
        followers = [Collection(self._client, path, changed).follow() for path, changed in seen.items()]
        workers = [self._report() for _ in range(AT_ONCE)]
        async with asyncio.TaskGroup() as group:
            playing = [group.create_task(each) for each in (*followers, *workers)]
            yield self
            for each in playing:
                each.cancel()

    async def until_running(self, count: int, deadline_s: float) -> None:
        """Wait until so many gateways and models run."""
        async with self._changed:
            try:
                await asyncio.wait_for(
                    self._changed.wait_for(lambda: len(self.running_now) >= count), deadline_s
                )
            except TimeoutError:
                raise TimeoutError(f"only {len(self.running_now)} of {count} run") from None

    def _reporting(self, path: str) -> Callable[[str, Object], None]:
        def see(type_: str, obj: Object) -> None:
            metadata = obj["metadata"]
            if type_ != "DELETED" and self._reported.get(metadata["uid"]) != metadata["generation"]:
                self._reported[metadata["uid"]] = metadata["generation"]
                self._waiting.put_nowait((path, obj))

        return see

    def _counting(self, path: str) -> Callable[[str, Object], Any]:
        async def see(type_: str, obj: Object) -> None:
            metadata, status = obj["metadata"], obj.get("status", {})
            current = status.get("observedGeneration") == metadata["generation"] and type_ != "DELETED"
            runs = current and status.get("phase") == "Running"
            async with self._changed:
                change = self.running_now.add if runs else self.running_now.discard
                change((path, metadata["name"]))
                self._changed.notify_all()

        return see

    async def _report(self) -> None:
        while True:
            path, obj = await self._waiting.get()
            if path == objects.CLUSTERS:
                await self._client.create(objects.SECRETS, objects.connection(obj))
            await self._client.merge(f"{path}/{obj['metadata']['name']}/status", REPORTS[path](obj))
