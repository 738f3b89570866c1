"""Restarts those who read the catalog only at their start: their Pods are deleted, others take their place.

Guarantees: a Pod is deleted by its uid, at most once for a round; a round that was cut off goes on with
the Pods that it began with, or, after a restart of this process, begins anew. Rounds begin at least a
minute apart, and one of several publications is enough (spec: companions §1.8).
"""

from collections.abc import Mapping
from typing import Final

import structlog

from magicstick.kube.client import Client
from magicstick.kube.errors import ApiError, Conflict, NotFound
from magicstick.kube.kinds import POD, ObjectKey
from magicstick.kube.objects import MetadataOnly, ObjectMeta
from magicstick.runtime.clock import Clock

log = structlog.get_logger(__name__)

CONSUMER: Final = "ai-appliance.io/model-catalog-consumer"
"""Label or annotation: "true" makes a Pod a consumer, "false" keeps it from being one."""
APART_S: Final = 60.0
_APP: Final = "app.kubernetes.io"
KNOWN: Final[tuple[Mapping[str, str], ...]] = (
    {"app": "anything-llm"},
    {f"{_APP}/instance": "hermes", f"{_APP}/name": "hermes-agent"},
    {f"{_APP}/instance": "openclaw", f"{_APP}/name": "openclaw"},
    {f"{_APP}/instance": "paperclip", f"{_APP}/component": "server"},
)
"""Labels of consumers that do not say so themselves."""


def is_consumer(pod: ObjectMeta) -> bool:
    """Whether a Pod reads the catalog at its start."""
    said = {pod.labels.get(CONSUMER), pod.annotations.get(CONSUMER)}
    if "false" in said:
        return False
    known = any(labels.items() <= pod.labels.items() for labels in KNOWN)
    return "true" in said or known


class Restarts:
    """See the module."""

    def __init__(self, client: Client, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._begun: float | None = None
        self._for = ""
        self._left: dict[str, ObjectKey] = {}
        """Pods of the round under way, by uid."""

    def wait_s(self) -> float:
        """Seconds until a new round may begin."""
        if self._begun is None:
            return 0.0
        return max(0.0, self._begun + APART_S - self._clock.monotonic())

    async def run(self, owed: str) -> bool:
        """A round for this publication; False where it is too early for one.

        Raises:
            ApiError: Pods could not be listed, or not all deleted; called again, it goes on.
        """
        if owed != self._for:
            if self.wait_s() > 0:
                return False
            self._left = await self._consumers()
            self._for, self._begun = owed, self._clock.monotonic()
        failed: ApiError | None = None
        for uid, key in list(self._left.items()):
            try:
                await self._restart(key, uid)
            except ApiError as error:
                failed = error
        if failed is not None:
            raise failed
        self._for = ""
        return True

    async def _consumers(self) -> dict[str, ObjectKey]:
        found = {}
        async for page in self._client.pages(POD, namespace=self._namespace, view=MetadataOnly):
            for pod in page.items:
                if is_consumer(pod.metadata) and not pod.metadata.dying:
                    found[pod.metadata.uid] = pod.metadata.key
        return found

    async def _restart(self, key: ObjectKey, uid: str) -> None:
        try:
            await self._client.delete(POD, key, uid=uid)
        except (NotFound, Conflict):
            pass  # it is gone, or another has its name
        else:
            log.info("consumer restarted", pod=key.name)
        del self._left[uid]
