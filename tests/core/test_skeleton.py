"""One pass: what becomes of the cluster, and when the key is looked at again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from magicstick.kube.kinds import ObjectKey
from magicstick.runtime.conditions import check_conditions, summarise
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer, Patch, Plan
from magicstick.runtime.skeleton import MAX_ROUNDS, Result
from tests.support.objects import GADGET, WIDGET
from tests.support.runtime import (
    DECLARATION,
    FINALIZER,
    KEY,
    Pair,
    gadget_body,
    raising,
    resource,
    saying,
    status,
)
from tests.support.skeleton_bench import SkeletonBench

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench() -> SkeletonBench:
    return SkeletonBench()


async def test_a_pass_ends_with_what_was_wanted_and_a_status_about_it(bench: SkeletonBench) -> None:
    result = await bench.reconcile()
    assert result == Result("Ready", 20.0)
    assert bench.widget.metadata.finalizers == (FINALIZER,)
    assert bench.hands.live(GADGET, KEY) is not None
    assert bench.condition("Ready")["status"] == "True"
    assert bench.widget.status["phase"] == "Ready"


async def test_finalizer_comes_before_the_first_step_and_status_last_and_once(bench: SkeletonBench) -> None:
    await bench.reconcile()
    assert bench.history == [("add_finalizer", "Widget"), ("apply", "Gadget"), ("apply_status", "Widget")]


async def test_a_second_pass_writes_nothing(bench: SkeletonBench) -> None:
    await bench.reconcile()
    version, before = bench.widget.metadata.resource_version, list(bench.history)
    bench.clock.advance(3600)
    assert await bench.reconcile() == Result("Ready", 20.0)
    assert (bench.widget.metadata.resource_version, bench.history) == (version, before)


async def test_a_new_process_writes_nothing_either(bench: SkeletonBench) -> None:
    await bench.reconcile()
    before = list(bench.history)
    await bench.new_skeleton().reconcile(KEY)
    assert bench.history == before


async def test_transition_time_moves_only_with_the_condition_status(bench: SkeletonBench) -> None:
    await bench.reconcile()
    begun = bench.condition("Ready")["lastTransitionTime"]
    bench.clock.advance(60)
    bench.hands.edit(WIDGET, KEY, generation=2)
    await bench.reconcile()
    assert bench.condition("Ready")["observedGeneration"] == 2
    assert bench.condition("Ready")["lastTransitionTime"] == begun


async def test_decisions_are_told_the_injected_time(bench: SkeletonBench) -> None:
    await bench.reconcile()
    assert set(bench.reconciler.asked_at) == {bench.clock.now()}


async def test_a_key_whose_object_is_gone_is_forgotten(bench: SkeletonBench) -> None:
    assert await bench.reconcile(ObjectKey("default", "gone")) == Result("gone")
    assert bench.history == []


async def test_nothing_is_concluded_from_a_store_that_is_not_synced(bench: SkeletonBench) -> None:
    bench.stores.store(WIDGET).withdraw()
    assert await bench.reconcile() == Result("unsynced")
    assert bench.reconciler.passes == []


# --- dying objects -------------------------------------------------------------------------------


async def test_a_dying_object_is_cleaned_up_and_then_released() -> None:
    bench = SkeletonBench(finalizers=[FINALIZER])
    await bench.reconcile()
    bench.hands.edit(WIDGET, KEY, deletion_timestamp="2026-01-01T00:00:00Z")
    bench.history.clear()
    result = await bench.reconcile()
    assert bench.history == [("delete", "Gadget"), ("remove_finalizer", "Widget")]
    assert bench.hands.live(WIDGET, KEY) is None
    assert result == Result("Removing")


async def test_a_dying_object_gets_no_finalizer_and_foreign_ones_stay() -> None:
    bench = SkeletonBench(finalizers=["example.com/hold"], deletionTimestamp="2026-01-01T00:00:00Z")
    bench.reconciler.decide_with = lambda _: Plan("Waiting", finalizer=Finalizer.ADD)
    await bench.reconcile()
    assert bench.widget.metadata.finalizers == ("example.com/hold",)
    assert bench.history == []


async def test_our_finalizer_is_released_once_while_a_foreign_one_holds_the_object() -> None:
    bench = SkeletonBench(
        finalizers=["example.com/hold", FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z"
    )
    for _ in range(3):
        assert await bench.reconcile() == Result("Removing")
    assert bench.history == [("remove_finalizer", "Widget")]
    assert bench.widget.metadata.finalizers == ("example.com/hold",)


async def test_nothing_is_written_after_the_release_and_no_status_before_it() -> None:
    bench = SkeletonBench(finalizers=[FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z")
    bench.reconciler.decide_with = lambda _: Plan(
        "Removing", finalizer=Finalizer.REMOVE, status=status("Removing", "goes", 1)
    )
    await bench.reconcile()
    assert bench.history == [("remove_finalizer", "Widget")]


async def test_the_finalizer_waits_for_steps_that_still_write() -> None:
    bench = SkeletonBench(finalizers=[FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z")
    gadget = bench.hands.put(GADGET, resource({**gadget_body(), "metadata": {**KEY._asdict(), "uid": "g"}}))

    def decide(pair: Pair) -> Plan:
        steps = (Delete(GADGET, KEY, gadget.metadata.uid),) if pair.gadget else ()
        return Plan("Removing", steps, Finalizer.REMOVE)

    bench.reconciler.decide_with = decide
    await bench.reconcile()
    assert bench.history == [("delete", "Gadget"), ("remove_finalizer", "Widget")]


# --- steps ---------------------------------------------------------------------------------------


async def test_steps_are_carried_out_in_order_and_then_decided_anew(bench: SkeletonBench) -> None:
    names = ("b", "a", "c")
    seen: list[int] = []

    def decide(pair: Pair) -> Plan:
        seen.append(sum(bench.hands.live(GADGET, ObjectKey("default", name)) is not None for name in names))
        return Plan("Ready", tuple(Create(GADGET, gadget_body(name)) for name in names))

    bench.reconciler.decide_with = decide
    await bench.reconcile()
    assert seen == [0, 3]
    assert [gadget.metadata.name for gadget in bench.stores.store(GADGET).list()] == list(names)


async def test_fields_of_an_object_of_someone_else_are_patched_once(bench: SkeletonBench) -> None:
    gadget = bench.hands.put(GADGET, resource({**gadget_body(), "metadata": {**KEY._asdict(), "uid": "g"}}))
    step = Patch(GADGET, KEY, gadget.metadata.uid, {"data": {"k": "v"}})
    bench.reconciler.decide_with = lambda _: Plan("Ready", (step,))
    await bench.reconcile()
    assert bench.history == [("patch", "Gadget")]
    assert bench.stores.store(GADGET).list()[0].data == {"k": "v"}


async def test_a_decision_that_never_comes_to_rest_is_bounded_and_backs_off(bench: SkeletonBench) -> None:
    sizes = iter(range(1000))
    bench.reconciler.decide_with = lambda _: Plan("Ready", (Apply(GADGET, gadget_body(size=next(sizes))),))
    assert await bench.reconcile() == Result("unsettled", backoff=True)
    assert bench.history == [("apply", "Gadget")] * MAX_ROUNDS


async def test_a_step_of_an_undeclared_kind_is_refused_before_any_other_is_carried_out(
    bench: SkeletonBench,
) -> None:
    steps = (Apply(GADGET, gadget_body()), Delete(WIDGET, KEY, "uid-one"))
    bench.reconciler.decide_with = lambda _: Plan("Ready", steps)
    result = await bench.reconcile()
    assert result == Result("InternalError", backoff=True)
    assert bench.history == [("apply_status", "Widget")]
    assert bench.condition("Ready")["reason"] == "InternalError"


async def test_an_outcome_that_the_requeue_table_lacks_is_refused_before_any_step(
    bench: SkeletonBench,
) -> None:
    bench.reconciler.decide_with = lambda _: Plan("Unheard", (Apply(GADGET, gadget_body()),))
    assert (await bench.reconcile()).outcome == "InternalError"
    assert bench.hands.live(GADGET, KEY) is None


async def test_a_finalizer_that_is_not_declared_is_refused(bench: SkeletonBench) -> None:
    bench.reconciler.declaration = replace(DECLARATION, finalizer=None)
    bench.skeleton = bench.new_skeleton()
    assert (await bench.reconcile()).outcome == "InternalError"
    assert bench.widget.metadata.finalizers == ()


async def test_the_status_of_a_kind_that_is_not_ours_is_never_written(bench: SkeletonBench) -> None:
    bench.reconciler.declaration = replace(DECLARATION, owns_status=False)
    bench.skeleton = bench.new_skeleton()
    assert (await bench.reconcile()).outcome == "InternalError"
    bench.reconciler.decide_with = raising(ValueError("no"))
    await bench.reconcile()
    assert bench.widget.status == {}


async def test_an_outcome_without_a_delay_is_not_looked_at_again_by_time(bench: SkeletonBench) -> None:
    bench.reconciler.decide_with = lambda _: Plan("Waiting")
    assert await bench.reconcile() == Result("Waiting", None)


# --- events --------------------------------------------------------------------------------------


async def test_the_first_status_makes_no_event_and_a_changed_reason_one(bench: SkeletonBench) -> None:
    await bench.reconcile()
    assert bench.events.noted == []
    bench.reconciler.decide_with = saying("Waiting", "for rain")
    await bench.reconcile()
    await bench.reconcile()
    assert bench.events.noted == [(True, "Waiting", "for rain")]
    assert bench.events.about == [(WIDGET, KEY)]


def waiting(reason: str) -> Callable[[Pair], Plan]:
    """A decision that waits for this reason."""
    conditions = summarise("False", reason, "a while", 1, reconciling=True)
    return lambda _: Plan("Waiting", status={"observedGeneration": 1, "conditions": conditions})


async def test_one_wait_after_another_is_told_by_the_status_and_what_it_comes_to_by_an_event(
    bench: SkeletonBench,
) -> None:
    for reason in ("Waiting", "Installing"):
        bench.reconciler.decide_with = waiting(reason)
        await bench.reconcile()
        assert bench.condition("Ready")["reason"] == reason
    assert bench.events.noted == []
    bench.reconciler.decide_with = None
    await bench.reconcile()
    assert [(normal, reason) for normal, reason, _ in bench.events.noted] == [
        (True, bench.condition("Ready")["reason"])
    ]
    assert bench.condition("Ready")["status"] == "True"


async def test_a_changed_message_alone_is_written_but_is_no_event(bench: SkeletonBench) -> None:
    for message in ("1 of 2", "2 of 2"):
        bench.reconciler.decide_with = saying("Waiting", message)
        await bench.reconcile()
    assert bench.condition("Ready")["message"] == "2 of 2"
    assert bench.events.noted == []


async def test_what_only_a_person_can_mend_is_a_warning(bench: SkeletonBench) -> None:
    await bench.reconcile()
    bench.reconciler.decide_with = saying("Rejected", "no")
    await bench.reconcile()
    assert bench.events.noted == [(False, "Rejected", "no")]


async def test_every_status_of_a_life_keeps_the_rules_of_conditions(bench: SkeletonBench) -> None:
    def check() -> None:
        obj = {"metadata": {"generation": bench.widget.metadata.generation}, "status": bench.widget.status}
        assert check_conditions(obj) == []

    await bench.reconcile()
    check()
    for outcome in ("Waiting", "Rejected", "Ready"):
        bench.reconciler.decide_with = saying(outcome, "so it is")
        await bench.reconcile()
        check()
    bench.reconciler.decide_with = raising(ValueError("no"))
    await bench.reconcile()
    check()
