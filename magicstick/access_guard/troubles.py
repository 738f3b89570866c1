"""What the log is told: troubles of others when they begin and end, faults of ours each time."""

import traceback

import structlog

log = structlog.get_logger(__name__)


def report_fault(error: BaseException) -> None:
    """Tell of a fault of ours: what it is and where, not its message, which may quote what was asked."""
    frames = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    log.error("a question could not be answered, which is a no", fault=type(error).__name__, frames=frames)


class Troubles:
    """One line for each beginning and each end."""

    def __init__(self) -> None:
        self._present: set[str] = set()

    def began(self, who: str, why: str) -> None:
        """Somebody could not be asked, perhaps again."""
        if who not in self._present:
            self._present.add(who)
            log.warning("somebody cannot be asked; what depends on it is denied", who=who, why=why)

    def ended(self, who: str) -> None:
        """Somebody answered."""
        if who in self._present:
            self._present.discard(who)
            log.info("somebody answers again", who=who)
