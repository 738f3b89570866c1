"""Who may write, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from structlog.testing import capture_logs

from magicstick.kube.errors import FenceClosed
from magicstick.runtime.lease import RELEASE_WITHIN_S, Lease, LeaseTimes, NoLease, identity
from tests.support.lease_server import PLACE, LeaseClient, LeaseServer, foreign
from tests.support.sleeping_time import SleepingTime, settle

pytestmark = pytest.mark.anyio

TIMES = LeaseTimes(duration_s=35, renew_deadline_s=30, retry_s=5)


@dataclass
class Candidate:
    """A process that wants the lease."""

    lease: Lease
    client: LeaseClient
    clock: SleepingTime
    changes: list[bool] = field(default_factory=list)

    @property
    def may_write(self) -> bool:
        try:
            self.lease.fence()
        except FenceClosed:
            return False
        return True


@asynccontextmanager
async def running(
    server: LeaseServer, clock: SleepingTime, holder: str = "one", times: LeaseTimes = TIMES
) -> AsyncIterator[Candidate]:
    """A candidate whose loop runs while the block does; it releases at the end."""
    candidate = waiting(server, clock, holder, times)
    task = asyncio.create_task(candidate.lease.run())
    try:
        await settle()
        yield candidate
        assert not task.done()
    finally:
        task.cancel()
        while not task.done():
            await clock.elapse(1)


def waiting(
    server: LeaseServer, clock: SleepingTime, holder: str = "one", times: LeaseTimes = TIMES
) -> Candidate:
    """A candidate that has not begun."""
    client, changes = server.client(clock), list[bool]()
    lease = Lease(client, PLACE, clock, times=times, holder=holder, on_change=changes.append)
    return Candidate(lease, client, clock, changes)


@contextmanager
def finishes(coroutine: "asyncio.Future[None]") -> Iterator[None]:
    """What is awaited is pending before the block and done after it."""
    assert not coroutine.done()
    yield
    assert coroutine.done()


async def test_nothing_may_be_written_before_the_lease_is_taken() -> None:
    server, clock = LeaseServer(), SleepingTime()
    assert not waiting(server, clock).may_write
    async with running(server, clock) as one:
        assert one.may_write
        assert one.changes == [True]
        assert server.holder == "one"


async def test_the_fence_counts_from_the_start_of_the_renewal_not_from_its_answer() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        one.client.delay_s = 2.0  # reading and writing take two seconds each: begun at 5, answered at 9
        await clock.elapse(5)
        one.client.delay_s = 0.0
        await clock.elapse(4.5)
        one.client.go_away()
        await clock.elapse(34.9 - 9.5)
        assert one.may_write
        await clock.elapse(0.2)
        assert not one.may_write


async def test_a_lease_is_renewed_each_retry_period() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock):
        before = server.writes
        await clock.elapse(60)
        assert server.writes == before + 12


async def test_one_renewal_that_hangs_does_not_lose_the_lease() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        one.client.delay_s = 1000.0
        await clock.elapse(6)
        one.client.delay_s = 0.0
        await clock.elapse(100)
        assert one.changes == [True]


async def test_a_renewal_whose_answer_was_lost_is_made_again() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        one.client.answers_lost = True
        await clock.elapse(12)
        one.client.answers_lost = False
        await clock.elapse(60)
        assert one.changes == [True]


@pytest.mark.parametrize(
    "retry_s", [4, 5, 7]
)  # the deadline falls into a pause, an attempt's end, an attempt
async def test_work_is_stopped_at_the_deadline_even_while_a_renewal_hangs(retry_s: float) -> None:
    server, clock = LeaseServer(), SleepingTime()
    times = LeaseTimes(duration_s=35, renew_deadline_s=30, retry_s=retry_s)
    async with running(server, clock, times=times) as one:
        lost = asyncio.ensure_future(one.lease.wait_lost())
        one.client.delay_s = 1000.0
        await clock.elapse(29.9)
        with finishes(lost):
            await clock.elapse(0.1)
        assert one.changes == [True, False]
        assert not one.may_write
        one.client.delay_s = 0.0


async def test_a_lost_lease_is_taken_again_by_the_same_process() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        one.client.go_away()
        await clock.elapse(40)
        held = asyncio.ensure_future(one.lease.wait_held())
        one.client.come_back()
        await settle()
        with finishes(held):
            await clock.elapse(5)
        assert one.changes == [True, False, True]


async def test_a_process_that_was_stopped_finds_the_fence_closed_before_its_first_write() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        clock._now += 31  # no task ran meanwhile
        assert not one.may_write
        assert one.changes == [True, False]


async def test_another_holder_is_waited_for_until_its_whole_duration_passed_unrenewed() -> None:
    server, clock = LeaseServer(), SleepingTime()
    server.put(foreign("other"))
    async with running(server, clock) as one:
        await clock.elapse(20)
        server.put(foreign("other"))  # renewed
        await clock.elapse(35)
        assert not one.may_write
        await clock.elapse(10.1)
        assert one.may_write
        assert server.record is not None
        assert server.record["spec"]["leaseTransitions"] == 5


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z", None])
async def test_the_clocks_of_machines_need_not_agree(renewed: str | None) -> None:
    server, clock = LeaseServer(), SleepingTime()
    server.put(foreign("other", renewTime=renewed))
    async with running(server, clock) as one:
        await clock.elapse(34)
        assert not one.may_write
        await clock.elapse(7)
        assert one.may_write


async def test_the_duration_that_the_holder_promised_counts() -> None:
    server, clock = LeaseServer(), SleepingTime()
    server.put(foreign("other", leaseDurationSeconds=100))
    async with running(server, clock) as one:
        await clock.elapse(99)
        assert not one.may_write
        await clock.elapse(7)
        assert one.may_write


async def test_a_released_lease_is_taken_within_one_retry_period() -> None:
    server, clock = LeaseServer(), SleepingTime()
    server.put(foreign("other"))
    async with running(server, clock) as one:
        await clock.elapse(1)
        server.put(foreign(""))
        await clock.elapse(TIMES.retry_s)
        assert one.may_write


async def test_one_that_never_held_it_releases_nothing() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock):
        async with running(server, clock, "two") as two:
            assert not two.may_write
        assert server.holder == "one"


async def test_the_end_releases_so_that_the_next_holder_need_not_wait() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        pass
    assert server.holder == ""
    assert not one.may_write
    async with running(server, clock, "two") as two:
        assert two.may_write


async def test_a_graceful_end_is_no_reason_for_a_warning_but_a_loss_is() -> None:
    server, clock = LeaseServer(), SleepingTime()
    with capture_logs() as logs:
        async with running(server, clock):
            pass
    assert [line["event"] for line in logs] == ["lease held", "lease released"]
    with capture_logs() as logs:
        async with running(server, clock):
            server.put(foreign("thief"))
            await clock.elapse(5)
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == [
        "lease no longer held, nothing is written"
    ]


async def test_a_release_leaves_the_lease_of_somebody_else_alone() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock):
        taken = server.put(foreign("thief"))
    assert server.holder == "thief"
    assert server.read().metadata.resource_version == taken.metadata.resource_version


async def test_a_renewal_that_arrives_late_does_not_keep_the_lease_from_being_released() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        one.client.meanwhile = one.client.renew
    assert server.holder == ""


async def test_a_claim_whose_answer_never_came_is_released_as_well() -> None:
    server, clock = LeaseServer(), SleepingTime()
    one = waiting(server, clock)
    one.client.answers_lost = True
    task = asyncio.create_task(one.lease.run())
    await settle()
    assert (server.holder, one.may_write) == ("one", False)
    one.client.answers_lost = False
    task.cancel()
    await settle()
    assert task.done()
    assert server.holder == ""


async def test_a_lease_that_ran_out_but_still_names_us_is_released() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        one.client.go_away()
        await clock.elapse(32)
        assert (server.holder, one.may_write) == ("one", False)
        one.client.come_back()
    assert server.holder == ""


async def test_a_lease_that_was_deleted_needs_no_release() -> None:
    server, clock = LeaseServer(), SleepingTime()
    with capture_logs() as logs:
        async with running(server, clock):
            server.record = None
    assert "lease not released" not in [line["event"] for line in logs]


async def test_a_release_that_hangs_ends_in_time() -> None:
    server, clock = LeaseServer(), SleepingTime()
    begun = clock.monotonic()
    async with running(server, clock) as one:
        one.client.delay_s = 1000.0
    assert clock.monotonic() - begun <= RELEASE_WITHIN_S + 1
    assert not one.may_write


async def test_a_lease_that_somebody_else_took_is_lost_at_the_next_renewal() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        server.put(foreign("thief"))
        await clock.elapse(5)
        assert one.changes == [True, False]


async def test_a_lease_that_was_deleted_is_made_anew() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        server.record = None
        await clock.elapse(5)
        assert server.holder == "one"
        assert one.changes == [True]


async def test_what_others_wrote_into_the_record_stays() -> None:
    server, clock = LeaseServer(), SleepingTime()
    server.put(foreign(""))
    async with running(server, clock):
        assert server.record is not None
        assert server.record["metadata"]["labels"] == {"team": "blue"}
        acquired = server.record["spec"]["acquireTime"]
        await clock.elapse(20)
        assert server.record["spec"]["acquireTime"] == acquired


async def test_an_unexpected_error_does_not_end_the_loop() -> None:
    server, clock = LeaseServer(), SleepingTime()
    async with running(server, clock) as one:
        one.client.error = ValueError("not an answer")
        with capture_logs() as logs:
            await clock.elapse(11)
        one.client.come_back()
        await clock.elapse(60)
        assert one.changes == [True]
    assert [line["event"] for line in logs] == ["lease not renewed"] * 2


async def test_the_loop_shows_that_it_comes_round_also_while_it_loses() -> None:
    server, clock = LeaseServer(), SleepingTime()
    server.put(foreign("other"))
    async with running(server, clock) as one:
        for _ in range(4):
            await clock.elapse(20)
            server.put(foreign("other"))
            assert clock.monotonic() - one.lease.last_attempt <= TIMES.retry_s


async def test_who_is_waited_for_is_told_once() -> None:
    server, clock = LeaseServer(), SleepingTime()
    server.put(foreign("other"))
    with capture_logs() as logs:
        async with running(server, clock):
            await clock.elapse(30)
    assert [line["holder"] for line in logs if line["event"] == "waiting for the lease"] == ["other"]


async def test_without_leader_election_everything_may_be_written_always() -> None:
    lease = NoLease(SleepingTime())
    lease.fence()
    await lease.wait_held()
    with anyio.move_on_after(0) as scope:
        await lease.wait_lost()
    assert scope.cancelled_caught
    assert lease.held


def test_an_identity_is_never_given_twice() -> None:
    assert len({identity() for _ in range(100)}) == 100
