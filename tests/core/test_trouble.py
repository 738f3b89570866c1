"""How trouble is told and how long is waited: notices, growing delays, patience, supervised work."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace as replaced
from structlog.testing import capture_logs

from magicstick.kube.errors import Conflict, Unavailable
from magicstick.runtime.controller import Controller
from magicstick.runtime.plan import Apply, Notice, Plan
from magicstick.runtime.process import FIRST_WAIT_S, LONGEST_WAIT_S, Supervised
from magicstick.runtime.queue import BACKOFF_CAP_S, BACKOFF_JITTER, WorkQueue
from magicstick.runtime.skeleton import Result
from tests.support.objects import GADGET, WIDGET
from tests.support.runtime import DECLARATION, FINALIZER, KEY, Fault, Pair, gadget_body, status
from tests.support.skeleton_bench import SkeletonBench
from tests.support.virtual_time import VirtualTime
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

SMALL, LARGE = Notice("SizeIgnored", "it stays at 1"), Notice("SizeIgnored", "it stays at 2")


@pytest.fixture
def bench() -> SkeletonBench:
    return SkeletonBench(finalizers=[FINALIZER])


def telling(*notices: Notice, outcome: str = "Ready") -> Callable[[Pair], Plan]:
    return lambda pair: Plan(
        outcome, status=status(outcome, ".", pair.widget.metadata.generation), notices=notices
    )


async def test_a_notice_is_told_when_it_appears_and_not_while_it_stays(bench: SkeletonBench) -> None:
    for notices, told in (((SMALL,), 1), ((SMALL,), 1), ((SMALL, LARGE), 2), ((), 2), ((SMALL,), 3)):
        bench.reconciler.decide_with = telling(*notices)
        await bench.reconcile()
        warnings = [each for each in bench.events.noted if each[1] == "SizeIgnored"]
        assert len(warnings) == told
        assert all(not normal for normal, *_ in warnings)


async def test_a_notice_of_an_object_that_is_gone_is_forgotten(bench: SkeletonBench) -> None:
    bench.reconciler.decide_with = telling(SMALL)
    await bench.reconcile()
    before = bench.widget
    bench.stores.store(WIDGET).deleted(KEY, before.metadata.uid)
    assert await bench.reconcile() == Result("gone")
    bench.hands.put(WIDGET, replaced(before, metadata=replaced(before.metadata, uid="uid-successor")))
    await bench.reconcile()
    assert [each[1] for each in bench.events.noted].count("SizeIgnored") == 2


async def test_an_outcome_that_is_declared_a_failure_backs_off(bench: SkeletonBench) -> None:
    bench.reconciler.declaration = replace(DECLARATION, failing=frozenset({"Ready"}))
    bench.skeleton = bench.new_skeleton()
    bench.reconciler.decide_with = telling()
    assert await bench.reconcile() == Result("Ready", 20.0, backoff=True)


def test_failures_in_a_row_wait_twice_as_long_each_up_to_the_cap_and_start_anew_after_one_success() -> None:
    time = VirtualTime()
    queue = WorkQueue[str](timers=time, rng=random.Random(1))
    waits = [queue.add_backoff("a", first_s=10.0) for _ in range(8)]
    for wait, grown in zip(waits, (10, 20, 40, 80, 160, 300, 300, 300), strict=True):
        assert grown * (1 - BACKOFF_JITTER) <= wait <= min(grown, BACKOFF_CAP_S)
    queue.add("a")
    assert queue.failures("a") == 8, "an event looks earlier, and does not make the failures undone"
    queue.forget("a")
    assert queue.add_backoff("a", first_s=10.0) <= 10.0


async def test_a_controller_takes_the_first_delay_from_its_declaration(bench: SkeletonBench) -> None:
    bench.reconciler.declaration = replace(
        DECLARATION,
        failing=frozenset({"Ready"}),
        backoff_s=10.0,
        requeue_s={**DECLARATION.requeue_s, "Ready": 10.0},
    )
    bench.reconciler.decide_with = telling()
    time = VirtualTime()
    controller = Controller(
        bench.reconciler, bench.stores, bench.hands, clock=time, timers=time, rng=random.Random(1)
    )
    task = asyncio.create_task(controller.run())
    try:
        seen = 0
        for expected in (10.0, 20.0, 40.0):
            await eventually(lambda: len(bench.reconciler.passes) > seen and controller.queue.delayed > 0)  # noqa: B023 - asked within the round
            seen = len(bench.reconciler.passes)
            due = time.next_timer()
            assert due is not None
            wait = due - time.time()
            assert expected * (1 - BACKOFF_JITTER) <= wait <= expected
            time.advance(wait)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_may_pass_by_itself_is_told_once_patience_is_over(bench: SkeletonBench) -> None:
    bench.reconciler.declaration = replace(
        DECLARATION, tells_failures=True, patience=3, requeue_s={**DECLARATION.requeue_s, "Unavailable": 10.0}
    )
    bench.skeleton = bench.new_skeleton()
    bench.hands.edit(WIDGET, KEY, status=status("Ready", "fine", 1))
    bench.hands.faults = [Fault("apply", GADGET, Unavailable("no answer"), None)]
    for told in (False, False, True):
        assert (await bench.reconcile()).backoff
        assert (bench.widget.status["phase"] == "Unavailable") is told
    bench.hands.faults = []
    await bench.reconcile()
    bench.hands.faults = [Fault("apply", GADGET, Unavailable("no answer"), None)]
    gadget = bench.hands.live(GADGET, KEY)
    assert gadget is not None
    bench.stores.store(GADGET).deleted(KEY, gadget.metadata.uid)
    await bench.reconcile()
    assert bench.widget.status["phase"] == "Ready", "one success, and patience is whole again"


async def test_an_error_knows_the_object_that_its_step_was_about(bench: SkeletonBench) -> None:
    error = Conflict("changed")
    bench.hands.faults = [Fault("apply", GADGET, error)]
    bench.reconciler.decide_with = lambda pair: (  # the second time there is nothing left to do
        Plan("Ready", (Apply(GADGET, gadget_body()),), status=status("Ready", ".", 1))
        if pair.gadget is None
        else Plan("Ready", status=status("Ready", ".", 1))
    )
    await bench.reconcile()
    assert error.about == (GADGET, KEY)


class Skipping:
    """A clock on which sleeping takes no time."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.time = 0.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


async def test_work_that_fails_is_begun_anew_ever_later_and_from_the_start_after_a_good_while() -> None:
    clock, runs = Skipping(), iter([0.0] * 8 + [LONGEST_WAIT_S, 0.0])

    async def work() -> None:
        lasted = next(runs, None)
        if lasted is None:
            return
        clock.time += lasted
        raise RuntimeError("a fault")

    with capture_logs() as logs:
        await Supervised("one", work, clock).run()
    assert clock.slept[:8] == [1, 2, 4, 8, 16, 32, LONGEST_WAIT_S, LONGEST_WAIT_S]
    assert clock.slept[8:] == [FIRST_WAIT_S, 2 * FIRST_WAIT_S]
    assert [each["work"] for each in logs] == ["one"] * 10


async def test_work_that_fails_takes_nothing_else_with_it_and_cancellation_passes() -> None:
    reached = asyncio.Event()

    async def failing() -> None:
        raise RuntimeError("a fault")

    async def other() -> None:
        await asyncio.sleep(0)
        reached.set()
        await asyncio.Event().wait()

    class Never(Skipping):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            await asyncio.Event().wait()

    with capture_logs():
        tasks = [
            asyncio.create_task(Supervised(work.__name__, work, Never()).run()) for work in (failing, other)
        ]
        await asyncio.wait_for(reached.wait(), 5)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found)
