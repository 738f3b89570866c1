from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given

from magicstick.runtime.status import merge_status, same_meaning
from tests.support.condition_strategies import moments, statuses

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {}),
        ({"a": 1}, {"a": 1}),
        ({"a": None}, {}),
        ({}, {"a": None}),
        ({"a": [1, 2]}, {"a": (1, 2)}),
        ({"c": [{"type": "Ready", "lastTransitionTime": "x"}]}, {"c": [{"type": "Ready"}]}),
    ],
)
def test_the_same_meaning(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert same_meaning(old, new)
    assert same_meaning(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {"a": 0}),
        ({}, {"a": ""}),
        ({}, {"a": []}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": "1"}, {"a": 1}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}),
        ({"a": {}}, {"a": []}),
        ({"c": [{"type": "Ready", "status": "True"}]}, {"c": [{"type": "Ready", "status": "False"}]}),
    ],
)
def test_another_meaning(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert not same_meaning(old, new)
    assert not same_meaning(new, old)


def test_a_status_is_computed_whole() -> None:
    assert merge_status({"phase": "Ready", "url": "x"}, {"phase": "Waiting"}, NOW) == {"phase": "Waiting"}


def test_the_arguments_stay_as_they_are() -> None:
    new = {"conditions": [{"type": "Ready", "status": "True"}]}
    merge_status({}, new, NOW)
    assert new == {"conditions": [{"type": "Ready", "status": "True"}]}


@given(statuses(), statuses(), moments(), moments())
def test_merging_is_idempotent(
    old: dict[str, Any], new: dict[str, Any], then: datetime, now: datetime
) -> None:
    once = merge_status(old, new, then)
    assert merge_status(once, new, now) == once
    assert merge_status(once, once, now) == once


@given(statuses(), statuses(), moments(), moments())
def test_what_was_written_is_never_worth_a_second_write(
    old: dict[str, Any], new: dict[str, Any], then: datetime, now: datetime
) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(merge_status(old, new, then)))
    assert same_meaning(stored, merge_status(stored, new, now))


@given(statuses(), statuses())
def test_meaning_is_compared_the_same_in_both_directions(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert same_meaning(old, new) == same_meaning(new, old)


@given(statuses(), moments(), moments())
def test_only_a_changed_status_of_a_condition_moves_a_time(
    new: dict[str, Any], then: datetime, now: datetime
) -> None:
    stored = merge_status({}, new, then)
    changed = [{**entry, "reason": "Other", "message": "other"} for entry in new["conditions"]]
    merged = merge_status(stored, {**new, "conditions": changed}, now)
    times = [entry["lastTransitionTime"] for entry in merged["conditions"]]
    assert times == [entry["lastTransitionTime"] for entry in stored["conditions"]]
