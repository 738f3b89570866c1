"""How a command fails: one line for the person, an exit code for the script."""

from typing import Final

FAILED: Final = 1
"""It could not be done, a check found differences, or what was asked for is not there."""
MISUSED: Final = 2
"""A flag, an argument or a setting is wrong."""
UNREACHABLE: Final = 3
"""The cluster could not be asked: no usable kubeconfig, no answer, or the credentials were refused."""
FORBIDDEN: Final = 4
"""The cluster answered that this user may not do it."""
INTERRUPTED: Final = 130


class CommandError(Exception):
    """A command ends with `code`, and the message says why and what to do. Never a fault of the program."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
