"""The informer on the wire: lists, watches, and every way in which they break."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from magicstick.kube.client import Client
from magicstick.kube.informer import Informer, InformerState, InitialList, Tuning
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.scope import Scope
from magicstick.kube.wire import WatchEvent
from tests.support.apiserver import Answer, Hang, ScriptedServer, Stream, failure, listing, status
from tests.support.objects import WIDGET, widget, widget_body
from tests.support.waiting import SkippingClock, dice, eventually

pytestmark = pytest.mark.anyio

PATH = "/apis/example.com/v1/widgets"
PAGED = Tuning(initial_list=InitialList.PAGES)
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
        return {entry.metadata.name: entry.metadata.resource_version for entry in self.store.list()}

    async def reaches(self, version: int) -> None:
        await eventually(lambda: self.store.resource_version == version)

    async def until(self, state: InformerState) -> None:
        await eventually(lambda: self.informer.state is state)


@pytest.fixture
async def watching(client: Client) -> AsyncIterator[Callable[..., Watched]]:
    """Starts informers; all are cancelled at the end of the test."""
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


Start = Callable[..., Watched]


async def synced(server: ScriptedServer, watched: Watched, *objects: dict[str, Any], version: int) -> Stream:
    """Answer the streamed list; the stream goes on as the watch. Single reads tell a later version."""
    server.answer("GET", PATH, listing([], "1000000"))
    stream = await server.stream(PATH)
    for obj in objects:
        await stream.send("ADDED", obj)
    await stream.bookmark(str(version), initial_events_end=True)
    await watched.reaches(version)
    return stream


# --- listing -------------------------------------------------------------------------------------


async def test_a_list_is_streamed_and_complete_only_at_its_end(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await server.stream(PATH)
    query = stream.request.query
    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert query["allowWatchBookmarks"] == "true"
    assert "resourceVersion" not in query
    assert 290 <= int(query["timeoutSeconds"]) <= 590
    await stream.send("ADDED", widget_body("a", 5))
    await stream.bookmark("6")
    await eventually(lambda: watched.versions == {"a": "5"})
    assert watched.informer.state is InformerState.SYNCING
    assert not watched.store.synced
    await stream.bookmark("7", initial_events_end=True)
    await watched.until(InformerState.SYNCED)
    assert watched.store.synced
    assert watched.store.resource_version == 7


async def test_the_stream_of_the_list_goes_on_as_the_watch(server: ScriptedServer, watching: Start) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    await stream.send("MODIFIED", widget_body("a", 8))
    await stream.send("ADDED", widget_body("b", 9))
    await stream.send("DELETED", widget_body("a", 10))
    await watched.reaches(10)
    assert watched.versions == {"b": "9"}
    assert watched.changes == [("a", None, "5"), ("a", "5", "8"), ("b", None, "9"), ("a", "8", None)]
    assert len(server.requests) == 1


async def test_a_streamed_list_takes_changes_that_arrive_before_its_end(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await server.stream(PATH)
    await stream.send("ADDED", widget_body("a", 5))
    await stream.send("ADDED", widget_body("b", 4))
    await stream.send("MODIFIED", widget_body("a", 8))
    await stream.send("DELETED", widget_body("b", 9))
    await stream.bookmark("9", initial_events_end=True)
    await watched.until(InformerState.SYNCED)
    assert watched.versions == {"a": "8"}


@pytest.mark.parametrize("ending", ["reset", "end"])
async def test_a_first_list_that_breaks_off_is_not_a_list(
    server: ScriptedServer, watching: Start, ending: str
) -> None:
    watched = watching()
    stream = await server.stream(PATH)
    await stream.send("ADDED", widget_body("a", 5))
    await eventually(lambda: watched.versions == {"a": "5"})
    if ending == "reset":
        stream.reset()
    else:
        await stream.end()
    again = await server.stream(PATH)
    assert "resourceVersion" not in again.request.query
    assert not watched.store.synced
    assert len(watched.clock.waits) == 1
    await again.send("ADDED", widget_body("b", 6))
    await again.bookmark("9", initial_events_end=True)
    await watched.until(InformerState.SYNCED)
    assert watched.versions == {"b": "6"}


async def test_a_server_that_does_not_stream_lists_is_asked_for_pages(
    server: ScriptedServer, watching: Start
) -> None:
    refused = status(422, "Invalid", "sendInitialEvents is forbidden for watch")
    server.answer("WATCH", PATH, refused, Hang())
    server.answer(
        "GET", PATH, listing([widget_body("a", 5)], "7", "next"), listing([widget_body("b", 6)], "7")
    )
    watched = watching()
    await watched.until(InformerState.SYNCED)
    assert watched.versions == {"a": "5", "b": "6"}
    pages = server.seen("GET", PATH)
    assert [page.query.get("continue") for page in pages] == [None, "next"]
    assert pages[0].query["limit"] == "500"
    assert "resourceVersion" not in pages[0].query
    watches = await server.arrived("WATCH", PATH, 2)
    assert watches[1].query["resourceVersion"] == "7"
    assert "sendInitialEvents" not in watches[1].query
    assert watched.clock.waits == []


async def test_listing_by_pages_can_be_forced(server: ScriptedServer, watching: Start) -> None:
    server.answer("GET", PATH, listing([widget_body("a", 5)], "7"))
    watched = watching(PAGED)
    stream = await server.stream(PATH)
    assert stream.request.query["resourceVersion"] == "7"
    assert watched.versions == {"a": "5"}
    assert watched.informer.state is InformerState.SYNCED


async def test_streaming_can_be_forced_and_then_a_refusal_is_a_failure(
    server: ScriptedServer, watching: Start
) -> None:
    server.answer("WATCH", PATH, status(422, "Invalid", "sendInitialEvents is forbidden for watch"))
    watched = watching(Tuning(initial_list=InitialList.STREAM))
    await watched.until(InformerState.FAILING)
    assert "sendInitialEvents is forbidden" in watched.informer.reason
    assert server.seen("GET") == []


async def test_a_paged_list_that_breaks_off_removes_nothing_and_starts_again(
    server: ScriptedServer, watching: Start
) -> None:
    server.answer("GET", PATH, listing([widget_body("a", 5), widget_body("b", 6)], "7"))
    watched = watching(PAGED)
    stream = await server.stream(PATH)
    server.answer(
        "GET",
        PATH,
        listing([widget_body("a", 8)], "9", "next"),
        status(410, "Expired", "the continue token has expired"),
        listing([widget_body("a", 8)], "9", "next"),
        status(500, "InternalError", "etcd"),
        listing([widget_body("a", 8)], "11"),
    )
    seen: list[dict[str, str]] = []
    watched.store.subscribe(lambda _old, _new: seen.append(watched.versions))
    await stream.send("ERROR", failure(410, "Expired", "too old resource version"))
    again = await server.stream(PATH)
    assert again.request.query["resourceVersion"] == "11"
    assert watched.versions == {"a": "8"}
    assert watched.informer.counters.lists == 2
    assert {"a": "8", "b": "6"} in seen, "the first page alone removed nothing"


# --- resuming ------------------------------------------------------------------------------------


async def test_a_watch_that_the_server_ends_is_resumed_at_once_where_it_was(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    await stream.send("MODIFIED", widget_body("a", 8))
    await stream.bookmark("30")
    await stream.end()
    again = await server.stream(PATH)
    assert again.request.query["resourceVersion"] == "30"
    assert "sendInitialEvents" not in again.request.query
    assert watched.clock.waits == []
    assert watched.informer.counters.lists == 1


async def test_a_broken_connection_is_resumed_where_it_was_after_a_jittered_pause(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    stream.reset()
    again = await server.stream(PATH)
    assert again.request.query["resourceVersion"] == "7"
    assert len(watched.clock.waits) == 1
    assert 0.8 <= watched.clock.waits[0] <= 1.6
    await again.send("DELETED", widget_body("a", 9))
    await eventually(lambda: watched.versions == {})
    assert [state for state, _ in watched.states] == [InformerState.SYNCED]


async def test_a_silent_stream_is_given_up_and_resumed_where_it_was(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching(Tuning(idle_timeout_s=0.05))
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    again = await server.stream(PATH)
    await stream.left()
    assert again.request.query["resourceVersion"] == "7"
    assert watched.informer.counters.lists == 1
    assert watched.informer.state is InformerState.SYNCED


async def test_a_watch_that_ends_again_and_again_without_a_word_is_slowed_down(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, version=7)
    await stream.end()
    for _ in range(4):
        stream = await server.stream(PATH)
        await stream.end()
    await server.stream(PATH)
    waits = watched.clock.waits
    assert len(waits) >= 4
    assert all(0.8 * 2**n <= wait <= 1.6 * 2**n for n, wait in enumerate(waits[:4]))


async def test_objects_of_any_size_pass(server: ScriptedServer, watching: Start) -> None:
    watched = watching()
    stream = await synced(server, watched, version=7)
    await stream.send("ADDED", widget_body("giant", 8, data={"text": "x" * 1_400_000}))
    await eventually(lambda: "giant" in watched.versions)
    giant = watched.store.get(ObjectKey("default", "giant"))
    assert giant is not None
    assert len(giant.data["text"]) == 1_400_000


# --- expiry and lost history ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["event", "answer"])
async def test_an_expired_version_leads_to_one_list_that_tells_of_what_was_deleted(
    server: ScriptedServer, watching: Start, how: str
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), widget_body("b", 6), version=7)
    if how == "event":
        await stream.send("ERROR", failure(410, "Expired", "too old resource version"))
    else:
        server.answer("WATCH", PATH, status(410, "Expired", "too old resource version"))
        watched.clock.hold()
        stream.reset()
        await watched.clock.step()
        server.unscript("WATCH", PATH)
        watched.clock.release()
    watched.changes.clear()
    await synced(server, watched, widget_body("b", 6), widget_body("c", 8), version=20)
    assert watched.versions == {"b": "6", "c": "8"}
    assert watched.changes == [("c", None, "8"), ("a", "5", None)]
    assert watched.informer.counters.lists == 2
    assert all(wait >= 0.8 for wait in watched.clock.waits)
    assert [state for state, _ in watched.states] == [InformerState.SYNCED]


async def test_breaks_of_a_watch_that_works_in_between_do_not_add_up(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, version=7)
    for version in range(8, 18):
        stream.reset()
        stream = await server.stream(PATH)
        await stream.send("MODIFIED", widget_body("a", version))
        await watched.reaches(version)
    assert len(watched.clock.waits) == 10
    assert max(watched.clock.waits) <= 1.6


async def test_a_version_that_the_server_does_not_know_yet_leads_to_a_list(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 50), version=70)
    too_large = status(504, "Timeout", "Too large resource version: 70, current: 40")
    server.answer("WATCH", PATH, too_large)
    stream.reset()
    await eventually(lambda: watched.informer.counters.expired >= 1)
    server.unscript("WATCH", PATH)
    await synced(server, watched, widget_body("a", 30), version=40)
    assert watched.versions == {"a": "30"}


async def test_a_server_that_came_back_with_an_older_state_is_noticed_before_the_watch_is_resumed(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 50), widget_body("b", 60), version=70)
    server.answer("GET", PATH, listing([widget_body("a", 30)], "42"))
    stream.reset()
    again = await server.stream(PATH)
    assert "resourceVersion" not in again.request.query
    await again.send("ADDED", widget_body("a", 30))
    await again.bookmark("42", initial_events_end=True)
    await watched.reaches(42)
    assert watched.versions == {"a": "30"}
    assert watched.changes[-2:] == [("a", "50", "30"), ("b", "60", None)]


async def test_a_watch_that_goes_back_leads_to_a_list_that_replaces_everything(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 50), widget_body("b", 60), version=70)
    await stream.bookmark("41")
    await synced(server, watched, widget_body("a", 30), version=42)
    await stream.left()
    assert watched.versions == {"a": "30"}


# --- outages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        status(429, "TooManyRequests", "storage is (re)initializing", headers={"Retry-After": "7"}),
        Answer(429, "slow down\n", {"Retry-After": "7"}),
    ],
)
async def test_a_server_that_asks_for_patience_gets_it_and_the_version_is_kept(
    server: ScriptedServer, watching: Start, answer: Answer
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    server.answer("WATCH", PATH, answer)
    watched.clock.hold()
    stream.reset()
    for _ in range(3):
        await watched.clock.step()
    server.unscript("WATCH", PATH)
    watched.clock.release()
    again = await server.stream(PATH)
    assert again.request.query["resourceVersion"] == "7"
    assert all(wait >= 7 for wait in watched.clock.waits[1:])
    assert watched.informer.state is InformerState.SYNCED
    assert watched.informer.counters.lists == 1


async def test_an_outage_is_met_with_growing_pauses_up_to_a_bound(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    server.answer("WATCH", PATH, status(503, "ServiceUnavailable", "down"))
    stream.reset()
    await eventually(lambda: len(watched.clock.waits) >= 9)
    for n, wait in enumerate(watched.clock.waits[:9]):
        base = min(0.8 * 2**n, 30.0)
        assert base <= wait <= 2 * base


async def test_a_short_outage_is_no_state_and_a_long_one_is(server: ScriptedServer, watching: Start) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    began = watched.clock.now
    server.answer("WATCH", PATH, status(503, "ServiceUnavailable", "down"))
    server.answer("GET", PATH, status(503, "ServiceUnavailable", "down"))
    stream.reset()
    await watched.until(InformerState.FAILING)
    assert watched.clock.now - began >= 90
    assert "down" in watched.informer.reason
    assert watched.versions == {"a": "5"}
    assert watched.store.synced


async def test_a_first_list_that_fails_for_long_is_a_failing_kind(
    server: ScriptedServer, watching: Start
) -> None:
    server.answer("WATCH", PATH, status(500, "InternalError", "conversion webhook failed"))
    watched = watching()
    watched.clock.hold()
    while not watched.states:
        await watched.clock.step()
    assert watched.states == [(InformerState.FAILING, 0)]
    assert 10 <= watched.clock.now - 1000 < 60
    assert "conversion webhook failed" in watched.informer.reason
    assert not watched.store.synced
    server.unscript("WATCH", PATH)
    watched.clock.release()
    await synced(server, watched, widget_body("a", 5), version=7)
    assert watched.states[-1] == (InformerState.SYNCED, 1)
    assert watched.informer.reason == ""


async def test_a_refused_connection_is_an_outage_like_any_other(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    await synced(server, watched, widget_body("a", 5), version=7)
    watched.clock.hold()
    await server.stop()
    await eventually(lambda: watched.informer.counters.failures == 1)
    await server.start()
    watched.clock.release()
    again = await server.stream(PATH)
    assert again.request.query["resourceVersion"] == "7"
    assert [state for state, _ in watched.states] == [InformerState.SYNCED]


async def test_a_kind_that_failed_has_healed_once_a_read_succeeds_and_the_watch_lives(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching(Tuning(heal_after_s=0.01))
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    server.answer("WATCH", PATH, status(503, "ServiceUnavailable", "down"))
    server.answer("GET", PATH, status(503, "ServiceUnavailable", "down"))
    stream.reset()
    await watched.until(InformerState.FAILING)
    server.answer("GET", PATH, listing([widget_body("a", 5)], "9"))
    server.unscript("WATCH", PATH)
    again = await server.stream(PATH)
    await watched.until(InformerState.SYNCED)
    assert again.request.query["resourceVersion"] == "7"
    assert watched.informer.counters.lists == 1


async def test_a_kind_that_failed_has_not_healed_while_reads_fail(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching(Tuning(heal_after_s=0.001))
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    server.answer("WATCH", PATH, status(403, "Forbidden", "no"))
    watched.clock.hold()
    stream.reset()
    await watched.clock.step()
    assert watched.informer.state is InformerState.FAILING
    server.answer("GET", PATH, status(503, "ServiceUnavailable", "down"))
    server.unscript("WATCH", PATH)
    for _ in range(3):
        await watched.clock.step()
    assert [state for state, _ in watched.states] == [InformerState.SYNCED, InformerState.FAILING]


async def test_a_kind_that_failed_has_not_healed_when_only_its_watch_fails(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching(Tuning(heal_after_s=0.05))
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    server.answer("WATCH", PATH, status(403, "Forbidden", "no"))
    server.answer("GET", PATH, listing([], "9"))
    watched.clock.hold()
    stream.reset()
    await watched.clock.step()
    assert watched.informer.state is InformerState.FAILING
    for _ in range(3):
        await watched.clock.step()
    due_later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.06, due_later.set)
    await due_later.wait()
    assert [state for state, _ in watched.states] == [InformerState.SYNCED, InformerState.FAILING]


@pytest.mark.parametrize("sign", ["event", "end"])
async def test_an_outage_that_is_over_does_not_count_in_the_next_one(
    server: ScriptedServer, watching: Start, sign: str
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    stream.reset()
    stream = await server.stream(PATH)
    assert watched.informer.counters.failures == 1
    if sign == "event":
        await stream.bookmark("8")
        await watched.reaches(8)
    else:
        watched.clock.now += 300
        await stream.end()
        stream = await server.stream(PATH)
    watched.clock.now += 100
    stream.reset()
    await server.stream(PATH)
    assert watched.informer.counters.failures == 2
    assert watched.informer.state is InformerState.SYNCED


async def test_a_missing_right_is_a_failure_at_once_and_heals_by_itself(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching(Tuning(heal_after_s=1e6))
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    forbidden = status(403, "Forbidden", 'widgets is forbidden: User "x" cannot watch resource "widgets"')
    server.answer("WATCH", PATH, forbidden)
    server.answer("GET", PATH, forbidden)
    stream.reset()
    await watched.until(InformerState.FAILING)
    assert watched.clock.now - 1000 < 90
    assert "cannot watch" in watched.informer.reason
    assert watched.versions == {"a": "5"}
    server.answer("GET", PATH, listing([], "9"))
    server.unscript("WATCH", PATH)
    again = await server.stream(PATH)
    await again.send("DELETED", widget_body("a", 9))
    await watched.until(InformerState.SYNCED)
    assert watched.versions == {}


async def test_an_object_that_cannot_be_read_makes_the_kind_fail_and_removes_nothing(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    watched.clock.hold()
    poison = widget_body("b", 8)
    poison["metadata"]["labels"] = {"secret": 17}
    await stream.send("ADDED", poison)
    await watched.until(InformerState.FAILING)
    assert "labels" in watched.informer.reason
    assert "17" not in watched.informer.reason
    assert watched.versions == {"a": "5"}


# --- absent kinds --------------------------------------------------------------------------------


async def test_a_kind_that_is_not_served_is_absent_and_found_when_it_comes(
    server: ScriptedServer, watching: Start
) -> None:
    server.answer("WATCH", PATH, NOT_SERVED)
    watched = watching()
    await watched.until(InformerState.ABSENT)
    assert watched.informer.reason == "widgets.example.com is not served in example.com/v1"
    assert watched.informer.last_event_age is None
    assert not watched.store.synced
    await server.arrived("WATCH", PATH, 8)
    assert max(watched.clock.waits) <= 30
    server.unscript("WATCH", PATH)
    await synced(server, watched, widget_body("a", 5), version=7)
    assert [state for state, _ in watched.states] == [
        InformerState.ABSENT,
        *[InformerState.SYNCING, InformerState.ABSENT] * ((len(watched.states) - 3) // 2),
        InformerState.SYNCING,
        InformerState.SYNCED,
    ]


async def test_a_kind_that_was_long_absent_is_tried_again_soon_when_it_comes_with_a_failure(
    server: ScriptedServer, watching: Start
) -> None:
    server.answer("WATCH", PATH, NOT_SERVED)
    watched = watching()
    watched.clock.hold()
    for _ in range(8):
        await watched.clock.step()
    server.answer("WATCH", PATH, status(429, "TooManyRequests", "storage is (re)initializing"))
    await watched.clock.step()
    assert watched.informer.counters.failures == 1
    assert watched.clock.waits[-1] <= 1.6


async def test_a_kind_that_goes_is_absent_before_its_store_is_empty_and_nobody_hears_of_deletions(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, widget_body("a", 5), widget_body("b", 6), version=7)
    watched.clock.hold()
    watched.changes.clear()
    server.answer("WATCH", PATH, NOT_SERVED)
    await stream.bookmark("8")
    await stream.end()
    await watched.until(InformerState.ABSENT)
    await eventually(lambda: not watched.store.synced)
    assert watched.states[-1] == (InformerState.ABSENT, 2)
    assert watched.versions == {}
    assert watched.changes == []
    server.unscript("WATCH", PATH)
    watched.clock.release()
    await synced(server, watched, widget_body("b", 9, uid="another"), version=10)
    assert watched.changes == [("b", "6", "9"), ("a", "5", None)]


async def test_a_kind_of_which_discovery_knows_that_it_is_absent_costs_no_request(
    server: ScriptedServer, watching: Start
) -> None:
    served = False
    watched = watching(served=lambda: served)
    await watched.until(InformerState.ABSENT)
    await eventually(lambda: len(watched.clock.waits) >= 5)
    assert set(watched.clock.waits) == {30.0}
    assert server.requests == []
    served = True
    await synced(server, watched, widget_body("a", 5), version=7)


async def test_news_of_a_kind_cuts_a_pause_short(server: ScriptedServer, watching: Start) -> None:
    served = False
    watched = watching(served=lambda: served)
    watched.clock.hold()
    await watched.until(InformerState.ABSENT)
    await eventually(lambda: len(watched.clock.waits) >= 1)
    served = True
    watched.informer.recheck()
    await synced(server, watched, version=7)


async def test_news_are_news_once(server: ScriptedServer, watching: Start) -> None:
    watched = watching(served=lambda: False)
    watched.clock.hold()
    await eventually(lambda: len(watched.clock.waits) == 1)
    watched.informer.recheck()
    await eventually(lambda: len(watched.clock.waits) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(watched.clock.waits) == 2


# --- life ----------------------------------------------------------------------------------------


class Broken:
    """A source with a bug."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.watches = 0

    def pages(self, *_: Any, **__: Any) -> Any:
        raise self.error

    def watch(self, *_: Any, **__: Any) -> Any:
        self.watches += 1
        raise self.error


async def test_an_unknown_exception_is_survived_and_reported_without_its_text() -> None:
    source, clock = Broken(RuntimeError("password=hunter2")), SkippingClock()
    informer = Informer(source, Scope(WIDGET), Resource, clock=clock, chance=dice())
    task = asyncio.ensure_future(informer.run())
    await eventually(lambda: source.watches >= 3)
    assert informer.state is InformerState.FAILING
    assert informer.reason == "unexpected RuntimeError; the log has more"
    assert informer.counters.failures >= 2
    assert all(wait >= 0.8 for wait in clock.waits)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Impatient(SkippingClock):
    """A clock that does not even let others run while it waits, but for a while at first."""

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        if len(self.waits) >= 4:
            return await super().wait(event, timeout_s)
        self.waits.append(timeout_s)
        return event.is_set()


class Leaking:
    """A source whose streams say whether they were closed before the next one was asked for."""

    def __init__(self) -> None:
        self.open = 0
        self.most_open = 0
        self.asked = 0

    def pages(self, *_: Any, **__: Any) -> Any:
        raise AssertionError

    def watch(self, *_: Any, **__: Any) -> Any:
        return self._stream()

    async def _stream(self) -> AsyncIterator[WatchEvent[Resource]]:
        self.asked += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            yield WatchEvent("ADDED", widget("a", "no-number"))
            yield WatchEvent("ADDED", widget("b", 1))
        finally:
            self.open -= 1


async def test_a_stream_that_is_left_in_the_middle_is_closed_before_the_next_is_asked_for() -> None:
    source = Leaking()
    informer = Informer(source, Scope(WIDGET), Resource, clock=Impatient(), chance=dice())
    task = asyncio.ensure_future(informer.run())
    await eventually(lambda: source.asked >= 4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert source.most_open == 1


async def test_a_subscriber_that_raises_does_not_disturb_the_watch(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()

    def fails(_old: object, _new: object) -> None:
        raise RuntimeError("a bug in a reconciler")

    watched.store.subscribe(fails)
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    await stream.send("ADDED", widget_body("b", 8))
    await eventually(lambda: watched.versions == {"a": "5", "b": "8"})
    assert watched.informer.counters.failures == 0


async def test_the_age_of_the_last_event_tells_a_silent_watch(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching()
    stream = await synced(server, watched, version=7)
    assert watched.informer.last_event_age == 0
    watched.clock.now += 100
    assert watched.informer.last_event_age == 100
    await stream.bookmark("8")
    await eventually(lambda: watched.informer.last_event_age == 0)


async def test_a_cancelled_informer_ends_at_once_and_closes_its_stream(
    server: ScriptedServer, client: Client
) -> None:
    informer = Informer(client, Scope(WIDGET), Resource)
    task = asyncio.ensure_future(informer.run())
    stream = await server.stream(PATH)
    task.cancel()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await task
    await stream.left()


async def test_watches_ask_to_be_ended_at_different_times(server: ScriptedServer, watching: Start) -> None:
    watched = watching()
    stream = await synced(server, watched, version=7)
    asked = set()
    for number in range(6):
        await stream.bookmark(str(10 + number))
        await stream.end()
        stream = await server.stream(PATH)
        asked.add(int(stream.request.query["timeoutSeconds"]))
    assert len(asked) >= 4
    assert all(290 <= seconds <= 590 for seconds in asked)
