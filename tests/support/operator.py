"""The operator for tests: in this process behind a proxy of its own, or as a process that gets signals.

    async with operator(world) as running:
        with running.proxy.fault(Answer(429, retry_after=1), when=reading):
            ...
        await running.kill()

At the end of the block the operator must still run, or have been stopped or killed by the test; anything
else is a crash and fails the test. So does an error in its log.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import anyio
from structlog.testing import capture_logs

from magicstick.kube.config import ClusterConfig
from magicstick.kube.informer import Tuning
from magicstick.manager import USER_AGENT, Manager
from magicstick.models.ports import Seams
from magicstick.runtime.clock import SleepingClock
from magicstick.runtime.settings import Settings
from tests.support.faultproxy import FaultProxy
from tests.support.world import World

START_S = 30.0
STOP_S = 30.0
CALM = {
    "health_bind_address": "off",
    "metrics_bind_address": "off",
    "leader_election": False,
    # Every object is looked at several times in the second for which tests watch that nothing is written.
    "requeue_seconds": 0.5,
    "sync_timeout_seconds": 5.0,
}
ERRORS = frozenset({"error", "critical"})
Entry = MutableMapping[str, Any]


class Program(Protocol):
    """What a process of ours is: `run` returns only by cancellation."""

    async def run(self) -> None:
        """Everything."""
        ...


P = TypeVar("P", bound=Program)


@dataclass
class RunningProgram(Generic[P]):
    """A program in this process. `proxy` is all that connects it with the server."""

    program: P
    proxy: FaultProxy
    logs: list[Entry]
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        """Begin to run."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End as after SIGTERM."""
        self._scope.cancel()
        if self._task is not None:
            await asyncio.wait_for(asyncio.shield(self._task), STOP_S)

    async def kill(self) -> None:
        """End as after SIGKILL: nothing that it does from now on reaches the server."""
        self.proxy.sever()
        await self.stop()

    async def _run(self) -> None:
        with self._scope:
            await self.program.run()


class RunningOperator(RunningProgram[Manager]):
    """An operator in this process."""

    @property
    def manager(self) -> Manager:
        """The operator."""
        return self.program

    async def started(self) -> None:
        """Wait until the caches have synced; raises what ended the operator before."""
        assert self._task is not None
        begun = asyncio.create_task(self.manager.started.wait())
        await asyncio.wait({begun, self._task}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if self._task.done():
            self._task.result()
        assert self.manager.started.is_set(), f"not started within {START_S:g} s"

    def errors(self) -> list[Entry]:
        """What it logged as an error."""
        return [entry for entry in self.logs if entry["log_level"] in ERRORS]

    def crashed(self) -> bool:
        """Whether it ended without being told to."""
        return self._task is not None and self._task.done() and not self._scope.cancel_called


@contextlib.asynccontextmanager
async def operator(
    world: World,
    *,
    token: str | None = None,
    tuning: Tuning | None = None,
    clock: SleepingClock | None = None,
    user_agent: str = USER_AGENT,
    wait: bool = True,
    seams: Seams | None = None,
    **settings: object,
) -> AsyncIterator[RunningOperator]:
    """Run the operator in this corner until the block ends.

    Args:
        world: where.
        token: of whom; the administrator's by default.
        tuning: of its informers.
        clock: of its controllers; the system's by default.
        user_agent: to tell several apart in the audit log.
        wait: enter the block once its caches have synced, not before.
        seams: what is played of the parts that models ask; nothing by default.
        settings: as flags of the command would give them; see CALM for the defaults.
    """
    flags = {name.lower(): value for name, value in world.environment.items()}
    async with FaultProxy(world.cluster.url, world.cluster.ca_file) as proxy:
        config = ClusterConfig.plain(proxy.url, token=token or world.cluster.admin_token)
        with recorded_logs() as logs:
            manager = Manager(
                Settings.load(**{**CALM, **flags, **settings}),
                config,
                clock=clock,
                user_agent=user_agent,
                tuning=tuning,
                seams=seams,
            )
            running = RunningOperator(manager, proxy, logs)
            running.start()
            try:
                if wait:
                    await running.started()
                yield running
            finally:
                proxy.release()
                await running.stop()
    assert not running.crashed(), "the operator ended by itself"
    assert not running.errors(), f"the operator logged errors: {running.errors()}"


@contextlib.contextmanager
def recorded_logs() -> Iterator[list[Entry]]:
    """What is logged within the block; printed at its end, so that a failed test shows it."""
    with capture_logs() as logs:
        try:
            yield logs
        finally:
            for entry in logs:
                print(entry)  # noqa: T201 - for pytest to capture


class OperatorProcess:
    """An operator that gets signals. `log` is the file with its output."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self.log = log

    def pause(self) -> None:
        """SIGSTOP: it stands still, and its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    async def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        await self._process.wait()

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def stop(self) -> int:
        """SIGTERM; its exit code."""
        if self.alive:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
        return await asyncio.wait_for(self._process.wait(), STOP_S)


@contextlib.asynccontextmanager
async def operator_process(
    world: World, directory: Path, **settings: object
) -> AsyncIterator[OperatorProcess]:
    """Run `magicstick run` in this corner until the block ends; `directory` gets its log."""
    given = {**CALM, **world.environment, **settings}
    variables = {name.upper(): str(value) for name, value in given.items()}
    log = directory / "operator.log"
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "magicstick",
            "run",
            stdout=sink,
            stderr=sink,
            env={**os.environ, **variables, "KUBECONFIG": str(world.cluster.kubeconfig)},
        )
    running = OperatorProcess(process, log)
    try:
        yield running
    finally:
        try:
            await running.stop()
        except TimeoutError:
            await running.kill()
            raise AssertionError(f"it did not end after SIGTERM:\n{log.read_text()[-2000:]}") from None
