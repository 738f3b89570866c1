"""Work that is shared, and answers that are kept for a moment."""

import asyncio

import pytest

from magicstick.access_guard.sharing import Remembered, SingleFlight
from tests.support.sleeping_time import settle
from tests.support.virtual_time import VirtualTime

pytestmark = pytest.mark.anyio


DEADLINE_S = 10.0


class Work:
    """Work that ends when the test says so, and numbers itself."""

    def __init__(self) -> None:
        self.begun = 0
        self.gates: list[asyncio.Event] = []
        self.another = asyncio.Condition()

    async def __call__(self) -> int:
        self.begun += 1
        mine, gate = self.begun, asyncio.Event()
        self.gates.append(gate)
        async with self.another:
            self.another.notify_all()
        await gate.wait()
        return mine

    async def until_begun(self, times: int) -> None:
        async with asyncio.timeout(DEADLINE_S), self.another:
            await self.another.wait_for(lambda: self.begun >= times)


async def test_calls_at_the_same_moment_share_one_piece_of_work() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    work = Work()
    calls = [asyncio.ensure_future(flights.share("a", work)) for _ in range(50)]
    await settle()
    work.gates[0].set()
    assert await asyncio.gather(*calls) == [1] * 50


async def test_calls_that_come_while_work_is_under_way_share_the_next_piece() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    work = Work()
    first = asyncio.ensure_future(flights.share("a", work))
    await settle()
    later = [asyncio.ensure_future(flights.share("a", work)) for _ in range(50)]
    await settle()
    assert work.begun == 1
    work.gates[0].set()
    assert await first == 1
    await settle()
    work.gates[1].set()
    assert await asyncio.gather(*later) == [2] * 50


async def test_work_that_takes_too_long_is_not_waited_for() -> None:
    flights: SingleFlight[str, int] = SingleFlight(patience_s=0.0)
    work = Work()
    first = asyncio.ensure_future(flights.share("a", work))
    await settle()
    second = asyncio.ensure_future(flights.share("a", work))
    await work.until_begun(2)
    work.gates[1].set()
    assert await second == 2
    third = asyncio.ensure_future(flights.share("a", work))
    await work.until_begun(3)
    work.gates[0].set()
    work.gates[2].set()
    assert (await first, await third) == (1, 3)


async def test_different_keys_share_nothing() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    work = Work()
    calls = [asyncio.ensure_future(flights.share(key, work)) for key in "ab"]
    await settle()
    for gate in work.gates:
        gate.set()
    assert sorted(await asyncio.gather(*calls)) == [1, 2]


async def test_whoever_leaves_ends_nobody_elses_work() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    work = Work()
    leaving, staying = (asyncio.ensure_future(flights.share("a", work)) for _ in range(2))
    await settle()
    leaving.cancel()
    await settle()
    work.gates[0].set()
    assert await staying == 1


async def test_a_failure_is_everybodys_and_the_next_call_tries_again() -> None:
    flights: SingleFlight[str, int] = SingleFlight()

    async def fails() -> int:
        raise LookupError

    calls = [asyncio.ensure_future(flights.share("a", fails)) for _ in range(2)]
    assert [type(each) for each in await asyncio.gather(*calls, return_exceptions=True)] == [LookupError] * 2
    work = Work()
    again = asyncio.ensure_future(flights.share("a", work))
    await settle()
    work.gates[0].set()
    assert await again == 1


async def test_closing_ends_all_work() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    work = Work()
    first = asyncio.ensure_future(flights.share("a", work))
    await settle()
    second = asyncio.ensure_future(flights.share("a", work))
    await settle()
    await flights.close()
    ended = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2
    assert work.begun == 1


def test_an_answer_is_kept_for_as_long_as_it_is_good() -> None:
    time = VirtualTime()
    kept: Remembered[str, int] = Remembered(time, 10)
    kept.put("a", 1, 5.0)
    time.advance(4.9)
    assert kept.get("a") == 1
    time.advance(0.1)
    assert kept.get("a") is None


@pytest.mark.parametrize("for_s", [0.0, -1.0])
def test_what_is_good_for_no_time_is_not_kept_and_replaces_what_was(for_s: float) -> None:
    kept: Remembered[str, int] = Remembered(VirtualTime(), 10)
    kept.put("a", 1, 5.0)
    kept.put("a", 2, for_s)
    assert kept.get("a") is None
    assert len(kept) == 0


def test_there_are_never_more_than_the_bound_and_the_oldest_go_first() -> None:
    kept: Remembered[int, int] = Remembered(VirtualTime(), 3)
    for number in range(5):
        kept.put(number, number, 5.0)
    assert [kept.get(number) for number in range(5)] == [None, None, 2, 3, 4]
    assert len(kept) == 3


def test_what_is_over_is_dropped() -> None:
    time = VirtualTime()
    kept: Remembered[int, int] = Remembered(time, 100)
    for number in range(50):
        kept.put(number, number, 5.0)
    time.advance(5.0)
    kept.put(50, 50, 5.0)
    assert len(kept) == 1
