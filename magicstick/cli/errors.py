"""How a command fails: one line for the person, an exit code for the script."""

from typing import Final

FAILED: Final = 1
"""It could not be done, or a check found differences."""
MISUSED: Final = 2
"""A flag, an argument or a setting is wrong."""
INTERRUPTED: Final = 130


class CommandError(Exception):
    """A command ends with `code`, and the message says why and what to do. Never a fault of the program."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
