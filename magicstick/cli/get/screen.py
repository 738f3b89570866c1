"""Tables on a terminal (coloured, cut to its width) or in a pipe (plain, whole)."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import typer

from magicstick.api.appearances import APPLIANCE, Appearance
from magicstick.cli.get.items import DELETED, Item
from magicstick.cli.get.options import Output, Query, SortBy
from magicstick.cli.get.phases import STYLES, attention
from magicstick.cli.get.summary import Span, summary
from magicstick.cli.get.table import PHASE, Layout, Style, cells, columns, header
from magicstick.cli.streams import terminal

EPOCH: Final = datetime.fromtimestamp(0, UTC)

Write = Callable[[Sequence[Span]], None]


class Screen:
    """Where tables go. It knows what it has shown, so that changes go on in the same columns."""

    def __init__(self, query: Query, write: Write, *, width: int | None) -> None:
        wide = query.output is Output.WIDE
        self._query = query
        self._write = write
        self._style = Style(
            wide=wide,
            namespaces=not query.namespace,
            prefixed=len(query.wanted) > 1,
            width=None if wide else width,
        )
        self._layouts: dict[str, Layout] = {}
        self._last: Appearance | None = None
        self._begun = False

    def show(self, items: Sequence[Item]) -> None:
        """Write everything: the Appliance in a line, then a table for each kind that has items."""
        for item in items:
            if self._sums_up(item):
                self._summary(item)
        for appearance in dict.fromkeys(item.appearance for item in items if not self._sums_up(item)):
            self._table(appearance, [item for item in items if item.appearance is appearance])

    def signature(self, item: Item) -> object:
        """What of an item shows, its age aside: as long as it stays, there is no news."""
        if self._sums_up(item):
            return summary(item, namespaces=self._style.namespaces, width=self._style.width)
        return cells(item, self._style, EPOCH)

    def change(self, item: Item, *, deleted: bool = False) -> None:
        """Write one line about what has become of an item."""
        if self._sums_up(item) and not deleted:
            self._summary(item)
            return
        layout = self._layout(item.appearance)
        line = cells(item, self._style, _now(), deleted=deleted)
        layout.add(line)
        if item.appearance is not self._last:
            self._header(item.appearance)
        self._line(item, line, layout, deleted=deleted)

    def _table(self, appearance: Appearance, items: Sequence[Item]) -> None:
        layout, now = self._layout(appearance), _now()
        lines = [(item, cells(item, self._style, now)) for item in ordered(items, self._query.sort_by)]
        for _, line in lines:
            layout.add(line)
        self._header(appearance)
        for item, line in lines:
            self._line(item, line, layout)

    def _header(self, appearance: Appearance) -> None:
        """Before the lines of a kind; after those of another, with an empty line in between."""
        if self._query.headers:
            if self._begun:
                self._write([])
            line = header(appearance, self._style)
            self._write([("".join(self._layouts[appearance.kind.plural].padded(line)), "bold")])
        self._last, self._begun = appearance, True

    def _line(self, item: Item, line: Sequence[str], layout: Layout, *, deleted: bool = False) -> None:
        names = [column.name for column in columns(item.appearance, self._style)]
        coloured = len(line) - len(names) + names.index(PHASE) if PHASE in names else -1
        style = STYLES[attention(DELETED if deleted else item.phase)]
        self._write(
            [(cell, style if number == coloured else "") for number, cell in enumerate(layout.padded(line))]
        )

    def _layout(self, appearance: Appearance) -> Layout:
        """The layout of a kind's table; a new one has room for the header."""
        plural = appearance.kind.plural
        if plural not in self._layouts:
            self._layouts[plural] = Layout(self._style)
            if self._query.headers:
                self._layouts[plural].add(header(appearance, self._style))
        return self._layouts[plural]

    def _sums_up(self, item: Item) -> bool:
        """Whether it is shown as the line that sums everything up."""
        return self._query.overview and self._query.headers and item.appearance is APPLIANCE

    def _summary(self, item: Item) -> None:
        self._write(summary(item, namespaces=self._style.namespaces, width=self._style.width))
        self._begun = True


def ordered(items: Sequence[Item], by: SortBy) -> list[Item]:
    """The items of one kind, as asked for; those that are equal in that by name."""
    named = sorted(items, key=lambda item: item.key)
    if by is SortBy.AGE:
        return sorted(named, key=lambda item: item.created, reverse=True)
    if by is SortBy.PHASE:
        return sorted(named, key=lambda item: (attention(item.phase), item.phase))
    return named


def _now() -> datetime:
    return datetime.now(UTC)


def standard_output() -> tuple[Write, int | None]:
    """How to write a line to standard output, and how wide it may be; None where that does not matter."""
    if not sys.stdout.isatty():
        return lambda spans: typer.echo("".join(text for text, _ in spans)), None
    from rich.text import Text  # noqa: PLC0415 - takes long to import, and a pipe needs none of it

    console = terminal()

    def write(spans: Sequence[Span]) -> None:
        console.print(Text.assemble(*spans), soft_wrap=True)

    return write, console.width
