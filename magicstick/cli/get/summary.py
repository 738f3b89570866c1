"""The Appliance in one line."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from magicstick.cli.get.items import Item
from magicstick.cli.get.phases import STYLES, attention
from magicstick.cli.get.table import cut, printable, value_at

Span = tuple[str, str]
"""Text, and its style on a terminal; "" for none."""

READY_MESSAGE: Final = '.status.conditions[?(@.type=="Ready")].message'
RESTING: Final = frozenset({"Disabled", "Suspended"})


def summary(item: Item, *, namespaces: bool, width: int | None) -> list[Span]:
    """Such a line is `Appliance local: Degraded, 3 of 4 modules ready. Not working: litellm (Degraded)`.

    Args:
        item: the Appliance.
        namespaces: say its namespace too.
        width: cut the line to so many characters.
    """
    name = str(item.key) if namespaces else item.name
    phase, beginning = printable(item.phase), f"Appliance {name}: "
    if not phase:
        return [(f"{beginning}nothing is reported yet; is the operator running?", "")]
    rest = _counted(item) + _message(item)
    if width is not None:
        rest = cut(rest, max(width - len(beginning) - len(phase), 1))
    return [(beginning, ""), (phase, STYLES[attention(phase)]), (rest, "")]


def _counted(item: Item) -> str:
    status = value_at(".status", item.document)
    fields: Mapping[str, Any] = status if isinstance(status, Mapping) else {}
    counts = [_count(noun, _phases(fields.get(f"{noun}s"))) for noun in ("module", "instance", "model")]
    told = ", ".join(each for each in counts if each)
    return f", {told} ready." if told else "."


def _count(noun: str, phases: Sequence[str]) -> str:
    """How many of those that are wanted work."""
    wanted = [phase for phase in phases if phase not in RESTING]
    if not wanted:
        return ""
    return f"{wanted.count('Ready')} of {len(wanted)} {noun}{'' if len(wanted) == 1 else 's'}"


def _phases(entries: object) -> list[str]:
    """The phases in a map of entries, also where the map has two levels, as that of instances has."""
    if not isinstance(entries, Mapping):
        return []
    if "phase" in entries and isinstance(entries["phase"], str):
        return [entries["phase"]]
    return [phase for entry in entries.values() for phase in _phases(entry)]


def _message(item: Item) -> str:
    observed = value_at(".status.observedGeneration", item.document)
    if observed != value_at(".metadata.generation", item.document):
        return " It was changed since; the operator has not reported on that yet."
    message = printable(value_at(READY_MESSAGE, item.document))
    return f" {message}" if message else ""
