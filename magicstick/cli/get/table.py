"""Lines and their cells: the columns of a kind's definition, for people and for scripts.

Guarantees: every cell but that of a message is one word or `-`, so that a script can count columns; no
cell holds a line break or a control character, whatever somebody wrote into an object.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from magicstick.api.appearances import Appearance, Column
from magicstick.cli.get.age import age
from magicstick.cli.get.items import DELETED, Item
from magicstick.cli.get.phases import Attention, attention

NOTHING: Final = "-"
GAP: Final = "   "
MESSAGE: Final = "Message"
PHASE: Final = "Phase"
LEAST_MESSAGE: Final = 16
"""A message is not cut shorter than so, however narrow the terminal."""
ELLIPSIS: Final = "…"

_STEP: Final = re.compile(
    r"""\.(?P<key>[A-Za-z0-9_-]+)
    |\[\?\(@\.(?P<field>[A-Za-z0-9_-]+)\s*==\s*"(?P<value>[^"]*)"\)\]""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Style:
    """What a table shows."""

    wide: bool = False
    """Every column, and whole messages."""
    namespaces: bool = False
    """A column of namespaces first."""
    prefixed: bool = False
    """Names with their kind, as tables of several kinds have them."""
    width: int | None = None
    """Cut messages so that lines are no longer; None for no limit."""


def columns(appearance: Appearance, style: Style) -> tuple[Column, ...]:
    """The columns after the name: those of `kubectl get` and the message, or all of them."""
    if style.wide:
        return appearance.columns
    plain = [column for column in appearance.columns if not column.priority]
    return (*plain, *(column for column in appearance.columns if column.name == MESSAGE))


def header(appearance: Appearance, style: Style) -> tuple[str, ...]:
    """The first line."""
    first = ("NAMESPACE", "NAME") if style.namespaces else ("NAME",)
    return (*first, *(column.name.upper() for column in columns(appearance, style)))


def cells(item: Item, style: Style, now: datetime, *, deleted: bool = False) -> tuple[str, ...]:
    """The line of an item. `deleted` says so in place of its phase."""
    name = f"{item.appearance.singular}/{item.name}" if style.prefixed else item.name
    first = (item.key.namespace or NOTHING, name) if style.namespaces else (name,)
    return (*first, *(_cell(column, item, style, now, deleted=deleted) for column in _shown(item, style)))


def _shown(item: Item, style: Style) -> tuple[Column, ...]:
    return columns(item.appearance, style)


def _cell(column: Column, item: Item, style: Style, now: datetime, *, deleted: bool) -> str:
    if column.name == PHASE and deleted:
        return DELETED
    value = value_at(column.path, item.document)
    if column.type == "date":
        return age(str(value or ""), now)
    if column.name == MESSAGE:
        needless = not style.wide and attention(item.phase) is Attention.WELL
        return "" if needless else printable(value)
    return printable(value).replace(" ", "_") or NOTHING


def value_at(path: str, document: object) -> object:
    """The value at a JSONPath of a column (`.a.b`, `[?(@.type=="Ready")]`); None where there is none.

    Raises:
        ValueError: the path is none that columns use.
    """
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f"not a path of a column: {path!r}")
        document = _step(step, document)
        position = step.end()
    return document


def _step(step: re.Match[str], document: object) -> object:
    if step["key"]:
        return document.get(step["key"]) if isinstance(document, Mapping) else None
    entries = document if isinstance(document, Sequence) and not isinstance(document, str) else ()
    matching = (
        each for each in entries if isinstance(each, Mapping) and each.get(step["field"]) == step["value"]
    )
    return next(matching, None)


def printable(value: object) -> str:
    """A value on one line. What a terminal would act upon is written as an escape."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        value = ",".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class Layout:
    """The widths of one table, which grow with what is added, and lines that fit them."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._widths: list[int] = []

    def add(self, line: Sequence[str]) -> None:
        """Take a line into account."""
        self._widths += [0] * (len(line) - len(self._widths))
        for number, cell in enumerate(line):
            self._widths[number] = max(self._widths[number], len(cell))

    def padded(self, line: Sequence[str]) -> list[str]:
        """The cells as they are written one after the other; joined, a line without spaces at its end."""
        written = [f"{cell:{width}}{GAP}" for cell, width in zip(line[:-1], self._widths, strict=False)]
        last = line[-1]
        if self._style.width is not None:
            last = cut(last, max(self._style.width - sum(map(len, written)), LEAST_MESSAGE))
        written.append(last)
        while len(written) > 1 and not written[-1]:
            written.pop()
            written[-1] = written[-1].rstrip()
        return written


def cut(text: str, limit: int) -> str:
    """At most so many characters, the last an ellipsis where some are missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + ELLIPSIS
