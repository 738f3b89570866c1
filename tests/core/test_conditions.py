from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.runtime.conditions import (
    MESSAGE_LIMIT,
    READY,
    RECONCILING,
    STALLED,
    Condition,
    check_conditions,
    condition,
    find,
    is_true,
    merge_conditions,
    summarise,
    timestamp,
)
from tests.support.condition_strategies import conditions, moments

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


# --- one condition -------------------------------------------------------------------------------


def test_times_are_utc_whole_seconds_with_z() -> None:
    moment = datetime(2026, 1, 1, 13, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert timestamp(moment) == "2026-01-01T12:00:00Z"


def test_a_condition_names_the_generation_that_it_speaks_of() -> None:
    assert condition("Ready", "False", "Waiting", "for rain", 3) == {
        "type": "Ready",
        "status": "False",
        "observedGeneration": 3,
        "reason": "Waiting",
        "message": "for rain",
    }


@pytest.mark.parametrize(("length", "expected"), [(1024, 1024), (1025, 1024), (99_999, 1024)])
def test_messages_are_cut_to_the_limit_and_show_it(length: int, expected: int) -> None:
    message = condition("Ready", "False", "Waiting", "x" * length, 1)["message"]
    assert len(message) == expected <= MESSAGE_LIMIT
    assert message.endswith("…") == (length > expected)


# --- reading -------------------------------------------------------------------------------------


def test_find_gives_the_condition_of_a_type_or_none() -> None:
    both = [condition("A", "True", "R", "", 1), condition("B", "False", "R", "", 1)]
    assert find(both, "B") == both[1]
    assert find(both, "C") is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"status": "True", "observedGeneration": 2}, True),
        ({"status": "True"}, True),
        ({"status": "True", "observedGeneration": 1}, False),
        ({"status": "True", "observedGeneration": 3}, False),
        ({"status": "False", "observedGeneration": 2}, False),
        ({"status": "Unknown", "observedGeneration": 2}, False),
        ({}, False),
    ],
)
def test_a_condition_counts_only_for_the_generation_it_speaks_of(
    entry: dict[str, Any], *, expected: bool
) -> None:
    assert is_true([{"type": "Ready", **entry}], "Ready", 2) is expected


def test_an_absent_condition_is_not_true() -> None:
    assert not is_true([], "Ready", 1)


# --- summaries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "types"),
    [
        ({}, [READY]),
        ({"reconciling": True}, [READY, RECONCILING]),
        ({"stalled": True}, [READY, STALLED]),
        ({"stalled": True, "reconciling": True}, [READY, STALLED]),
    ],
)
def test_a_summary_has_ready_always_and_at_most_one_of_the_abnormal(
    flags: dict[str, bool], types: list[str]
) -> None:
    summary = summarise("False", "Waiting", "for rain", 2, **flags)
    assert [entry["type"] for entry in summary] == types
    assert {(entry["reason"], entry["message"]) for entry in summary} == {("Waiting", "for rain")}


# --- merging -------------------------------------------------------------------------------------


def test_a_new_condition_begins_now() -> None:
    merged = merge_conditions([], [condition("Ready", "True", "R", "m", 1)], NOW)
    assert merged[0]["lastTransitionTime"] == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        ({"reason": "Other"}, False),
        ({"message": "other"}, False),
        ({"observedGeneration": 2}, False),
        ({"status": "False"}, True),
        ({"status": "Unknown"}, True),
    ],
)
def test_transition_time_moves_only_with_the_status(change: dict[str, Any], *, moves: bool) -> None:
    old = merge_conditions([], [condition("Ready", "True", "R", "m", 1)], NOW)
    new = {**condition("Ready", "True", "R", "m", 1), **change}
    merged = merge_conditions(old, [new], LATER)
    assert merged[0]["lastTransitionTime"] == timestamp(LATER if moves else NOW)
    assert {**merged[0], **change} == merged[0]


@pytest.mark.parametrize("type_", [RECONCILING, STALLED])
@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_an_abnormal_condition_that_is_not_true_is_left_out(type_: str, status: Any) -> None:
    ready = condition(READY, "True", "R", "m", 1)
    merged = merge_conditions([], [ready, condition(type_, status, "R", "m", 1)], NOW)
    assert [entry["type"] for entry in merged] == [READY]


def test_what_only_stood_there_before_is_dropped() -> None:
    old = merge_conditions([], summarise("False", "R", "m", 1, reconciling=True), NOW)
    merged = merge_conditions(old, summarise("True", "R", "m", 1), LATER)
    assert [entry["type"] for entry in merged] == [READY]


@given(conditions(), conditions(), moments())
def test_merging_keeps_the_order_and_content_of_the_new_ones(
    old: list[Condition], new: list[Condition], now: datetime
) -> None:
    merged = merge_conditions(merge_conditions([], old, NOW), new, now)
    kept = [
        entry for entry in new if entry["type"] not in (RECONCILING, STALLED) or entry["status"] == "True"
    ]
    assert [{**entry, "lastTransitionTime": ""} for entry in merged] == [
        {**entry, "lastTransitionTime": ""} for entry in kept
    ]


@given(conditions(), conditions(), moments(), moments())
def test_merging_the_same_again_at_any_time_changes_nothing(
    old: list[Condition], new: list[Condition], then: datetime, now: datetime
) -> None:
    once = merge_conditions(merge_conditions([], old, NOW), new, then)
    assert merge_conditions(once, new, now) == once
    assert merge_conditions(once, once, now) == once


@given(conditions(), moments())
def test_merging_changes_neither_argument(old: list[Condition], now: datetime) -> None:
    before = [dict(entry) for entry in old]
    merge_conditions(old, old, now)
    assert old == before


# --- the oracle ----------------------------------------------------------------------------------


def obj(entries: list[Condition], *, generation: int = 2, observed: int = 2) -> dict[str, Any]:
    return {
        "metadata": {"generation": generation},
        "status": {
            "observedGeneration": observed,
            "conditions": [{"lastTransitionTime": timestamp(NOW), **entry} for entry in entries],
        },
    }


@pytest.mark.parametrize(
    "summary",
    [
        summarise("True", "R", "m", 2),
        summarise("False", "R", "m", 2),
        summarise("False", "R", "m", 2, reconciling=True),
        summarise("Unknown", "R", "m", 2, reconciling=True),
        summarise("False", "R", "m", 2, stalled=True),
    ],
)
def test_the_oracle_accepts_what_the_helpers_make(summary: list[Condition]) -> None:
    assert check_conditions(obj(summary)) == []


def test_the_oracle_accepts_a_lagging_status_that_is_not_ready() -> None:
    assert check_conditions(obj(summarise("False", "R", "m", 1), observed=1)) == []


READY_2 = condition(READY, "True", "R", "m", 2)
FALSE_2 = condition(READY, "False", "R", "m", 2)
RECONCILING_2 = condition(RECONCILING, "True", "R", "m", 2)
STALLED_2 = condition(STALLED, "True", "R", "m", 2)


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (obj([]), "Ready is missing"),
        ({"metadata": {"generation": 1}}, "Ready is missing"),
        (obj([READY_2, RECONCILING_2]), "Ready is True although Reconciling is present"),
        (obj([READY_2, STALLED_2]), "Ready is True although Stalled is present"),
        (obj([FALSE_2, RECONCILING_2, STALLED_2]), "Reconciling and Stalled are both present"),
        (obj([FALSE_2], observed=3), "status.observedGeneration is ahead of metadata.generation"),
        (
            obj([FALSE_2], generation=1, observed=1),
            "Ready: observedGeneration is ahead of metadata.generation",
        ),
        (
            obj([condition(READY, "True", "R", "m", 1)], observed=1),
            "Ready is True although the status is about an earlier generation",
        ),
        (
            obj([READY_2, condition("CatalogsValid", "True", "R", "m", 1)]),
            "CatalogsValid: observedGeneration is not the status' own although Ready is True",
        ),
        (obj([{**READY_2, "status": "Unknown"}]), "Ready is Unknown without Reconciling"),
        (obj([{**READY_2, "status": "Unknown"}, STALLED_2]), "Ready is Unknown although Stalled is present"),
        (obj([FALSE_2, {**STALLED_2, "status": "False"}]), "Stalled is present but not True"),
        (obj([FALSE_2, FALSE_2]), "Ready: stands more than once"),
        (obj([{**FALSE_2, "reason": ""}]), "Ready: reason is empty"),
        (obj([{**FALSE_2, "lastTransitionTime": ""}]), "Ready: lastTransitionTime is empty"),
        (obj([{**FALSE_2, "status": "true"}]), "Ready: status is neither True, False nor Unknown"),
        (obj([{**FALSE_2, "observedGeneration": 0}]), "Ready: observedGeneration is missing"),
        (
            obj([{key: value for key, value in FALSE_2.items() if key != "message"}]),
            "Ready: message is missing",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_oracle_names_each_fault(broken: dict[str, Any], fault: str) -> None:
    assert fault in check_conditions(broken)


@given(
    ready=st.sampled_from(["True", "False"]),
    reconciling=st.booleans(),
    generation=st.integers(1, 9),
    message=st.text(max_size=2000),
    now=moments(),
)
def test_summaries_of_what_is_not_ready_and_ready_always_pass_the_oracle(
    *, ready: Any, reconciling: bool, generation: int, message: str, now: datetime
) -> None:
    waits = reconciling and ready == "False"
    summary = summarise(ready, "Reason", message, generation, reconciling=waits)
    merged = merge_conditions([], summary, now)
    assert check_conditions(obj(merged, generation=generation, observed=generation)) == []


@pytest.mark.parametrize("stored", ["yesterday", "", 5, None, ["2026-01-02T03:04:05Z"], "2026-01-02"])
def test_a_stored_time_that_is_none_is_not_kept(stored: object) -> None:
    new = condition("Ready", "True", "Fine", "", 1)
    merged = merge_conditions([{**new, "lastTransitionTime": stored}], [new], NOW)
    assert merged[0]["lastTransitionTime"] == timestamp(NOW)
