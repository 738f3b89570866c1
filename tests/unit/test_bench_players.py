"""What the players of the measurements have in common, against a server that is played in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hack.bare import MERGE, BareClient, RefusedError
from hack.bench.players import Changed, Players
from hack.devcluster.actors.following import Object

pytestmark = pytest.mark.anyio

THINGS = "/apis/example.com/v1/things"
DEADLINE_S = 5.0
NEVER_S = 0.02
EMPTY = {"apiVersion": "v1", "kind": "ThingList", "items": [], "metadata": {"resourceVersion": "0"}}
Report = tuple[str, Mapping[str, Any]]


class PlayedServer(BareClient):
    """One collection, empty at first; what is reported to it can be awaited."""

    def __init__(self, *, refusal: int = 0) -> None:
        super().__init__("https://example.com", Path(), "")
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.reports: asyncio.Queue[Report] = asyncio.Queue()
        self._refusal = refusal
        self._version = 0

    def tell(self, type_: str, name: str, generation: int, **status: Any) -> None:
        self._version += 1
        told = f"{self._version}"
        metadata = {"name": name, "uid": name, "generation": generation, "resourceVersion": told}
        event = {"type": type_, "object": {"metadata": metadata, "status": status}}
        self.events.put_nowait(json.dumps(event).encode())

    async def send(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> bytes:
        if method == "GET":
            return json.dumps(EMPTY).encode()
        assert (method, content_type) == ("PATCH", MERGE)
        if self._refusal:
            code, self._refusal = self._refusal, 0
            raise RefusedError(code, "refused")
        self.reports.put_nowait((path, body))
        return b""

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        assert path.startswith(THINGS)
        while True:
            yield await self.events.get()

    async def report(self) -> Report:
        return await asyncio.wait_for(self.reports.get(), DEADLINE_S)


class Reporting(Players):
    def _followed(self) -> Mapping[str, Changed]:
        return {THINGS: self._each_generation(self._reporting(THINGS, generation_of))}


class Counting(Players):
    def _followed(self) -> Mapping[str, Changed]:
        return {THINGS: self._counting("Ready")}


def generation_of(obj: Object) -> Mapping[str, Any]:
    return {"of": obj["metadata"]["generation"]}


async def test_each_generation_of_an_object_is_reported_of_once() -> None:
    server = PlayedServer()
    async with Reporting(server).running():
        for generation in (1, 1, 2):
            server.tell("MODIFIED", "first", generation)
        server.tell("DELETED", "first", 3)
        server.tell("MODIFIED", "last", 1)
        told = [await server.report() for _ in range(3)]
    first, last = f"{THINGS}/first/status", f"{THINGS}/last/status"
    assert told == [(first, {"of": 1}), (first, {"of": 2}), (last, {"of": 1})]
    assert server.reports.empty()


async def test_a_report_of_what_went_meanwhile_is_left_out() -> None:
    server = PlayedServer(refusal=404)
    async with Reporting(server).running():
        server.tell("MODIFIED", "gone", 1)
        server.tell("MODIFIED", "there", 1)
        assert await server.report() == (f"{THINGS}/there/status", {"of": 1})


async def test_any_other_refusal_ends_the_block() -> None:
    server = PlayedServer(refusal=422)

    async def play() -> None:
        async with Reporting(server).running():
            server.tell("MODIFIED", "wrong", 1)
            await asyncio.wait_for(asyncio.Event().wait(), DEADLINE_S)

    with pytest.raises(ExceptionGroup) as ended:
        await play()
    assert [getattr(each, "code", None) for each in ended.value.exceptions] == [422]


async def test_what_is_ready_at_its_present_generation_is_counted() -> None:
    server = PlayedServer()
    async with Counting(server).running() as players:
        server.tell("MODIFIED", "stale", 2, phase="Ready", observedGeneration=1)
        server.tell("MODIFIED", "waiting", 1, phase="Pending", observedGeneration=1)
        server.tell("MODIFIED", "ready", 1, phase="Ready", observedGeneration=1)
        await players.until_ready(1, DEADLINE_S)
        assert players.ready == {"ready"}
        assert players.present == {"stale", "waiting", "ready"}


async def test_what_changes_or_goes_is_no_longer_counted_as_ready() -> None:
    server = PlayedServer()
    async with Counting(server).running() as players:
        for name in ("changed", "gone", "ready"):
            server.tell("MODIFIED", name, 1, phase="Ready", observedGeneration=1)
        await players.until_ready(3, DEADLINE_S)
        server.tell("MODIFIED", "changed", 2, phase="Ready", observedGeneration=1)
        server.tell("DELETED", "gone", 1, phase="Ready", observedGeneration=1)
        await players.until(lambda seen: "gone" not in seen.present, "it is gone", DEADLINE_S)
        assert players.ready == {"ready"}
        assert players.present == {"changed", "ready"}


async def test_a_missed_deadline_tells_how_many_were_ready() -> None:
    server = PlayedServer()
    async with Counting(server).running() as players:
        server.tell("MODIFIED", "ready", 1, phase="Ready", observedGeneration=1)
        server.tell("MODIFIED", "waiting", 1)
        await players.until(lambda seen: len(seen.present) == 2, "both are seen", DEADLINE_S)
        with pytest.raises(TimeoutError, match=r"^2 are to be ready: 1 are ready of 2$"):
            await players.until_ready(2, NEVER_S)
