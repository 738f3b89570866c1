"""Which requirements of docs/requirements.md no test carries: `python -m hack.requirements`.

Marks are read from the source of the tests (not by importing them), so the answer needs neither a
cluster nor installed packages. Exit code 1 when a test carries an id that does not exist, when an area
named with `--closed` has an open row that `--except` does not name, or when a row named there is not open
any more: an exception ends with its reason.
"""

import argparse
import ast
import functools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "requirements.md"
TESTS = ROOT / "tests"
ROW = re.compile(r"^\| ((?:MS|PA)-\d{3}) \| (?P<text>.*?) \| .* \| (?P<area>[a-z-]+) \|$")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of the table."""

    id: str
    text: str
    area: str


@dataclass(frozen=True, slots=True)
class Mark:
    """One `req(...)` mark in a test file."""

    id: str
    place: str


def read_table(path: Path = TABLE) -> dict[str, Requirement]:
    """All rows by id. Raises ValueError for an id that stands twice or a row that cannot be read."""
    rows: dict[str, Requirement] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.startswith(("| MS-", "| PA-")):
            continue
        match = ROW.match(line)
        if match is None:
            raise ValueError(f"{path.name}:{number}: not a row of id, text, seed, spec and area")
        row = Requirement(match[1], match["text"], match["area"])
        if row.id in rows:
            raise ValueError(f"{path.name}:{number}: {row.id} stands twice")
        rows[row.id] = row
    return rows


def marks_in(source: str, place: str) -> Iterator[Mark]:
    """Every string given to a call of `….mark.req(...)` in a module's source."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value
        if node.func.attr != "req" or not (isinstance(owner, ast.Attribute) and owner.attr == "mark"):
            continue
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield Mark(argument.value, f"{place}:{argument.lineno}")
            else:
                raise ValueError(f"{place}:{node.lineno}: req(...) takes literal ids")  # noqa: TRY004 - a wrong source, not a wrong argument


@functools.cache
def read_marks(folder: Path = TESTS) -> tuple[Mark, ...]:
    """The marks of all test modules below `folder`, read once in a process."""
    return tuple(
        mark
        for path in sorted(folder.rglob("*.py"))
        for mark in marks_in(path.read_text(), str(path.relative_to(folder.parent)))
    )


def open_by_area(rows: dict[str, Requirement], marks: Iterable[Mark]) -> dict[str, list[Requirement]]:
    """The rows without a mark, by area; areas without an open row have an empty list."""
    carried = {mark.id for mark in marks}
    areas: dict[str, list[Requirement]] = defaultdict(list)
    for row in rows.values():
        areas[row.area].extend([] if row.id in carried else [row])
    return dict(sorted(areas.items()))


def broken_promises(
    areas: dict[str, list[Requirement]], closed: list[str], excepted: list[str]
) -> Iterator[str]:
    """What is open and must not be, and which exceptions are none, a line each.

    Args:
        areas: as `open_by_area` has them.
        closed: the areas that must have no open row.
        excepted: the ids of rows that may be open in them all the same.
    """
    for area in closed:
        if missing := [row.id for row in areas[area] if row.id not in excepted]:
            yield f"area {area} must be closed, open: {', '.join(missing)}"
    still_open = {row.id for area in closed for row in areas[area]}
    if needless := [each for each in excepted if each not in still_open]:
        yield f"no open row of a closed area, and so no exception: {', '.join(needless)}"


def report(areas: dict[str, list[Requirement]], rows: dict[str, Requirement], *, verbose: bool) -> str:
    """The table for people."""
    totals: dict[str, int] = defaultdict(int)
    for row in rows.values():
        totals[row.area] += 1
    lines = []
    for area, missing in areas.items():
        lines.append(f"{area:22} {len(missing):3} open of {totals[area]:3}")
        if verbose:
            lines += [f"    {row.id}  {row.text}" for row in missing]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.requirements",
        description="List the requirements that no test carries, per area.",
        epilog="example: python -m hack.requirements --closed core,api -v",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="list the open rows themselves")
    parser.add_argument("--area", help="only this area")
    parser.add_argument("--closed", default="", help="areas, comma separated, that must have no open row")
    parser.add_argument(
        "--except", dest="excepted", default="", help="rows, comma separated, that closed areas may lack"
    )
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    rows, marks = read_table(), read_marks()
    unknown = [mark for mark in marks if mark.id not in rows]
    for mark in unknown:
        sys.stderr.write(f"{mark.place}: {mark.id} is not in {TABLE.name}\n")
    areas = open_by_area(rows, marks)
    closed, excepted = _listed(options.closed), _listed(options.excepted)
    misnamed = [area for area in [*closed, *filter(None, [options.area])] if area not in areas]
    if misnamed:
        parser.error(f"no such area: {', '.join(misnamed)} (areas: {', '.join(areas)})")
    failures = [*broken_promises(areas, closed, excepted)]
    shown = {options.area: areas[options.area]} if options.area else areas
    if options.output == "json":
        print(json.dumps({area: [row.id for row in missing] for area, missing in shown.items()}, indent=2))
    else:
        print(report(shown, rows, verbose=options.verbose))
    for failure in failures:
        sys.stderr.write(f"{failure}\n")
    return 1 if unknown or failures else 0


def _listed(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


if __name__ == "__main__":
    sys.exit(main())
