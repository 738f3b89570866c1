"""The lease on a real API server."""

import asyncio

import pytest

from hack.devcluster import DevCluster
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import FenceClosed
from magicstick.kube.kinds import LEASE, ObjectKey
from magicstick.runtime.clock import SystemClock
from magicstick.runtime.lease import Lease, LeaseTimes

pytestmark = pytest.mark.anyio

PLACE = ("default", "runtime-lease")
DEADLINE_S = 10


async def test_the_api_server_takes_the_lease_its_renewals_and_its_release(control_plane: DevCluster) -> None:
    config = await ClusterConfig.load(control_plane.kubeconfig)
    async with Client(config, user_agent="lease-test", field_manager="lease-test") as client:
        times = LeaseTimes(duration_s=2, renew_deadline_s=1.5, retry_s=0.2)
        first = Lease(client, PLACE, SystemClock(), times=times, holder="first")
        second = Lease(client, PLACE, SystemClock(), times=times, holder="second")
        async with asyncio.timeout(DEADLINE_S):
            running = asyncio.create_task(first.run())
            await first.wait_held()
            follower = asyncio.create_task(second.run())
            await client.merge_patch(LEASE, ObjectKey(*PLACE), {"metadata": {"labels": {"team": "blue"}}})
            renewed = (await client.get(LEASE, ObjectKey(*PLACE))).spec["renewTime"]
            live = await client.get(LEASE, ObjectKey(*PLACE))
            while live.spec["renewTime"] == renewed:
                live = await client.get(LEASE, ObjectKey(*PLACE))
            assert live.spec["holderIdentity"] == "first"
            with pytest.raises(FenceClosed):
                second.fence()
            running.cancel()
            await second.wait_held()
        live = await client.get(LEASE, ObjectKey(*PLACE))
        assert live.spec["holderIdentity"] == "second"
        assert live.spec["leaseTransitions"] == 1
        assert live.metadata.labels == {"team": "blue"}
        follower.cancel()
        await asyncio.gather(running, follower, return_exceptions=True)
        assert (await client.get(LEASE, ObjectKey(*PLACE))).spec["holderIdentity"] == ""
