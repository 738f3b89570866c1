"""From a signal to the end of the process."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from magicstick.runtime.shutdown import run_until_signal
from tests.support.sleeping_time import SleepingTime, settle
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

DEADLINE_S = 10
NUMBERS = [signal.SIGTERM, signal.SIGINT]


class Process:
    """`run_until_signal` in this process, on virtual time. `codes` are those it would have ended with."""

    def __init__(self, work: Callable[[], Awaitable[None]], drain_s: float = 20) -> None:
        self.clock, self.codes = SleepingTime(), list[int]()
        self.task = asyncio.create_task(
            run_until_signal(work, drain_s=drain_s, clock=self.clock, end_now=self.codes.append)
        )

    async def receive(self, number: signal.Signals) -> None:
        """Send ourselves the signal, and come back when it was noticed, which makes a line in the log."""
        with capture_logs() as logs:
            os.kill(os.getpid(), number)
            await eventually(lambda: logs)
        await settle()

    async def end(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self.task


async def until_cancelled() -> None:
    await asyncio.Event().wait()


class Stubborn:
    """Work that ends only when it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def __call__(self) -> None:
        waiting = asyncio.ensure_future(self.let_go.wait())
        while not waiting.done():
            try:
                await asyncio.wait([waiting])
            except asyncio.CancelledError:
                continue


@pytest.mark.parametrize("number", NUMBERS)
async def test_the_first_signal_ends_the_work_gracefully(number: signal.Signals) -> None:
    process = Process(until_cancelled)
    await settle()
    await process.receive(number)
    await process.end()
    assert process.codes == []


async def test_work_in_progress_may_end_within_the_drain_time() -> None:
    ended = list[str]()

    async def work() -> None:
        try:
            await until_cancelled()
        finally:
            ended.append("cleaned up")

    process = Process(work)
    await settle()
    await process.receive(signal.SIGTERM)
    await process.end()
    assert ended == ["cleaned up"]
    await process.clock.elapse(100)
    assert process.codes == []


async def test_work_that_does_not_end_in_time_is_left() -> None:
    work = Stubborn()
    process = Process(work, drain_s=20)
    await settle()
    await process.receive(signal.SIGTERM)
    await process.clock.elapse(19.9)
    assert process.codes == []
    await process.clock.elapse(0.1)
    assert process.codes == [1]
    work.let_go.set()
    await process.end()


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_second_signal_ends_the_process_on_the_spot(number: signal.Signals) -> None:
    work = Stubborn()
    process = Process(work)
    await settle()
    await process.receive(signal.SIGTERM)
    assert process.codes == []
    await process.receive(number)
    assert process.codes == [128 + number]
    work.let_go.set()
    await process.end()


async def test_work_that_ends_by_itself_ends_the_run() -> None:
    async def work() -> None:
        return

    await Process(work).end()


async def test_what_the_work_raises_passes_through_unwrapped() -> None:
    async def work() -> None:
        raise ValueError("no address")

    with pytest.raises(ValueError, match="no address"):
        await Process(work).end()


async def test_afterwards_signals_are_handled_as_before() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def work() -> None:
        assert signal.getsignal(signal.SIGTERM) != before

    await Process(work).end()
    assert signal.getsignal(signal.SIGTERM) == before


PROGRAM = """
import asyncio, sys
import uvloop
from magicstick.runtime.shutdown import run_until_signal

async def work():
    print("working", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaning", flush=True)
        if sys.argv[1] == "slow":
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

uvloop.run(run_until_signal(work, drain_s=float(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("kind", "drain_s", "signals", "code"),
    [
        ("quick", "20", [signal.SIGTERM], 0),
        ("quick", "20", [signal.SIGINT], 0),
        ("slow", "0.2", [signal.SIGTERM], 1),
        ("slow", "60", [signal.SIGTERM, signal.SIGTERM], 143),
        ("slow", "60", [signal.SIGINT, signal.SIGINT], 130),
    ],
)
def test_a_process_ends_with_the_documented_code(
    kind: str, drain_s: str, signals: list[signal.Signals], code: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, drain_s], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line, number in zip(("working\n", "cleaning\n"), signals, strict=False):
            while process.stdout.readline() != line:
                assert process.poll() is None
            process.send_signal(number)
        assert process.wait(DEADLINE_S) == code
