"""A reconciler at work: who is woken by what, and when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest

from magicstick.kube.errors import Forbidden, Unavailable
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import NODE, ObjectKey
from magicstick.kube.objects import MetadataOnly, View
from magicstick.kube.scope import Scope
from magicstick.runtime.controller import JITTER, Controller
from magicstick.runtime.plan import Plan
from magicstick.runtime.queue import Priority
from magicstick.runtime.reconciler import Declaration, Edge
from magicstick.runtime.skeleton import REFUSED_RETRY_S, Result
from tests.support.objects import GADGET, WIDGET
from tests.support.runtime import (
    DECLARATION,
    FINALIZER,
    KEY,
    FakeHands,
    FakeStores,
    Fault,
    Pair,
    PairReconciler,
    gadget_body,
    gadget_wakes_widget,
    raising,
    resource,
    saying,
    status,
    widget_body,
)
from tests.support.virtual_time import VirtualTime, seeded

pytestmark = pytest.mark.anyio
DEADLINE_S = 10.0
TWO = ObjectKey("default", "two")


class Results:
    """Reconcile metrics that a test can read."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Result]] = []

    def reconciled(self, controller: str, result: Result, took_s: float) -> None:
        assert took_s >= 0
        self.all.append((controller, result))


class Bench:
    """A controller over a cluster in miniature, in a time that stands still."""

    def __init__(
        self, declaration: Declaration = DECLARATION, state: InformerState = InformerState.SYNCED
    ) -> None:
        self.stores = FakeStores(state)
        self.clock = VirtualTime()
        self.hands = FakeHands(self.stores)
        self.results = Results()
        self.reconciler = PairReconciler(self.stores, declaration)
        self.controller: Controller[Pair] = Controller(
            self.reconciler,
            self.stores,
            self.hands,
            clock=self.clock,
            metrics=self.results,
            rng=seeded(),
            timers=self.clock,
            drain_s=0.05,
        )

    def widget(self, name: str = "one", **metadata: Any) -> None:
        """Somebody makes a widget."""
        self.hands.put(WIDGET, resource(widget_body(name, **metadata)))

    @property
    def passes(self) -> list[ObjectKey]:
        return self.reconciler.passes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.controller.run)
            await self.idle()
            yield
            group.cancel_scope.cancel()

    async def idle(self) -> None:
        """Until nothing is left that could be done now."""
        quiet = 0
        async with asyncio.timeout(DEADLINE_S):
            while quiet < 10:
                await asyncio.sleep(0)
                busy = len(self.controller.queue) or self.controller.queue.working
                quiet = 0 if busy else quiet + 1

    async def later(self, seconds: float) -> None:
        """Let time pass; whatever is due has its turn at its own time."""
        end = self.clock.time() + seconds
        while (due := self.clock.next_timer()) is not None and due <= end:
            self.clock.advance(due - self.clock.time())
            await self.idle()
        self.clock.advance(end - self.clock.time())
        await self.idle()

    async def settled(self) -> None:
        """Forget what happened until now."""
        await self.idle()
        self.passes.clear()
        self.hands.history.clear()
        self.results.all.clear()


async def turns(number: int = 20) -> None:
    """Let everything that can go on do so."""
    for _ in range(number):
        await asyncio.sleep(0)


# --- wake-ups ------------------------------------------------------------------------------------


async def test_every_object_there_is_at_the_start_is_reconciled() -> None:
    bench = Bench()
    for name in ("one", "two", "three"):
        bench.widget(name)
    async with bench.running():
        assert sorted(gadget.metadata.name for gadget in bench.stores.store(GADGET).list()) == [
            "one",
            "three",
            "two",
        ]


async def test_dying_objects_come_first_at_the_start() -> None:
    bench = Bench(replace(DECLARATION, workers=1))
    bench.widget("one")
    bench.widget("two", finalizers=["example.com/hold"], deletionTimestamp="2026-01-01T00:00:00Z")
    for _ in range(2):
        bench.passes.clear()
        async with bench.running():
            assert bench.passes[0] == TWO


async def test_a_new_object_is_reconciled_at_once() -> None:
    bench = Bench()
    async with bench.running():
        bench.widget()
        await bench.idle()
        assert bench.hands.live(GADGET, KEY) is not None


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        ({"generation": 2}, True),
        ({"labels": {"a": "b"}}, True),
        ({"annotations": {"a": "b"}}, True),
        ({"deletion_timestamp": "2026-01-01T00:00:00Z"}, True),
        ({"status": {"phase": "Odd"}}, False),
    ],
)
async def test_own_kind_wakes_by_meaning_and_not_by_status(change: dict[str, Any], *, wakes: bool) -> None:
    bench = Bench()
    bench.widget()
    async with bench.running():
        await bench.settled()
        bench.hands.edit(WIDGET, KEY, **change)
        await bench.idle()
        assert bool(bench.passes) is wakes


async def test_a_converged_cluster_is_written_to_by_nobody() -> None:
    bench = Bench()
    for name in ("one", "two"):
        bench.widget(name)
    async with bench.running():
        await bench.settled()
        await bench.later(600)
        assert len(bench.passes) >= 2 * 600 / (20 * (1 + JITTER)) - 2
        assert bench.hands.history == []


async def test_an_edge_wakes_the_keys_that_it_names_and_no_other() -> None:
    bench = Bench()
    for name in ("one", "two"):
        bench.widget(name)
    async with bench.running():
        await bench.settled()
        gadget = bench.hands.live(GADGET, TWO)
        assert gadget is not None
        bench.stores.store(GADGET).deleted(TWO, gadget.metadata.uid)
        await bench.idle()
        assert set(bench.passes) == {TWO}
        assert bench.hands.live(GADGET, TWO) is not None


async def test_a_change_that_the_edge_s_predicate_drops_wakes_nobody() -> None:
    edge = Edge(GADGET, gadget_wakes_widget, "whether it exists", lambda old, new: old is None or new is None)
    bench = Bench(replace(DECLARATION, edges=(edge,)))
    bench.widget()
    async with bench.running():
        await bench.settled()
        bench.hands.edit(GADGET, KEY, status={"beat": 1})
        await bench.idle()
        assert bench.passes == []


async def test_an_edge_that_raises_costs_only_its_own_wake_up() -> None:
    def poison(old: View | None, new: View | None) -> tuple[ObjectKey, ...]:
        raise ValueError("bad")

    bench = Bench(
        replace(
            DECLARATION, edges=(Edge(GADGET, poison, "fails"), Edge(GADGET, gadget_wakes_widget, "works"))
        )
    )
    bench.widget()
    async with bench.running():
        await bench.settled()
        bench.hands.edit(GADGET, KEY, status={"beat": 1})
        await bench.idle()
        assert bench.passes == [KEY]


async def test_others_can_wake_keys_and_everything() -> None:
    bench = Bench()
    for name in ("one", "two"):
        bench.widget(name)
    async with bench.running():
        await bench.settled()
        bench.controller.wake([TWO])
        await bench.idle()
        assert bench.passes == [TWO]
        bench.controller.wake_all()
        await bench.idle()
        assert sorted(bench.passes[1:]) == [KEY, TWO]


@pytest.mark.parametrize("state", [InformerState.FAILING, InformerState.ABSENT])
async def test_a_kind_that_comes_goes_or_fails_wakes_everything(state: InformerState) -> None:
    bench = Bench()
    bench.widget()
    async with bench.running():
        bench.reconciler.decide_with = saying("Waiting", "for gadgets")
        await bench.settled()
        bench.stores.enter(GADGET, state)
        await bench.idle()
        assert bench.passes == [KEY]
        bench.stores.enter(GADGET, InformerState.SYNCED)
        await bench.idle()
        assert bench.passes[1:]


async def test_the_state_of_a_kind_that_nobody_reads_wakes_nobody() -> None:
    bench = Bench()
    bench.stores.watch(Scope(NODE), MetadataOnly)
    bench.widget()
    async with bench.running():
        await bench.settled()
        bench.stores.enter(NODE, InformerState.FAILING)
        await bench.idle()
        assert bench.passes == []


# --- timers --------------------------------------------------------------------------------------


async def test_requeue_follows_the_table_with_jitter() -> None:
    bench = Bench()
    bench.widget()
    async with bench.running():
        await bench.settled()
        await bench.later(20 * (1 - JITTER) - 0.01)
        assert bench.passes == []
        await bench.later(20 * 2 * JITTER + 0.02)
        assert bench.passes == [KEY]


async def test_resyncs_of_many_keys_do_not_come_together() -> None:
    bench = Bench()
    for number in range(50):
        bench.widget(f"w-{number}")
    async with bench.running():
        await bench.settled()
        await bench.later(20)
        assert 5 < len(bench.passes) < 45


async def test_an_outcome_without_a_delay_waits_for_news_alone() -> None:
    bench = Bench()
    bench.reconciler.decide_with = saying("Waiting", "for rain")
    bench.widget()
    async with bench.running():
        await bench.settled()
        await bench.later(100_000)
        assert bench.passes == []
        bench.hands.edit(WIDGET, KEY, generation=2)
        await bench.idle()
        assert bench.passes == [KEY]


async def test_a_key_that_is_gone_leaves_nothing_behind() -> None:
    bench = Bench(replace(DECLARATION, coalesce_s=1.0))
    bench.widget()
    async with bench.running():
        await bench.settled()
        bench.hands.edit(WIDGET, KEY, deletion_timestamp="2026-01-01T00:00:00Z")
        await bench.later(5)
        assert bench.hands.live(WIDGET, KEY) is None
        await bench.later(60)
        assert bench.controller.queue.delayed == 0
        assert bench.controller._begun == {}


# --- failures ------------------------------------------------------------------------------------


async def test_failures_back_off_and_success_starts_over() -> None:
    bench = Bench()
    bench.hands.faults = [Fault("apply", GADGET, Unavailable("no answer"), 5)]
    bench.widget(finalizers=[FINALIZER])
    async with bench.running():
        assert bench.controller.queue.failures(KEY) == 1
        await bench.later(1.0)
        assert bench.hands.live(GADGET, KEY) is not None
        assert bench.controller.queue.failures(KEY) == 0


async def test_a_failing_key_is_not_retried_hot() -> None:
    bench = Bench()
    bench.hands.faults = [Fault("apply", GADGET, Unavailable("no answer"), None)]
    bench.widget()
    async with bench.running():
        for _ in range(600):
            await bench.later(1.0)
        assert len(bench.passes) < 40


async def test_a_refused_key_is_tried_again_slowly_and_ever_more_so() -> None:
    bench = Bench()
    bench.hands.faults = [Fault("apply", GADGET, Forbidden("no"), None)]
    bench.widget()
    async with bench.running():
        await bench.settled()
        await bench.later(REFUSED_RETRY_S - 1)
        assert bench.passes == []
        await bench.later(REFUSED_RETRY_S * 0.25 + 2)
        assert len(bench.passes) == 1


@pytest.mark.parametrize("change", [{"generation": 2}, {"deletion_timestamp": "2026-01-01T00:00:00Z"}])
async def test_a_change_cuts_through_the_backoff_and_resets_it(change: dict[str, Any]) -> None:
    bench = Bench()
    bench.reconciler.decide_with = raising(Unavailable("no answer"))
    bench.widget()
    async with bench.running():
        await bench.later(15)
        assert bench.controller.queue.failures(KEY) > 10
        bench.hands.edit(WIDGET, KEY, **change)
        await bench.idle()
        assert bench.controller.queue.failures(KEY) == 1


async def test_a_ready_dependency_cuts_through_the_backoff() -> None:
    bench = Bench()
    bench.reconciler.decide_with = raising(Unavailable("the dependency does not answer"))
    bench.widget()
    async with bench.running():
        await bench.later(15)
        await bench.settled()
        bench.reconciler.decide_with = saying("Ready", "all is well")
        bench.hands.put(GADGET, resource(gadget_body()))
        await bench.idle()
        assert [result.outcome for _, result in bench.results.all] == ["Ready"]


async def test_one_poison_object_does_not_delay_its_neighbours() -> None:
    bench = Bench(replace(DECLARATION, workers=1))

    def decide(pair: Pair) -> Plan:
        name = pair.widget.metadata.name
        return (raising(ValueError("bad")) if name == "poison" else saying("Ready", "well"))(pair)

    bench.reconciler.decide_with = decide
    for name in ("poison", "one", "two"):
        bench.widget(name)
    async with bench.running():
        phases = {
            widget.metadata.name: widget.status.get("phase") for widget in bench.stores.store(WIDGET).list()
        }
        assert phases == {"poison": None, "one": "Ready", "two": "Ready"}


# --- coalescing ----------------------------------------------------------------------------------


async def test_a_burst_makes_one_pass_at_once_and_one_more_after_the_interval() -> None:
    bench = Bench(replace(DECLARATION, coalesce_s=1.0))
    bench.reconciler.decide_with = saying("Ready", "all is well")
    bench.widget()
    async with bench.running():
        await bench.later(5)
        await bench.settled()
        for generation in range(2, 12):
            bench.hands.edit(WIDGET, KEY, generation=generation)
            await bench.later(0.05)
        assert len(bench.passes) == 1
        await bench.later(1.0)
        assert len(bench.passes) == 2
        assert bench.hands.live(WIDGET, KEY).status["observedGeneration"] == 11  # type: ignore[union-attr] # it is there


async def test_a_steady_flow_makes_one_pass_per_interval() -> None:
    bench = Bench(replace(DECLARATION, coalesce_s=1.0))
    bench.reconciler.decide_with = saying("Ready", "all is well")
    bench.widget()
    async with bench.running():
        await bench.later(5)
        await bench.settled()
        for generation in range(2, 102):
            bench.hands.edit(WIDGET, KEY, generation=generation)
            await bench.later(0.1)
        assert 9 <= len(bench.passes) <= 11


# --- starting and ending -------------------------------------------------------------------------


@pytest.mark.parametrize("state", [InformerState.SYNCED, InformerState.ABSENT, InformerState.FAILING])
async def test_no_pass_before_every_kind_is_there_or_known_not_to_be(state: InformerState) -> None:
    bench = Bench(state=InformerState.SYNCING)
    bench.reconciler.decide_with = saying("Ready", "all is well")
    async with bench.running():
        bench.stores.enter(WIDGET, InformerState.SYNCED, resource(widget_body()))
        await turns()
        assert bench.passes == []
        bench.stores.enter(GADGET, state)
        await bench.idle()
        assert set(bench.passes) == {KEY}


async def test_a_cancelled_controller_ends_at_once_when_it_is_idle() -> None:
    bench = Bench()
    async with anyio.create_task_group() as group:
        group.start_soon(bench.controller.run)
        await bench.idle()
        begun = anyio.current_time()
        group.cancel_scope.cancel()
    assert anyio.current_time() - begun < 1
    assert bench.controller.queue.closed


async def test_a_write_under_way_is_finished_and_no_other_begun() -> None:
    bench = Bench()
    bench.widget()
    bench.hands.gate.clear()
    async with anyio.create_task_group() as group:
        group.start_soon(bench.controller.run)
        await bench.hands.begun.wait()
        group.cancel_scope.cancel()
        asyncio.get_running_loop().call_soon(bench.hands.gate.set)
    assert bench.hands.history == [("add_finalizer", "Widget")]


async def test_a_write_that_does_not_end_is_cut_off_after_the_bound() -> None:
    bench = Bench()
    bench.widget()
    bench.hands.gate.clear()
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.controller.run)
            await bench.hands.begun.wait()
            begun = anyio.current_time()
            group.cancel_scope.cancel()
        assert anyio.current_time() - begun >= 0.05
    assert bench.hands.history == []


async def test_a_controller_can_run_again_and_looks_at_everything_first() -> None:
    bench = Bench()
    bench.widget()
    async with bench.running():
        await bench.settled()
    bench.widget("two")
    async with bench.running():
        assert set(bench.passes) == {KEY, TWO}
        assert bench.hands.live(GADGET, TWO) is not None


async def test_many_passes_leave_turns_to_the_rest_of_the_process() -> None:
    bench = Bench(replace(DECLARATION, workers=2))
    bench.reconciler.decide_with = saying("Waiting", "for rain")
    for number in range(500):
        bench.widget(f"w-{number}")
    others = 0
    async with anyio.create_task_group() as group:
        group.start_soon(bench.controller.run)
        while len(bench.passes) < 500:
            await asyncio.sleep(0)
            others += 1
        group.cancel_scope.cancel()
    assert others > 100


async def test_no_key_is_ever_with_two_workers() -> None:
    bench = Bench(replace(DECLARATION, workers=8))
    at_work: set[ObjectKey] = set()
    usual_observe = bench.reconciler.observe

    async def observe(key: ObjectKey) -> Pair | None:
        assert key not in at_work
        at_work.add(key)
        await asyncio.sleep(0)
        at_work.discard(key)
        return await usual_observe(key)

    bench.reconciler.observe = observe  # type: ignore[method-assign] # watches the workers
    for name in ("one", "two", "three"):
        bench.widget(name)
    async with bench.running():
        for _ in range(50):
            bench.controller.wake_all(Priority.URGENT)
            await asyncio.sleep(0)
        await bench.idle()
        assert {result.outcome for _, result in bench.results.all} == {"Ready"}


async def test_every_pass_is_measured_under_the_controller_s_name() -> None:
    bench = Bench()
    bench.reconciler.decide_with = lambda _: Plan("Ready", status=status("Ready", "well", 1))
    bench.widget()
    async with bench.running():
        assert bench.results.all == [("widget", Result("Ready", 20.0))]
