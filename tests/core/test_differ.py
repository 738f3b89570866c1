"""Whether an apply would change anything, over objects with the managed fields a server would keep."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.differ import (
    MISSING,
    NOT_CARRIED,
    NOT_OWNED,
    NOT_WANTED,
    differences,
    differs,
    equal,
    holds,
)
from tests.support.objects import resource

OURS = "magicstick"
Json = dict[str, Any]


def entry(fields: Json, *, manager: str = OURS, operation: str = "Apply", subresource: str = "") -> Json:
    return {
        "manager": manager,
        "operation": operation,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"subresource": subresource} if subresource else {}),
    }


def live(content: Json, *owned: Json, metadata: Json | None = None) -> Any:
    """An object with this content and these managed fields."""
    meta = {"name": "x", "namespace": "d", "uid": "u", "resourceVersion": "1", **(metadata or {})}
    return resource(
        {"apiVersion": "v1", "kind": "X", **content, "metadata": {**meta, "managedFields": list(owned)}}
    )


def desired(content: Json, metadata: Json | None = None) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "X",
        "metadata": {"name": "x", "namespace": "d", **(metadata or {})},
        **content,
    }


def spec(fields: Json) -> Json:
    return {"f:spec": fields}


CONTAINERS: Json = {
    'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}},
    'k:{"name":"log"}': {".": {}, "f:name": {}, "f:image": {}},
}
WEB = {"name": "web", "image": "w:1"}
LOG = {"name": "log", "image": "l:1"}
PORTS: Json = {
    'k:{"port":53,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
    'k:{"port":53,"protocol":"TCP"}': {".": {}, "f:port": {}},
}

CASES: Mapping[str, tuple[Json, Json, Json, tuple[str, ...]]] = {
    # name: (wanted spec, live spec, owned fields below f:spec, paths that differ)
    "equal": ({"a": 1}, {"a": 1}, {"f:a": {}}, ()),
    "others may set more": ({"a": 1}, {"a": 1, "b": 2}, {"f:a": {}}, ()),
    "another value": ({"a": 1}, {"a": 2}, {"f:a": {}}, ("spec.a",)),
    "a missing value": ({"a": 1, "b": 2}, {"a": 1}, {"f:a": {}}, ("spec.b",)),
    "true is not one": ({"a": True}, {"a": 1}, {"f:a": {}}, ("spec.a",)),
    "zero is not false": ({"a": 0}, {"a": False}, {"f:a": {}}, ("spec.a",)),
    "one is one": ({"a": 1}, {"a": 1.0}, {"f:a": {}}, ()),
    "a text is no number": ({"a": "1"}, {"a": 1}, {"f:a": {}}, ("spec.a",)),
    "a value we do not own": ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"f:a": {}}, ("spec.b",)),
    "a field no longer wanted": ({"a": 1}, {"a": 1, "b": 2}, {"f:a": {}, "f:b": {}}, ("spec.b",)),
    "a nested one no longer wanted": (
        {"m": {"a": 1}},
        {"m": {"a": 1, "b": 2}},
        {"f:m": {"f:a": {}, "f:b": {}}},
        ("spec.m.b",),
    ),
    "a map of which others own a part": (
        {"m": {"a": 1}},
        {"m": {"a": 1, "b": 2}},
        {"f:m": {".": {}, "f:a": {}}},
        (),
    ),
    "a map that became a value": ({"m": 1}, {"m": {"a": 1}}, {"f:m": {"f:a": {}}}, ("spec.m",)),
    "a value that became a map": ({"m": {"a": 1}}, {"m": 1}, {"f:m": {}}, ("spec.m",)),
    "an atomic map": ({"m": {"a": 1}}, {"m": {"a": 1}}, {"f:m": {}}, ()),
    "an atomic map with more in it": ({"m": {"a": 1}}, {"m": {"a": 1, "b": 2}}, {"f:m": {}}, ("spec.m",)),
    "an empty map and none": ({"m": {}}, {}, {"f:m": {}}, ()),
    "an empty map and an empty one": ({"m": {}}, {"m": {}}, {"f:m": {}}, ()),
    "an empty map and a full one": ({"m": {}}, {"m": {"a": 1}}, {"f:m": {}}, ("spec.m",)),
    "an empty list and none": ({"l": []}, {}, {"f:l": {}}, ()),
    "an empty list and a full one": ({"l": []}, {"l": [1]}, {"f:l": {}}, ("spec.l",)),
    "null and none": ({"a": None}, {}, {"f:a": {}}, ()),
    "null and a value": ({"a": None}, {"a": 1}, {"f:a": {}}, ("spec.a",)),
    "an atomic list": ({"l": [1, 2]}, {"l": [1, 2]}, {"f:l": {}}, ()),
    "an atomic list in another order": ({"l": [1, 2]}, {"l": [2, 1]}, {"f:l": {}}, ("spec.l",)),
    "a longer atomic list": ({"l": [1]}, {"l": [1, 2]}, {"f:l": {}}, ("spec.l",)),
    "an atomic list of maps": ({"l": [{"a": 1}]}, {"l": [{"a": 1, "b": 2}]}, {"f:l": {}}, ("spec.l",)),
    "items by key": ({"c": [WEB, LOG]}, {"c": [WEB, LOG]}, {"f:c": CONTAINERS}, ()),
    "items by key among those of others": (
        {"c": [WEB, LOG]},
        {"c": [{"name": "proxy"}, {**WEB, "tty": True}, LOG]},
        {"f:c": CONTAINERS},
        (),
    ),
    "an item with another value": (
        {"c": [WEB, LOG]},
        {"c": [WEB, {**LOG, "image": "l:2"}]},
        {"f:c": CONTAINERS},
        ("spec.c[name=log].image",),
    ),
    "an item no longer wanted": (
        {"c": [WEB]},
        {"c": [WEB, LOG]},
        {"f:c": CONTAINERS},
        ('spec.c[{"name":"log"}]',),
    ),
    "an item that is missing": (
        {"c": [WEB, LOG]},
        {"c": [WEB]},
        {"f:c": CONTAINERS},
        ("spec.c[name=log]",),
    ),
    "a new item": (
        {"c": [WEB, LOG]},
        {"c": [WEB]},
        {"f:c": {'k:{"name":"web"}': CONTAINERS['k:{"name":"web"}']}},
        ("spec.c[1]",),
    ),
    "an item's field no longer wanted": (
        {"c": [{"name": "web"}]},
        {"c": [WEB]},
        {"f:c": {'k:{"name":"web"}': CONTAINERS['k:{"name":"web"}']}},
        ("spec.c[name=web].image",),
    ),
    "items in another order": ({"c": [LOG, WEB]}, {"c": [WEB, LOG]}, {"f:c": CONTAINERS}, ("spec.c",)),
    "keys that the server completed": (
        {"p": [{"port": 53}, {"port": 53, "protocol": "UDP"}]},
        {"p": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]},
        {"f:p": PORTS},
        (),
    ),
    "a set": ({"s": ["a", "b"]}, {"s": ["b", "a", "c"]}, {"f:s": {'v:"a"': {}, 'v:"b"': {}}}, ()),
    "a value of a set that is missing": (
        {"s": ["a", "b"]},
        {"s": ["a"]},
        {"f:s": {'v:"a"': {}, 'v:"b"': {}}},
        ("spec.s[b]",),
    ),
    "a value of a set that we do not own": (
        {"s": ["a", "b"]},
        {"s": ["a", "b"]},
        {"f:s": {'v:"a"': {}}},
        ("spec.s[b]",),
    ),
    "a value of a set no longer wanted": (
        {"s": ["a"]},
        {"s": ["a", "b"]},
        {"f:s": {'v:"a"': {}, 'v:"b"': {}}},
        ("spec.s[b]",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_apply_is_needed_exactly_where_something_differs(name: str) -> None:
    wanted, there, owned, paths = CASES[name]
    found = differs(desired({"spec": wanted}), live({"spec": there}, entry(spec(owned))), OURS)
    assert found == paths


def test_an_object_that_we_never_applied_needs_an_apply() -> None:
    theirs = entry(spec({"f:a": {}}), manager="kubectl")
    update = entry(spec({"f:a": {}}), operation="Update")
    of_status = entry(spec({"f:a": {}}), subresource="status")
    for owner in (theirs, update, of_status):
        assert differs(desired({"spec": {"a": 1}}), live({"spec": {"a": 1}}, owner), OURS) == ("spec",)


def test_what_identifies_an_object_is_not_compared() -> None:
    body = desired({"spec": {"a": 1}}, {"uid": "u", "resourceVersion": "0"})
    assert differs(body, live({"spec": {"a": 1}}, entry(spec({"f:a": {}}))), OURS) == ()


def test_the_status_is_neither_wanted_nor_owned() -> None:
    owned: Json = {"f:spec": {"f:a": {}}, "f:status": {"f:phase": {}}}
    body = desired({"spec": {"a": 1}, "status": {"phase": "Ready"}})
    assert differs(body, live({"spec": {"a": 1}, "status": {"phase": "Lost"}}, entry(owned)), OURS) == ()


def test_labels_and_annotations_are_compared_as_maps_of_which_others_own_a_part() -> None:
    owned: Json = {"f:metadata": {"f:labels": {"f:a": {}}, "f:annotations": {"f:n": {}}}}
    metadata = {"labels": {"a": "1", "theirs": "x"}, "annotations": {"n": "1", "theirs": "x"}}
    thing = live({}, entry(owned), metadata=metadata)
    assert differs(desired({}, {"labels": {"a": "1"}, "annotations": {"n": "1"}}), thing, OURS) == ()
    assert differs(desired({}, {"labels": {"a": "2"}}), thing, OURS) == (
        "metadata.labels.a",
        "metadata.annotations",
    )


def test_owner_references_are_compared_by_uid() -> None:
    reference = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o1", "controller": True}
    full = {**reference, "blockOwnerDeletion": False}
    owned: Json = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"o1"}': {}}}}
    thing = live({}, entry(owned), metadata={"ownerReferences": [full]})
    assert differs(desired({}, {"ownerReferences": [full]}), thing, OURS) == ()
    assert differs(desired({}, {"ownerReferences": [reference]}), thing, OURS) == ()
    changed = {**full, "controller": False}
    assert differs(desired({}, {"ownerReferences": [changed]}), thing, OURS) == (
        "metadata.ownerReferences[uid=o1]",
    )
    other = {**full, "uid": "o2"}
    assert differs(desired({}, {"ownerReferences": [other]}), thing, OURS) != ()


def test_a_field_that_the_view_does_not_carry_counts_as_different() -> None:
    body = desired({"data": {"k": "dg=="}, "immutable": True})
    thing = live({"data": {"k": "dg=="}}, entry({"f:data": {"f:k": {}}, "f:immutable": {}}))
    assert differences(body, thing, OURS) == {"immutable": NOT_CARRIED}


@pytest.mark.parametrize(("type_", "found"), [("Opaque", {}), ("other", {"type": "other"})])
def test_the_type_of_a_secret_is_compared(type_: str, found: Json) -> None:
    body = desired({"data": {"k": "dg=="}, "type": "Opaque"})
    thing = live({"data": {"k": "dg=="}, "type": type_}, entry({"f:data": {"f:k": {}}, "f:type": {}}))
    assert differences(body, thing, OURS) == found
    assert holds(body, thing) == (not found)


def test_paths_hold_no_values() -> None:
    body = desired({"data": {"password": "aHVudGVyMg=="}})
    thing = live(
        {"data": {"password": "b2xk", "old": "eA=="}}, entry({"f:data": {"f:password": {}, "f:old": {}}})
    )
    assert differs(body, thing, OURS) == ("data.password", "data.old")
    assert differences(body, thing, OURS) == {"data.password": "b2xk", "data.old": NOT_WANTED}


def test_reasons_tell_missing_from_not_owned() -> None:
    body = desired({"spec": {"a": 1, "b": 2}})
    thing = live({"spec": {"b": 2}}, entry(spec({"f:a": {}})))
    assert differences(body, thing, OURS) == {"spec.a": MISSING, "spec.b": NOT_OWNED}


# --- properties ----------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
SPECS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def own(value: Any) -> Json:
    """The managed fields of an apply of `value` without a schema: maps merge, lists are atomic."""
    if not isinstance(value, dict):
        return {}
    return {f"f:{name}": own(below) for name, below in value.items() if below is not None}


@given(SPECS)
def test_what_was_applied_needs_no_apply(wanted: Json) -> None:
    applied = _without_null_members(wanted)
    thing = live({"spec": applied}, entry(spec(own(applied))))
    assert differs(desired({"spec": applied}), thing, OURS) == ()


@given(SPECS, SPECS)
def test_what_is_wanted_otherwise_than_applied_needs_an_apply(before: Json, after: Json) -> None:
    applied, wanted = (_without_empty(_without_null_members(some)) for some in (before, after))
    thing = live({"spec": applied}, entry(spec(own(applied))))
    found = differs(desired({"spec": wanted}), thing, OURS)
    assert bool(found) == (not equal(wanted, applied))


def test_a_whole_object_holds_whoever_owns_its_fields_and_whatever_views_do_not_carry() -> None:
    reference = {"apiVersion": "v1", "kind": "Y", "name": "y", "uid": "u-y", "controller": True}
    described = {"labels": {"a": "b"}, "ownerReferences": [{**reference, "blockOwnerDeletion": True}]}
    thing = live({"data": {"k": "v", "more": "w"}}, metadata={**described, "annotations": {"c": "d"}})
    assert holds(desired({"data": {"k": "v"}}, described), thing)
    assert not holds(desired({"data": {"k": "other"}}, described), thing)
    assert not holds(desired({"data": {}}, {"ownerReferences": [{**reference, "uid": "u-z"}]}), thing)


def _without_null_members(value: Any) -> Any:
    """Members that are null are not stored."""
    if not isinstance(value, dict):
        return value
    return {name: _without_null_members(below) for name, below in value.items() if below is not None}


def _without_empty(value: Any) -> Any:
    """Builders leave empty members out."""
    if not isinstance(value, dict):
        return value
    slim = {name: _without_empty(below) for name, below in value.items()}
    return {name: below for name, below in slim.items() if below not in ({}, [])}


@given(JSON, JSON)
def test_equality_is_that_of_json(one: Any, other: Any) -> None:
    assert equal(one, other) == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))
