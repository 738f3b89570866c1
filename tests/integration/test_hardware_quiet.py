"""An appliance with all its controllers and hardware at rest, and what wakes whom (F01, F18)."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from hack.bare import spread
from hack.bench.objects import catalog, module_name
from hack.devcluster import DevCluster
from hack.devcluster.audit import AuditMark, AuditRecord
from magicstick.gpu.reconciler import SETTLING_S
from magicstick.gpu.sightings import DETECTION_SETTLE_S
from tests.support.gpu_world import VENDORS, GpuWorld, hardware, passes
from tests.support.heartbeats import Kubelets
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import assert_settled, quiet, silence, told
from tests.support.world import World, corner

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MODULES = 1000
CROWD = 1000
NODES = 100
CONCURRENCY = 8
CONVERGE_S = 300.0
REST_S = 60.0
EVENTS_S = 120.0
FLAP_S = 60
HALF_PERIOD_S = 0.5
NEVER_S = 3600.0
AGENT = "magicstick/hardware-quiet"


def versions(world: World) -> Mapping[tuple[str, str], str]:
    """The resourceVersion of every object of ours, by collection and name."""
    return {
        (path, name): item["metadata"]["resourceVersion"]
        for path in (world.activations, world.appliances, world.kustomizations)
        for name, item in world.mirror.all(path).items()
    }


async def until_all_is_told(cluster: DevCluster) -> None:
    """Wait for the Events of what happened: they are sent behind everything else, late on a busy machine."""

    def events(since: AuditMark) -> list[AuditRecord]:
        return [each for each in cluster.audit(AGENT, since) if each.resource == "events"]

    await silence(cluster, events, deadline_s=EVENTS_S)


def asked(cluster: DevCluster, mark: AuditMark) -> list[AuditRecord]:
    """What the operator asked for since the mark, but watches and its lease."""
    return [each for each in cluster.audit(AGENT, mark) if each.verb != "watch" and each.resource != "leases"]


@contextlib.asynccontextmanager
async def kubelets(gpus: GpuWorld, names: Sequence[str]) -> AsyncIterator[Kubelets]:
    """Of nodes of the corner that exist."""
    found = Kubelets(gpus.world.client, [gpus.name(name) for name in names])
    try:
        yield found
    finally:
        await found.clear()


async def join(gpus: GpuWorld, nodes: Mapping[str, str]) -> None:
    """Nodes by name, each with a GPU of a vendor's module; "" for none."""

    async def make(name: str) -> None:
        module = nodes[name]
        await gpus.node(name, *filter(None, [module]), slots=1 if module else 0)

    await spread(list(nodes), make, concurrency=CONCURRENCY)


def counts(running: RunningOperator) -> dict[str, float]:
    """The passes of every controller until now."""
    return {each.name: passes(running, each.name) for each in running.manager.controllers}


def since(running: RunningOperator, before: Mapping[str, float]) -> dict[str, float]:
    """The passes of those controllers that have looked at anything since."""
    return {name: count - before[name] for name, count in counts(running).items() if count > before[name]}


async def caught_up(running: RunningOperator, gpus: GpuWorld, name: str) -> None:
    """Wait until the operator has seen everything that was written so far."""
    await gpus.seen(running, name, await gpus.set_label(name, "intel-gpu", present=False))


async def converge(world: World, gpus: GpuWorld) -> None:
    """A thousand modules, and a hundred nodes whose vendors' operators are there."""
    synthetic: Mapping[str, Any] = json.loads(catalog(MODULES)["data"]["modules.json"])["modules"]
    await world.catalog({**gpus.catalog(), **synthetic})
    names = [module_name(number) for number in range(MODULES)]
    await spread(names, world.activate, concurrency=CONCURRENCY)
    await join(
        gpus, {f"n{number}": ("", "gpu", "amd-gpu", "intel-gpu")[number % 4] for number in range(NODES)}
    )
    for module in VENDORS:
        await world.mirror.until(
            f"{module} is requested", partial(world.activation, module), deadline_s=CONVERGE_S
        )
        await gpus.define(module)
    await world.mirror.until(
        "all are Ready",
        lambda: all(world.phase(name) == "Ready" for name in (*names, *VENDORS)),
        deadline_s=CONVERGE_S,
    )
    for module in VENDORS:
        await gpus.until_entry("Ready", module)


async def test_f01_modules_nodes_and_vendors_at_rest_cost_watches_and_the_lease(
    control_plane: DevCluster,
) -> None:
    async with (
        corner(control_plane) as world,
        hardware(world) as gpus,
        operator(world, user_agent=AGENT, leader_election=True, requeue_seconds=20.0),
    ):
        await converge(world, gpus)
        await assert_settled(world)
        await until_all_is_told(control_plane)
        assert gpus.appliance["phase"] == "Ready"
        assert sum(gpus.entry(module)["allocatableResources"] for module in VENDORS) == NODES * 3 // 4
        before, mark = versions(world), control_plane.audit_mark()
        async with (
            kubelets(gpus, [f"n{number}" for number in range(NODES)]) as machines,
            machines.beating(),
        ):
            await asyncio.sleep(REST_S)  # three resyncs; that nothing happens can only be seen by looking
        assert machines.beats > 3
        renewals = [each for each in control_plane.audit(AGENT, mark) if each.resource == "leases"]
        assert renewals, "the operator does not run"
        assert not (busy := asked(control_plane, mark)), told(busy)
        assert versions(world) == before
        # Each activation and its Kustomization, the basis and the Appliance.
        assert len(before) == 2 * (MODULES + len(VENDORS)) + 2


async def flap(gpus: GpuWorld, names: Sequence[str], module: str, *, began: bool) -> None:
    """A vendor's label on these nodes goes and comes, once a second for a minute; it ends as it began."""
    for turn in range(int(FLAP_S / HALF_PERIOD_S)):
        for name in names:
            await gpus.set_label(name, module, present=began == bool(turn % 2))
        await asyncio.sleep(HALF_PERIOD_S)  # the pace of the flap


@pytest.mark.req("MS-107", "MS-109")
async def test_f18_labels_that_flap_once_a_second_for_a_minute_write_nothing(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus:
        await join(gpus, {"n1": "gpu", "n2": "gpu", "n3": "", "n4": ""})
        async with operator(world, user_agent=AGENT) as running:
            await world.mirror.until("it is requested", lambda: world.activation("gpu"))
            await gpus.define("gpu")
            await gpus.until_entry("Ready")
            await assert_settled(world)
            before, mark = counts(running), control_plane.audit_mark()
            await asyncio.gather(
                flap(gpus, ["n1"], "gpu", began=True),
                flap(gpus, ["n3", "n4"], "amd-gpu", began=False),
            )
            assert since(running, before)["hardware"] > FLAP_S, "nobody has looked"
            written = world.operator_writes(mark)
            assert not [each for each in written if each.resource != "appliances"], told(written)
            assert set(world.mirror.all(world.activations)) == {"gpu"}
            await assert_settled(world)
            assert gpus.entry()["phase"] == gpus.appliance["phase"] == "Ready"
            assert gpus.entry("amd-gpu")["phase"] == "NotRequired"


async def test_f01_heartbeats_of_a_thousand_nodes_wake_nobody_and_one_label_wakes_who_needs_it(
    control_plane: DevCluster,
) -> None:
    names = [f"n{number}" for number in range(CROWD)]
    async with corner(control_plane) as world, hardware(world) as gpus:
        await join(gpus, {name: "gpu" if name == "n0" else "" for name in names})
        await world.activate("gamma", parameters={"storage": "1Gi"})
        async with (
            operator(world, user_agent=AGENT, requeue_seconds=NEVER_S) as running,
            kubelets(gpus, names) as machines,
        ):
            await world.mirror.until("it is requested", lambda: world.activation("gpu"))
            await gpus.define("gpu")
            await gpus.until_entry("Ready")
            await world.until_phase("gamma", "Ready")
            await machines.beat()  # the first one adds conditions that were not there
            await caught_up(running, gpus, "n0")
            await quiet(world)

            before, mark = counts(running), control_plane.audit_mark()
            for _ in range(2):
                await machines.beat()
            await caught_up(running, gpus, "n0")
            assert since(running, before) == {}
            assert not (busy := asked(control_plane, mark)), told(busy)

            # A label that no vendor has: nobody.
            await gpus.seen(running, "n8", await gpus.set_other_label("n8", "example.com/other"))
            assert since(running, before) == {}

            # A second node of a vendor whose operator is there: hardware, and the Appliance that tells of it.
            await gpus.set_label("n7", "gpu", present=True)
            await world.mirror.until("it is told", lambda: len(gpus.entry()["detectedNodes"]) == 2)
            await quiet(world)
            woken = since(running, before)
            assert set(woken) == {"hardware", "appliance"}
            assert woken["hardware"] < 2 * DETECTION_SETTLE_S / SETTLING_S
            assert woken["appliance"] < 10

            # The first of another vendor: its module as well, but no other, and no Kustomization but its own.
            before, mark = counts(running), control_plane.audit_mark()
            await gpus.set_label("n9", "amd-gpu", present=True)
            await gpus.until_entry("Installing", "amd-gpu")
            await quiet(world)
            assert set(since(running, before)) == {"hardware", "appliance", "modules", "orphans"}
            written = {(each.resource, each.name) for each in world.operator_writes(mark)}
            assert written == {
                ("appliances", "local"),
                ("moduleactivations", "amd-gpu"),
                ("kustomizations", "platform-amd-gpu"),
            }
