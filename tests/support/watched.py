"""A running informer of Widgets on a scripted server, and what was heard of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from magicstick.kube.client import Client
from magicstick.kube.informer import Informer, InformerState, Tuning
from magicstick.kube.objects import Resource
from magicstick.kube.scope import Scope
from tests.support.apiserver import Answer, ScriptedServer, Stream, listing
from tests.support.objects import WIDGET
from tests.support.waiting import SkippingClock, dice, eventually

PATH = "/apis/example.com/v1/widgets"
NOT_SERVED = Answer(404, "404 page not found\n")


class Watched:
    """A running informer, and what its subscribers and state handlers heard."""

    def __init__(self, client: Client, tuning: Tuning, served: Callable[[], bool | None]) -> None:
        self.clock = SkippingClock()
        self.states: list[tuple[InformerState, int]] = []
        """Each new state with the number of entries at that moment."""
        self.changes: list[tuple[str, str | None, str | None]] = []
        self.informer = Informer(
            client,
            Scope(WIDGET),
            Resource,
            served=served,
            on_state=lambda informer: self.states.append((informer.state, len(informer.store))),
            tuning=tuning,
            clock=self.clock,
            chance=dice(),
        )
        self.store = self.informer.store
        self.store.subscribe(self._hear)

    def _hear(self, old: Resource | None, new: Resource | None) -> None:
        some = new or old
        assert some is not None
        versions = [obj.metadata.resource_version if obj else None for obj in (old, new)]
        self.changes.append((some.metadata.name, versions[0], versions[1]))

    @property
    def versions(self) -> dict[str, str]:
        """What is in the store: names to versions."""
        return {entry.metadata.name: entry.metadata.resource_version for entry in self.store.list()}

    async def reaches(self, version: int) -> None:
        """Wait until the store is at this version."""
        await eventually(lambda: self.store.resource_version == version)

    async def until(self, state: InformerState) -> None:
        """Wait for a state."""
        await eventually(lambda: self.informer.state is state)


class Start(Protocol):
    """Starts an informer that runs until the end of the test."""

    def __call__(
        self, tuning: Tuning | None = None, *, served: Callable[[], bool | None] = ...
    ) -> Watched: ...


@asynccontextmanager
async def starting(client: Client) -> AsyncIterator[Start]:
    """Gives a `Start`; at the end all informers must still run, and are cancelled."""
    tasks: list[asyncio.Task[None]] = []

    def start(tuning: Tuning | None = None, *, served: Callable[[], bool | None] = lambda: None) -> Watched:
        watched = Watched(client, tuning or Tuning(), served)
        tasks.append(asyncio.ensure_future(watched.informer.run()))
        return watched

    yield start
    for task in tasks:
        assert not task.done(), "an informer ended by itself"
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def synced(server: ScriptedServer, watched: Watched, *objects: dict[str, Any], version: int) -> Stream:
    """Answer the streamed list; the stream goes on as the watch. Single reads tell a later version."""
    server.answer("GET", PATH, listing([], "1000000"))
    stream = await server.stream(PATH)
    for obj in objects:
        await stream.send("ADDED", obj)
    await stream.bookmark(str(version), initial_events_end=True)
    await watched.reaches(version)
    return stream
