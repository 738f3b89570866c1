"""The frame of every decision: the same steps in the same order, for every kind (spec: palena §2)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE, PALENA_GATEWAY, PALENA_MODEL
from magicstick.api.palena.model import PalenaModelSpec
from magicstick.api.parse import parse
from magicstick.kube.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NameConflict,
    NamespaceTerminating,
    Unavailable,
)
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common import labels
from magicstick.palena.common.declaring import declare, narrowed
from magicstick.palena.common.frame import Findings, KindFrame, Subject, decide, decide_failure
from magicstick.palena.common.phases import FAILING, REQUEUE_S, Outcome
from magicstick.palena.common.prerequisites import Prerequisites
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.common.teardown import TEARDOWN_STUCK, Stage, Target
from magicstick.palena.common.verdicts import Verdict, failed, fine, waiting
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.plan import Apply, Delete, Finalizer, Notice, Plan
from magicstick.runtime.reconciler import Edge
from magicstick.runtime.status import merge_status
from tests.support.runtime import resource

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
FRAME = KindFrame(
    PALENA_MODEL,
    ("PrerequisitesMet", "Synced", "Ready"),
    "ModelReady",
    "ready",
    blames=lambda kind, _key: "Synced" if kind == LITELLM_INSTANCE else "Ready",
)
GOOD = {"gatewayRefs": [{"name": "gw"}], "provider": {"model": "m"}}
STEP = Apply(LITELLM_INSTANCE, {"metadata": {"name": "x"}})
SYNCED = fine("Synced", "AllGatewaysSynced", ".")


def an_object(spec: Any = None, *, finalizer: bool = True, status: Any = None, **metadata: Any) -> Resource:
    body = {"name": "m", "namespace": "ai", "uid": "u", "generation": 2, **metadata}
    if finalizer:
        body["finalizers"] = [labels.FINALIZER]
    return resource({"metadata": body, "spec": GOOD if spec is None else spec, "status": status or {}})


def subject(live: Resource, **more: Any) -> Subject[PalenaModelSpec]:
    return Subject(live, parse(PalenaModelSpec, live), **more)


def never(*_: object) -> Any:
    raise AssertionError("this must not be asked")


def found(*verdicts: Verdict, **more: Any) -> Callable[[PalenaModelSpec], Findings]:
    return lambda _spec: Findings(verdicts, steps=(STEP,), **more)


def decided(
    about: Subject[PalenaModelSpec],
    findings: Callable[[Any], Findings] = never,
    stages: Any = never,
    now: datetime = NOW,
) -> Plan:
    plan = decide(about, FRAME, findings=findings, stages=stages, now=now)
    assert plan.outcome in REQUEUE_S
    if plan.status is not None:
        status = merge_status(about.live.status, plan.status, now)
        assert check_conditions({"metadata": {"generation": 2}, "status": status}) == []
    return plan


def reasons(plan: Plan) -> dict[str, str]:
    assert plan.status is not None
    return {each["type"]: each["reason"] for each in plan.status["conditions"]}


@pytest.mark.req("PA-004")
def test_a_live_object_gets_its_finalizer_with_its_first_plan_and_once() -> None:
    first = decided(subject(an_object(finalizer=False)), found(SYNCED))
    assert (first.finalizer, first.steps) == (Finalizer.ADD, (STEP,))
    assert decided(subject(an_object()), found(SYNCED)).finalizer is Finalizer.KEEP


@pytest.mark.req("PA-005")
def test_a_dying_object_without_our_finalizer_is_left_entirely_alone() -> None:
    plan = decided(subject(an_object(finalizer=False, deletionTimestamp="2026-01-01T11:59:00Z")))
    assert (plan.outcome, plan.steps, plan.status, plan.finalizer) == (
        Outcome.IGNORED,
        (),
        None,
        Finalizer.KEEP,
    )


def dying(minutes: float = 1) -> Resource:
    at = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return an_object(deletionTimestamp=at)


def child(name: str, **metadata: Any) -> Target:
    body = {"name": name, "namespace": "ai", "uid": f"uid-{name}", **metadata}
    return Target(LITELLM_INSTANCE, resource({"metadata": body}))


@pytest.mark.req("PA-005")
def test_a_dying_object_is_taken_down_stage_by_stage_and_never_built() -> None:
    stages = (Stage("first", (child("a"), child("b"))), Stage("second", (child("c"),)))
    plan = decided(subject(dying()), stages=lambda: stages)
    assert plan.steps == tuple(
        Delete(LITELLM_INSTANCE, ObjectKey("ai", name), f"uid-{name}") for name in ("a", "b")
    )
    assert plan.finalizer is Finalizer.KEEP
    assert plan.status is not None
    assert plan.status["phase"] == "Deleting"
    assert "first" in plan.status["message"]


def test_a_stage_that_is_going_is_waited_for_and_not_asked_again() -> None:
    going = child("a", deletionTimestamp="2026-01-01T11:59:00Z")
    plan = decided(
        subject(dying()), stages=lambda: (Stage("first", (going,)), Stage("second", (child("c"),)))
    )
    assert (plan.outcome, plan.steps) == (Outcome.DELETING, ())


def test_fields_are_given_back_before_their_stage_is_deleted() -> None:
    plan = decided(subject(dying()), stages=lambda: (Stage("block", (child("a"),), steps=(STEP,)),))
    assert plan.steps == (STEP,)


def test_the_finalizer_goes_once_every_stage_is_done() -> None:
    plan = decided(subject(dying()), stages=lambda: (Stage("first"), Stage("second")))
    assert (plan.outcome, plan.finalizer, plan.steps) == (Outcome.RELEASED, Finalizer.REMOVE, ())


def test_what_cannot_be_read_is_not_gone() -> None:
    plan = decided(subject(dying()), stages=lambda: (Stage("first", unknown="forbidden"),))
    assert (plan.outcome, plan.finalizer, plan.steps) == (Outcome.DELETING, Finalizer.KEEP, ())
    blind = decided(subject(dying(), blind="secrets cannot be read"), stages=never)
    assert (blind.outcome, blind.finalizer) == (Outcome.DELETING, Finalizer.KEEP)


@pytest.mark.parametrize(("minutes", "told"), [(9, False), (11, True)])
def test_a_deletion_that_takes_too_long_is_told(minutes: float, *, told: bool) -> None:
    plan = decided(subject(dying(minutes)), stages=lambda: (Stage("first", (child("a"),)),))
    assert [each.reason for each in plan.notices] == ([TEARDOWN_STUCK] if told else [])


@pytest.mark.req("PA-006")
def test_nothing_is_made_while_a_prerequisite_is_missing_and_what_is_known_stays() -> None:
    known = {
        "gatewaysSummary": "1/1",
        "conditions": [
            {
                "type": "Synced",
                "status": "True",
                "reason": "AllGatewaysSynced",
                "message": ".",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }
    about = subject(an_object(status=known), prerequisites=Prerequisites((CNPG_CLUSTER,)))
    plan = decided(about)
    assert (plan.steps, plan.outcome) == ((), Outcome.MISSING)
    assert reasons(plan)["PrerequisitesMet"] == "CRDMissing"
    assert reasons(plan)["Synced"] == "AllGatewaysSynced"
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["gatewaysSummary"]) == ("Error", "1/1")


def test_discovery_that_fails_is_an_error_that_is_tried_again_ever_later() -> None:
    plan = decided(subject(an_object(), prerequisites=Prerequisites(unknown=True)))
    assert plan.outcome in FAILING
    assert reasons(plan)["PrerequisitesMet"] == "DiscoveryFailed"


def test_a_spec_that_cannot_be_read_names_its_field_and_changes_nothing() -> None:
    plan = decided(subject(an_object({"gatewayRefs": []})))
    assert plan.steps == ()
    assert reasons(plan)["Ready"] == "InvalidSpec"
    assert plan.status is not None
    assert "spec.gatewayRefs" in plan.status["message"]


def test_nothing_is_concluded_while_something_cannot_be_read() -> None:
    plan = decided(subject(an_object(), blind="secrets cannot be read now"))
    assert (plan.steps, plan.outcome) == ((), Outcome.FAILED)
    assert reasons(plan)["Ready"] == "ReadFailed"


def test_a_paused_object_is_looked_at_and_not_touched() -> None:
    about = subject(an_object(finalizer=False, annotations={labels.PAUSED: "true"}))
    plan = decided(about, found(waiting("Synced", "Syncing", "1 of 2")))
    assert (plan.steps, plan.finalizer, plan.outcome) == ((), Finalizer.KEEP, Outcome.PAUSED)
    assert plan.status is not None
    assert plan.status["message"].startswith("paused")
    going = subject(an_object(annotations={labels.PAUSED: "true"}, deletionTimestamp="2026-01-01T11:59:00Z"))
    assert decided(going, stages=lambda: (Stage("x", (child("a"),)),)).steps, "a pause holds no teardown up"


@pytest.mark.req("PA-007")
@pytest.mark.req("PA-008")
def test_steps_stay_in_their_order_and_the_status_is_one_of_all_findings() -> None:
    notice = Notice("ImmutableFieldIgnored", "the size stays")
    plan = decided(subject(an_object()), found(SYNCED, fields={"gatewaysSummary": "1/1"}, notices=(notice,)))
    assert (plan.steps, plan.notices, plan.independent) == ((STEP,), (notice,), False)
    assert plan.status is not None
    assert (plan.status["phase"], plan.status["gatewaysSummary"]) == ("Running", "1/1")
    assert list(reasons(plan)) == ["PrerequisitesMet", "Synced", "Ready"]


@pytest.mark.req("PA-009")
@pytest.mark.parametrize(
    ("verdict", "seconds"),
    [(SYNCED, 60.0), (waiting("Synced", "Syncing", "."), 15.0), (failed("Synced", "SyncFailed", "."), 10.0)],
)
def test_the_next_look_follows_from_what_was_found(verdict: Verdict, seconds: float) -> None:
    assert REQUEUE_S[decided(subject(an_object()), found(verdict)).outcome] == seconds


@pytest.mark.parametrize(
    ("error", "reason", "phase"),
    [
        (Invalid("spec.size: no"), "ApplyRejected", "Error"),
        (Forbidden("not you"), "ApplyRejected", "Error"),
        (NameConflict("x exists"), "NameConflict", "Error"),
        (Unavailable("no answer"), "ApiUnavailable", "Error"),
        (NamespaceTerminating("being terminated"), "NamespaceTerminating", "Provisioning"),
    ],
)
def test_a_refused_write_is_told_on_the_condition_that_it_is_about(
    error: ApiError, reason: str, phase: str
) -> None:
    error.about = (LITELLM_INSTANCE, ObjectKey("ai", "x"))
    plan = decide_failure(subject(an_object()), FRAME, error, NOW)
    assert plan.steps == ()
    assert (reasons(plan)["Synced"], plan.status["phase"]) == (reason, phase)  # type: ignore[index] # reasons saw to it
    assert error.message in plan.status["message"]  # type: ignore[index] # as above


def test_a_failure_that_is_about_no_step_is_told_on_the_whole() -> None:
    assert (
        reasons(decide_failure(subject(an_object()), FRAME, Invalid("no"), NOW))["Ready"] == "ApplyRejected"
    )


def test_a_teardown_that_is_refused_stays_a_teardown() -> None:
    plan = decide_failure(subject(dying()), FRAME, Forbidden("not you"), NOW)
    assert plan.status is not None
    assert plan.status["phase"] == "Deleting"
    assert "not you" in plan.status["message"]


def test_a_controller_of_one_namespace_is_woken_for_its_own_objects_alone() -> None:
    own, other = ObjectKey("a", "x"), ObjectKey("b", "x")
    edge: Edge[Any] = Edge(SECRET, lambda _old, _new: (own, other), "why")
    wide = declare("palena-gateway", PALENA_GATEWAY, edges=(edge,), writes=(SECRET,))
    narrow = narrowed(wide, "a", ("a", "b"))
    assert [each.namespace for each in narrow.edges] == ["a", "b"]
    for each in narrow.edges:
        assert list(each.wakes(None, None)) == [own]
