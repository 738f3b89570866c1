"""How long ago, in the words of kubectl."""

from datetime import UTC, datetime
from typing import Final

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY
UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

_STEPS: Final = (
    # below (s), unit (s), its letter, smaller unit (s; 0 for none), its letter
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)


def duration(seconds: int) -> str:
    """Whole seconds as kubectl writes them: `45s`, `5m10s`, `3h`, `2d4h`; two digits of sense."""
    if seconds < 0:
        return "0s" if seconds >= -1 else INVALID  # clocks differ a little, but not much
    for below, unit, letter, smaller, small_letter in _STEPS:
        if seconds < below:
            rest = seconds % unit // smaller if smaller else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{seconds // YEAR}y"


def age(timestamp: str, now: datetime) -> str:
    """How long ago the API's timestamp is; `<unknown>` for one that is missing or no timestamp."""
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return UNKNOWN
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return duration(int((now - then).total_seconds() // 1))
