"""From what was found, or has changed, to what is written."""

from collections.abc import Sequence

import typer

from magicstick.cli.get.documents import document, listing, written
from magicstick.cli.get.items import Item
from magicstick.cli.get.options import Output, Query
from magicstick.cli.get.reading import Found
from magicstick.cli.get.screen import Screen, standard_output
from magicstick.cli.get.watching import Change
from magicstick.cli.words import HARDWARE


class Show:
    """Writes results in the form that was asked for, and of changes only what shows in that form."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._shown: dict[tuple[str, str, str], object] = {}
        write, width = standard_output()
        self._screen = Screen(query, write, width=width)

    def found(self, found: Found) -> None:
        """The first look."""
        for item in found.items if self._query.watch else ():
            self._is_news(item)
        if self._query.output.is_table:
            self._screen.show(found.items)
        elif self._query.output is Output.NAME:
            self._names(found.items)
        elif self._query.watch:
            for obj in found.objects:
                self._change_as_data(Change("ADDED", obj))
        elif not self._query.single:
            typer.echo(written(listing(found.objects), self._query.output))
        elif found.objects:
            typer.echo(written(document(found.objects[0]), self._query.output))

    def change(self, change: Change) -> None:
        """One object changed."""
        if self._query.output in {Output.JSON, Output.YAML}:
            self._change_as_data(change)
            return
        for item in change.gone:
            self._shown.pop(_place(item), None)
            self._line(item, deleted=True)
        for item in change.items:
            if self._is_news(item):
                self._line(item)

    def _line(self, item: Item, *, deleted: bool = False) -> None:
        if self._query.output is Output.NAME:
            self._names([item])
        else:
            self._screen.change(item, deleted=deleted)

    def _names(self, items: Sequence[Item]) -> None:
        """Names that other commands take; hardware has none there, and shows only where it was asked for."""
        for item in items:
            if item.appearance is not HARDWARE or not self._query.overview:
                typer.echo(item.full_name)

    def _change_as_data(self, change: Change) -> None:
        content = document(change.obj)
        if self._query.events:
            content = {"type": change.type, "object": content}
        typer.echo(written(content, self._query.output, one_line=True))

    def _is_news(self, item: Item) -> bool:
        """Whether the line of an item differs from the last one of it, its age aside."""
        named = self._query.output is Output.NAME
        place, now = _place(item), item.version if named else self._screen.signature(item)
        before = self._shown.get(place)
        self._shown[place] = now
        return before != now


def _place(item: Item) -> tuple[str, str, str]:
    return (item.appearance.kind.plural, item.key.namespace, item.key.name)
