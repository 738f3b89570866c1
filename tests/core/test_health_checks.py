"""What counts as alive, and what as ready."""

import asyncio
from dataclasses import dataclass, field

from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.informer import Counters, Informer, InformerState
from magicstick.kube.kinds import POD
from magicstick.kube.objects import Resource
from magicstick.kube.scope import Scope
from magicstick.runtime.checks import (
    ELECTION_TIMES,
    PASS_LIMIT_S,
    SILENT_TIMES,
    SilentWatches,
    not_leading,
    not_synced,
    stuck_election,
    stuck_work,
)
from magicstick.runtime.queue import Priority, WorkQueue
from tests.support.virtual_time import VirtualTime

IDLE_S = 72.0
LIMIT_S = SILENT_TIMES * IDLE_S


@dataclass
class FakeInformer:
    scope: str = "pods"
    state: InformerState = InformerState.SYNCED
    reason: str = ""
    last_event_age: float | None = 0.0
    counters: Counters = field(default_factory=Counters)


@dataclass
class FakeLease:
    held: bool = True
    last_attempt: float = 0.0


@dataclass
class FakeQueue:
    working: int = 1
    age: float = 0.0
    waiting: int = 0

    def depth(self, priority: Priority) -> int:
        return self.waiting if priority is Priority.NORMAL else 0

    def longest_work_s(self) -> float:
        return self.age


def test_a_watch_that_says_nothing_and_tries_nothing_is_found() -> None:
    clock, zombie, other = VirtualTime(), FakeInformer("pods"), FakeInformer("nodes")
    check = SilentWatches(lambda: [zombie, other], clock, IDLE_S)
    assert check() == ""
    clock.advance(LIMIT_S + 1)
    zombie.last_event_age = LIMIT_S + 1
    assert check() == f"nothing heard or tried for {LIMIT_S:.0f} s: pods"


def test_a_watch_that_is_heard_is_alive_however_little_it_tries() -> None:
    clock, informer = VirtualTime(), FakeInformer()
    check = SilentWatches(lambda: [informer], clock, IDLE_S)
    check()
    clock.advance(10 * LIMIT_S)
    informer.last_event_age = LIMIT_S - 1
    assert check() == ""


def test_an_api_server_that_is_away_is_no_reason_for_a_restart() -> None:
    clock, informer = VirtualTime(), FakeInformer(state=InformerState.FAILING)
    check = SilentWatches(lambda: [informer], clock, IDLE_S)
    for minute in range(60):
        informer.last_event_age = 60.0 * minute
        informer.counters.failures += 1  # it keeps trying
        assert check() == ""
        clock.advance(60)


def test_a_failing_watch_that_stopped_trying_is_found() -> None:
    clock, informer = VirtualTime(), FakeInformer(state=InformerState.FAILING)
    check = SilentWatches(lambda: [informer], clock, IDLE_S)
    check()
    clock.advance(LIMIT_S + 1)
    informer.last_event_age = LIMIT_S + 1
    assert "pods" in check()


def test_an_absent_kind_has_nothing_to_say() -> None:
    clock, informer = VirtualTime(), FakeInformer(state=InformerState.ABSENT, last_event_age=None)
    check = SilentWatches(lambda: [informer], clock, IDLE_S)
    check()
    clock.advance(10 * LIMIT_S)
    assert check() == ""


def test_an_election_that_comes_round_is_alive_whether_it_wins_or_not() -> None:
    clock, lease = VirtualTime(), FakeLease(held=False)
    lease.last_attempt = clock.monotonic()
    check = stuck_election(lease, clock, 30)
    clock.advance(ELECTION_TIMES * 30)
    assert check() == ""
    clock.advance(1)
    assert check() == "the lease's loop has not come round for 61 s"
    lease.last_attempt = clock.monotonic()
    assert check() == ""


def test_a_pass_that_does_not_end_is_found_but_a_backlog_is_not() -> None:
    queue = FakeQueue(waiting=100_000)
    check = stuck_work(lambda: [("module", queue)])
    assert check() == ""
    queue.age = PASS_LIMIT_S + 1
    assert check() == f"a pass does not end: module ({PASS_LIMIT_S + 1:.0f} s)"


class InformerTime(VirtualTime):
    """Time as informers see it, who do not run here."""

    async def wait(self, event: asyncio.Event, timeout_s: float) -> bool:
        raise AssertionError(f"nobody waits {timeout_s} s for {event}")


def test_a_real_informer_and_a_real_queue_can_be_checked() -> None:
    time = InformerTime()
    config = ClusterConfig.plain("http://api.example.local")
    client = Client(config, user_agent="checks", field_manager="checks")
    informer = Informer(client, Scope(POD), Resource, clock=time)
    queue = WorkQueue[str](timers=time)
    alive = SilentWatches(lambda: [informer], time, IDLE_S)
    assert alive() == stuck_work(lambda: [("pods", queue)])() == ""
    assert not_synced(lambda: [informer])() == "not synced: pods (syncing)"
    time.advance(LIMIT_S + 1)
    assert "pods" in alive()


def test_ready_waits_for_every_kind_that_is_served() -> None:
    informers = [
        FakeInformer("a", InformerState.SYNCED),
        FakeInformer("b", InformerState.ABSENT),
        FakeInformer("c", InformerState.SYNCING),
        FakeInformer("d", InformerState.FAILING, reason="Forbidden: no right"),
    ]
    check = not_synced(lambda: informers)
    assert check() == "not synced: c (syncing), d (failing: Forbidden: no right)"
    informers[2].state = informers[3].state = InformerState.SYNCED
    assert check() == ""


def test_only_the_holder_of_the_lease_is_ready() -> None:
    lease = FakeLease(held=False)
    check = not_leading(lease)
    assert check() == "the lease is not held"
    lease.held = True
    assert check() == ""
