"""Generated Secrets, and Secrets that users name (spec: palena §2, §10; fault F19).

A generated value is made once and kept for ever: what is in the cluster wins over everything, keys that a
later version needs are added beside it, and a Secret that is gone while data lives that was written with
it is never made anew. No value appears in a message, a log or a representation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.owners import Owner
from magicstick.palena.common.verdicts import Verdict
from magicstick.runtime.plan import Step

SECRET: Final = Kind("", "v1", "Secret", "secrets")

SECRET_NOT_FOUND: Final = "SecretNotFound"  # noqa: S105 - a reason
SECRET_KEY_MISSING: Final = "SecretKeyMissing"  # noqa: S105 - a reason
SECRET_INVALID: Final = "SecretInvalid"  # noqa: S105 - a reason
SECRET_LOST: Final = "SecretLost"  # noqa: S105 - a reason
NAME_CONFLICT: Final = "NameConflict"

Values = Mapping[str, str]


class Entropy(Protocol):
    """Where secret values come from; `SystemEntropy` is the real one."""

    def alphanumeric(self, length: int) -> str:
        """So many random letters and digits, which need no escaping in a URL."""
        ...

    def hex(self, length: int) -> str:
        """So many random hex digits."""
        ...

    def uuid(self) -> str:
        """A random UUID (version 4)."""
        ...


Maker = Callable[[Entropy], str]


@dataclass(frozen=True, slots=True)
class SecretRecipe:
    """How a generated Secret is made."""

    name: str
    component: str
    generated: Mapping[str, Maker]
    """Made once, by key."""
    derived: Callable[[Values], Values] = field(default=lambda _: {})
    """Computed from the generated values at every pass, as a URL from a password."""
    type: str = "Opaque"
    namespace: str = ""
    """Where it lives, if not beside its owner."""
    labels: Mapping[str, str] = field(default_factory=dict)
    retained: bool = False
    """Whether it is to outlive its owner."""


@dataclass(frozen=True, slots=True)
class SecretState:
    """What there is of a generated Secret, and what has to be written.

    `values` holds all values, generated and derived, once the Secret has them; {} before.
    """

    values: Values = field(default_factory=dict, repr=False)
    steps: tuple[Step, ...] = field(default=(), repr=False)
    problem: str = ""
    """Why there is none: `SECRET_LOST` or `NAME_CONFLICT`; "" otherwise."""
    message: str = ""

    @property
    def complete(self) -> bool:
        """Whether every value is in the cluster."""
        return bool(self.values)


@dataclass(frozen=True, slots=True)
class Fresh:
    """New values for the keys that a Secret lacks, drawn while observing so that decisions stay pure."""

    values: Values = field(default_factory=dict, repr=False)


def draw(recipe: SecretRecipe, live: Resource | None, entropy: Entropy) -> Fresh:
    """New values for the generated keys that `live` lacks; nothing while it has all of them."""
    raise NotImplementedError


def ensure(
    recipe: SecretRecipe,
    owner: Owner,
    live: Resource | None,
    fresh: Fresh,
    *,
    data_lives: str = "",
) -> SecretState:
    """Make the Secret true: create it once, add missing keys, keep every value that is there.

    Args:
        recipe: how it is made.
        owner: whose it is.
        live: what the cluster has under its name, by a complete list.
        fresh: from `draw`.
        data_lives: the data that was written with the values, as `PersistentVolumeClaim data-x-0`, while
            it exists: a Secret that is gone is then lost and not made anew. "" while there is none.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SecretValue:
    """One key of a Secret that a user names: its value, or what is wrong with it."""

    value: str = field(default="", repr=False)
    reason: str = ""
    """"" | `SECRET_NOT_FOUND` | `SECRET_KEY_MISSING` | `SECRET_INVALID`."""
    message: str = ""

    @property
    def valid(self) -> bool:
        """Whether there is a value that can be used."""
        return not self.reason

    def verdict(self, type_: str) -> Verdict:
        """What is wrong, as a failed condition."""
        raise NotImplementedError


def read_key(
    live: Resource | None, namespace: str, name: str, key: str, *, schemes: tuple[str, ...] = ()
) -> SecretValue:
    """The value of a key, checked: there, text, not empty, without surrounding blanks, of a scheme.

    `schemes`: how the value has to begin, as `postgres://`; () for anything. A trailing newline, which
    `echo` leaves, is refused with the advice to leave it away: whoever reads the Secret itself gets it.
    """
    raise NotImplementedError


def values_of(live: Resource | None) -> dict[str, str]:
    """All values of a Secret that are text, decoded."""
    raise NotImplementedError


def copy_of(owner: Owner, name: str, component: str, namespace: str, values: Values) -> dict[str, Any]:
    """A Secret with the same values in another namespace, where a foreign object needs it (§1.2)."""
    raise NotImplementedError
