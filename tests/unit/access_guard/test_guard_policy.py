"""What an instance's access means (spec: companions §2.2, §7 E25 to E29)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.access_guard.policy import (
    ACCEPTED,
    ADMIN,
    OPERATOR,
    USER,
    VIEWER,
    InstanceView,
    Plain,
    Restriction,
    policy_of,
)
from magicstick.api.app_instance import Access
from magicstick.kube.wire import decode, decoder_of

SELECTED: dict[str, Any] = {"mode": "selected", "users": ["alice"], "groups": ["team"]}


@pytest.mark.parametrize(
    "access",
    [
        {},
        {"authentication": "none"},
        {"authentication": "sso", "role": "admin", "exposure": "local"},
        {"sharing": {"mode": "all"}},
        {"sharing": {"mode": "all", "users": [], "groups": []}},
        {"authentication": "none", "sharing": {"mode": "all"}},
    ],
)
def test_without_a_list_of_people_an_instance_is_open(access: dict[str, Any]) -> None:
    assert policy_of(access) is Plain.OPEN


@pytest.mark.parametrize(
    "sharing",
    [
        None,
        {},
        [],
        "all",
        {"mode": "everybody"},
        {"mode": None},
        {"mode": ["all"]},
        {"users": ["alice"]},
        {"mode": "all", "users": ["alice"]},
        {"mode": "all", "groups": ["team"]},
        {"mode": "all", "users": None},
        {"mode": "all", "users": {}},
        {"mode": "all", "also": 1},
        {**SELECTED, "also": 1},
        {**SELECTED, "users": None},
        {**SELECTED, "users": "alice"},
        {**SELECTED, "users": {"alice": True}},
        {**SELECTED, "users": ["alice", "alice"]},
        {**SELECTED, "users": ["alice", 7]},
        {**SELECTED, "users": [["alice"]]},
        {**SELECTED, "users": ["../admin"]},
        {**SELECTED, "users": [""]},
        {**SELECTED, "users": ["alice\n"]},
        {**SELECTED, "users": ["\u0430lice"]},
        {**SELECTED, "users": ["a" * 161]},
        {**SELECTED, "groups": [f"g{number}" for number in range(101)]},
    ],
)
def test_sharing_that_is_not_exactly_right_admits_nobody(sharing: object) -> None:
    assert policy_of({"sharing": sharing}) is Plain.BROKEN


@pytest.mark.parametrize(
    "access",
    [
        None,
        [],
        "open",
        {"authentication": "none", "sharing": SELECTED},
        {"authentication": "basic"},
        {"authentication": None},
        {"authentication": ["sso"]},
        {"role": "root"},
        {"role": None},
        {"role": ["user"]},
        {"role": "nobody", "sharing": SELECTED},
    ],
)
def test_access_that_cannot_be_read_admits_nobody(access: object) -> None:
    assert policy_of(access) is Plain.BROKEN


def test_a_restriction_keeps_people_groups_and_roles() -> None:
    assert policy_of({"role": "operator", "sharing": SELECTED}) == Restriction(
        frozenset({OPERATOR, ADMIN}), frozenset({"alice"}), frozenset({"team"})
    )
    assert policy_of({"sharing": {"mode": "selected"}}) == Restriction(ACCEPTED["user"])
    most = [f"u{number}" for number in range(100)]
    assert policy_of({"sharing": {"mode": "selected", "users": most}}) == Restriction(
        ACCEPTED["user"], frozenset(most)
    )


def test_a_higher_role_includes_the_lower_ones() -> None:
    accepted = {
        minimum: [role for role in (USER, VIEWER, OPERATOR, ADMIN) if role in roles]
        for minimum, roles in ACCEPTED.items()
    }
    assert accepted == {
        "user": [USER, VIEWER, OPERATOR, ADMIN],
        "viewer": [VIEWER, OPERATOR, ADMIN],
        "operator": [OPERATOR, ADMIN],
        "admin": [ADMIN],
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["all", "selected", "sso", "none", "user"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["mode", "users", "groups", "sharing", "authentication", "role", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_stands_there_opens_only_what_our_schema_would_leave_open(access: Any) -> None:
    policy = policy_of(access)
    if policy is Plain.OPEN:
        assert Access.model_validate(access).sharing is None or access["sharing"]["mode"] == "all"
    if isinstance(policy, Restriction):
        assert Access.model_validate(access).authentication == "sso"


def view(spec: str, metadata: str = '{"uid": "u"}') -> InstanceView:
    return msgspec.json.decode(f'{{"metadata": {metadata}, "spec": {spec}}}', type=InstanceView)


@pytest.mark.parametrize(
    ("spec", "enabled"),
    [
        ("{}", True),
        ('{"enabled": true}', True),
        ('{"enabled": false}', False),
        ('{"enabled": null}', False),
        ('{"enabled": "true"}', False),
        ('{"enabled": 1}', False),
    ],
)
def test_an_instance_is_enabled_unless_something_else_stands_there(spec: str, enabled: bool) -> None:  # noqa: FBT001 - a column of the table
    assert view(spec).instance.enabled is enabled


def test_null_as_access_is_not_absence() -> None:
    assert view("{}").instance.policy is Plain.OPEN
    assert view('{"access": null}').instance.policy is Plain.BROKEN
    assert view('{"access": {"sharing": null}}').instance.policy is Plain.BROKEN


def test_access_that_is_nested_without_end_admits_nobody() -> None:
    deep = '{"access": {"sharing": ' + "[" * 20000 + "]" * 20000 + "}}"
    body = f'{{"metadata": {{"uid": "u"}}, "spec": {deep}}}'.encode()
    assert decode(decoder_of(InstanceView), body).instance.policy is Plain.BROKEN


def test_an_instance_that_is_being_deleted_says_so() -> None:
    dying = view("{}", '{"uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}').instance
    assert (dying.uid, dying.dying) == ("u", True)
