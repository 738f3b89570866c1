"""Conditions, phases and delays that come of findings (spec: palena §2.1 to §2.4)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.objects import Resource
from magicstick.palena.common.phases import OUTCOME_OF, REQUEUE_S, Outcome, Phase, Weight
from magicstick.palena.common.verdicts import (
    Summary,
    Verdict,
    absent,
    deleting,
    failed,
    fine,
    lost,
    paused,
    prerequisite,
    summarise,
    waiting,
)
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.status import merge_status
from tests.support.runtime import resource

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)
ORDER = ("PrerequisitesMet", "DatabaseReady", "GatewayReady", "Ready")
GOOD = (
    fine("PrerequisitesMet", "AllPresent", "."),
    fine("DatabaseReady", "ClusterReady", "."),
    fine("GatewayReady", "InstanceReady", "."),
)


def live(**status: Any) -> Resource:
    return resource({"metadata": {"name": "gw", "namespace": "ai", "generation": 3}, "status": status})


def of(*verdicts: Verdict, before: Resource | None = None, **fields: Any) -> Summary:
    return summarise(
        before or live(),
        ORDER,
        verdicts,
        now=NOW,
        ready_reason="AllComponentsReady",
        ready_message="ready",
        fields=fields,
    )


def after(summary: Summary, now: datetime = NOW, before: Resource | None = None) -> Resource:
    """The object with this status, as the server would hold it."""
    return live(**merge_status((before or live()).status, summary.status, now))


def conditions(found: Summary) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found.status["conditions"]}


def test_everything_true_is_running_and_looked_at_again_after_a_minute() -> None:
    found = of(*GOOD)
    assert (found.phase, REQUEUE_S[found.outcome]) == (Phase.RUNNING, 60.0)
    assert conditions(found)["Ready"] == ("True", "AllComponentsReady")
    assert found.status["readySince"] == "2026-01-01T00:00:00Z"
    assert found.status["observedGeneration"] == 3


def test_readiness_is_dated_once() -> None:
    before = after(of(*GOOD))
    again = summarise(before, ORDER, GOOD, now=LATER, ready_reason="r", ready_message="m")
    assert again.status["readySince"] == "2026-01-01T00:00:00Z"


@pytest.mark.req("PA-009")
@pytest.mark.parametrize(
    ("bad", "ever", "phase", "delay_s"),
    [
        (waiting("DatabaseReady", "ClusterCreating", "."), False, Phase.PROVISIONING, 15.0),
        (waiting("DatabaseReady", "ClusterNotReady", "."), True, Phase.DEGRADED, 15.0),
        (waiting("DatabaseReady", "Optional", ".", degrades=True), False, Phase.DEGRADED, 15.0),
        (absent("DatabaseReady", "GatewayNotFound", "."), False, Phase.PENDING, 30.0),
        (absent("DatabaseReady", "GatewayNotFound", "."), True, Phase.DEGRADED, 30.0),
        (absent("DatabaseReady", "MCPServerNotFound", ".", degrades=True), False, Phase.DEGRADED, 30.0),
        (lost("DatabaseReady", "SecretLost", "."), False, Phase.DEGRADED, 15.0),
        (failed("DatabaseReady", "ClusterFailed", "."), False, Phase.ERROR, 10.0),
        (failed("DatabaseReady", "ClusterFailed", "."), True, Phase.ERROR, 10.0),
        (prerequisite("DatabaseReady", "CRDMissing", "."), True, Phase.ERROR, 30.0),
    ],
)
def test_one_finding_decides_phase_and_delay(bad: Verdict, ever: bool, phase: Phase, delay_s: float) -> None:  # noqa: FBT001 - a parameter of the table
    before = after(of(*GOOD)) if ever else live()
    found = of(GOOD[0], bad, GOOD[2], before=before)
    assert (found.phase, REQUEUE_S[found.outcome]) == (phase, delay_s)
    assert conditions(found)["Ready"] == ("False", bad.reason)
    assert "DatabaseReady" in found.status["message"]


def test_of_several_findings_the_heaviest_decides_the_delay_and_an_error_the_phase() -> None:
    found = of(
        GOOD[0],
        waiting("DatabaseReady", "ClusterCreating", "."),
        failed("GatewayReady", "MigrationFailed", "."),
    )
    assert (found.phase, found.outcome) == (Phase.ERROR, Outcome.FAILED)
    assert conditions(found)["Ready"] == ("False", "ClusterCreating"), "the first False one in order speaks"


def test_a_step_that_was_not_reached_keeps_its_former_condition() -> None:
    before = after(of(*GOOD))
    found = of(prerequisite("PrerequisitesMet", "CRDMissing", "."), before=before)
    assert conditions(found)["DatabaseReady"] == ("True", "ClusterReady")
    assert conditions(of(GOOD[0]))["GatewayReady"] == ("Unknown", "NotReached")


def test_what_was_not_reached_and_never_known_is_not_ready() -> None:
    found = of(GOOD[0], GOOD[1])
    assert conditions(found)["Ready"] == ("False", "NotReached")
    assert found.phase is Phase.PROVISIONING


def test_readiness_may_need_more_than_the_other_conditions() -> None:
    found = of(*GOOD, waiting("Ready", "DeploymentNotReady", "0 of 1 replicas"))
    assert conditions(found)["Ready"] == ("False", "DeploymentNotReady")
    assert found.status["message"] == "0 of 1 replicas"


@pytest.mark.req("PA-104")
def test_a_transition_time_moves_with_the_status_alone() -> None:
    first = after(of(*GOOD))
    told = summarise(
        first,
        ORDER,
        (GOOD[0], fine("DatabaseReady", "Other", "news"), GOOD[2]),
        now=LATER,
        ready_reason="r",
        ready_message="m",
    )
    second = merge_status(first.status, told.status, LATER)
    times = {each["type"]: each["lastTransitionTime"] for each in second["conditions"]}
    assert times["DatabaseReady"] == "2026-01-01T00:00:00Z"
    turned = summarise(
        first,
        ORDER,
        (GOOD[0], waiting("DatabaseReady", "ClusterNotReady", "."), GOOD[2]),
        now=LATER,
        ready_reason="r",
        ready_message="m",
    )
    third = merge_status(first.status, turned.status, LATER)
    times = {each["type"]: each["lastTransitionTime"] for each in third["conditions"]}
    assert (times["DatabaseReady"], times["GatewayReady"]) == ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z")


VERDICTS = st.sampled_from(
    [
        lambda type_: fine(type_, "Good", "."),
        lambda type_: waiting(type_, "Waits", "."),
        lambda type_: waiting(type_, "Waits", ".", degrades=True),
        lambda type_: absent(type_, "Absent", "."),
        lambda type_: lost(type_, "Lost", "."),
        lambda type_: failed(type_, "Failed", "."),
        lambda type_: failed(type_, "Failed", ".", "Unknown"),
        lambda type_: prerequisite(type_, "CRDMissing", "."),
    ]
)


@pytest.mark.req("PA-104")
@given(
    st.lists(st.none() | VERDICTS, min_size=3, max_size=3),
    st.lists(st.none() | VERDICTS, min_size=3, max_size=3),
)
def test_any_findings_after_any_others_are_read_as_kstatus_reads_them(first: Any, second: Any) -> None:
    def verdicts(makers: Any) -> tuple[Verdict, ...]:
        return tuple(make(type_) for make, type_ in zip(makers, ORDER, strict=False) if make is not None)

    before = after(of(*verdicts(first)))
    found = of(*verdicts(second), before=before)
    status = merge_status(before.status, found.status, LATER)
    assert check_conditions({"metadata": {"generation": 3}, "status": status}) == []
    types = [each["type"] for each in status["conditions"]]
    assert types[: len(ORDER)] == list(ORDER)
    assert len(set(types)) == len(types)
    assert (found.phase is Phase.RUNNING) == (conditions(found)["Ready"][0] == "True")
    assert found.outcome == OUTCOME_OF[max(_weights(found, verdicts(second)), default=Weight.FINE)]


def _weights(found: Summary, verdicts: tuple[Verdict, ...]) -> list[Weight]:
    given_ = {each.type: each for each in verdicts}
    weights = [each.weight for each in verdicts if not each.holds]
    for each in found.status["conditions"]:
        if each["type"] in ORDER[:-1] and each["type"] not in given_ and each["status"] != "True":
            weights += [Weight.WAITING]
    return weights


def test_fields_of_the_kind_stand_in_the_status_and_none_of_them_is_null() -> None:
    found = of(*GOOD, endpoint="http://a", database=None)
    assert found.status["endpoint"] == "http://a"
    assert "database" not in found.status


def test_a_dying_object_keeps_what_is_known_and_says_what_it_waits_for() -> None:
    before = after(of(*GOOD, endpoint="http://a"))
    status = deleting(before, ORDER, "waits until LiteLLMInstance x is gone")
    assert (status["phase"], status["endpoint"]) == ("Deleting", "http://a")
    found = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert found["DatabaseReady"] == ("True", "ClusterReady")
    assert found["Ready"] == ("False", "Deleting")
    merged = merge_status(before.status, status, LATER)
    assert check_conditions({"metadata": {"generation": 3}, "status": merged}) == []


def test_a_pause_is_said_and_hides_nothing() -> None:
    status = paused(of(GOOD[0], waiting("DatabaseReady", "ClusterCreating", "making it"), GOOD[2]))
    assert status["message"].startswith("paused")
    assert "making it" in status["message"]


def test_conditions_of_a_poisoned_status_are_replaced() -> None:
    found = of(*GOOD, before=live(conditions="none", readySince="2025-01-01T00:00:00Z"))
    assert conditions(found)["Ready"][0] == "True"
    found = of(before=live(conditions=[{"type": "DatabaseReady", "status": "Maybe"}, {"type": 5}]))
    assert conditions(found)["DatabaseReady"] == ("Unknown", "NotReached")
