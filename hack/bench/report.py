"""Figures beside their yardsticks and limits, as a table and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    Attributes:
        name: what was measured.
        value: the operator's figure, in `unit`.
        unit: `ms`, `s`, `MiB`, `requests`, or nothing for a plain number.
        yardstick: the same measured in the same run without the operator; None where there is none.
        limit: the most that `value` may be.
        limit_ratio: the most that `value / yardstick` may be.
        ratio: given where it is not simply that quotient (a median of quotients).
    """

    name: str
    value: float
    unit: str
    yardstick: float | None
    limit: float | None = None
    limit_ratio: float | None = None
    ratio: float | None = None

    @property
    def times(self) -> float | None:
        """How many times the yardstick."""
        if self.ratio is not None or not self.yardstick:
            return self.ratio
        return self.value / self.yardstick

    @property
    def kept(self) -> bool:
        """Whether the limits are kept."""
        within = self.limit is None or self.value <= self.limit
        times = self.times
        return within and (self.limit_ratio is None or (times is not None and times <= self.limit_ratio))


def as_json(results: Mapping[str, Sequence[Figure]]) -> dict[str, object]:
    """All figures by scenario, each with its ratio and verdict."""
    return {
        scenario: [{**asdict(figure), "ratio": figure.times, "kept": figure.kept} for figure in figures]
        for scenario, figures in results.items()
    }


def show(results: Mapping[str, Sequence[Figure]], console: Console) -> None:
    """The table for people."""
    table = Table(title="magicstick, measured", title_justify="left")
    for heading, justify in (
        ("figure", "left"),
        ("value", "right"),
        ("yardstick", "right"),
        ("ratio", "right"),
    ):
        table.add_column(heading, justify="right" if justify == "right" else "left")
    table.add_column("limit")
    table.add_column("")
    for figures in results.values():
        for figure in figures:
            table.add_row(*_row(figure))
    console.print(table)


def _row(figure: Figure) -> list[str]:
    limits = []
    if figure.limit is not None:
        limits.append(f"{figure.limit:g} {figure.unit}".strip())
    if figure.limit_ratio is not None:
        limits.append(f"{figure.limit_ratio:g} x")
    return [
        figure.name,
        f"{figure.value:.2f} {figure.unit}".strip(),
        "" if figure.yardstick is None else f"{figure.yardstick:.2f}",
        "" if figure.times is None else f"{figure.times:.2f}",
        " and ".join(limits),
        "kept" if figure.kept else "[red]missed[/red]",
    ]
