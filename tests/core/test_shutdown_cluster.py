"""The whole process on a real API server, from its first line to its exit code."""

import asyncio
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hack.devcluster import DevCluster
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.kinds import LEASE, NAMESPACE, ObjectKey

pytestmark = pytest.mark.anyio

DEADLINE_S = 30
IDLE_STOP_S = 5.0
"""An operator that has nothing to do ends within so many seconds."""


class Operator:
    """`magicstick run` as a process, and the lines of its log that were read so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, object]] = []

    async def until(self, event: str) -> None:
        """Read the log until this line."""
        try:
            async with asyncio.timeout(DEADLINE_S):
                while not self.lines or self.lines[-1]["event"] != event:
                    self.lines.append(json.loads(await self._line()))
        except (TimeoutError, EOFError):
            pytest.fail(f"no line '{event}' in the log: {self.lines}")

    async def _line(self) -> bytes:
        assert self.process.stderr is not None
        line = await self.process.stderr.readline()
        if not line:
            raise EOFError
        return line


@asynccontextmanager
async def operator(cluster: DevCluster, namespace: str) -> AsyncIterator[Operator]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "magicstick",
        "run",
        "--appliance-namespace",
        namespace,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "HEALTH_BIND_ADDRESS": "127.0.0.1:0",
            "METRICS_BIND_ADDRESS": "127.0.0.1:0",
            "LEASE_RETRY_SECONDS": "1",
        },
    )
    try:
        yield Operator(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
async def client(control_plane: DevCluster) -> AsyncIterator[Client]:
    config = await ClusterConfig.load(control_plane.kubeconfig)
    async with Client(config, user_agent="shutdown-test", field_manager="shutdown-test") as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"shutdown-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_operator_ends_soon_with_code_0_and_leaves_the_lease_free(
    control_plane: DevCluster, client: Client, namespace: str, number: signal.Signals
) -> None:
    place = ObjectKey(namespace, "magicstick-operator")
    async with operator(control_plane, namespace) as running:
        await running.until("lease held")
        assert (await client.get(LEASE, place)).spec["holderIdentity"] != ""
        begun = time.monotonic()
        running.process.send_signal(number)
        async with asyncio.timeout(DEADLINE_S):
            code = await running.process.wait()
    assert code == 0
    assert time.monotonic() - begun < IDLE_STOP_S
    assert (await client.get(LEASE, place)).spec["holderIdentity"] == ""


async def test_the_second_of_two_operators_takes_over_at_once_when_the_first_ends(
    control_plane: DevCluster, namespace: str
) -> None:
    async with operator(control_plane, namespace) as first, operator(control_plane, namespace) as second:
        leader, follower = first, second
        told = [asyncio.create_task(each.until("waiting for the lease")) for each in (first, second)]
        done, pending = await asyncio.wait(told, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE_S)
        assert done
        if told[0] in done:
            leader, follower = second, first
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        leader.process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        await follower.until("lease held")
        assert time.monotonic() - begun < 10  # a lease that was not released would take 35 s
