"""What a phase means to a person, whatever kind it belongs to: is anything to be done about it?"""

from enum import IntEnum
from typing import Final


class Attention(IntEnum):
    """How much attention a phase asks for, the most first."""

    FAILED = 0
    UNDER_WAY = 1
    WELL = 2
    AT_REST = 3


FAILED: Final = frozenset(
    {
        "Degraded",
        "Error",
        "Failed",
        "Rejected",
        "RolledBack",
        "Unsupported",
        "Conflict",
        "Blocked",
        "Interrupted",
    }
)
WELL: Final = frozenset({"Ready", "Running", "Succeeded"})
AT_REST: Final = frozenset({"Disabled", "Suspended", "NotRequired", "Deleted"})


def attention(phase: str) -> Attention:
    """What a phase asks for; one that is not known, or not reported yet, is under way."""
    if phase in FAILED:
        return Attention.FAILED
    if phase in WELL:
        return Attention.WELL
    return Attention.AT_REST if phase in AT_REST else Attention.UNDER_WAY


STYLES: Final = {
    Attention.FAILED: "bold red",
    Attention.UNDER_WAY: "yellow",
    Attention.WELL: "green",
    Attention.AT_REST: "dim",
}
"""Its style on a terminal."""
