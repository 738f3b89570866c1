"""Several operators at once: one reconciles, the others wait (README decision 5)."""

import asyncio
from contextlib import AbstractAsyncContextManager
from itertools import groupby

import pytest

from hack.devcluster import DevCluster
from hack.devcluster.audit import AuditMark
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import assert_settled
from tests.support.world import World, corner

pytestmark = pytest.mark.anyio

ONE, TWO, THREE = "magicstick/one", "magicstick/two", "magicstick/three"


def contender(world: World, agent: str) -> AbstractAsyncContextManager[RunningOperator]:
    return operator(
        world,
        user_agent=agent,
        leader_election=True,
        lease_duration_seconds=4.0,
        lease_renew_deadline_seconds=3.0,
        lease_retry_seconds=0.5,
    )


def writers(world: World, mark: AuditMark) -> list[str]:
    """Who wrote since the mark: a name each time that the writer changed."""
    ordered = sorted(world.operator_writes(mark), key=lambda record: record.received)
    return [agent for agent, _ in groupby(record.user_agent for record in ordered)]


@pytest.mark.req("MS-182")
async def test_only_the_holder_of_the_lease_ever_writes(control_plane: DevCluster) -> None:
    mark = control_plane.audit_mark()
    async with corner(control_plane) as world, contender(world, ONE) as one:
        await asyncio.wait_for(one.manager.lease.wait_held(), 10)
        async with contender(world, TWO) as two:
            await world.activate("alpha")
            await world.until_phase("alpha", "Ready")
            await assert_settled(world)
            assert writers(world, mark) == [ONE]

            # Without a word: the other may not begin before the lease has run out.
            await one.kill()
            await world.activate("beta")
            await world.until_phase("beta", "Ready")
            assert writers(world, mark) == [ONE, TWO]

            # As in a rollout: the old process releases, the new one is there already.
            async with contender(world, THREE):
                await two.stop()
                await world.activate("gamma")
                await world.until_phase("gamma", "Ready")
                await assert_settled(world)
                assert writers(world, mark) == [ONE, TWO, THREE]
