"""Standard output and error that take every text, and what becomes of a command that cannot write.

A terminal may know fewer characters than a message has, the streams may be closed, a disk may be full:
none of these is worth a traceback.
"""

import errno
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

L = TypeVar("L")

UNWRITABLE: Final = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})
"""What a write into an open file fails with when the file takes no more."""


def prepare() -> None:
    """Have both streams write what their encoding lacks as an escape; a closed one takes all, silently."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def give_up() -> None:
    """Let standard output go nowhere, so that Python does not try at exit to write the rest."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def speaks_unicode() -> bool:
    """Whether standard output has every character; data is written in ASCII where it does not."""
    return (sys.stdout.encoding or "").lower().replace("-", "").replace("_", "") == "utf8"


def terminal() -> "Console":
    """Standard output as a terminal. Where COLUMNS is 0, rich by itself would write nothing at all."""
    from rich.console import Console  # noqa: PLC0415 - takes long to import, and a pipe needs none of it

    return Console(highlight=False, width=shutil.get_terminal_size().columns)


def write_lines(lines: Iterable[L], styled: "Callable[[L], Text]") -> None:
    """Plain text into a pipe, whatever `str` makes of a line; `styled` on a terminal, which imports rich."""
    if not sys.stdout.isatty():
        for line in lines:
            typer.echo(str(line))
        return
    console = terminal()
    for line in lines:
        console.print(styled(line), soft_wrap=True)
