"""Generated Secrets, and Secrets that users name (spec: palena §2, §10; fault F19).

A generated value is made once and kept for ever: what is in the cluster wins over everything, keys that a
later version needs are added beside it, and a Secret that is gone while data lives that was written with
it is never made anew. No value appears in a message, a log or a representation.
"""

import base64
import secrets
import string
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from magicstick.kube.differ import holds
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common import labels
from magicstick.palena.common.owners import Owner, is_foreign, metadata
from magicstick.palena.common.retention import taken_over
from magicstick.palena.common.verdicts import Verdict, failed
from magicstick.runtime.plan import Apply, Create, Step

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
    vital: frozenset[str] = frozenset()
    """Generated keys without which data that lives cannot be used: they are not made anew either."""


@dataclass(frozen=True, slots=True)
class SecretState:
    """What there is of a generated Secret, and what has to be written.

    `values` holds all values, generated and derived, once the Secret has them; {} before.
    """

    values: Values = field(default_factory=dict, repr=False)
    steps: tuple[Step, ...] = field(default=(), repr=False)
    problem: str = ""
    """Why it cannot be used: `SECRET_LOST`, `SECRET_INVALID` or `NAME_CONFLICT`; "" otherwise."""
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
    have = _filled(live)
    return Fresh({key: make(entropy) for key, make in recipe.generated.items() if key not in have})


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
    if is_foreign(live, owner):
        where = f"{recipe.namespace or owner.namespace}/{recipe.name}"
        message = f"the Secret {where} exists and is somebody else's: rename or remove it"
        return SecretState(problem=NAME_CONFLICT, message=message)
    have = _filled(live)
    gone = {key for key in recipe.generated if key not in have}
    lost = gone if live is None else gone & recipe.vital
    if data_lives and lost:
        return SecretState(problem=SECRET_LOST, message=_instructions(recipe, owner, lost, live, data_lives))
    if torn := sorted(key for key in recipe.generated.keys() & have.keys() if have[key] != have[key].strip()):
        return SecretState(problem=SECRET_INVALID, message=_blanks(recipe, owner, torn))
    if gone - fresh.values.keys():
        return SecretState()
    wanted = {key: have[key] if key in have else fresh.values[key] for key in recipe.generated}
    wanted |= recipe.derived(wanted)
    body = _secret(recipe, owner, wanted)
    if live is None:
        return SecretState(steps=(Create(SECRET, {**body, "type": recipe.type}),))
    # Who owns its fields makes no difference: taking them over would be a second write for each Secret.
    steps = () if holds(body, live) else (Apply(SECRET, body),)
    complete = wanted.keys() <= have.keys()
    return SecretState(wanted if complete else {}, (*steps, *taken_over(SECRET, live, owner)))


def _blanks(recipe: SecretRecipe, owner: Owner, keys: Sequence[str]) -> str:
    where = f"{recipe.namespace or owner.namespace}/{recipe.name}"
    return (
        f"{', '.join(keys)} in the generated Secret {where} begins or ends with blanks or a newline: "
        "put the value back without them (echo -n)"
    )


def _instructions(
    recipe: SecretRecipe, owner: Owner, lost: set[str], live: Resource | None, data_lives: str
) -> str:
    """Only what is marked as ours is taken for ours: a Secret of its name may be anybody's."""
    where = f"{recipe.namespace or owner.namespace}/{recipe.name}"
    marks = f"{labels.MANAGED_BY}={labels.OPERATOR} and {labels.RETAINED}={labels.TRUE}"
    what = (
        f"the Secret {where} is gone"
        if live is None
        else f"the Secret {where} lost {', '.join(sorted(lost))}"
    )
    return (
        f"{what}, but {data_lives} lives, which was written with it: put the Secret back from a backup "
        f"(keys {', '.join(sorted(recipe.generated))}; labels {marks}), "
        f"or delete {data_lives} to start anew without its data"
    )


def _secret(recipe: SecretRecipe, owner: Owner, values: Values) -> dict[str, Any]:
    """Without its type, which is set once: the server keeps it, and views do not carry it."""
    meta = metadata(
        owner, recipe.name, recipe.component, namespace=recipe.namespace, extra_labels=recipe.labels
    )
    return secret(meta, values)


def secret(meta: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """A Secret of these values."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": dict(meta), "data": data}


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
        """What is wrong, as a failed condition. ValueError where nothing is."""
        if self.valid:
            raise ValueError("nothing is wrong with this value")
        return failed(type_, self.reason, self.message)


def read_key(
    live: Resource | None, namespace: str, name: str, key: str, *, schemes: tuple[str, ...] = ()
) -> SecretValue:
    """The value of a key, checked: there, text, not empty, without surrounding blanks, of a scheme.

    `schemes`: how the value has to begin, as `postgres://`; () for anything. A trailing newline, which
    `echo` leaves, is refused with the advice to leave it away: whoever reads the Secret itself gets it.
    """
    where = f"the Secret {namespace}/{name}"
    if live is None:
        return SecretValue("", SECRET_NOT_FOUND, f"{where} does not exist, or is a service account's token")
    if key not in live.data:
        return SecretValue("", SECRET_KEY_MISSING, f"{where} has no key {key}")
    value = values_of(live).get(key)
    problem = "is no text" if value is None else _problem(value, schemes)
    if value is None or problem:
        return SecretValue("", SECRET_INVALID, f"the key {key} of {where} {problem}")
    return SecretValue(value)


def _problem(value: str, schemes: tuple[str, ...]) -> str:
    """What is wrong with a value, without giving anything of it away; "" when nothing is."""
    if not value.strip():
        return "is empty"
    if value != value.strip():
        return "begins or ends with blanks or a newline: leave them away (echo -n)"
    if schemes and not value.startswith(schemes):
        return f"does not begin with {' or '.join(schemes)}"
    return ""


def _filled(live: Resource | None) -> dict[str, str]:
    """The values that say something: an empty one is as good as none."""
    return {key: value for key, value in values_of(live).items() if value}


def values_of(live: Resource | None) -> dict[str, str]:
    """All values of a Secret that are text, decoded."""
    found = {}
    for key, encoded in (live.data if live is not None else {}).items():
        try:
            found[key] = base64.b64decode(encoded, validate=True).decode()
        except (ValueError, TypeError):
            continue
    return found


def copy_of(owner: Owner, name: str, component: str, namespace: str, values: Values) -> dict[str, Any]:
    """A Secret with the same values in another namespace, where a foreign object needs it (§1.2)."""
    return secret(metadata(owner, name, component, namespace=namespace), values)


class SystemEntropy:
    """The operating system's source of secrets."""

    def alphanumeric(self, length: int) -> str:
        """See `Entropy`."""
        return "".join(secrets.choice(_ALPHANUMERIC) for _ in range(length))

    def hex(self, length: int) -> str:
        """See `Entropy`."""
        return secrets.token_hex((length + 1) // 2)[:length]

    def uuid(self) -> str:
        """See `Entropy`."""
        return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))


_ALPHANUMERIC: Final = string.ascii_letters + string.digits
