"""What an instance says about who may use it (spec: companions §2.2).

The schema refuses what is not well formed, but objects outlive schemas. Here nothing is taken for granted:
sharing that is there and is not exactly "all" restricts the instance, and a restriction that cannot be
read admits nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import msgspec

from magicstick.access_guard.identifiers import is_well_formed
from magicstick.kube.objects import ObjectMeta

MOST_ENTRIES: Final = 100
INSTANCES: Final = 512
"""So many policies are remembered in the words in which they were written."""


USER, VIEWER, OPERATOR, ADMIN = ROLES = (
    "magicstick-user",
    "magicstick-viewer",
    "magicstick-operator",
    "magicstick-admin",
)
ACCEPTED: Final[Mapping[str, frozenset[str]]] = {
    "user": frozenset(ROLES),
    "viewer": frozenset(ROLES[1:]),
    "operator": frozenset(ROLES[2:]),
    "admin": frozenset(ROLES[3:]),
}
"""By minimum role, the realm roles that meet it."""
AUTHENTICATIONS: Final = ("sso", "none")
SHARING_FIELDS: Final = frozenset({"mode", "users", "groups"})


class Plain(Enum):
    """An instance without a list of people."""

    OPEN = "open"
    """Everybody whom the gateway let this far."""
    BROKEN = "broken"
    """What it says cannot be read, or contradicts itself: nobody."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """An instance for people who are named. Empty lists admit nobody."""

    roles: frozenset[str]
    """Realm roles of which one is needed."""
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


Policy = Plain | Restriction


@dataclass(frozen=True, slots=True)
class Instance:
    """An AppInstance, as far as access to it goes."""

    uid: str
    policy: Policy
    enabled: bool = True
    dying: bool = False


class _Spec(msgspec.Struct, frozen=True):
    enabled: Any = True
    access: msgspec.Raw = msgspec.Raw(b"{}")


class InstanceView(msgspec.Struct, frozen=True):
    """An AppInstance as the API server sends it; whatever is in `access`, however malformed."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()

    @property
    def instance(self) -> Instance:
        """What it means."""
        metadata, spec = self.metadata, self.spec
        policy = _policy_in(bytes(spec.access))
        return Instance(metadata.uid, policy, spec.enabled is True, metadata.dying)


@lru_cache(maxsize=INSTANCES)
def _policy_in(access: bytes) -> Policy:
    """The same words mean the same: a hundred identifiers need not be checked for each question."""
    try:
        return policy_of(msgspec.json.decode(access))
    except RecursionError:
        return Plain.BROKEN


def policy_of(access: object) -> Policy:
    """What `spec.access` means; `{}` where there is none."""
    if not isinstance(access, dict):
        return Plain.BROKEN
    authentication, roles = access.get("authentication", "sso"), _roles(access.get("role", "user"))
    if authentication not in AUTHENTICATIONS or roles is None:
        return Plain.BROKEN
    if "sharing" not in access or _admits_all(access["sharing"]):
        return Plain.OPEN
    if authentication != "sso":
        return Plain.BROKEN
    return _restriction(access["sharing"], roles)


def _roles(minimum: object) -> frozenset[str] | None:
    return ACCEPTED.get(minimum) if isinstance(minimum, str) else None


def _admits_all(sharing: object) -> bool:
    """Whether it is exactly the form that restricts nothing."""
    return (
        isinstance(sharing, dict)
        and sharing.keys() <= SHARING_FIELDS
        and sharing.get("mode") == "all"
        and sharing.get("users", []) == []
        and sharing.get("groups", []) == []
    )


def _restriction(sharing: object, roles: frozenset[str]) -> Policy:
    if (
        not isinstance(sharing, dict)
        or not sharing.keys() <= SHARING_FIELDS
        or sharing.get("mode") != "selected"
    ):
        return Plain.BROKEN
    users, groups = _identifiers(sharing.get("users", [])), _identifiers(sharing.get("groups", []))
    if users is None or groups is None:
        return Plain.BROKEN
    return Restriction(roles, users, groups)


def _identifiers(entries: object) -> frozenset[str] | None:
    """The entries of a list; None where one of them, or the list, is not as it must be."""
    if not isinstance(entries, list) or len(entries) > MOST_ENTRIES:
        return None
    if not all(isinstance(entry, str) and is_well_formed(entry) for entry in entries):
        return None
    distinct = frozenset(entries)
    return distinct if len(distinct) == len(entries) else None
