"""The informer on the wire: lists, watches, how they are resumed, and when only a new list helps."""

import pytest

from magicstick.kube.informer import InformerState, InitialList, Tuning
from magicstick.kube.kinds import ObjectKey
from tests.support.apiserver import Hang, ScriptedServer, failure, listing, status
from tests.support.objects import widget_body
from tests.support.waiting import eventually
from tests.support.watched import PATH, Start, synced

pytestmark = pytest.mark.anyio

PAGED = Tuning(initial_list=InitialList.PAGES)


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
