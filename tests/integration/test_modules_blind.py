"""What cannot be read is not absent: nothing is removed, suspended or downgraded (README decision 12)."""

import asyncio

import pytest

from hack.devcluster import DevCluster
from tests.support.faultproxy import Answer, Call, reading
from tests.support.operator import operator
from tests.support.oracles import assert_settled, snapshot
from tests.support.scene import deletions
from tests.support.world import corner

pytestmark = pytest.mark.anyio

BLIND_S = 3.0
"""Six resyncs of the operator as tests run it."""


@pytest.mark.parametrize("code", [404, 500])
@pytest.mark.parametrize("collection", ["moduleactivations", "kustomizations"])
async def test_decision_12_a_successor_that_cannot_list_removes_nothing(
    control_plane: DevCluster, collection: str, code: int
) -> None:
    def lists_it(call: Call) -> bool:
        return reading(call) and call.path.endswith(f"/{collection}")

    async with corner(control_plane) as world:
        async with operator(world):
            await world.activate("beta")
            await world.until_phase("beta", "Ready")
            await assert_settled(world)
        before, mark = snapshot(world), control_plane.audit_mark()

        async with operator(world, wait=False) as blind:
            with blind.proxy.fault(Answer(code, "page not found"), when=lists_it) as refusals:
                await asyncio.sleep(BLIND_S)  # that nothing happens can only be seen by looking for a while
            assert refusals.hits > 0
            assert world.operator_writes(mark) == []
            assert snapshot(world) == before

            # It sees again: an edit is acted on, and an activation that went meanwhile is missed.
            await world.delete(world.activations, "beta")
            await world.mirror.until("beta is gone", lambda: world.activation("beta") is None)
            await assert_settled(world)
        assert deletions(world, mark) == ["app-beta"]
