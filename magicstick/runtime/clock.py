"""Time as controllers see it, injected so that tests own it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Two readings: one to measure with, one to write down."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; only differences mean something."""
        ...

    def now(self) -> datetime:
        """The present in UTC, aware of its zone."""
        ...


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """See `Clock`."""
        return time.monotonic()

    def now(self) -> datetime:
        """See `Clock`."""
        return datetime.now(UTC)
