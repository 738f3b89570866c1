"""`python -m magicstick.catalogs render`: writes manifests/catalogs and catalogs/schemas."""

import argparse
import sys
from pathlib import Path

from magicstick.catalogs.render import RenderError, stale, write


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0, or 1 when a source is wrong or, with --check, a file is stale."""
    parser = argparse.ArgumentParser(prog="python -m magicstick.catalogs", description=__doc__)
    parser.add_argument("command", choices=["render"], help="make the ConfigMaps and the JSON schemas")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository; default: this folder")
    options = parser.parse_args(arguments)
    try:
        paths = stale(options.root) if options.check else write(options.root)
    except RenderError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command's answer
        return 1
    for path in paths:
        print(f"{'stale' if options.check else 'wrote'}: {path}")  # noqa: T201 - a command's answer
    return 1 if options.check and paths else 0


if __name__ == "__main__":
    sys.exit(main())
