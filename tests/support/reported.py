"""What a mirror shows of objects that are reported on: their status, and waiting for it."""

import json

from magicstick.runtime.conditions import find
from tests.support.mirror import Mirror, Object


class Reported:
    """The objects of one collection, as a mirror shows them."""

    def __init__(self, mirror: Mirror, path: str) -> None:
        self.mirror, self.path = mirror, path

    def get(self, name: str) -> Object | None:
        """One of them."""
        return self.mirror.get(self.path, name)

    async def until_seen(self, name: str, answer: bytes) -> None:
        """Wait until the mirror shows what the server answered to a write, or something newer."""
        version = int(json.loads(answer)["metadata"]["resourceVersion"])
        await self.mirror.until(f"{name} is seen", lambda: self._version(name) >= version)

    def status(self, name: str) -> Object:
        """What is reported of the present generation; {} while nothing is."""
        found = self.get(name) or {}
        status: Object = found.get("status", {})
        current = status.get("observedGeneration") == found.get("metadata", {}).get("generation")
        return status if current else {}

    def reason(self, name: str) -> str:
        """The reason of the Ready condition."""
        return str((find(self.status(name).get("conditions", ()), "Ready") or {}).get("reason", ""))

    async def until(self, name: str, phase: str, reason: str = "") -> Object:
        """Wait until one of them is reported in this phase, for this reason; its status."""
        await self.mirror.until(
            f"{name} is {phase} {reason}",
            lambda: self.status(name).get("phase") == phase and reason in ("", self.reason(name)),
        )
        return self.status(name)

    def _version(self, name: str) -> int:
        return int((self.get(name) or {"metadata": {}})["metadata"].get("resourceVersion", 0))
