"""What the words of a command line ask for: kinds by any of their names, and objects by name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from magicstick.api.appearances import (
    APPLIANCE,
    APPLIANCE_APPEARANCES,
    CATEGORY,
    PALENA_APPEARANCES,
    PALENA_CATEGORY,
    Appearance,
    Column,
)
from magicstick.api.kinds import HOME_NAMESPACE
from magicstick.cli.errors import MISUSED, CommandError
from magicstick.kube.kinds import Kind

HARDWARE: Final = Appearance(
    Kind("", "", "Hardware", "hardware"),
    ("hw",),
    (
        Column("Vendor", "string", ".vendor"),
        Column("Phase", "string", ".phase"),
        Column("Manager", "string", ".managedBy"),
        Column("Nodes", "string", ".detectedNodes"),
        Column("Allocatable", "integer", ".allocatableResources"),
        Column("Supported", "string", ".supportedNodes", priority=1),
        Column("Version", "string", ".operatorVersion", priority=1),
        Column("Message", "string", ".message", priority=1),
    ),
)
"""No kind of the API: the entries of `Appliance.status.hardwareOperators`, one for each vendor."""

LISTED: Final = (APPLIANCE, HARDWARE, *(each for each in APPLIANCE_APPEARANCES if each is not APPLIANCE))
"""What is shown of the appliance, in this order."""
KNOWN: Final = (*LISTED, *PALENA_APPEARANCES)
"""What can be asked for."""
GROUPS: Final = {"all": LISTED, CATEGORY: LISTED, PALENA_CATEGORY: PALENA_APPEARANCES}
"""Words for several kinds at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Objects of one kind: those of these names, or all."""

    appearance: Appearance
    names: tuple[str, ...] = ()

    @property
    def source(self) -> Kind:
        """The kind to read; that of the Appliance for hardware, which its status tells of."""
        return APPLIANCE.kind if self.appearance is HARDWARE else self.appearance.kind


def names_of(appearance: Appearance) -> Iterator[str]:
    """Every word that stands for a kind, in lower case, the plural first."""
    kind = appearance.kind
    yield kind.plural
    if appearance.singular != kind.plural:
        yield appearance.singular
    yield from (name for name in appearance.short_names if name != appearance.singular)
    yield from appearance.spoken
    if kind.group:
        for name in (kind.plural, appearance.singular):
            yield f"{name}.{kind.group}"
            yield f"{name}.{kind.version}.{kind.group}"


def kind_called(word: str) -> Appearance:
    """The kind of this name: plural, singular, short, spoken or full, in any case.

    Raises:
        CommandError: no kind is called so; the message lists those there are.
    """
    known = {name: appearance for appearance in KNOWN for name in names_of(appearance)}
    found = known.get(word.lower())
    if found is not None:
        return found
    import difflib  # noqa: PLC0415 - only who mistypes waits for it

    near = difflib.get_close_matches(word.lower(), known, 1, cutoff=0.7)
    guess = f" (did you mean {near[0]!r}?)" if near else ""
    kinds = ", ".join((each.spoken or (each.kind.plural,))[-1] for each in KNOWN)
    raise CommandError(f"there is no kind {word!r}{guess}; kinds are {kinds}", MISUSED)


def wanted(words: Sequence[str]) -> tuple[Wanted, ...]:
    """What the words ask for, as kubectl reads them; everything of the appliance where there are none.

    Forms: `KIND`, `KIND,KIND`, `KIND NAME…`, `KIND/NAME…`. Asking twice for a kind shows it once.

    Raises:
        CommandError: a kind that is none, a form that is none of these, an empty name.
    """
    group = LISTED if not words else GROUPS.get(words[0].lower()) if len(words) == 1 else None
    if group is not None:
        return tuple(Wanted(each) for each in group)
    if any("/" in word for word in words):
        return _pairs(words)
    kinds = [kind_called(word) for word in words[0].split(",")]
    names = tuple(dict.fromkeys(words[1:]))
    if names and len(kinds) > 1:
        raise CommandError("names need one kind: 'magicstick get KIND NAME…' or 'KIND/NAME…'", MISUSED)
    return tuple(Wanted(kind, names) for kind in dict.fromkeys(kinds))


def _pairs(words: Sequence[str]) -> tuple[Wanted, ...]:
    names: dict[Appearance, dict[str, None]] = {}
    for word in words:
        kind, slash, name = word.partition("/")
        if not slash or not name or "/" in name:
            raise CommandError(f"{word!r} is no KIND/NAME, as the other words are", MISUSED)
        names.setdefault(kind_called(kind), {})[name] = None
    return tuple(Wanted(kind, tuple(found)) for kind, found in names.items())


def usual_namespace(asked: Sequence[Wanted]) -> str:
    """Where objects of these kinds usually are; "" for anywhere, as with those of Palena without a name."""
    anywhere = all(each.appearance in PALENA_APPEARANCES and not each.names for each in asked)
    return "" if anywhere else HOME_NAMESPACE
