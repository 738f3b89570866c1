"""The answering machine merges as the API server does, and what it merged is noticed as settled."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.differ import differences
from magicstick.plan.fields import applied, ownership, patched
from magicstick.plan.paths import at
from tests.support.objects import widget

ABSENT = object()
NAMES = st.sampled_from(["a", "b", "c.d", "e/f"])
LEAVES = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]), st.booleans(), st.lists(st.integers(0, 2)))
TREES: st.SearchStrategy[Any] = st.dictionaries(
    NAMES, st.recursive(LEAVES, lambda below: st.dictionaries(NAMES, below, min_size=1)), max_size=3
)


def body(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "w"}, **({"spec": spec} if spec else {})}


def owned_by_us(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"manager": "us", "operation": "Apply", "fieldsV1": ownership(body(spec))}]


@given(before=TREES, want=TREES, others=TREES)
def test_what_was_applied_needs_no_second_apply(
    before: dict[str, Any], want: dict[str, Any], others: dict[str, Any]
) -> None:
    owned: Any = ownership(body(before))
    spec = applied(want, {**others, **before}, owned.get("f:spec", {}))
    live = widget("w", 1, spec=spec, managed_fields=owned_by_us(want))
    assert differences(body(want), live, "us") == {}


@given(before=TREES, want=TREES)
def test_fields_of_others_stay(before: dict[str, Any], want: dict[str, Any]) -> None:
    owned: Any = ownership(body(before))
    spec = applied(want, {**before, "theirs": {"x": 1}}, owned.get("f:spec", {}))
    assert spec["theirs"] == {"x": 1}


def test_of_a_map_that_is_given_up_only_our_part_goes() -> None:
    owned: Mapping[str, Any] = {"f:a": {"f:ours": {}}}
    assert applied({}, {"a": {"ours": 1, "theirs": 2}}, owned) == {"a": {"theirs": 2}}


def test_a_merge_patch_merges_maps_removes_with_null_and_replaces_the_rest() -> None:
    have = {"a": {"b": 1, "c": 2}, "d": [1, 2], "e": "f"}
    assert patched(have, {"a": {"b": None, "x": 3}, "d": [9], "n": {"m": 1}}) == {
        "a": {"c": 2, "x": 3},
        "d": [9],
        "e": "f",
        "n": {"m": 1},
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.a", 1),
        ("spec.list[0]", "x"),
        ("spec.list[y]", "y"),
        ("spec.items[name=b,port=80].size", 2),
        ("metadata.labels.example.com/team", "blue"),
        ("metadata.labels.example.com/team.more", "red"),
        ("spec.nothing", ABSENT),
        ("spec.a.b", ABSENT),
        ("spec.list[7]", ABSENT),
        ("spec.items[name=c]", ABSENT),
    ],
)
def test_paths_lead_to_values(path: str, value: object) -> None:
    found = {
        "metadata": {"labels": {"example.com/team": "blue", "example.com/team.more": "red"}},
        "spec": {
            "a": 1,
            "list": ["x", "y"],
            "items": [{"name": "b", "port": 81}, {"name": "b", "port": 80, "size": 2}],
        },
    }
    assert at(path, found, ABSENT) == value


@given(TREES)
def test_every_difference_leads_to_the_value_that_is_wanted(want: dict[str, Any]) -> None:
    live = widget("w", 1, spec={})
    for path in differences(body(want), live, "us"):
        assert at(path, msgspec.to_builtins(body(want)), ABSENT) is not ABSENT
