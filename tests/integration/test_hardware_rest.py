"""What hardware costs while nothing happens, and while labels flap (F01, F18)."""

import asyncio
import itertools

import pytest

from hack.devcluster import DevCluster
from magicstick.kube.kinds import NODE
from tests.support.gpu_world import GpuWorld, HandClock, hardware, look, passes, ready_gpu
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import assert_settled, quiet, told
from tests.support.waiting import eventually
from tests.support.world import World, corner

pytestmark = pytest.mark.anyio

FLAP_S = 60
PERIOD_S = 0.5
"""Half a period of a flap of 1 Hz."""


def phases_since(world: World, begun: int) -> set[str]:
    """Every phase that the Appliance was in since this place of the mirror's history."""
    return {
        str(obj.get("status", {}).get("phase", ""))
        for path, _, obj in itertools.islice(world.mirror.history, begun, None)
        if path == world.appliances
    }


async def flap(running: RunningOperator, gpus: GpuWorld, clock: HandClock) -> None:
    """A minute in which the label of one vendor goes and comes, and that of another comes and goes.

    The hands move only once the operator knows of the change and has looked, however busy the machine is.
    """
    for turn in range(int(FLAP_S / PERIOD_S)):
        await gpus.set_label("n1", "gpu", present=bool(turn % 2))
        version = await gpus.set_label("n1", "amd-gpu", present=not turn % 2)
        await gpus.seen(running, "n1", version)
        await look(running)
        clock.passed_s += PERIOD_S
        await look(running)


@pytest.mark.req("MS-107", "MS-109")
async def test_f18_a_label_that_flaps_for_a_minute_writes_nothing(control_plane: DevCluster) -> None:
    async with ready_gpu(control_plane) as (world, gpus, running, clock):
        mark, begun = control_plane.audit_mark(), len(world.mirror.history)
        seen = passes(running, "hardware")

        await flap(running, gpus, clock)

        assert passes(running, "hardware") >= seen + 2 * FLAP_S / PERIOD_S, "it has not looked"
        assert not told(world.operator_writes(mark))
        assert set(world.mirror.all(world.activations)) == {"gpu"}
        assert phases_since(world, begun) <= {"Ready"}
        # The label stays away: it is told of, and the operator of the vendor stays all the same.
        await gpus.seen(running, "n1", await gpus.set_label("n1", "gpu", present=False))
        clock.passed_s += 61
        await gpus.until_entry("Unknown")
        await assert_settled(world)
        assert {each.resource for each in world.operator_writes(mark)} == {"appliances"}


async def test_what_no_vendor_depends_on_wakes_nobody(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus:
        await gpus.node("n1", "gpu", slots=1)
        await gpus.node("n2")
        await gpus.define("gpu")
        async with operator(world, requeue_seconds=3600.0) as running:
            await gpus.until_entry("Ready")
            await quiet(world)
            before = passes(running, "hardware"), passes(running, "appliance")
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T12:00:00Z"}
            for name in ("n1", "n2"):
                version = await gpus.status(name, {"conditions": [ready], "allocatable": {"cpu": "3"}})
                await gpus.seen(running, name, version)
            version = await gpus.status("n2", {"conditions": [{**ready, "status": "False"}]})
            await gpus.seen(running, "n2", version)
            assert (passes(running, "hardware"), passes(running, "appliance")) == before
            version = await gpus.status("n1", {"conditions": [{**ready, "status": "False"}]})
            await gpus.seen(running, "n1", version)
            await eventually(lambda: passes(running, "hardware") > before[0])
            await gpus.until_entry(
                "Installing" if "gpu" in world.mirror.all(world.activations) else "Conflict"
            )


async def test_a_vendor_is_requested_in_the_moment_in_which_its_label_has_settled(
    control_plane: DevCluster,
) -> None:
    clock = HandClock()
    async with (
        corner(control_plane) as world,
        hardware(world) as gpus,
        operator(world, clock=clock) as running,
    ):
        await gpus.until_entry("NotRequired")
        await gpus.node("n1", "gpu")
        await eventually(lambda: running.manager.caches.store(NODE).list())
        await gpus.seen(running, "n1", await gpus.set_label("n1", "gpu", present=True))
        clock.passed_s += 2.9
        await look(running)
        assert world.activation("gpu") is None
        loop = asyncio.get_running_loop()
        clock.passed_s += 0.1
        begun = loop.time()
        await world.mirror.until("it is requested", lambda: world.activation("gpu"))
        assert loop.time() - begun < 2.0
