"""A pass that fails: what is tried again and when, what the object says, what the log says."""

from dataclasses import replace

import msgspec
import pytest
from structlog.testing import capture_logs

from magicstick.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    FenceClosed,
    Forbidden,
    Invalid,
    KindNotServed,
    NameConflict,
    NamespaceTerminating,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from magicstick.kube.kinds import ObjectKey
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.plan import Apply, Plan
from magicstick.runtime.skeleton import CONFLICT_RETRIES, REFUSED_RETRY_S, Result
from tests.support.objects import GADGET, WIDGET
from tests.support.runtime import (
    DECLARATION,
    FINALIZER,
    KEY,
    Fault,
    gadget_body,
    raising,
    resource,
    saying,
    usual,
    widget_body,
)
from tests.support.skeleton_bench import SkeletonBench

pytestmark = pytest.mark.anyio

PASSING: list[ApiError] = [
    Unavailable("no answer"),
    TooManyRequests("slow down"),
    Unauthorized("who are you"),
    KindNotServed("no such kind"),
]


@pytest.fixture
def bench() -> SkeletonBench:
    return SkeletonBench()


@pytest.fixture
async def settled(bench: SkeletonBench) -> SkeletonBench:
    """A widget that is ready, until its gadget went."""
    await bench.reconcile()
    bench.hands.history.clear()
    gadget = bench.hands.live(GADGET, KEY)
    assert gadget is not None
    bench.stores.store(GADGET).deleted(KEY, gadget.metadata.uid)
    return bench


# --- conflicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Conflict("changed"), AlreadyExists("appeared"), NotFound("went")])
@pytest.mark.parametrize(
    ("verb", "kind"),
    [("add_finalizer", WIDGET), ("apply", GADGET), ("apply_status", WIDGET)],
)
async def test_a_conflict_anywhere_is_read_again_and_retried_at_once(
    bench: SkeletonBench, error: ApiError, verb: str, kind: object
) -> None:
    bench.hands.faults = [Fault(verb, GADGET if kind is GADGET else WIDGET, error, CONFLICT_RETRIES)]
    with capture_logs() as logs:
        assert await bench.reconcile() == Result("Ready", 20.0)
    assert bench.hands.refreshed.count((WIDGET, KEY)) == CONFLICT_RETRIES
    assert bench.hands.refreshed.count((GADGET, KEY)) == (CONFLICT_RETRIES if verb == "apply" else 0)
    assert [line for line in logs if line["log_level"] == "warning"] == []


async def test_a_conflict_at_the_release_of_the_finalizer_is_retried_at_once() -> None:
    bench = SkeletonBench(finalizers=[FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z")
    bench.hands.faults = [Fault("remove_finalizer", WIDGET, Conflict("changed"))]
    assert await bench.reconcile() == Result("Removing")
    assert bench.hands.live(WIDGET, KEY) is None


async def test_conflicts_without_end_back_off_silently(bench: SkeletonBench) -> None:
    fault = Fault("apply", GADGET, Conflict("changed"), 100)
    bench.hands.faults = [fault]
    with capture_logs() as logs:
        assert await bench.reconcile() == Result("Conflict", backoff=True, brief=True)
    assert fault.times == 100 - CONFLICT_RETRIES - 1
    assert {line["log_level"] for line in logs} == {"debug"}
    assert bench.widget.status == {}


# --- what passes by itself -----------------------------------------------------------------------


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
async def test_a_passing_fault_backs_off_and_leaves_the_status_alone(
    settled: SkeletonBench, error: ApiError
) -> None:
    before = settled.widget.status
    settled.hands.faults = [Fault("apply", GADGET, error)]
    result = await settled.reconcile()
    assert (result.outcome, result.backoff) == (type(error).__name__, True)
    assert settled.widget.status == before
    assert settled.history == []


async def test_after_a_passing_fault_the_next_pass_completes(settled: SkeletonBench) -> None:
    settled.hands.faults = [Fault("apply", GADGET, Unavailable("no answer"))]
    await settled.reconcile()
    assert await settled.reconcile() == Result("Ready", 20.0)
    assert settled.hands.live(GADGET, KEY) is not None


async def test_an_object_that_never_had_a_status_says_what_failed(bench: SkeletonBench) -> None:
    bench.hands.faults = [Fault("apply", GADGET, Unavailable("no answer"))]
    assert await bench.reconcile() == Result("Unavailable", backoff=True)
    assert bench.condition("Ready")["reason"] == "Unavailable"


@pytest.fixture
async def telling(settled: SkeletonBench) -> SkeletonBench:
    """The same widget, whose reconciler tells of every failure."""
    settled.reconciler.declaration = replace(DECLARATION, tells_failures=True)
    settled.skeleton = settled.new_skeleton()
    return settled


@pytest.mark.parametrize("error", PASSING)
async def test_where_it_is_asked_for_a_passing_fault_is_told_and_tried_again(
    telling: SkeletonBench, error: ApiError
) -> None:
    telling.hands.faults = [Fault("apply", GADGET, error, None)]
    result = await telling.reconcile()
    assert (result.outcome, result.backoff, result.refused) == (type(error).__name__, True, False)
    assert telling.condition("Ready")["reason"] == type(error).__name__
    telling.hands.faults = []
    assert await telling.reconcile() == Result("Ready", 20.0)
    assert telling.condition("Ready")["status"] == "True"


async def test_where_it_is_asked_for_a_conflict_that_stays_is_told(telling: SkeletonBench) -> None:
    telling.hands.faults = [Fault("apply", GADGET, Conflict("changed"), None)]
    result = await telling.reconcile()
    assert (result.outcome, result.backoff) == ("Conflict", True)
    assert telling.condition("Ready")["reason"] == "Conflict"


async def test_a_closed_fence_is_told_to_nobody(telling: SkeletonBench) -> None:
    before = telling.widget.status
    telling.hands.faults = [Fault("apply", GADGET, FenceClosed("not leading"))]
    assert await telling.reconcile() == Result("FenceClosed", backoff=True)
    assert telling.widget.status == before


async def test_the_server_s_wish_for_a_pause_is_the_shortest_delay(bench: SkeletonBench) -> None:
    bench.hands.faults = [Fault("apply", GADGET, TooManyRequests("slow down", retry_after_s=7))]
    assert await bench.reconcile() == Result("TooManyRequests", 7, backoff=True)


async def test_a_closed_fence_backs_off_and_writes_nothing_else(bench: SkeletonBench) -> None:
    bench.hands.faults = [Fault("apply", GADGET, FenceClosed("not leading"))]
    with capture_logs() as logs:
        assert await bench.reconcile() == Result("FenceClosed", backoff=True)
    assert bench.widget.status == {}
    assert {line["log_level"] for line in logs} == {"debug"}


async def test_a_failed_status_write_does_not_lose_the_key(bench: SkeletonBench) -> None:
    bench.hands.faults = [Fault("apply_status", WIDGET, Unavailable("no answer"))]
    assert (await bench.reconcile()).backoff
    await bench.reconcile()
    assert bench.widget.status["phase"] == "Ready"


async def test_an_observation_that_fails_with_a_request_backs_off(settled: SkeletonBench) -> None:
    before = settled.widget.status
    settled.reconciler.decide_with = raising(Unavailable("the runtime does not answer"))
    assert await settled.reconcile() == Result("Unavailable", backoff=True)
    assert settled.widget.status == before


# --- what the server refuses ---------------------------------------------------------------------


@pytest.mark.parametrize("error", [Invalid("bad"), Forbidden("no"), NameConflict("not ours")])
async def test_a_refused_step_is_reported_and_tried_again_slowly(
    settled: SkeletonBench, error: ApiError
) -> None:
    settled.hands.faults = [Fault("apply", GADGET, error)]
    result = await settled.reconcile()
    assert result == Result(type(error).__name__, REFUSED_RETRY_S, backoff=True, refused=True)
    assert settled.condition("Ready") == {
        **settled.condition("Ready"),
        "status": "False",
        "reason": type(error).__name__,
        "message": error.message,
    }


async def test_the_requeue_table_says_how_slowly(settled: SkeletonBench) -> None:
    table = {**DECLARATION.requeue_s, "Forbidden": 45.0}
    settled.reconciler.declaration = replace(DECLARATION, requeue_s=table)
    settled.skeleton = settled.new_skeleton()
    settled.hands.faults = [Fault("apply", GADGET, Forbidden("no"))]
    assert await settled.reconcile() == Result("Forbidden", 45.0, backoff=True, refused=True)


async def test_a_terminating_namespace_is_waited_for_without_growing_delays(settled: SkeletonBench) -> None:
    settled.hands.faults = [Fault("apply", GADGET, NamespaceTerminating("it goes"))]
    assert await settled.reconcile() == Result("NamespaceTerminating", 20.0)
    assert settled.condition("Ready")["reason"] == "NamespaceTerminating"


async def test_a_refused_status_backs_off_slowly_and_is_logged_once(bench: SkeletonBench) -> None:
    bench.hands.faults = [Fault("apply_status", WIDGET, Invalid("status.phase: bad"), None)]
    with capture_logs() as logs:
        for _ in range(3):
            assert await bench.reconcile() == Result("Invalid", REFUSED_RETRY_S, backoff=True, refused=True)
    assert len([line for line in logs if line["log_level"] == "warning"]) == 1
    assert bench.hands.live(GADGET, KEY) is not None


async def test_a_status_that_is_always_refused_does_not_keep_a_dying_object() -> None:
    bench = SkeletonBench(finalizers=[FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z")
    bench.hands.faults = [Fault("apply_status", WIDGET, Invalid("bad"), None)]
    await bench.reconcile()
    assert bench.hands.live(WIDGET, KEY) is None


async def test_steps_after_a_refused_one_are_not_carried_out(bench: SkeletonBench) -> None:
    steps = tuple(Apply(GADGET, gadget_body(name)) for name in ("a", "b"))
    bench.reconciler.decide_with = lambda _: Plan("Ready", steps)
    bench.hands.faults = [Fault("apply", GADGET, Forbidden("no"))]
    await bench.reconcile()
    assert len(bench.stores.store(GADGET)) == 0


# --- faults of the operator ----------------------------------------------------------------------


async def test_a_poison_object_says_so_and_keeps_what_it_said_before(settled: SkeletonBench) -> None:
    settled.hands.edit(WIDGET, KEY, generation=2)
    settled.reconciler.decide_with = raising(KeyError("hunter2"))
    assert await settled.reconcile() == Result("InternalError", backoff=True)
    assert settled.condition("Stalled")["reason"] == "InternalError"
    assert settled.condition("Ready")["status"] == "False"
    assert "KeyError" in settled.condition("Ready")["message"]
    assert settled.widget.status["phase"] == "Ready"
    assert settled.widget.status["observedGeneration"] == 2
    obj = {"metadata": {"generation": 2}, "status": settled.widget.status}
    assert check_conditions(obj) == []


async def test_no_text_of_an_unexpected_exception_reaches_the_object(settled: SkeletonBench) -> None:
    settled.reconciler.decide_with = raising(ValueError("password=hunter2"))
    await settled.reconcile()
    assert "hunter2" not in str(settled.widget.status)
    assert "hunter2" not in str(settled.events.noted)


async def test_one_fault_is_logged_once_for_each_generation(settled: SkeletonBench) -> None:
    settled.reconciler.decide_with = raising(ValueError("bad"))
    with capture_logs() as logs:
        for generation in (1, 1, 1, 2, 2):
            settled.hands.edit(WIDGET, KEY, generation=generation)
            await settled.reconcile()
    errors = [line for line in logs if line["log_level"] == "error"]
    assert len(errors) == 2
    assert all(isinstance(line["exc_info"], ValueError) for line in errors)


async def test_another_fault_of_the_same_generation_is_logged_as_well(settled: SkeletonBench) -> None:
    with capture_logs() as logs:
        for error in (ValueError("bad"), TypeError("worse"), TypeError("worse")):
            settled.reconciler.decide_with = raising(error)
            await settled.reconcile()
    assert [type(line["exc_info"]) for line in logs if line["log_level"] == "error"] == [
        ValueError,
        TypeError,
    ]


async def test_a_fault_that_healed_is_news_when_it_returns(settled: SkeletonBench) -> None:
    with capture_logs() as logs:
        for decide in (raising(ValueError("bad")), usual, raising(ValueError("bad"))):
            settled.reconciler.decide_with = decide
            await settled.reconcile()
    assert len([line for line in logs if line["log_level"] == "error"]) == 2


async def test_a_healed_object_is_no_longer_stalled(settled: SkeletonBench) -> None:
    settled.reconciler.decide_with = raising(ValueError("bad"))
    await settled.reconcile()
    settled.reconciler.decide_with = None
    assert await settled.reconcile() == Result("Ready", 20.0)
    assert settled.condition("Stalled") == {}
    assert settled.condition("Ready")["status"] == "True"


async def test_a_neighbour_of_a_poison_object_never_notices(bench: SkeletonBench) -> None:
    bench.hands.put(WIDGET, resource(widget_body("two")))
    bench.reconciler.decide_with = lambda pair: (
        usual(pair) if pair.widget.metadata.name == "two" else raising(ValueError("bad"))(pair)
    )
    await bench.reconcile()
    assert await bench.reconcile(ObjectKey("default", "two")) == Result("Ready", 20.0)


async def test_a_fault_while_the_status_cannot_be_written_still_backs_off(settled: SkeletonBench) -> None:
    settled.reconciler.decide_with = raising(ValueError("bad"))
    settled.hands.faults = [Fault("apply_status", WIDGET, Unavailable("no answer"), None)]
    assert await settled.reconcile() == Result("InternalError", backoff=True)


async def test_a_change_of_phase_or_reason_is_one_line_with_the_plan_s_fields(bench: SkeletonBench) -> None:
    with capture_logs() as logs:
        await bench.reconcile()
        await bench.reconcile()
        bench.reconciler.decide_with = lambda pair: replace(
            saying("Waiting", "for rain")(pair), log={"for": 3}
        )
        await bench.reconcile()
    lines = [line for line in logs if line["log_level"] == "info"]
    assert [(line["event"], line["key"], line["reason"]) for line in lines] == [
        ("state changed", "default/one", "Ready"),
        ("state changed", "default/one", "Waiting"),
    ]
    assert lines[1]["for"] == 3


@pytest.mark.parametrize(
    "conditions",
    [None, "x", 5, {"type": "Ready"}, [None], [1], [{"type": ["Ready"]}], [{"type": "Ready", "status": {}}]],
    ids=str,
)
async def test_conditions_that_no_schema_allows_are_replaced(
    bench: SkeletonBench, conditions: object
) -> None:
    bench.hands.put(WIDGET, msgspec.structs.replace(bench.widget, status={"conditions": conditions}))
    assert not (await bench.reconcile()).backoff
    assert bench.condition("Ready")["status"] == "True"


async def test_a_fault_that_cannot_be_told_on_the_object_ends_no_worker(bench: SkeletonBench) -> None:
    async def refuse(_kind: object, _live: object, _status: object) -> bool:
        raise RuntimeError("not even that")

    bench.reconciler.decide_with = raising(ValueError("a fault"))
    bench.hands.apply_status = refuse  # type: ignore[method-assign, assignment] # a fault in what tells of faults
    with capture_logs() as logs:
        assert await bench.reconcile() == Result("InternalError", backoff=True)
    assert [entry["event"] for entry in logs] == [
        "reconcile failed",
        "the fault cannot be told on the object",
    ]


def two_gadgets(*, independent: bool) -> Plan:
    steps = (Apply(GADGET, gadget_body("one")), Apply(GADGET, gadget_body("two")))
    return Plan("Waiting", steps, independent=independent)


async def test_independent_steps_are_all_tried_and_the_failure_still_counts(bench: SkeletonBench) -> None:
    bench.reconciler.decide_with = lambda _: two_gadgets(independent=True)
    bench.hands.faults.append(Fault("apply", GADGET, Invalid("the first is refused")))
    result = await bench.reconcile()
    assert result.refused
    assert bench.hands.live(GADGET, ObjectKey("default", "one")) is None
    assert bench.hands.live(GADGET, ObjectKey("default", "two")) is not None


async def test_other_steps_end_with_the_first_failure(bench: SkeletonBench) -> None:
    bench.reconciler.decide_with = lambda _: two_gadgets(independent=False)
    bench.hands.faults.append(Fault("apply", GADGET, Invalid("the first is refused")))
    assert (await bench.reconcile()).refused
    assert bench.hands.live(GADGET, ObjectKey("default", "two")) is None
