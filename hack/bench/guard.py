"""The access guard under load: 500 questions a second, whether or not those before were answered.

A question's time runs from when it was due, so that one that waits for its turn counts as slow. The API
server and the realm are played on loopback: what is measured is the guard, and how long the real ones take to
answer comes on top of it. All of them and this client share the machine, so nothing else should need it.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from itertools import cycle
from pathlib import Path

from hack.bench.guard_neighbours import ACCESS, PEOPLE, furnished, uid
from hack.bench.guard_wire import Asker
from hack.bench.process import cpu_s, free_port
from hack.bench.report import Figure
from hack.bench.scenarios import percentiles
from hack.devcluster.actors.keycloak import CLIENT, ISSUER, OIDC, REALM
from hack.devcluster.layout import LOOPBACK

RATE = 500
SECONDS = 10
WARM_UP_S = 2
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: bench
contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]
clusters: [{{name: bench, cluster: {{server: "{url}"}}}}]
users: [{{name: bench, user: {{}}}}]
"""
DEADLINE_S = 30.0
CONNECTIONS = 100
"""A gateway has a bound as well."""
Question = tuple[str, str]
"""Path and token."""


async def guard(directory: Path) -> list[Figure]:
    """Answers by kind of instance, beside a bare handler that says yes to everything."""
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    ports = {name: free_port() for name in ("realm", "api", "echo", "guard")}
    async with contextlib.AsyncExitStack() as stack:
        for what in ("realm", "api", "echo"):
            module = ("hack.bench.guard_neighbours", what, str(ports[what]))
            await stack.enter_async_context(_process(directory / f"{what}.log", {}, *module))
        log, environment = directory / "guard.log", _environment(directory, ports)
        running = await stack.enter_async_context(_process(log, environment, "magicstick", "access-guard"))
        await asyncio.gather(*(_listens(port) for port in ports.values()))
        tokens = [furnished().token(f"person-{number}", lifetime_s=3600) for number in range(PEOPLE)]
        figures = []
        for name in ACCESS:
            path = f"/internal/instance-access/{name}/{uid(name)}/some/page?of=the-application"
            questions = [(path, token) for token in tokens]
            bare = await _load(ports["echo"], questions)
            used_s = cpu_s(running.pid)
            took = await _load(ports["guard"], questions)
            used_s = cpu_s(running.pid) - used_s
            figures += [*_figures(name, took, bare), _processor(name, used_s)]
        figures.append(Figure("guard, resident memory", _resident_mib(running.pid), "MiB", None, limit=128.0))
    return figures


def _figures(name: str, took_ms: list[float], bare_ms: list[float]) -> list[Figure]:
    p50, p99 = percentiles(took_ms)
    bare_p50, bare_p99 = percentiles(bare_ms)
    return [
        Figure(f"guard, {name}, p50", p50, "ms", bare_p50),
        Figure(f"guard, {name}, p99", p99, "ms", bare_p99, limit=5.0),
    ]


def _processor(name: str, used_s: float) -> Figure:
    """What counts where others need the machine as well."""
    each_us = used_s / (RATE * (WARM_UP_S + SECONDS)) * 1e6
    return Figure(f"guard, {name}, processor time of a question", each_us, "us", None)


def _environment(directory: Path, ports: Mapping[str, int]) -> dict[str, str]:
    realm = f"http://{LOOPBACK}:{ports['realm']}"
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(url=f"http://{LOOPBACK}:{ports['api']}"))
    return {
        "KUBECONFIG": str(kubeconfig),
        "PORT": str(ports["guard"]),
        "METRICS_BIND_ADDRESS": "off",
        "OIDC_USERINFO_URL": f"{realm}{OIDC}/userinfo",
        "OIDC_EXPECTED_ISSUER": ISSUER,
        "OIDC_EXPECTED_CLIENT_IDS": CLIENT,
        "KEYCLOAK_ADMIN_URL": realm,
        "KEYCLOAK_REALM": REALM,
    }


@contextlib.asynccontextmanager
async def _process(
    log: Path, environment: Mapping[str, str], *module: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m` this, until the block ends."""
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *module, stdout=sink, stderr=sink, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()


async def _listens(port: int) -> None:
    """Wait until somebody listens at this port."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(LOOPBACK, port)
                writer.close()
                return
            await asyncio.sleep(0.05)  # polls a foreign process that has no other way to tell


async def _load(port: int, questions: list[Question]) -> list[float]:
    """Milliseconds of each question after the warm-up. Anything but a yes is an error."""
    took: list[float] = []
    asking, turn = cycle(questions), time.perf_counter()
    measured, asker = turn + WARM_UP_S, Asker(LOOPBACK, port, CONNECTIONS)

    async def ask(path: str, token: str, due: float) -> None:
        status = await asker.ask(path, token)
        if status != HTTPStatus.OK:
            raise RuntimeError(f"the guard answered {status} to {path}")
        if due >= measured:
            took.append((time.perf_counter() - due) * 1000)

    async with asyncio.TaskGroup() as group:
        for _ in range(RATE * (WARM_UP_S + SECONDS)):
            await asyncio.sleep(max(0.0, turn - time.perf_counter()))
            group.create_task(ask(*next(asking), turn))
            turn += 1 / RATE
    return took


def _resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
