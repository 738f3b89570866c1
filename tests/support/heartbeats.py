"""Kubelets that say that they are well, as real ones do: by the status of their Node, and by a Lease."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from hack.bare import BareClient, RefusedError, spread
from tests.support.gpu_world import NODES

LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
STRATEGIC: Final = "application/strategic-merge-patch+json"
MICRO_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
CONCURRENCY: Final = 8
PERIOD_S: Final = 5.0
"""From the beginning of a round to that of the next: twice as often as kubelets report by default."""
TYPES: Final = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
"""The conditions that a kubelet reports each time, and what they are on a healthy node."""


class Kubelets:
    """Of these nodes, by their names in the cluster; the nodes exist. `beats` counts the rounds."""

    def __init__(self, client: BareClient, names: Sequence[str]) -> None:
        self._client = client
        self._names = names
        self.beats = 0

    async def beat(self) -> None:
        """Every kubelet patches its Node's status and renews its Lease, once."""
        await spread(self._names, self._beat, concurrency=CONCURRENCY)
        self.beats += 1

    @contextlib.asynccontextmanager
    async def beating(self) -> AsyncIterator["Kubelets"]:
        """They go on within the block, round after round; the first is over when it begins."""
        await self.beat()
        task = asyncio.create_task(self._go_on())
        try:
            yield self
        finally:
            assert not task.done(), "the kubelets have stopped"
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def clear(self) -> None:
        """Remove the Leases."""

        async def remove(name: str) -> None:
            with contextlib.suppress(RefusedError):
                await self._client.send("DELETE", f"{LEASES}/{name}")

        await spread(self._names, remove, concurrency=CONCURRENCY)

    async def _go_on(self) -> None:
        while True:
            await asyncio.gather(self.beat(), asyncio.sleep(PERIOD_S))  # the pace of the kubelets

    async def _beat(self, name: str) -> None:
        now = datetime.now(UTC)
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": type_, "status": status, "lastHeartbeatTime": stamp, "reason": "Kubelet"}
            for type_, status in TYPES.items()
        ]
        status = {"status": {"conditions": conditions}}
        await self._client.send("PATCH", f"{NODES}/{name}/status", status, content_type=STRATEGIC)
        await self._client.apply(f"{LEASES}/{name}", _lease(name, now), manager="kubelet")


def _lease(name: str, now: datetime) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": now.strftime(MICRO_TIME),
        },
    }
