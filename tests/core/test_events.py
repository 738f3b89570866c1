"""The recorder: what becomes of what was recorded."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from hack.devcluster import DevCluster
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import AlreadyExists, FenceClosed, Forbidden, NotFound, Unavailable
from magicstick.kube.kinds import CONFIG_MAP, EVENT, NODE, Kind, ObjectKey
from magicstick.kube.objects import FullObjectMeta, ObjectMeta, Resource
from magicstick.runtime.clock import SystemClock
from magicstick.runtime.events import EventRecorder
from tests.support.sleeping_time import SleepingTime, settle

pytestmark = pytest.mark.anyio

Body = Mapping[str, Any]


class EventServer:
    """Keeps Events by name. Each of `errors` meets one request."""

    def __init__(self) -> None:
        self.events: dict[ObjectKey, dict[str, Any]] = {}
        self.errors: list[Exception] = []
        self.requests = 0
        self.answers_lost = 0

    @property
    def only(self) -> dict[str, Any]:
        (event,) = self.events.values()
        return event

    async def create(self, kind: Kind, body: Body) -> Resource:
        self._meet(kind)
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        if key in self.events:
            raise AlreadyExists("exists")
        self.events[key] = dict(body)
        if self.answers_lost:
            self.answers_lost -= 1
            raise Unavailable("the connection broke")
        return Resource(FullObjectMeta())

    async def merge_patch(self, kind: Kind, key: ObjectKey, body: Body) -> Resource:
        self._meet(kind)
        if key not in self.events:
            raise NotFound("expired")
        self.events[key] |= body
        return Resource(FullObjectMeta())

    def _meet(self, kind: Kind) -> None:
        assert kind == EVENT
        self.requests += 1
        if self.errors:
            raise self.errors.pop(0)


class EventView(msgspec.Struct, frozen=True):
    """An Event as the API server has it."""

    metadata: ObjectMeta
    series: Mapping[str, Any] | None = None


class Results:
    """`EventMetrics` that counts."""

    def __init__(self) -> None:
        self.by_result: Counter[str] = Counter()

    def event(self, result: str) -> None:
        self.by_result[result] += 1


class Bench:
    """A recorder on virtual time."""

    def __init__(self, queued: int = 100) -> None:
        self.server, self.clock, self.results = EventServer(), SleepingTime(), Results()
        self.recorder = EventRecorder(
            self.server,
            self.clock,
            controller="magicstick-operator",
            instance="host_1234",
            metrics=self.results,
            queued=queued,
        )

    def record(self, reason: str = "Ready", message: str = "all is well", *, name: str = "one") -> None:
        self.recorder.record(CONFIG_MAP, thing(name), normal=True, reason=reason, message=message)


def thing(name: str = "one", namespace: str = "default") -> Resource:
    return Resource(FullObjectMeta(name=name, namespace=namespace, uid=f"uid-of-{name}"))


@asynccontextmanager
async def running(queued: int = 100) -> AsyncIterator[Bench]:
    bench = Bench(queued)
    task = asyncio.create_task(bench.recorder.run())
    try:
        yield bench
        await settle()
        assert not task.done()
    finally:
        task.cancel()


async def test_an_event_says_what_happened_to_which_object() -> None:
    async with running() as bench:
        bench.recorder.record(CONFIG_MAP, thing(), normal=False, reason="Failed", message="no such image")
        await settle()
    event = bench.server.only
    assert event["metadata"]["namespace"] == "default"
    assert event["metadata"]["name"].startswith("one.")
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "default",
        "name": "one",
        "uid": "uid-of-one",
    }
    told = {name: event[name] for name in ("type", "reason", "note", "action", "eventTime")}
    assert told == {
        "type": "Warning",
        "reason": "Failed",
        "note": "no such image",
        "action": "Reconcile",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    assert event["reportingController"] == "magicstick-operator"
    assert event["reportingInstance"] == "host_1234"
    assert "series" not in event


async def test_an_event_about_a_cluster_scoped_object_lives_in_the_default_namespace() -> None:
    async with running() as bench:
        bench.recorder.record(NODE, thing("node", ""), normal=True, reason="Ready", message="")
        await settle()
    assert bench.server.only["metadata"]["namespace"] == "default"
    assert "namespace" not in bench.server.only["regarding"]


async def test_repetitions_are_counted_in_the_first_event() -> None:
    async with running() as bench:
        for _ in range(3):
            bench.record()
            await bench.clock.elapse(10)
    assert bench.server.only["series"] == {
        "count": 3,
        "lastObservedTime": "2026-01-01T00:00:20.000000Z",
    }


async def test_a_series_whose_event_expired_is_made_anew_with_its_count() -> None:
    async with running() as bench:
        bench.record()
        await settle()
        bench.server.events.clear()
        bench.record()
        await settle()
    assert bench.server.only["series"]["count"] == 2


async def test_messages_are_cut_to_what_the_api_takes_in_bytes() -> None:
    async with running() as bench:
        bench.record(reason="R" * 300, message="ü" * 1000)
        await settle()
    note = bench.server.only["note"]
    assert len(note.encode()) <= 1024
    assert note.endswith("ü…")
    assert len(bench.server.only["reason"].encode()) <= 128


async def test_the_name_of_an_event_stays_within_the_limit() -> None:
    async with running() as bench:
        bench.record(name="n" * 253)
        await settle()
    assert len(bench.server.only["metadata"]["name"]) <= 253


async def test_recording_never_waits_and_what_does_not_fit_is_dropped_and_counted() -> None:
    bench = Bench(queued=3)
    for number in range(5):
        bench.record(name=f"thing-{number}")
    assert bench.results.by_result == {"dropped": 2}
    assert bench.recorder.dropped == 2


async def test_a_flood_about_one_object_is_suppressed_and_counted() -> None:
    async with running() as bench:
        for number in range(30):
            bench.record(reason=f"Reason{number}")
        await settle()
    assert bench.results.by_result == {"sent": 25, "suppressed": 5}


async def test_a_server_that_is_away_is_asked_again_for_a_while() -> None:
    async with running() as bench:
        bench.server.errors = [Unavailable("away"), Unavailable("away")]
        bench.record()
        await bench.clock.elapse(30)
    assert bench.results.by_result == {"sent": 1}


async def test_an_event_whose_answer_was_lost_is_there_once() -> None:
    async with running() as bench:
        bench.server.answers_lost = 1
        bench.record()
        await bench.clock.elapse(30)
    assert len(bench.server.events) == 1
    assert bench.results.by_result == {"sent": 1}


@pytest.mark.parametrize(
    "error", [Forbidden("no right"), FenceClosed("no lease"), ValueError("no answer"), Unavailable("away")]
)
async def test_a_failure_costs_one_event_and_nothing_else(error: Exception) -> None:
    async with running() as bench:
        bench.server.errors = [error] * (3 if isinstance(error, Unavailable) else 1)
        bench.record()
        await bench.clock.elapse(60)
        bench.record(name="two")
        await settle()
    assert bench.results.by_result == {"failed": 1, "sent": 1}
    assert bench.recorder.dropped == 1


async def test_a_missing_right_is_told_once() -> None:
    with capture_logs() as logs:
        async with running() as bench:
            bench.server.errors = [Forbidden("no right"), Forbidden("no right")]
            bench.record()
            bench.record(name="two")
            await settle()
    assert [line["error"] for line in logs] == ["Forbidden"]


async def test_flushing_waits_for_what_was_recorded_but_not_for_ever() -> None:
    async with running() as bench:
        bench.record()
        flushed = asyncio.ensure_future(bench.recorder.flush(5))
        await settle()
        assert flushed.done()
        assert flushed.result()
    assert len(bench.server.events) == 1
    idle = Bench()
    idle.record()
    late = asyncio.ensure_future(idle.recorder.flush(5))
    await idle.clock.elapse(5)
    assert late.done()
    assert not late.result()


async def test_the_api_server_takes_events_and_their_series(control_plane: DevCluster) -> None:
    config = await ClusterConfig.load(control_plane.kubeconfig)
    results = Results()
    async with Client(config, user_agent="events-test", field_manager="events-test") as client:
        recorder = EventRecorder(
            client, SystemClock(), controller="magicstick-operator", instance="host_1", metrics=results
        )
        obj = Resource(FullObjectMeta(name="events-test", namespace="default", uid="00000000-1"))
        task = asyncio.create_task(recorder.run())
        for message in ["ü" * 2000, "ü" * 2000, "short", *(f"similar {number}" for number in range(12))]:
            recorder.record(CONFIG_MAP, obj, normal=False, reason="Failed", message=message)
        assert await recorder.flush(10)
        task.cancel()
        counts = [
            event.series["count"] if event.series else 1
            async for page in client.pages(EVENT, namespace="default", view=EventView)
            for event in page.items
            if event.metadata.name.startswith("events-test.")
        ]
    assert results.by_result == {"sent": 15}
    assert sorted(counts) == [*[1] * 9, 2, 4]  # of twelve similar ones the last four were combined
