"""Resident memory with ten thousand foreign Pods, at rest and while they are listed anew."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from hack.bare import spread
from hack.bench.report import Figure
from hack.bench.world import CONCURRENCY, World, world
from tests.support.faultproxy import Answer, FaultProxy, watching

PODS = "/api/v1/namespaces/default/pods"
POD_BYTES = 6000


def pod(number: int) -> dict[str, Any]:
    """A Pod of about 6 KB, most of it in annotations and environment, as real ones are."""
    padding = "x" * 100
    environment = [{"name": f"VARIABLE_{place}", "value": padding} for place in range(16)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number:05d}",
            "labels": {"app": f"app-{number % 100}"},
            "annotations": {"example.com/note": "x" * 1200},
        },
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1", "env": environment}]},
    }


async def memory(directory: Path, *, count: int = 10_000) -> list[Figure]:
    """MiB at rest, and the peak of a forced relist as a multiple of it."""
    async with world(directory) as bench:

        async def create(number: int) -> None:
            await bench.client.create(PODS, pod(number))

        await spread(range(count), create, concurrency=CONCURRENCY)
        size = len(await bench.client.send("GET", f"{PODS}/pod-00000"))
        async with FaultProxy(bench.cluster.url, bench.cluster.ca_file) as proxy:
            kubeconfig = through(proxy.url, bench, directory)
            async with watcher(kubeconfig) as process:
                await said(process, f"synced {count}")
                rest = resident_mib(process.pid, "VmRSS")
                forget_peak(process.pid)
                with proxy.fault(Answer(410, "too old resource version"), watching, limit=1):
                    proxy.reset_all()
                    await ask(process)
                    await said(process, f"relisted {count}")
                peak = resident_mib(process.pid, "VmHWM")
    empty = await bare_process_mib()
    return [
        Figure(f"memory with {count} Pods of {size} bytes", rest, "MiB", empty, limit=100.0),
        Figure("peak of a forced relist", peak, "MiB", rest, limit_ratio=1.3),
    ]


def through(url: str, bench: World, directory: Path) -> Path:
    """A kubeconfig that leads through the proxy."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {"token": bench.cluster.admin_token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
    path = directory / "proxy.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


@contextlib.asynccontextmanager
async def watcher(kubeconfig: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The watching process, ended with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hack.bench.pods", str(kubeconfig)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def ask(process: asyncio.subprocess.Process) -> None:
    """Ask the watching process to tell its next relist."""
    stdin = process.stdin
    if stdin is not None:
        stdin.write(b"\n")
        await stdin.drain()


async def said(process: asyncio.subprocess.Process, line: str) -> None:
    """Wait for a line of the watching process."""
    if process.stdout is None:
        raise RuntimeError("the process was started without a pipe")
    heard = await asyncio.wait_for(process.stdout.readline(), 120)
    if heard.decode().strip() != line:
        raise RuntimeError(f"expected {line!r}, heard {heard.decode()!r}")


def forget_peak(pid: int) -> None:
    """Let VmHWM of a process count from now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def resident_mib(pid: int, field: str) -> float:
    """VmRSS or VmHWM of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


async def bare_process_mib() -> float:
    """MiB of a Python process that has imported aiohttp and waits: the floor of any such program."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "import aiohttp, sys; print(flush=True); sys.stdin.read()"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        await said(process, "")
        return resident_mib(process.pid, "VmRSS")
    finally:
        process.kill()
        await process.wait()
