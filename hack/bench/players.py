"""What those who act besides the operator have in common, when they are played as fast as this process can.

The actors of the development cluster (`hack.devcluster.actors`) keep to the contracts of the real programs in
every detail; with hundreds of objects they, and not the operator, would be measured.
"""

import abc
import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, Self

from hack.bare import BareClient, RefusedError
from hack.bench.objects import FLUX_NAMESPACE
from hack.devcluster.actors.flux import FluxActor
from hack.devcluster.actors.following import Collection, Object

AT_ONCE: Final = 16
"""Pieces of work that are done at a time."""

Changed = Callable[[str, Object], Awaitable[None] | None]
"""Is told of each change of a collection: its type (MODIFIED or DELETED) and the object."""
Work = Callable[[Object], Awaitable[None]]
"""What is done for an object."""


class Players(abc.ABC):
    """They follow collections, do a piece of work for what they see, and count who has reached its goal.

    Attributes:
        present: the names of the counted objects that there are.
        ready: of these, the ones that are at their goal at their present generation.
    """

    def __init__(self, client: BareClient) -> None:
        self.present: set[str] = set()
        self.ready: set[str] = set()
        self._client = client
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._generations: dict[str, int] = {}
        self._counted = asyncio.Condition()

    @abc.abstractmethod
    def _followed(self) -> Mapping[str, Changed]:
        """Who is told of the changes of which collection, by path."""

    def _loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        """What runs besides, and never returns."""
        return ()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Play within the block; a fault of a player ends it."""
        followers = [Collection(self._client, *each).follow() for each in self._followed().items()]
        workers = [self._do() for _ in range(AT_ONCE)]
        async with asyncio.TaskGroup() as group:
            playing = [group.create_task(each) for each in (*followers, *workers, *self._loops())]
            yield self
            for each in playing:
                each.cancel()

    @contextlib.asynccontextmanager
    async def beside_flux(self) -> AsyncIterator[Self]:
        """Play within the block, and Flux as well, which has the operator's modules Ready."""
        async with FluxActor(self._client, FLUX_NAMESPACE).running(), self.running():
            yield self

    async def until(self, holds: Callable[[Self], bool], what: str, deadline_s: float) -> None:
        """Wait until this holds of what is counted.

        Raises:
            TimeoutError: it did not within the deadline; tells `what`, and how many were ready.
        """
        async with self._counted:
            try:
                await asyncio.wait_for(self._counted.wait_for(lambda: holds(self)), deadline_s)
            except TimeoutError:
                raise TimeoutError(f"{what}: {len(self.ready)} are ready of {len(self.present)}") from None

    async def until_ready(self, count: int, deadline_s: float) -> None:
        """Wait until so many are ready."""
        await self.until(lambda seen: len(seen.ready) >= count, f"{count} are to be ready", deadline_s)

    # -- what players are made of ---------------------------------------------------------------------

    def _soon(self, work: Work, obj: Object) -> None:
        """Have this done for an object; at most `AT_ONCE` such are under way."""
        self._work.put_nowait(functools.partial(work, obj))

    def _each_generation(self, work: Work) -> Changed:
        """Have this done for each object of a collection, once in each of its generations."""

        def see(type_: str, obj: Object) -> None:
            metadata = obj["metadata"]
            if type_ != "DELETED" and self._generations.get(metadata["uid"]) != metadata["generation"]:
                self._generations[metadata["uid"]] = metadata["generation"]
                self._soon(work, obj)

        return see

    def _reporting(self, path: str, status: Callable[[Object], Mapping[str, Any]]) -> Work:
        """Report this of an object of the collection, unless it went meanwhile."""

        async def report(obj: Object) -> None:
            try:
                await self._client.merge(f"{path}/{obj['metadata']['name']}/status", status(obj))
            except RefusedError as refused:
                if refused.code != HTTPStatus.NOT_FOUND:
                    raise

        return report

    def _counting(self, phase: str) -> Changed:
        """Count each object of a collection, as ready in this phase."""

        async def see(type_: str, obj: Object) -> None:
            await self._count(type_, obj, ready=obj.get("status", {}).get("phase") == phase)

        return see

    async def _count(self, type_: str, obj: Object, *, ready: bool) -> None:
        """Count an object; what is said of an earlier generation does not make it ready."""
        name, there = obj["metadata"]["name"], type_ != "DELETED"
        async with self._counted:
            put(self.present, name, belongs=there)
            put(self.ready, name, belongs=there and ready and is_current(obj))
            self._counted.notify_all()

    async def _do(self) -> None:
        while True:
            work = await self._work.get()
            await work()


def is_current(obj: Object) -> bool:
    """Whether the status is about the present generation."""
    observed = obj.get("status", {}).get("observedGeneration")
    return bool(observed == obj["metadata"]["generation"])


def put(names: set[str], name: str, *, belongs: bool) -> None:
    """Have a name in the set, or not."""
    if belongs:
        names.add(name)
    else:
        names.discard(name)
