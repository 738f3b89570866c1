"""`python -m hack.bench`: measure, show a table, write JSON, and fail when a limit is missed."""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from rich.console import Console

from hack.bench import apps, guard, memory, models, palena, scenarios
from hack.bench.report import Figure, as_json, show

Scenario = Callable[[Path], Awaitable[list[Figure]]]
SCENARIOS: dict[str, Scenario] = {
    "latency": scenarios.latency,
    "converge": scenarios.converge,
    "cold-start": scenarios.cold_start,
    "scaling": scenarios.scaling,
    "memory": memory.memory,
    "guard": guard.guard,
    "models": models.models,
    "apps": apps.apps,
    "palena": palena.palena,
}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.bench",
        description="Measure the operator on a real control plane, each figure beside its yardstick.",
        epilog="example: make bench ARGS='latency converge -o json'",
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--results", type=Path, default=Path("bench-results"), help="folder for the JSON")
    parser.add_argument("--keep", action="store_true", help="keep the logs of the runs")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"no such scenario: {', '.join(unknown)} (there are: {', '.join(SCENARIOS)})")
    return options


async def measure(names: list[str], directory: Path, console: Console) -> dict[str, list[Figure]]:
    """Run the scenarios one after the other."""
    results = {}
    for position, name in enumerate(names, 1):
        console.print(f"[{position}/{len(names)}] {name} …", highlight=False, markup=False)
        results[name] = await SCENARIOS[name](directory / name)
    return results


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns the exit code: 1 when a limit is missed."""
    options = parse(arguments)
    console = Console(stderr=options.output == "json")
    directory = Path(tempfile.mkdtemp(prefix="magicstick-bench-"))
    results = uvloop.run(measure(options.scenarios or list(SCENARIOS), directory, console))
    machine = {
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    document = json.dumps({"machine": machine, "results": as_json(results)}, indent=2)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "latest.json").write_text(document + "\n")
    if options.output == "json":
        print(document)
    else:
        show(results, console)
    if options.keep:
        console.print(f"logs: {directory}", highlight=False)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if all(figure.kept for figures in results.values() for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
