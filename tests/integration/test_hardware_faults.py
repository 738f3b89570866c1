"""Hardware under every fault that modules have to survive: the same end as without it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.kube.informer import Tuning
from magicstick.kube.kinds import NODE
from tests.support.faultproxy import (
    Call,
    FaultProxy,
    HalfOpen,
    LoseAnswer,
    Reset,
    first_tries,
    mutating,
)
from tests.support.gpu_world import GpuWorld, hardware
from tests.support.hardware_scenario import installed, live, made_once, undisturbed, until_as
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import assert_settled, quiet, told
from tests.support.rights import READING, grant, limit_nodes
from tests.support.world import corner

pytestmark = pytest.mark.anyio

End = Mapping[str, Any]
WATCHED = Tuning(watch_timeout_s=(2.0, 3.0), idle_timeout_s=5.0)
"""The server ends watches often, so that a silent one is noticed after 5 s."""
PACE_S = 0.5
UNREADABLE = "Nodes cannot be read now"


@pytest.fixture(scope="module")
def ends() -> dict[str, End]:
    """The undisturbed end, once it was lived."""
    return {}


@pytest.fixture
async def expected(control_plane: DevCluster, ends: dict[str, End]) -> End:
    """What the life ends in when nothing goes wrong."""
    if not ends:
        ends["undisturbed"] = await undisturbed(control_plane)
    return ends["undisturbed"]


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A control plane that may be killed without harm to other tests."""
    with DevCluster.start(CONTROL_PLANE, directory=tmp_path_factory.mktemp("mortal")) as cluster:
        yield cluster


@asynccontextmanager
async def scenery(cluster: DevCluster, **options: Any) -> AsyncIterator[tuple[GpuWorld, RunningOperator]]:
    """A corner with vendors and a running operator."""
    async with corner(cluster) as world, hardware(world) as gpus, operator(world, **options) as running:
        yield gpus, running


async def restart(cluster: DevCluster) -> None:
    """Kill the API server and start it again."""
    await asyncio.to_thread(cluster.kill_apiserver)
    await asyncio.to_thread(cluster.start_apiserver)


async def test_the_api_server_dies_in_the_middle(mortal: DevCluster, expected: End) -> None:
    async with scenery(mortal) as (gpus, _):
        await gpus.node("n1", "gpu", slots=2)
        await restart(mortal)
        await gpus.delete_node("n1")
        await installed(gpus)
        await restart(mortal)
        await gpus.delete_node("n1")
        await live(gpus)
        await until_as(gpus, expected)
        assert made_once(gpus.world)


async def test_a_node_that_is_replaced_during_an_expired_watch_is_the_same_hardware(
    mortal: DevCluster,
) -> None:
    """A real 410: a restarted API server has forgotten the versions from before."""
    async with scenery(mortal) as (gpus, running):
        world = gpus.world
        await installed(gpus)
        await assert_settled(world)
        mark = mortal.audit_mark()
        with running.proxy.fault(Reset()):
            running.proxy.reset_all()
            await gpus.delete_node("n1")
            await gpus.node("n1", "gpu", slots=3)
            await gpus.node("n4", "amd-gpu")
            await restart(mortal)
        await world.mirror.until("AMD is requested", lambda: world.activation("amd-gpu"))
        await world.mirror.until("three GPUs are told", lambda: gpus.entry()["allocatableResources"] == 3)
        assert gpus.entry()["phase"] == "Ready"
        await assert_settled(world)
        assert running.manager.caches.informer(NODE).counters.expired >= 1, "no version had expired"
        written = [each for each in world.operator_writes(mark) if each.name in {"gpu", "platform-gpu"}]
        assert not written, told(written)


async def test_silent_watches_hide_neither_a_node_nor_its_end(
    control_plane: DevCluster, expected: End
) -> None:
    async with scenery(control_plane, tuning=WATCHED) as (gpus, running):
        begun = len(running.proxy.calls)
        with running.proxy.fault(HalfOpen(), when=lambda call: call.watch and call.number <= begun):
            await live(gpus)
        await until_as(gpus, expected)


async def test_connections_that_break_all_the_time_change_nothing_in_the_end(
    control_plane: DevCluster, expected: End
) -> None:
    async with scenery(control_plane) as (gpus, running):
        breaking = asyncio.create_task(break_connections(running.proxy, random.Random(20)))
        try:
            await live(gpus)
        finally:
            breaking.cancel()
            await asyncio.gather(breaking, return_exceptions=True)
        await until_as(gpus, expected)
        assert made_once(gpus.world)


async def break_connections(proxy: FaultProxy, chance: random.Random) -> None:
    """Break each tenth request, and a third of the open connections each half second."""
    with proxy.fault(Reset(), when=lambda _: chance.random() < 0.1):
        while True:
            proxy.reset(0.3, chance)
            await asyncio.sleep(PACE_S)  # the pace of the fault


def some(share: float) -> Callable[[Call], bool]:
    """This share of all writes."""
    chance = random.Random(1)
    return lambda call: mutating(call) and chance.random() < share


@pytest.mark.parametrize("lost", [first_tries(), some(0.3)], ids=["first", "30%"])
async def test_a_vendor_whose_request_is_not_answered_is_requested_once(
    control_plane: DevCluster, expected: End, lost: Callable[[Call], bool]
) -> None:
    async with scenery(control_plane) as (gpus, running):
        with running.proxy.fault(LoseAnswer(), when=lost) as losses:
            await live(gpus)
            await until_as(gpus, expected)
        assert losses.hits > 3
        assert made_once(gpus.world)


async def test_an_operator_that_dies_is_followed_by_one_that_knows_no_less(
    control_plane: DevCluster, expected: End
) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus:
        async with operator(world) as first:
            await installed(gpus)
            await gpus.delete_node("n1")
            await gpus.until_entry("Installing")
            await first.kill()
        async with operator(world):
            # What counted is held although the node is gone, and returns as if nothing had been.
            assert gpus.entry()["detectedNodes"] == [gpus.name("n1")]
            await gpus.node("n1", "gpu", slots=2)
            await gpus.until_entry("Ready")
            await gpus.delete_node("n1")
            await live(gpus)
            await until_as(gpus, expected)
            assert made_once(world)


async def test_the_right_to_read_nodes_comes_and_goes(control_plane: DevCluster, expected: End) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus:
        token = await grant(world)
        async with operator(world, token=token) as running:
            await installed(gpus)
            await gpus.node("n2")
            await quiet(world)
            before = dict(gpus.entry())
            await limit_nodes(world, token, ())
            running.proxy.reset_all()  # rights are looked at when a watch begins
            await world.mirror.until("it is told", lambda: UNREADABLE in gpus.entry()["message"])
            mark = control_plane.audit_mark()
            # Whatever happens to nodes meanwhile is not seen, and nothing is concluded from that.
            await gpus.delete_node("n1")
            await gpus.delete_node("n2")
            await gpus.define("intel-gpu")
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
            await quiet(world)
            held = gpus.entry()
            assert {name for name in before if held[name] != before[name]} == {"message"}
            assert gpus.appliance["phase"] == "Ready"
            written = [each.name for each in world.operator_writes(mark) if each.resource != "appliances"]
            assert set(written) == {"alpha", "app-alpha"}
            await limit_nodes(world, token, READING)
            await world.delete(world.activations, "alpha")
            await gpus.until_entry("Installing", deadline_s=60.0)
            await live(gpus)
            await until_as(gpus, expected)
