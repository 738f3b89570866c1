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


class Need(Enum):
    """What has to be found out next."""

    INSTANCE = auto()
    PRINCIPAL = auto()
    PERSON = auto()
    GROUPS = auto()


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


def authorize(asked: Asked, known: Known) -> Verdict | Need:
    """Whether the request may pass, or what has to be found out to tell."""
    instance = known.instance
    if instance is None:
        return Need.INSTANCE
    if instance is ABSENT:
        return Verdict(Reason.UNKNOWN_INSTANCE)
    if instance.uid != asked.uid:
        return Verdict(Reason.UID_MISMATCH)
    if instance.dying or not instance.enabled:
        return Verdict(Reason.DISABLED)
    if instance.policy is Plain.OPEN:
        return Verdict(Reason.UNRESTRICTED)
    if instance.policy is Plain.BROKEN:
        return Verdict(Reason.INVALID_POLICY)
    return _restricted(instance.policy, known)


def _restricted(policy: Restriction, known: Known) -> Verdict | Need:
    principal = known.principal
    if principal is None:
        return Need.PRINCIPAL
    if principal is ABSENT:
        return Verdict(Reason.NO_IDENTITY)
    if not principal.roles & policy.roles:  # spares the directory; the roles that count come from there
        return Verdict(Reason.ROLE)
    person = known.person
    if person is None:
        return Need.PERSON
    if person is ABSENT or person.id != principal.subject or not person.enabled or person.service_account:
        return Verdict(Reason.NO_IDENTITY)
    if not person.roles & policy.roles:
        return Verdict(Reason.ROLE)
    return _granted(policy, person, known.groups)


def _granted(policy: Restriction, person: Person, groups: frozenset[str] | None) -> Verdict | Need:
    if person.id in policy.users:
        return Verdict(Reason.GRANTED)
    if not policy.groups:
        return Verdict(Reason.NOT_GRANTED)
    if groups is None:
        return Need.GROUPS
    return Verdict(Reason.GRANTED if groups & policy.groups else Reason.NOT_GRANTED)
