"""Kinds that come and go, and the life of an informer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from magicstick.kube.client import Client
from magicstick.kube.informer import Informer, InformerState
from magicstick.kube.objects import Resource
from magicstick.kube.scope import Scope
from magicstick.kube.wire import WatchEvent
from tests.support.apiserver import ScriptedServer, status
from tests.support.objects import WIDGET, widget, widget_body
from tests.support.waiting import SkippingClock, dice, eventually
from tests.support.watched import NOT_SERVED, PATH, Start, synced

pytestmark = pytest.mark.anyio


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


async def test_a_kind_that_is_denied_though_its_definition_is_there_is_failing_and_keeps_its_content(
    server: ScriptedServer, watching: Start
) -> None:
    watched = watching(served=lambda: True)
    stream = await synced(server, watched, widget_body("a", 5), version=7)
    server.answer("WATCH", PATH, NOT_SERVED)
    await stream.bookmark("8")
    await stream.end()
    await watched.until(InformerState.FAILING)
    assert watched.versions == {"a": "5"}
    assert watched.store.synced
    server.unscript("WATCH", PATH)
    again = await server.stream(PATH)
    assert again.request.query["sendInitialEvents"] == "true"
    await again.bookmark("9", initial_events_end=True)
    await watched.until(InformerState.SYNCED)
    assert watched.versions == {}


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
