"""Follows the appliance until it is Ready, or until somebody ends it, and shows what is seen."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console
from rich.live import Live

from hack.dev.appliance import Reader
from hack.dev.models import ModelStage
from hack.dev.operator import OperatorProcess, Program
from hack.dev.view import Instance, Model, PalenaObject, Picture, headline, now, view

POLL_S: Final = 0.5
Show = Callable[[Picture], None]
Settled = Callable[[Picture], bool]
Said = tuple[str, tuple[str, str, str], str]
"""What is told: of whom, its state, the line."""


class Follower:
    """Shows the appliance: a live table on a terminal, a line for each change elsewhere."""

    def __init__(
        self,
        reader: Reader,
        operator: OperatorProcess,
        models: ModelStage,
        console: Console,
        is_settled: Settled,
    ) -> None:
        self._reader, self._operator, self._models, self._console = reader, operator, models, console
        self._is_settled = is_settled
        self._states: dict[str, tuple[str, str, str]] = {}
        self._pause = threading.Event()

    def until_ready(self, deadline: float | None) -> bool:
        """Follow until Ready. False, with the reasons printed, when that fails."""
        with self._shown() as show:
            while True:
                picture = self._look(show)
                if self._is_settled(picture):
                    return True
                if self._ended() is not None or (deadline and time.monotonic() > deadline):
                    break
                self._pause.wait(POLL_S)
        self._explain(picture)
        return False

    def forever(self) -> int:
        """Follow until somebody stops us or one of our programs ends by itself."""
        with self._shown() as show:
            while (ended := self._ended()) is None:
                self._look(show)
                self._pause.wait(POLL_S)
        self._console.print(_last_words(ended), markup=False)
        return 1

    def _look(self, show: Show) -> Picture:
        picture = self._reader.picture()
        show(picture)
        self._models.go_on(picture)
        return picture

    def _ended(self) -> Program | None:
        """A program of ours that should run and does not."""
        programs = (self._operator, self._models.catalog)
        return next((each for each in programs if each is not None and each.ended() is not None), None)

    def _explain(self, picture: Picture) -> None:
        if (ended := self._ended()) is not None:
            self._console.print(_last_words(ended), markup=False)
            return
        self._console.print(f"not Ready within the deadline. {headline(picture.appliance)}", markup=False)
        for row in picture.rows:
            if row.phase not in {"Ready", "Disabled"}:
                self._console.print(f"  {row.module}: {row.phase}, {row.reason}: {row.message}", markup=False)
        for each in picture.hardware:
            if each.phase != "Ready":
                self._console.print(f"  {each.vendor} GPUs: {each.phase}: {each.message}", markup=False)
        shown: tuple[Model | Instance | PalenaObject, ...]
        shown = (*picture.models, *picture.instances, *picture.palena)
        for one in shown:
            if one.phase not in {"Ready", "Disabled", "Suspended", "Running"}:
                self._console.print(f"  {one.name}: {one.phase}, {one.reason}: {one.message}", markup=False)
        self._console.print(f"the operator's log: {self._operator.log}", markup=False)

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Show]:
        if not self._console.is_terminal:
            yield self._lines
            return
        with Live(console=self._console, auto_refresh=False) as live:
            yield lambda picture: live.update(view(picture, now()), refresh=True)

    def _lines(self, picture: Picture) -> None:
        title = headline(picture.appliance)
        for name, state, text in (*said(picture), ("", (title, "", ""), title)):
            if self._states.get(name) != state:
                self._states[name] = state
                self._console.print(text, markup=False)


def said(picture: Picture) -> Iterator[Said]:
    """A line for each thing that a picture shows."""
    for row in picture.rows:
        yield row.module, row.state, f"  {row.module}: {row.phase} {row.reason}"
    for gpus in picture.hardware:
        name, counts = f"{gpus.vendor} GPUs", f"{gpus.nodes} nodes, {gpus.allocatable} allocatable"
        yield name, gpus.state, f"  {name}: {gpus.phase}, {counts}"
    for model in picture.models:
        name = f"model {model.name}"
        yield name, model.state, f"  {name}: {model.phase} {model.reason}"
    for one in picture.instances:
        name = f"instance {one.name}"
        yield name, one.state, f"  {name}: {one.phase} {one.reason} {one.shown_addresses}".rstrip()
    for each in picture.palena:
        yield each.title, each.state, f"  {each.title}: {each.phase} {each.reason}".rstrip()


def _last_words(program: Program) -> str:
    return f"the {program.name} ended with {program.ended()}:\n{program.tail()}"
