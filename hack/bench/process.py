"""The operator as a process of its own, started and stopped by the measurements."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

DEADLINE_S = 120.0
GRACE_S = 25.0


@dataclass(slots=True)
class Operator:
    """A running operator."""

    process: asyncio.subprocess.Process
    health_port: int
    metrics_port: int
    started: float
    """`time.perf_counter()` when the process was started."""

    async def stop(self) -> None:
        """End it as Kubernetes does, if it has not ended already."""
        if self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), GRACE_S)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()

    def resident_mib(self) -> float:
        """Resident memory now, in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def peak_mib(self) -> float:
        """The largest resident memory so far, in MiB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024

    def cpu_s(self) -> float:
        """Processor seconds used so far."""
        return cpu_s(self.process.pid)

    async def ready(self) -> float:
        """Wait until /readyz says yes; the seconds since the start."""
        deadline = time.monotonic() + DEADLINE_S
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < deadline:
                if self.process.returncode is not None:
                    raise RuntimeError(f"the operator ended with {self.process.returncode}, see its log")
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"http://127.0.0.1:{self.health_port}/readyz") as answer:
                        if answer.ok:
                            return time.perf_counter() - self.started
                await asyncio.sleep(0.01)  # polls a foreign process that has no other way to tell
        raise TimeoutError("the operator did not become ready")


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used so far, in steps of a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def operator(
    kubeconfig: Path, log: Path, *, environment: dict[str, str] | None = None
) -> AsyncIterator[Operator]:
    """Run the operator against this kubeconfig until the block ends; its log goes to `log`."""
    health, metrics = free_port(), free_port()
    variables = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "HEALTH_BIND_ADDRESS": f"127.0.0.1:{health}",
        "METRICS_BIND_ADDRESS": f"127.0.0.1:{metrics}",
        **(environment or {}),
    }
    started = time.perf_counter()
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "magicstick", "run", stdout=sink, stderr=sink, env=variables
        )
    running = Operator(process, health, metrics, started)
    try:
        await running.ready()
        yield running
    finally:
        await running.stop()
