"""The queue against the simplest description of what it promises."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magicstick.runtime.queue import AGEING_S, Priority, WorkQueue
from tests.support.effort import examples
from tests.support.virtual_time import VirtualTime, seeded

T = TypeVar("T")
KEYS = st.sampled_from(["a", "b", "c", "d"])
PRIORITIES = st.sampled_from(list(Priority))
DELAYS = st.floats(0.001, 10.0)


def run_at_once(coroutine: Coroutine[object, object, T]) -> T:
    """The result of a coroutine that has nothing to wait for."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise AssertionError("the queue waits although keys are ready")


class QueueMachine(RuleBasedStateMachine):
    """The model: what is owed to each key, and since when."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualTime()
        self.queue: WorkQueue[str] = WorkQueue(timers=self.clock, rng=seeded())
        self.ready: dict[str, tuple[float, Priority]] = {}
        """Keys that are owed to a worker: since when, and the best priority asked for."""
        self.again: dict[str, Priority] = {}
        self.delayed: dict[str, tuple[float, bool, Priority]] = {}
        """Keys that are owed by a time: (no later than, by back-off, as what)."""
        self.working: set[str] = set()

    @rule(key=KEYS, priority=PRIORITIES)
    def add(self, key: str, priority: Priority) -> None:
        self.queue.add(key, priority)
        self._owe(key, priority)

    def _owe(self, key: str, priority: Priority) -> None:
        if priority is Priority.LOW and self.delayed.get(key, (0, False, priority))[1]:
            return
        self.delayed.pop(key, None)
        if key in self.working:
            self.again[key] = min(priority, self.again.get(key, priority))
            return
        since, best = self.ready.get(key, (self.clock.time(), priority))
        self.ready[key] = (since, min(best, priority))

    @rule(key=KEYS, delay_s=DELAYS, priority=PRIORITIES)
    def add_after(self, key: str, delay_s: float, priority: Priority) -> None:
        self.queue.add_after(key, delay_s, priority)
        self._owe_later(key, self.clock.time() + delay_s, priority, backoff=False)

    @rule(key=KEYS)
    def add_backoff(self, key: str) -> None:
        delay_s = self.queue.add_backoff(key)
        self._owe_later(key, self.clock.time() + delay_s, Priority.LOW, backoff=True)

    def _owe_later(self, key: str, due: float, priority: Priority, *, backoff: bool) -> None:
        known = self.delayed.get(key)
        if key in self.ready:
            return
        if known is None or (due < known[0] and not (known[1] and priority is Priority.LOW)):
            self.delayed[key] = (due, backoff, priority)

    @rule(seconds=st.floats(0.001, 5.0))
    def pass_time(self, seconds: float) -> None:
        end = self.clock.time() + seconds
        while self.delayed:
            key, (due, _, priority) = min(self.delayed.items(), key=lambda item: item[1][0])
            if due > end:
                break
            self.clock.advance(max(0.0, due - self.clock.time()))
            del self.delayed[key]
            self._owe(key, priority)
        self.clock.advance(max(0.0, end - self.clock.time()))

    @precondition(lambda self: self.ready)
    @rule()
    def get(self) -> None:
        key = run_at_once(self.queue.get())
        assert key not in self.working, "two workers have one key"
        assert key in self.ready, "a key came that nobody asked for"
        since, priority = self.ready.pop(key)
        for other, (waits_since, of) in self.ready.items():
            overtaken_by = since - waits_since
            assert overtaken_by <= of * AGEING_S + 1e-6, f"{key} overtook {other}, which waited too long"
            earlier = priority >= of and overtaken_by > 1e-6
            assert not earlier, f"{key} overtook {other} without being more urgent"
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.discard(key)
        again = self.again.pop(key, None)
        if again is not None:
            self._owe(key, again)

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        assert len(self.queue) == len(self.ready)
        assert self.queue.working == len(self.working)
        assert self.queue.delayed == len(self.delayed)

    @invariant()
    def a_timer_stands_for_the_next_delay(self) -> None:
        due = min((due for due, _, _ in self.delayed.values()), default=None)
        if due is not None:
            timer = self.clock.next_timer()
            assert timer is not None
            assert timer <= due

    def teardown(self) -> None:
        """Whatever is owed comes, once time and workers have done their part."""
        for key in sorted(self.working):
            self.queue.done(key)
        owed = {*self.ready, *self.delayed, *self.again}
        self.clock.advance(1000.0)
        came = set()
        while len(self.queue):
            key = run_at_once(self.queue.get())
            assert key not in came
            came.add(key)
        assert came == owed


QueueMachine.TestCase.settings = examples(100, steps=40)
TestQueue = QueueMachine.TestCase


def test_a_steady_flow_of_urgent_keys_does_not_starve_a_low_one() -> None:
    async def run() -> float:
        clock = VirtualTime()
        queue: WorkQueue[str] = WorkQueue(timers=clock, rng=seeded())
        queue.add("low", Priority.LOW)
        for number in range(10_000):
            queue.add(f"urgent-{number}", Priority.URGENT)
            queue.add(f"urgent-{number}-too", Priority.URGENT)
            key = await queue.get()
            queue.done(key)
            if key == "low":
                return clock.time() - 1000.0
            clock.advance(0.01)
        raise AssertionError("starved")

    # The backlog grows by one in 10 ms. Until 2 s after "low", 200 keys came in addition to it and as
    # many still wait before it: it must come within 4 s and the two turns at the edges.
    assert asyncio.run(run()) <= 4.0 + 0.02
