"""Whatever happens to the connections of two processes, only one of them may write at a time."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.errors import Unavailable
from magicstick.runtime.lease import LeaseTimes
from tests.core.test_lease import Candidate, waiting
from tests.support.effort import examples
from tests.support.lease_server import LeaseServer
from tests.support.sleeping_time import SleepingTime, settle

TIMES = LeaseTimes(duration_s=7, renew_deadline_s=6, retry_s=1)
FAULTS = ("none", "away", "slow", "hangs", "answers lost")
Step = tuple[int, str, float]

steps = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(FAULTS), st.sampled_from([0.3, 1.0, 2.7, 6.0, 7.5])),
    min_size=1,
    max_size=12,
)


def break_connection(candidate: Candidate, fault: str) -> None:
    candidate.client.error = Unavailable("away") if fault == "away" else None
    candidate.client.delay_s = {"slow": 0.9, "hangs": 1000.0}.get(fault, 0.0)
    candidate.client.answers_lost = fault == "answers lost"


async def play(script: list[Step]) -> list[bool]:
    """Which of the two may write after the script and a calm time; fails when both may at once."""
    server, clock = LeaseServer(), SleepingTime()
    both = [waiting(server, clock, name, TIMES) for name in ("one", "two")]
    tasks = [asyncio.create_task(candidate.lease.run()) for candidate in both]
    try:
        await settle()
        for who, fault, seconds in [*script, (0, "none", 0.1), (1, "none", 20.0)]:
            break_connection(both[who], fault)
            for _ in range(round(seconds / 0.1)):
                await clock.elapse(0.1)
                assert [candidate.may_write for candidate in both] != [True, True]
        return [candidate.may_write for candidate in both]
    finally:
        for task in tasks:
            task.cancel()
        while not all(task.done() for task in tasks):
            await clock.elapse(1)


@examples(25)
@given(steps)
def test_two_processes_never_may_write_at_once_and_one_may_when_all_is_well(script: list[Step]) -> None:
    assert sum(asyncio.run(play(script))) == 1
