"""The connection to the API server fails in all the ways in which connections do."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from urllib.parse import parse_qsl

import pytest

from hack.devcluster import DevCluster
from magicstick.kube.informer import InformerState, Tuning
from tests.support.faultproxy import (
    Answer,
    Call,
    FaultProxy,
    HalfOpen,
    LoseAnswer,
    Reset,
    first_tries,
    mutating,
    reading,
)
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import assert_settled, snapshot
from tests.support.polling import until
from tests.support.scenario import Calm, change, live, substitution
from tests.support.world import World, corner

pytestmark = pytest.mark.anyio

WATCHED = Tuning(watch_timeout_s=(2.0, 3.0), idle_timeout_s=5.0)
"""The server ends watches often, so that a silent one is noticed after 5 s."""
MINUTE_S = 60.0
PACE_S = 0.5
REINITIALIZING = "storage is (re)initializing"


@pytest.fixture(scope="module")
def calm(control_plane: DevCluster) -> Calm:
    return Calm(control_plane)


def lists(calls: list[Call]) -> list[Call]:
    """Requests for whole collections, in pages or as a stream; a look at one object is none."""
    return [
        call
        for call in calls
        if call.reading
        and ("sendInitialEvents=true" in call.query or int(_parameters(call).get("limit", 1)) > 1)
    ]


def _parameters(call: Call) -> dict[str, str]:
    return dict(parse_qsl(call.query))


def collection(call: Call) -> tuple[str, str]:
    """What one informer reads: a path, and the name of the object where it is one."""
    return call.path, _parameters(call).get("fieldSelector", "")


async def ready(world: World) -> None:
    await world.activate("gamma", parameters={"storage": "10Gi"})
    await world.until_phase("gamma", "Ready")


async def test_a_half_open_watch_is_noticed_and_resumed_without_listing(
    control_plane: DevCluster, calm: Calm
) -> None:
    async def story(world: World) -> None:
        await ready(world)
        await change(world, "20Gi")

    expected = await calm.end(story)
    async with corner(control_plane) as world, operator(world, tuning=WATCHED) as running:
        await ready(world)
        await assert_settled(world)
        proxy, before = running.proxy, len(running.proxy.calls)
        with proxy.fault(HalfOpen(), when=lambda call: call.watch and call.number <= before):
            await change(world, "20Gi", deadline_s=20.0)
        await assert_settled(world)
        assert snapshot(world) == expected
        assert not lists(proxy.calls[before:])


@pytest.mark.slow
async def test_a_minute_of_connection_resets_changes_nothing_in_the_end(
    control_plane: DevCluster, calm: Calm
) -> None:
    expected = await calm.end()
    chance = random.Random(20)
    async with corner(control_plane) as world, operator(world) as running:
        breaking = asyncio.create_task(break_connections(running.proxy, chance))
        while not breaking.done():
            await live(world, deadline_s=MINUTE_S + 60.0)
        assert await breaking > 60, "hardly anything was broken"
        await assert_settled(world)
        assert snapshot(world) == expected
        assert "Degraded" not in world.phases_seen("gamma")


async def break_connections(proxy: FaultProxy, chance: random.Random) -> int:
    """For a minute break each tenth request, and a third of the open connections each half second."""
    broken = 0
    with proxy.fault(Reset(), when=lambda _: chance.random() < 0.1) as resets:
        for _ in range(int(MINUTE_S / PACE_S)):
            await asyncio.sleep(PACE_S)  # the pace of the fault
            broken += proxy.reset(0.3, chance)
    return broken + resets.hits


@pytest.mark.parametrize("body", [REINITIALIZING, ""])
async def test_an_overloaded_server_is_left_alone_as_long_as_it_asks(
    control_plane: DevCluster, body: str
) -> None:
    async with corner(control_plane) as world, operator(world) as running:
        await ready(world)
        await assert_settled(world)
        proxy, before = running.proxy, len(running.proxy.calls)
        with proxy.fault(Answer(429, body, retry_after=2), when=reading) as refusals:
            proxy.reset_all()
            await asyncio.sleep(6.5)  # how often it asks can only be counted over a time
        asked = Counter(map(collection, proxy.calls[before:]))
        assert refusals.hits >= 3
        # The first request and one each two seconds: 1 + 3.
        assert max(asked.values()) <= 4, asked
        assert world.phases_seen("gamma").isdisjoint({"Degraded"})
        await change(world, "20Gi", deadline_s=20.0)
        await assert_settled(world)


async def test_a_start_against_an_overloaded_server_succeeds_when_it_recovers(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world, operator(world, wait=False) as running:
        with running.proxy.fault(Answer(429, REINITIALIZING, retry_after=1), when=reading):
            await world.activate("alpha")
            await asyncio.sleep(3.5)  # as above
            asked = Counter(map(collection, running.proxy.calls))
            # The first request and one each second: 1 + 3.
            assert max(asked.values()) <= 4, asked
        await world.until_phase("alpha", "Ready")
        await assert_settled(world)


def some(seed: int, share: float) -> Callable[[Call], bool]:
    """This share of all writes."""
    chance = random.Random(seed)
    return lambda call: mutating(call) and chance.random() < share


@pytest.mark.req("MS-015")
@pytest.mark.parametrize("lost", [first_tries(), some(1, 0.3), some(2, 0.3)], ids=["first", "30%", "30%'"])
async def test_a_write_whose_answer_is_lost_is_done_once(
    control_plane: DevCluster, calm: Calm, lost: Callable[[Call], bool]
) -> None:
    expected = await calm.end()
    async with corner(control_plane) as world, operator(world) as running:
        with running.proxy.fault(LoseAnswer(), when=lost) as losses:
            await live(world)
            await assert_settled(world)
        assert losses.hits > 3
        assert snapshot(world) == expected
        assert_created_once(world)


def assert_created_once(world: World) -> None:
    """No Kustomization that the operator made was made twice, or by two names."""
    made = Counter(
        obj["metadata"]["name"]
        for path, type_, obj in world.mirror.history
        if path == world.kustomizations and type_ == "ADDED"
    )
    assert set(made) - {"infrastructure-basis"} == {"app-alpha", "app-beta", "app-gamma"}
    assert max(made.values()) == 1, made


async def test_a_server_that_refuses_connections_for_a_while_loses_no_change(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world, operator(world) as running:
        await ready(world)
        with running.proxy.fault(Reset()):
            running.proxy.reset_all()
            await world.activate("gamma", parameters={"storage": "20Gi"})
            await world.delete(world.activations, "beta")
            await unseen(running)
        await world.mirror.until("20Gi arrives", lambda: substitution(world) == "20Gi")
        await world.until_phase("gamma", "Ready")
        await assert_settled(world)


async def unseen(running: RunningOperator) -> None:
    """Until every informer has failed at least once, save those of kinds that are not served."""
    informers = [
        each for each in running.manager.caches.informers() if each.state is not InformerState.ABSENT
    ]

    async def all_failed() -> bool:
        return all(each.counters.failures for each in informers)

    await until("every informer has failed", all_failed)
