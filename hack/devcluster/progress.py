"""Tells how a build goes: a live line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console

from hack.devcluster.programs import Program

PLAIN_INTERVAL_S = 30.0


class Task(Protocol):
    """Progress of one program."""

    def packages(self, count: int) -> None:
        """So many packages have been compiled."""

    def note(self, text: str) -> None:
        """Something worth a line of its own, such as a wait."""


class Progress:
    """Reports programs one after the other; knows how many there are.

    Guarantees that without a terminal a line appears at least every 30 s while something is compiled.
    """

    def __init__(
        self, total: int, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._total = total
        self._console = console or Console(stderr=True, highlight=False)
        self._clock = clock
        self._done = 0

    @contextmanager
    def task(self, program: Program) -> Iterator[Task]:
        """Announces a program, follows it, and says how long it took."""
        task = _Task(self._console, self._label(program), program.cold_build_s, self._clock)
        with task.shown():
            yield task
        self._done += 1
        left = self._total - self._done
        to_go = f", {left} to go" if left else ""
        self._console.print(
            f"{self._label(program, self._done)}: built in {task.elapsed()}{to_go}", soft_wrap=True
        )

    def _label(self, program: Program, number: int | None = None) -> str:
        return f"\\[{number or self._done + 1}/{self._total}] {program.name} {program.version}"


class _Task:
    def __init__(self, console: Console, label: str, usual_s: int, clock: Callable[[], float]) -> None:
        self._console, self._label, self._clock = console, label, clock
        self._usual = f"a first build takes about {usual_s} s on two cores"
        self._started = self._spoke = clock()
        self._status = console.status(f"{label}: {self._usual}") if console.is_terminal else None

    @contextmanager
    def shown(self) -> Iterator[None]:
        if self._status is None:
            self._console.print(f"{self._label}: building; {self._usual}", soft_wrap=True)
            yield
            return
        with self._status:
            yield

    def elapsed(self) -> str:
        minutes, seconds = divmod(round(self._clock() - self._started), 60)
        return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"

    def packages(self, count: int) -> None:
        text = f"{self._label}: {count} packages compiled, {self.elapsed()}; {self._usual}"
        if self._status is not None:
            self._status.update(text)
        elif self._clock() - self._spoke >= PLAIN_INTERVAL_S:
            self._spoke = self._clock()
            self._console.print(text, soft_wrap=True)

    def note(self, text: str) -> None:
        self._console.print(f"{self._label}: {text}", soft_wrap=True)
