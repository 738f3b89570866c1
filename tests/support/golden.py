"""Golden files: what a builder makes, as YAML that people can read and review, and what people are shown.

`GOLDEN_UPDATE=1` writes them anew instead of comparing.
"""

import os
from pathlib import Path
from typing import Any

from hack import yamls

FOLDER = Path(__file__).parents[1] / "golden"


def check(name: str, made: Any) -> None:
    """Compare `made` with the golden file `name`.yaml."""
    path = FOLDER / f"{name}.yaml"
    if os.environ.get("GOLDEN_UPDATE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yamls.dump(made, sort_keys=False))
    assert made == yamls.load(path.read_text())


def check_text(name: str, written: str) -> None:
    """Compare what was written for people with the golden file `name`.txt."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("GOLDEN_UPDATE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written)
    assert written == path.read_text()


def load(folder: str) -> dict[str, Any]:
    """All golden files of a folder, by name."""
    return {path.stem: yamls.load(path.read_text()) for path in sorted((FOLDER / folder).glob("*.yaml"))}
