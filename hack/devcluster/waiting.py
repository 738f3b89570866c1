"""Waiting for something with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

from hack.devcluster.errors import DeadlineError

T = TypeVar("T")

PAUSE_S = 0.025
LONGEST_PAUSE_S = 0.25
PATIENCE = 20
"""Who has waited long may well wait a twentieth longer: what is waited for needs the processors more."""
BREATH = 3
"""An answer that took long to find is not looked for more than a quarter of the time."""


def wait_until(
    condition: Callable[[], T | None],
    what: str,
    timeout_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Asks until the answer is true, and returns it; the less often, the longer that takes.

    An error of the condition is the caller's: it ends the wait.

    Raises:
        DeadlineError: the deadline passed; names what was waited for.
    """
    begun = asked = clock()
    while not (answer := condition()):
        now = clock()
        if now - begun > timeout_s:
            raise DeadlineError(f"waited {timeout_s:g} s in vain for {what}")
        pause(max(PAUSE_S, BREATH * (now - asked), min(LONGEST_PAUSE_S, (now - begun) / PATIENCE)))
        asked = clock()
    return answer
