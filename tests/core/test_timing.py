"""Back-off and the real clock's wait."""

import asyncio

import pytest

from magicstick.kube.timing import Backoff, SystemClock
from tests.support.waiting import SkippingClock, dice


def delays(backoff: Backoff, clock: SkippingClock, count: int) -> list[float]:
    found = []
    for _ in range(count):
        found.append(backoff.next())
        clock.now += found[-1]
    return found


def test_pauses_double_up_to_a_bound_and_never_align() -> None:
    clock = SkippingClock()
    found = delays(Backoff(clock, dice()), clock, 12)
    bases = [min(0.8 * 2**n, 30.0) for n in range(12)]
    assert all(base <= delay <= 2 * base for base, delay in zip(bases, found, strict=True))
    assert len({round(delay / base, 6) for base, delay in zip(bases, found, strict=True)}) == 12


def test_pauses_are_short_again_after_two_quiet_minutes() -> None:
    clock = SkippingClock()
    backoff = Backoff(clock, dice())
    delays(backoff, clock, 6)
    clock.now += 119
    assert backoff.next() >= 30
    clock.now += 60 + 121
    assert backoff.next() <= 1.6


@pytest.mark.anyio
async def test_a_wait_ends_with_its_event_or_its_time() -> None:
    clock, event = SystemClock(), asyncio.Event()
    assert not await clock.wait(event, 0.001)
    asyncio.get_running_loop().call_later(0.001, event.set)
    assert await clock.wait(event, 30)
    assert await clock.wait(event, 30)


def test_the_real_clock_goes_forward() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()


def test_pauses_are_short_again_once_something_worked() -> None:
    clock = SkippingClock()
    backoff = Backoff(clock, dice())
    delays(backoff, clock, 6)
    backoff.reset()
    assert [backoff.next() <= limit for limit in (1.6, 3.2)] == [True, True]
