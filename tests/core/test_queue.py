import asyncio
import time

import pytest

from magicstick.runtime.queue import BACKOFF_CAP_S, Closed, Priority, WorkQueue
from tests.support.virtual_time import VirtualTime, seeded

pytestmark = pytest.mark.anyio
DEADLINE_S = 5.0


class Meter:
    """Queue metrics that a test can read."""

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.waits: list[float] = []
        self.works: list[float] = []

    def added(self) -> None:
        self.adds += 1

    def taken(self, waited_s: float) -> None:
        self.waits.append(waited_s)

    def finished(self, worked_s: float) -> None:
        self.works.append(worked_s)

    def retried(self) -> None:
        self.retries += 1


@pytest.fixture
def clock() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def queue(clock: VirtualTime) -> WorkQueue[str]:
    return WorkQueue(timers=clock, rng=seeded())


async def take(queue: WorkQueue[str]) -> str:
    async with asyncio.timeout(DEADLINE_S):
        return await queue.get()


async def drain(queue: WorkQueue[str]) -> list[str]:
    taken = []
    while len(queue):
        taken.append(await take(queue))
        queue.done(taken[-1])
    return taken


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_key_added_many_times_is_handed_out_once(queue: WorkQueue[str]) -> None:
    for _ in range(5):
        queue.add("a")
    assert await drain(queue) == ["a"]


async def test_keys_of_one_priority_come_in_the_order_they_were_added(queue: WorkQueue[str]) -> None:
    for key in "abc":
        queue.add(key)
    assert await drain(queue) == ["a", "b", "c"]


async def test_urgent_before_normal_before_low(queue: WorkQueue[str]) -> None:
    queue.add("low", Priority.LOW)
    queue.add("normal")
    queue.add("urgent", Priority.URGENT)
    assert await drain(queue) == ["urgent", "normal", "low"]


async def test_a_queued_key_is_promoted_by_a_more_urgent_add_and_never_demoted(queue: WorkQueue[str]) -> None:
    queue.add("a", Priority.LOW)
    queue.add("b")
    queue.add("a", Priority.URGENT)
    queue.add("a", Priority.LOW)
    assert queue.depth(Priority.URGENT) == 1
    assert await drain(queue) == ["a", "b"]


async def test_a_key_added_during_its_work_waits_for_done_and_then_comes_again(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    assert await take(queue) == "a"
    queue.add("a")
    queue.add("a", Priority.URGENT)
    queue.add("a", Priority.LOW)
    assert len(queue) == 0
    queue.done("a")
    assert queue.depth(Priority.URGENT) == 1
    assert await drain(queue) == ["a"]


async def test_a_key_that_was_not_added_during_its_work_does_not_come_again(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.done(await take(queue))
    assert len(queue) == 0
    assert queue.working == 0


async def test_done_without_get_is_an_error(queue: WorkQueue[str]) -> None:
    with pytest.raises(KeyError):
        queue.done("a")


async def test_waiting_raises_a_key_over_later_urgent_ones(queue: WorkQueue[str], clock: VirtualTime) -> None:
    queue.add("patient", Priority.LOW)
    clock.advance(1.9)
    queue.add("early", Priority.URGENT)
    clock.advance(0.2)
    queue.add("late", Priority.URGENT)
    assert await drain(queue) == ["early", "patient", "late"]


async def test_promotion_keeps_the_time_that_was_waited(queue: WorkQueue[str], clock: VirtualTime) -> None:
    queue.add("a", Priority.LOW)
    clock.advance(0.5)
    queue.add("b", Priority.URGENT)
    queue.add("a", Priority.URGENT)
    assert queue.oldest_wait_s() == pytest.approx(0.5)
    assert await drain(queue) == ["a", "b"]


# --- delays --------------------------------------------------------------------------------------


async def test_a_delayed_key_comes_when_its_time_has_come(queue: WorkQueue[str], clock: VirtualTime) -> None:
    queue.add_after("a", 20.0)
    clock.advance(19.9)
    assert (len(queue), queue.delayed) == (0, 1)
    clock.advance(0.2)
    assert (len(queue), queue.delayed) == (1, 0)
    assert queue.depth(Priority.LOW) == 1


@pytest.mark.parametrize("delays", [(10.0, 5.0), (5.0, 10.0)])
async def test_the_earliest_of_several_delays_counts(
    queue: WorkQueue[str], clock: VirtualTime, delays: tuple[float, float]
) -> None:
    for delay_s in delays:
        queue.add_after("a", delay_s)
    clock.advance(5.1)
    assert await drain(queue) == ["a"]
    clock.advance(60)
    assert len(queue) == 0


async def test_no_delay_is_now(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 0.0)
    assert await drain(queue) == ["a"]


@pytest.mark.parametrize("priority", list(Priority))
async def test_an_immediate_add_cancels_a_delay(
    queue: WorkQueue[str], clock: VirtualTime, priority: Priority
) -> None:
    queue.add_after("a", 5.0)
    queue.add("a", priority)
    assert await drain(queue) == ["a"]
    clock.advance(10)
    assert len(queue) == 0


async def test_a_delay_of_a_queued_key_changes_nothing(queue: WorkQueue[str], clock: VirtualTime) -> None:
    queue.add("a")
    queue.add_after("a", 1.0)
    assert await drain(queue) == ["a"]
    clock.advance(2)
    assert len(queue) == 0


async def test_a_delay_that_ends_during_the_work_brings_the_key_after_it(
    queue: WorkQueue[str], clock: VirtualTime
) -> None:
    queue.add("a")
    await take(queue)
    queue.add_after("a", 1.0)
    clock.advance(2)
    assert len(queue) == 0
    queue.done("a")
    assert await drain(queue) == ["a"]


async def test_delays_of_many_keys_end_in_order(queue: WorkQueue[str], clock: VirtualTime) -> None:
    for key, delay_s in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        queue.add_after(key, delay_s)
    clock.advance(5)
    assert await drain(queue) == ["a", "b", "c"]


async def test_one_busy_key_does_not_fill_the_heap_of_delays(
    queue: WorkQueue[str], clock: VirtualTime
) -> None:
    queue.add_after("soon", 10.0)
    for _ in range(10_000):
        queue.add_after("a", 36_000.0)
        queue.add("a")
        await drain(queue)
    assert len(queue._heap) < 100


# --- back-off ------------------------------------------------------------------------------------


async def fail(queue: WorkQueue[str], key: str) -> float:
    """One failed piece of work."""
    queue.add(key)
    assert await take(queue) == key
    delay_s = queue.add_backoff(key)
    queue.done(key)
    return delay_s


async def test_backoff_doubles_from_5_ms_to_300_s_with_jitter_that_only_shortens(
    queue: WorkQueue[str],
) -> None:
    delays = [await fail(queue, "a") for _ in range(30)]
    expected = [min(0.005 * 2**n, BACKOFF_CAP_S) for n in range(30)]
    assert all(0.75 * full <= delay <= full for delay, full in zip(delays, expected, strict=True))
    assert len({delay / full for delay, full in zip(delays, expected, strict=True)}) > 20


async def test_backoff_is_kept_for_each_key(queue: WorkQueue[str]) -> None:
    for _ in range(10):
        await fail(queue, "a")
    assert await fail(queue, "b") <= 0.005


async def test_forget_starts_the_backoff_over(queue: WorkQueue[str]) -> None:
    for _ in range(10):
        await fail(queue, "a")
    queue.forget("a")
    assert queue.failures("a") == 0
    assert await fail(queue, "a") <= 0.005


async def test_backoff_is_never_shorter_than_asked_for(queue: WorkQueue[str]) -> None:
    assert 7.0 <= queue.add_backoff("a", at_least_s=7.0) <= 7.0 * 1.25


async def test_a_failed_key_comes_again_behind_keys_that_changed(
    queue: WorkQueue[str], clock: VirtualTime
) -> None:
    await fail(queue, "a")
    clock.advance(1)
    queue.add("b")
    assert await drain(queue) == ["b", "a"]


@pytest.mark.parametrize("priority", [Priority.NORMAL, Priority.URGENT])
async def test_news_cuts_through_the_backoff(queue: WorkQueue[str], priority: Priority) -> None:
    await fail(queue, "a")
    queue.add("a", priority)
    assert await drain(queue) == ["a"]


async def test_a_resync_does_not_cut_through_the_backoff(queue: WorkQueue[str], clock: VirtualTime) -> None:
    for _ in range(12):
        await fail(queue, "a")
    queue.add("a", Priority.LOW)
    queue.add_after("a", 0.1, Priority.LOW)
    clock.advance(1.0)
    assert len(queue) == 0
    clock.advance(20.0)
    assert await drain(queue) == ["a"]


async def test_delayed_news_shortens_the_backoff(queue: WorkQueue[str], clock: VirtualTime) -> None:
    for _ in range(12):
        await fail(queue, "a")
    queue.add_after("a", 0.1, Priority.NORMAL)
    clock.advance(0.2)
    assert await drain(queue) == ["a"]


# --- workers -------------------------------------------------------------------------------------


async def test_a_waiting_worker_gets_the_key_that_is_added_later(queue: WorkQueue[str]) -> None:
    worker = asyncio.create_task(take(queue))
    await settle()
    queue.add("a")
    assert await worker == "a"


async def test_every_waiting_worker_gets_a_key_when_there_are_enough(queue: WorkQueue[str]) -> None:
    workers = [asyncio.create_task(take(queue)) for _ in range(3)]
    await settle()
    for key in "abc":
        queue.add(key)
    assert sorted(await asyncio.gather(*workers)) == ["a", "b", "c"]


async def test_a_worker_cancelled_just_after_it_was_woken_hands_its_wake_up_on(
    queue: WorkQueue[str],
) -> None:
    first, second = asyncio.create_task(take(queue)), asyncio.create_task(take(queue))
    await settle()
    queue.add("a")
    first.cancel()
    assert await second == "a"
    await asyncio.wait([first])
    assert first.cancelled()


async def test_close_ends_every_waiting_worker(queue: WorkQueue[str]) -> None:
    workers = [asyncio.create_task(take(queue)) for _ in range(3)]
    await settle()
    queue.close()
    ends = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(end) for end in ends] == [Closed] * 3


async def test_a_closed_queue_hands_out_nothing_and_takes_nothing(
    queue: WorkQueue[str], clock: VirtualTime
) -> None:
    queue.add("a")
    queue.add_after("b", 1.0)
    queue.close()
    queue.add("c")
    queue.add_after("d", 1.0)
    clock.advance(5)
    assert queue.closed
    with pytest.raises(Closed):
        await take(queue)
    assert (len(queue), clock.next_timer()) == (1, None)


async def test_work_under_way_can_be_finished_after_close(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await take(queue)
    queue.add("a")
    queue.close()
    queue.done("a")
    assert queue.working == 0


# --- measures ------------------------------------------------------------------------------------


async def test_metrics_tell_adds_waits_works_and_retries(clock: VirtualTime) -> None:
    meter = Meter()
    queue: WorkQueue[str] = WorkQueue(timers=clock, rng=seeded(), metrics=meter)
    queue.add("a")
    queue.add("a")
    clock.advance(2)
    await take(queue)
    clock.advance(3)
    assert queue.longest_work_s() == pytest.approx(3)
    queue.add_backoff("a")
    queue.done("a")
    assert (meter.adds, meter.retries) == (1, 1)
    assert meter.waits == [pytest.approx(2)]
    assert meter.works == [pytest.approx(3)]


async def test_the_real_clock_brings_delayed_keys() -> None:
    queue: WorkQueue[str] = WorkQueue()
    begun = time.monotonic()
    queue.add_after("a", 0.02)
    assert await take(queue) == "a"
    assert time.monotonic() - begun >= 0.02


async def test_a_cycle_of_a_queue_with_3000_delayed_keys_is_cheap() -> None:
    """The bound is loose, for busy machines; the usual cost is less than a tenth of it."""
    rng = seeded()
    queue: WorkQueue[int] = WorkQueue(rng=rng)
    for key in range(3000):
        queue.add_after(key, rng.uniform(1800, 2200))
    cycles = 20_000
    begun = time.process_time()
    for number in range(cycles):
        queue.add(number % 3000)
        key = await queue.get()
        queue.done(key)
        queue.add_after(key, 2000.0)
    per_cycle_us = (time.process_time() - begun) / cycles * 1e6
    assert per_cycle_us < 100
