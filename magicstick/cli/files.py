"""Generated files: printed, written, or compared with what is there."""

from collections.abc import Mapping
from pathlib import Path

from magicstick.cli.errors import FAILED, MISUSED, CommandError


def deliver(files: Mapping[Path, str], *, write: bool, check: bool, remedy: str) -> list[str]:
    """Write the files where they differ, or find out whether they do; the names of those that were written.

    Args:
        files: the text of each file.
        write: whether to write or to compare.
        check: compare only.
        remedy: the command that mends a difference.

    Raises:
        CommandError: a file differs, or cannot be read or written.
    """
    if check and not write:
        raise CommandError("--check needs --output, the place to compare with", MISUSED)
    try:
        differing = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
        if check:
            if differing:
                raise CommandError(f"out of date: {', '.join(map(str, differing))}; run '{remedy}'", FAILED)
            return []
        for path in differing:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[path])
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error
    return [str(path) for path in differing]
