"""An appliance of a thousand modules at rest: the operator asks for nothing and changes nothing (F01)."""

import asyncio
import json
from collections.abc import Mapping

import pytest

from hack.bare import spread
from hack.bench.objects import catalog, module_name
from hack.devcluster import DevCluster
from hack.devcluster.audit import AuditRecord
from tests.support.operator import operator
from tests.support.oracles import QUIET_S, assert_settled, told
from tests.support.world import World, corner

pytestmark = pytest.mark.anyio

MODULES = 1000
CONCURRENCY = 8
CONVERGE_S = 300.0
REST_S = 60.0
EVENTS_S = 120.0
AGENT = "magicstick/quiet"


def versions(world: World) -> Mapping[tuple[str, str], str]:
    """The resourceVersion of every object of ours, by collection and name."""
    return {
        (path, name): item["metadata"]["resourceVersion"]
        for path in (world.activations, world.appliances, world.kustomizations)
        for name, item in world.mirror.all(path).items()
    }


def expected_at_rest(record: AuditRecord) -> bool:
    """Watches end and start again, and the lease is renewed."""
    return record.verb == "watch" or record.resource == "leases"


async def until_all_is_told(cluster: DevCluster) -> None:
    """Wait for the Events of what happened: they are sent behind everything else, late on a busy machine."""
    async with asyncio.timeout(EVENTS_S):
        told_something = True
        while told_something:
            mark = cluster.audit_mark()
            await asyncio.sleep(QUIET_S)  # that nothing comes can only be seen by looking
            told_something = any(record.resource == "events" for record in cluster.audit(AGENT, mark))


@pytest.mark.slow
async def test_f01_a_thousand_settled_modules_cost_watches_and_the_lease(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world:
        await world.catalog(json.loads(catalog(MODULES)["data"]["modules.json"])["modules"])
        async with operator(world, user_agent=AGENT, leader_election=True, requeue_seconds=20.0):
            await world.appliance({module_name(0): True})
            names = [module_name(number) for number in range(1, MODULES)]
            await spread(names, world.activate, concurrency=CONCURRENCY)
            await world.mirror.until(
                "all are Ready",
                lambda: all(world.phase(module_name(number)) == "Ready" for number in range(MODULES)),
                deadline_s=CONVERGE_S,
            )
            await assert_settled(world)
            await until_all_is_told(control_plane)
            before, mark = versions(world), control_plane.audit_mark()
            await asyncio.sleep(REST_S)  # three resyncs; that nothing happens can only be seen by looking

            asked = list(control_plane.audit(AGENT, mark))
            assert any(record.resource == "leases" for record in asked), "the operator does not run"
            assert not (busy := [record for record in asked if not expected_at_rest(record)]), told(busy)
            assert versions(world) == before
            assert len(before) == 2 * MODULES + 2
