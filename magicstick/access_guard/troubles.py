"""What is wrong with those whom the guard asks: told when it begins and when it ends, not at each request."""

import structlog

log = structlog.get_logger(__name__)


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
