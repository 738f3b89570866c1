"""The decision as a table: identities, modes and grants (spec: companions §2.2, §7 E17 to E31)."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.access_guard.asked import Asked
from magicstick.access_guard.decide import (
    ABSENT,
    Absent,
    GroupsOf,
    InstanceNamed,
    Known,
    Need,
    OwnerOf,
    Person,
    PersonWith,
    Principal,
    Reason,
    Verdict,
    authorize,
)
from magicstick.access_guard.policy import ACCEPTED, ADMIN, OPERATOR, ROLES, USER, VIEWER, Instance, policy_of
from magicstick.runtime.logs import Secret

UID = "uid-1"
ASKED = Asked("demo", UID, Secret("a.b.c"))


@dataclass(frozen=True)
class Caller:
    """Somebody, as the token and as the directory have them."""

    principal: Principal | Absent
    person: Person | Absent
    groups: frozenset[str] = frozenset()


def caller(
    id_: str, *roles: str, live: tuple[str, ...] | None = None, groups: str = "", **is_: Any
) -> Caller:
    person = {
        "id": id_,
        "enabled": True,
        "service_account": False,
        "roles": frozenset(roles if live is None else live),
    }
    return Caller(Principal(id_, frozenset(roles)), Person(**{**person, **is_}), frozenset(groups.split()))


CALLERS = {
    "nobody": Caller(ABSENT, ABSENT),
    "alice": caller("alice", USER),
    "alice in the team": caller("alice", USER, groups="team"),
    "alice below the team": caller("alice", USER, groups="sub team"),
    "alice as a viewer": caller("alice", VIEWER),
    "alice as an operator": caller("alice", OPERATOR),
    "alice without a role": caller("alice"),
    "alice, a viewer yesterday": caller("alice", VIEWER, live=(USER,)),
    "alice, a viewer since now": caller("alice", USER, live=(VIEWER,)),
    "alice, disabled": caller("alice", USER, enabled=False),
    "alice, gone": Caller(Principal("alice", frozenset({USER})), ABSENT),
    "alice, a service": caller("alice", USER, service_account=True),
    "alice, somebody else by now": caller("alice", USER, id="mallory"),
    "bob": caller("bob", USER),
    "bob in the team": caller("bob", USER, groups="team"),
    "bob in another group": caller("bob", USER, groups="other"),
    "the administrator": caller("root", ADMIN),
    "the administrator in the team": caller("root", ADMIN, groups="team"),
}

FOR_ALICE = {"mode": "selected", "users": ["alice"]}
FOR_THE_TEAM = {"mode": "selected", "groups": ["team"]}
MODES: dict[str, dict[str, Any]] = {
    "role-based": {},
    "none": {"authentication": "none"},
    "all": {"sharing": {"mode": "all"}},
    "nobody": {"sharing": {"mode": "selected"}},
    "alice": {"sharing": FOR_ALICE},
    "alice, viewers": {"role": "viewer", "sharing": FOR_ALICE},
    "team": {"sharing": FOR_THE_TEAM},
    "team, operators": {"role": "operator", "sharing": FOR_THE_TEAM},
    "both": {"sharing": {**FOR_THE_TEAM, **FOR_ALICE}},
    "none, selected": {"authentication": "none", "sharing": FOR_ALICE},
    "malformed": {"sharing": {"mode": "selected", "users": ["../admin"]}},
    "null": {"sharing": None},
}
OPEN = {"role-based", "none", "all"}
BROKEN = {"none, selected", "malformed", "null"}

ALICES = {"alice", "alice in the team", "alice below the team", "alice as a viewer", "alice as an operator"}
VIEWERS = {"alice as a viewer", "alice as an operator"}
TEAM = {"alice in the team", "alice below the team", "bob in the team", "the administrator in the team"}
ADMITTED = {
    "nobody": set[str](),
    "alice": ALICES | {"alice, a viewer yesterday", "alice, a viewer since now"},
    "alice, viewers": VIEWERS,
    "team": TEAM,
    "team, operators": {"the administrator in the team"},
    "both": ALICES | TEAM | {"alice, a viewer yesterday", "alice, a viewer since now"},
}
"""Who passes a restricted instance; all others do not."""


def instance(access: dict[str, Any], **changes: Any) -> Instance:
    return replace(Instance(UID, policy_of(access)), **changes)


def answered(asked: Asked, there: Instance | Absent, who: Caller) -> tuple[Verdict, list[str]]:
    """The verdict when every need is met, and what was needed."""
    known, needed = Known(), list[str]()
    while not isinstance(answer := authorize(asked, known), Verdict):
        needed.append(type(answer).__name__)
        known = met(answer, known, there, who)
    return answer, needed


def met(need: Need, known: Known, there: Instance | Absent, who: Caller) -> Known:
    match need:
        case InstanceNamed("demo"):
            return replace(known, instance=there)
        case OwnerOf(token) if token.get_secret_value() == "a.b.c":
            return replace(known, principal=who.principal)
        case PersonWith(subject) if isinstance(who.principal, Principal) and subject == who.principal.subject:
            return replace(known, person=who.person)
        case GroupsOf(_, wanted):
            assert wanted
            return replace(known, groups=who.groups)
    raise AssertionError(need)


@pytest.mark.req("MS-170")
@pytest.mark.req("MS-171")
@pytest.mark.parametrize(("mode", "who"), [*product(MODES, CALLERS)])
def test_the_table_of_identities_modes_and_grants(mode: str, who: str) -> None:
    verdict, _ = answered(ASKED, instance(MODES[mode]), CALLERS[who])

    if mode in OPEN:
        assert verdict == Verdict(Reason.UNRESTRICTED)
    elif mode in BROKEN:
        assert verdict == Verdict(Reason.INVALID_POLICY)
    else:
        assert verdict.allowed is (who in ADMITTED[mode])
        assert not verdict.allowed or verdict.reason is Reason.GRANTED


@pytest.mark.parametrize(
    ("who", "mode", "reason"),
    [
        ("nobody", "alice", Reason.NO_IDENTITY),
        ("alice, gone", "alice", Reason.NO_IDENTITY),
        ("alice, disabled", "alice", Reason.NO_IDENTITY),
        ("alice, a service", "alice", Reason.NO_IDENTITY),
        ("alice, somebody else by now", "alice", Reason.NO_IDENTITY),
        ("alice without a role", "alice", Reason.ROLE),
        ("alice, a viewer yesterday", "alice, viewers", Reason.ROLE),
        ("alice, a viewer since now", "alice, viewers", Reason.ROLE),
        ("bob", "alice", Reason.NOT_GRANTED),
        ("bob in another group", "team", Reason.NOT_GRANTED),
        ("the administrator", "both", Reason.NOT_GRANTED),
    ],
)
def test_a_no_has_its_reason(who: str, mode: str, reason: Reason) -> None:
    assert answered(ASKED, instance(MODES[mode]), CALLERS[who])[0] == Verdict(reason)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("who", ["alice", "the administrator in the team"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"uid": "uid-of-its-predecessor"}, Reason.UID_MISMATCH),
        ({"enabled": False}, Reason.DISABLED),
        ({"dying": True}, Reason.DISABLED),
    ],
)
def test_another_a_disabled_or_a_dying_instance_opens_for_nobody(
    mode: str, who: str, changes: dict[str, Any], reason: Reason
) -> None:
    there = instance(MODES[mode], **changes)
    assert answered(ASKED, there, CALLERS[who]) == (Verdict(reason), ["InstanceNamed"])


def test_an_instance_that_is_not_there_opens_for_nobody() -> None:
    assert answered(ASKED, ABSENT, CALLERS["alice"])[0] == Verdict(Reason.UNKNOWN_INSTANCE)


@pytest.mark.parametrize(
    ("mode", "who", "needed"),
    [
        ("role-based", "alice", []),
        ("none, selected", "alice", []),
        ("alice", "nobody", ["OwnerOf"]),
        ("alice", "alice without a role", ["OwnerOf"]),
        ("both", "alice in the team", ["OwnerOf", "PersonWith"]),
        ("alice", "bob", ["OwnerOf", "PersonWith"]),
        ("team", "bob in the team", ["OwnerOf", "PersonWith", "GroupsOf"]),
    ],
)
def test_nothing_is_asked_that_does_not_matter(mode: str, who: str, needed: list[str]) -> None:
    assert answered(ASKED, instance(MODES[mode]), CALLERS[who])[1] == ["InstanceNamed", *needed]


ID = st.sampled_from(["alice", "bob", "root"])
ROLE_SETS = st.frozensets(st.sampled_from([*ROLES, "offline_access"]), max_size=3)
GROUP_SETS = st.frozensets(st.sampled_from(["team", "sub", "other"]), max_size=3)


@pytest.mark.req("MS-171")
@given(
    st.sampled_from([*ACCEPTED]),
    st.lists(ID, unique=True),
    st.lists(st.sampled_from(["team", "sub"]), unique=True),
    st.builds(Principal, ID, ROLE_SETS),
    st.builds(Person, ID, st.booleans(), st.booleans(), ROLE_SETS),
    GROUP_SETS,
)
def test_yes_is_said_exactly_where_every_condition_holds(
    minimum: str,
    users: list[str],
    granted: list[str],
    principal: Principal,
    person: Person,
    groups: frozenset[str],
) -> None:
    sharing = {"mode": "selected", "users": users, "groups": granted}
    there = instance({"role": minimum, "sharing": sharing})
    verdict, _ = answered(ASKED, there, Caller(principal, person, groups))

    assert verdict.allowed is (
        principal.subject == person.id
        and person.enabled
        and not person.service_account
        and bool(principal.roles & ACCEPTED[minimum])
        and bool(person.roles & ACCEPTED[minimum])
        and (person.id in users or bool(groups & set(granted)))
    )
