"""The decision, whole and pure (spec: companions §2.2).

`authorize` looks at what is known so far and says either yes, or no, or what it has to know next. So
nothing is asked of anybody that does not matter: an instance without a list of people needs no identity,
and whoever is named needs no groups. There is no way past a need: yes is said only of what is known.

Administrators are people like others here: they see and manage every instance, and open none without a
grant. Names and display names mean nothing, only identifiers do. No licence is consulted.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final

from magicstick.access_guard.asked import Asked
from magicstick.access_guard.policy import Instance, Plain, Restriction
from magicstick.runtime.logs import Secret


class Reason(StrEnum):
    """Why, in the classes of the metrics."""

    UNRESTRICTED = auto()
    GRANTED = auto()
    BAD_REQUEST = auto()
    """Not a question, or one that nobody but the gateway would ask so."""
    UNKNOWN_INSTANCE = auto()
    UID_MISMATCH = auto()
    DISABLED = auto()
    """Switched off, or being deleted."""
    INVALID_POLICY = auto()
    NO_IDENTITY = auto()
    """No token, none that is valid, or nobody whom the directory knows as an active person."""
    ROLE = auto()
    NOT_GRANTED = auto()
    IDENTITY_UNAVAILABLE = auto()
    """The identity provider could not be asked, or what is known of it is too old."""
    ERROR = auto()
    """The API server could not be asked, time was over, or a fault of ours."""


ALLOWING: Final = frozenset({Reason.UNRESTRICTED, Reason.GRANTED})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes or no, which its reason tells."""

    reason: Reason

    @property
    def allowed(self) -> bool:
        """Whether the request may pass."""
        return self.reason in ALLOWING


class Absent(Enum):
    """It was looked for, by somebody who would have found it."""

    ABSENT = auto()


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Principal:
    """Whom a valid token speaks of."""

    subject: str
    roles: frozenset[str]
    """The realm roles that the token says, which may be those of some minutes ago."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody as the directory has them at this moment."""

    id: str
    enabled: bool
    service_account: bool
    roles: frozenset[str]
    """The realm roles in effect, composite ones resolved."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known so far; None is not asked yet."""

    instance: Instance | Absent | None = None
    principal: Principal | Absent | None = None
    person: Person | Absent | None = None
    groups: frozenset[str] | None = None
    """The groups of the person that matter, those above them included."""


@dataclass(frozen=True, slots=True)
class InstanceNamed:
    """What has to be found out next: the instance of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class OwnerOf:
    """What has to be found out next: whose token this is."""

    token: Secret


@dataclass(frozen=True, slots=True)
class PersonWith:
    """What has to be found out next: who this is in the directory.

    Where groups will matter unless the answer is no, which is rare, they are named as well: whoever finds
    out both at a time spares the person a wait.
    """

    subject: str
    wanted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupsOf:
    """What has to be found out next: the person's groups, as far as it takes to find a wanted one."""

    subject: str
    wanted: frozenset[str]


Need = InstanceNamed | OwnerOf | PersonWith | GroupsOf

_PLAIN: Final = {Plain.OPEN: Reason.UNRESTRICTED, Plain.BROKEN: Reason.INVALID_POLICY}


def authorize(asked: Asked, known: Known) -> Verdict | Need:
    """Whether the request may pass, or what has to be found out to tell."""
    instance = known.instance
    if instance is None:
        return InstanceNamed(asked.name)
    if instance is ABSENT:
        return Verdict(Reason.UNKNOWN_INSTANCE)
    if instance.uid != asked.uid:
        return Verdict(Reason.UID_MISMATCH)
    if instance.dying or not instance.enabled:
        return Verdict(Reason.DISABLED)
    policy = instance.policy
    if not isinstance(policy, Restriction):
        return Verdict(_PLAIN[policy])
    return OwnerOf(asked.token) if known.principal is None else _restricted(policy, known.principal, known)


def _restricted(policy: Restriction, principal: Principal | Absent, known: Known) -> Verdict | Need:
    if principal is ABSENT:
        return Verdict(Reason.NO_IDENTITY)
    if not principal.roles & policy.roles:  # spares the directory; the roles that count come from there
        return Verdict(Reason.ROLE)
    if known.person is None:
        return PersonWith(
            principal.subject, frozenset() if principal.subject in policy.users else policy.groups
        )
    if known.person is ABSENT or not _active(known.person, principal):
        return Verdict(Reason.NO_IDENTITY)
    return _granted(policy, known.person, known.groups)


def _active(person: Person, principal: Principal) -> bool:
    return person.id == principal.subject and person.enabled and not person.service_account


def _granted(policy: Restriction, person: Person, groups: frozenset[str] | None) -> Verdict | Need:
    if not person.roles & policy.roles:
        return Verdict(Reason.ROLE)
    if person.id in policy.users:
        return Verdict(Reason.GRANTED)
    if policy.groups and groups is None:
        return GroupsOf(person.id, policy.groups)
    return Verdict(Reason.GRANTED if (groups or frozenset()) & policy.groups else Reason.NOT_GRANTED)
