"""The API server dies, the operator dies, and an operator that was taken for dead comes back."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.api.kinds import MODULE_ACTIVATION
from magicstick.manager import USER_AGENT
from tests.support.faultproxy import Call, Reset, mutating
from tests.support.operator import operator, operator_process
from tests.support.oracles import assert_settled, quiet, snapshot
from tests.support.scenario import Calm, change, live
from tests.support.world import SMALL_CATALOG, World, corner

pytestmark = pytest.mark.anyio

MANY = 200
AT_ONCE = 4
"""Lives that run side by side; more would only wait for the processor."""


@pytest.fixture(scope="module")
def calm(control_plane: DevCluster) -> Calm:
    return Calm(control_plane)


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A control plane that may be killed without harm to other tests."""
    with DevCluster.start(CONTROL_PLANE, directory=tmp_path_factory.mktemp("mortal")) as cluster:
        yield cluster


async def restart(cluster: DevCluster) -> None:
    """Kill the API server and start it again."""
    await asyncio.to_thread(cluster.kill_apiserver)
    await asyncio.to_thread(cluster.start_apiserver)


def names(count: int) -> list[str]:
    return [f"module-{number:03d}" for number in range(count)]


async def furnish_many(world: World, count: int) -> None:
    modules = {
        name: {"path": f"manifests/modules/{name}", "kustomizationName": f"app-{name}", "requires": ["basis"]}
        for name in names(count)
    }
    await world.catalog({"basis": SMALL_CATALOG["basis"], **modules})
    for name in names(count):
        await world.activate(name)


def children(world: World) -> int:
    return len(world.mirror.all(world.kustomizations)) - 1  # all but the basis


@pytest.mark.slow
async def test_a_converge_goes_on_where_the_api_server_left_it(mortal: DevCluster) -> None:
    async with corner(mortal) as world, operator(world):
        filling = asyncio.create_task(furnish_many(world, MANY))
        await world.mirror.until("a third is there", lambda: children(world) > MANY // 3, deadline_s=60.0)
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        begun = {
            name: child["metadata"]["uid"] for name, child in world.mirror.all(world.kustomizations).items()
        }
        await restart(mortal)
        await furnish_many(world, MANY)
        await world.mirror.until(
            "all are Ready",
            lambda: all(world.phase(name) == "Ready" for name in names(MANY)),
            deadline_s=120.0,
        )
        await assert_settled(world)
        ended = {
            name: child["metadata"]["uid"] for name, child in world.mirror.all(world.kustomizations).items()
        }
        assert len(ended) == MANY + 1
        assert begun.items() <= ended.items(), "what existed was made anew"
        assert not [record for record in world.operator_writes() if record.verb == "delete"]


@pytest.mark.req("MS-121")
async def test_what_vanished_during_an_expired_watch_is_acted_on(mortal: DevCluster) -> None:
    """A real 410: a restarted API server has forgotten the versions from before."""
    async with corner(mortal) as world, operator(world) as running:
        await world.activate("gamma", parameters={"storage": "1Gi"})
        await world.until_phase("gamma", "Ready")
        await assert_settled(world)
        old = (world.child("app-alpha") or {})["metadata"]["uid"]
        with running.proxy.fault(Reset()):
            running.proxy.reset_all()
            # One child goes by itself; one activation goes past our finalizer and leaves its child behind.
            await world.delete(world.kustomizations, "app-alpha")
            await world.client.merge(f"{world.activations}/gamma", {"metadata": {"finalizers": None}})
            await world.delete(world.activations, "gamma")
            await world.mirror.until("alpha's child is gone", lambda: world.child("app-alpha") is None)
            await restart(mortal)
        await world.mirror.until(
            "alpha's child is back",
            lambda: (world.child("app-alpha") or {}).get("metadata", {}).get("uid", old) != old,
        )
        await world.mirror.until("gamma's child is gone", lambda: world.child("app-gamma") is None)
        for module in ("alpha", "beta"):
            await world.until_phase(module, "Ready")
        await assert_settled(world)
        informer = running.manager.caches.informer(MODULE_ACTIVATION, world.namespace)
        assert informer.counters.expired >= 1, "the versions had not expired: the test shows nothing"


def counts(call: Call) -> bool:
    """Writes at which the operator is killed: all but Events, on which nothing depends."""
    return mutating(call) and not call.path.endswith("/events")


async def killed_at(cluster: DevCluster, k: int) -> tuple[bool, World]:
    """A life in which the operator dies after its k-th write, and another takes its place."""
    async with corner(cluster) as world:
        story = asyncio.create_task(live(world))
        try:
            fatal = await first_operator(world, k, story)
            if fatal:
                async with operator(world):
                    await story
                    await assert_settled(world)
        finally:
            story.cancel()
            await asyncio.gather(story, return_exceptions=True)
        return fatal, world


async def first_operator(world: World, k: int, story: "asyncio.Task[None]") -> bool:
    """Run until the k-th write was answered by the server, and kill; False if there are fewer writes."""
    seen, reached = 0, asyncio.Event()
    async with operator(world, wait=False) as first:

        async def count(call: Call) -> None:
            nonlocal seen
            seen += counts(call)
            if seen == k and not reached.is_set():
                first.proxy.sever()
                reached.set()

        first.proxy.after_mutation = count
        deadly = asyncio.create_task(reached.wait())
        await asyncio.wait({deadly, story}, return_when=asyncio.FIRST_COMPLETED)
        deadly.cancel()
        if reached.is_set():
            await first.kill()
            return True
        await story
        await assert_settled(world)
        return False


async def writes_of_a_life(cluster: DevCluster) -> int:
    async with corner(cluster) as world, operator(world) as running:
        await live(world)
        await quiet(world)
        return sum(map(counts, running.proxy.calls))


@pytest.mark.slow
async def test_an_operator_killed_after_any_write_leaves_nothing_that_its_successor_does_not_mend(
    control_plane: DevCluster, calm: Calm
) -> None:
    expected = await calm.end()
    total = await writes_of_a_life(control_plane)
    assert total > 12
    gate = asyncio.Semaphore(AT_ONCE)
    outcomes: Counter[bool] = Counter()

    async def attempt(k: int) -> None:
        async with gate:
            fatal, world = await killed_at(control_plane, k)
            assert snapshot(world) == expected, f"killed after write {k}"
            outcomes[fatal] += 1

    async with asyncio.TaskGroup() as group:
        for k in range(1, total + 1):
            group.create_task(attempt(k))
    # How many writes a life takes differs by a few, with what comes together.
    assert outcomes[True] >= total - 4, outcomes


SHORT_LEASE: Mapping[str, Any] = {
    "leader_election": True,
    "lease_duration_seconds": 4.0,
    "lease_renew_deadline_seconds": 3.0,
    "lease_retry_seconds": 0.5,
}


@pytest.mark.slow
async def test_a_paused_operator_writes_nothing_before_it_holds_the_lease_again(
    control_plane: DevCluster, tmp_path: Path
) -> None:
    async with corner(control_plane) as world, operator_process(world, tmp_path, **SHORT_LEASE) as first:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        async with operator(world, user_agent="magicstick-second", wait=True, **SHORT_LEASE) as second:
            await quiet(world)
            first.pause()
            await world.activate("beta")  # what the first would do next, and the second has to
            await world.until_phase("beta", "Ready")
            assert second.manager.lease.held
            mark = world.cluster.audit_mark()
            first.go_on()
            await world.activate("gamma", parameters={"storage": "1Gi"})
            await world.until_phase("gamma", "Ready")
            await assert_settled(world)
            writers = {record.user_agent for record in world.operator_writes(mark)}
            assert writers == {"magicstick-second"}
            mark = world.cluster.audit_mark()
        # The second has released the lease: now the first may.
        await change(world, "2Gi")
        assert {record.user_agent for record in world.operator_writes(mark)} >= {USER_AGENT}
        await assert_settled(world)


@pytest.mark.slow
async def test_a_killed_process_is_replaced_once_its_lease_has_run_out(
    control_plane: DevCluster, tmp_path: Path
) -> None:
    async with corner(control_plane) as world, operator_process(world, tmp_path, **SHORT_LEASE) as first:
        await world.activate("alpha")
        await world.until_phase("alpha", "Ready")
        await first.kill()  # no chance to release the lease
        async with operator(world, **SHORT_LEASE) as second:
            await world.activate("beta")
            await world.until_phase("beta", "Ready")
            assert second.manager.lease.held
            await assert_settled(world)
