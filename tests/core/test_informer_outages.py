"""The informer while the server, or the right to read, is away; and what it says of it."""

import asyncio

import pytest

from magicstick.kube.informer import InformerState, Tuning
from tests.support.apiserver import Answer, ScriptedServer, listing, status
from tests.support.objects import widget_body
from tests.support.waiting import eventually
from tests.support.watched import PATH, Start, synced

pytestmark = pytest.mark.anyio


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


@pytest.mark.parametrize("longest_s", [30.0, 2.0])
async def test_an_outage_is_met_with_growing_pauses_up_to_a_bound(
    server: ScriptedServer, watching: Start, longest_s: float
) -> None:
    watched = watching(Tuning(longest_pause_s=longest_s))
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    server.answer("WATCH", PATH, status(503, "ServiceUnavailable", "down"))
    stream.reset()
    await eventually(lambda: len(watched.clock.waits) >= 9)
    for n, wait in enumerate(watched.clock.waits[:9]):
        base = min(0.8 * 2**n, longest_s)
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
