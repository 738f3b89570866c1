"""Waiting for something with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

from hack.devcluster.errors import DeadlineError

T = TypeVar("T")

PAUSE_S = 0.025


def wait_until(
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Asks until the answer is true, and returns it.

    An error of the condition is the caller's: it ends the wait.

    Raises:
        DeadlineError: the deadline passed; names what was waited for.
    """
    deadline = clock() + timeout_s
    while not (answer := condition()):
        if clock() > deadline:
            raise DeadlineError(f"waited {timeout_s:g} s in vain for {what}")
        pause(PAUSE_S)
    return answer
