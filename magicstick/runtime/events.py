"""Events (events.k8s.io/v1) about our objects: what `kubectl describe` and `kubectl events` show.

Guarantees
    - `record` returns at once and never raises. What does not fit into the bounded queue is dropped and
      counted.
    - Repetitions become one Event with a count, floods are cut off (`runtime.correlation`).
    - Nothing depends on an Event having been written: a failure is counted, not retried for long.

Assumes that callers record changes of a reason only, and that no message holds a secret: messages are
those of conditions, which everybody who may read the object sees anyway.
"""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from magicstick.kube.errors import AlreadyExists, ApiError, NotFound, Unavailable
from magicstick.kube.kinds import EVENT, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.clock import SleepingClock, microtime, within
from magicstick.runtime.correlation import Correlator, Happening, Verdict

log = structlog.get_logger(__name__)

QUEUED: Final = 1000
ATTEMPTS: Final = 3
NOTE_BYTES: Final = 1024
REASON_BYTES: Final = 128
NAME_CHARACTERS: Final = 236
"""Of the object's name, so that the Event's name stays within 253."""
DEFAULT_NAMESPACE: Final = "default"
"""Where Events about cluster-scoped objects live."""

SENT, FAILED, DROPPED, SUPPRESSED = "sent", "failed", "dropped", "suppressed"


class EventClient(Protocol):
    """What the recorder needs of a client."""

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Resource:
        """See `kube.client.Client`."""
        ...

    async def merge_patch(self, kind: Kind, key: ObjectKey, body: Mapping[str, Any]) -> Resource:
        """See `kube.client.Client`."""
        ...


class EventMetrics(Protocol):
    """Told what became of each Event: sent, failed, dropped or suppressed."""

    def event(self, result: str) -> None:
        """One Event ended so."""
        ...


class NoEventMetrics:
    """Metrics that nobody reads."""

    def event(self, result: str) -> None:
        """See `EventMetrics`."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """An Event to write; `count` above 1 continues the series that it names."""

    body: Mapping[str, Any]
    count: int
    observed: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.body["metadata"]["namespace"], self.body["metadata"]["name"])

    @property
    def series(self) -> dict[str, Any]:
        return {"series": {"count": self.count, "lastObservedTime": self.observed}} if self.count > 1 else {}


class EventRecorder:
    """See the module's docstring. `run` writes what was recorded, until cancelled."""

    def __init__(
        self,
        client: EventClient,
        clock: SleepingClock,
        *,
        controller: str,
        instance: str,
        metrics: EventMetrics | None = None,
        queued: int = QUEUED,
    ) -> None:
        self._client = client
        self._clock = clock
        self._controller = controller
        self._instance = instance[:REASON_BYTES]
        self._metrics = metrics or NoEventMetrics()
        self._correlator = Correlator(lambda: uuid.uuid4().hex[:16])
        self._queue: asyncio.Queue[_Pending] = asyncio.Queue(queued)
        self._told: set[type[ApiError]] = set()
        self.dropped = 0
        """How many of what was recorded did not become visible."""

    def record(self, kind: Kind, obj: Resource, *, normal: bool, reason: str, message: str) -> None:
        """Take note of what happened to `obj`. Returns at once, raises nothing."""
        try:
            self._note(kind, obj, "Normal" if normal else "Warning", reason, message)
        except asyncio.QueueFull:
            self._count(DROPPED)
        except Exception:
            self._count(FAILED)
            log.exception("event could not be composed", key=str(obj.metadata.key))

    async def run(self) -> None:
        """Write what was recorded, one Event at a time, until cancelled."""
        while True:
            pending = await self._queue.get()
            try:
                await self._write(pending)
            finally:
                self._queue.task_done()

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded so far was dealt with; whether it was, in time. `run` must run."""
        try:
            await within(self._clock, timeout_s, self._queue.join())
        except TimeoutError:
            return False
        return True

    # -- composing -----------------------------------------------------------------------------------

    def _note(self, kind: Kind, obj: Resource, type_: str, reason: str, message: str) -> None:
        happening = Happening(obj.metadata.uid, type_, _cut(reason, REASON_BYTES), message)
        verdict = self._correlator.judge(happening, self._clock.monotonic())
        if verdict is None:
            self._count(SUPPRESSED)
            return
        observed = microtime(self._clock.now())
        self._queue.put_nowait(
            _Pending(self._body(kind, obj, happening, verdict, observed), verdict.times, observed)
        )

    def _body(
        self, kind: Kind, obj: Resource, happening: Happening, verdict: Verdict, observed: str
    ) -> dict[str, Any]:
        metadata = obj.metadata
        regarding = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
        }
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "namespace": metadata.namespace or DEFAULT_NAMESPACE,
                "name": f"{metadata.name[:NAME_CHARACTERS].rstrip('.-')}.{verdict.name}",
            },
            "eventTime": observed,
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": "Reconcile",
            "type": happening.type,
            "reason": happening.reason,
            "note": _cut(verdict.note, NOTE_BYTES),
            "regarding": {name: value for name, value in regarding.items() if value},
        }

    # -- writing -------------------------------------------------------------------------------------

    async def _write(self, pending: _Pending) -> None:
        try:
            async for attempt in AsyncRetrying(
                stop=stop_after_attempt(ATTEMPTS),
                wait=wait_random_exponential(multiplier=1, max=10),
                retry=retry_if_exception_type(Unavailable),
                sleep=self._clock.sleep,
                reraise=True,
            ):
                with attempt:
                    await self._send(pending)
        except ApiError as error:
            self._count(FAILED)
            self._tell(error)
        except Exception:
            self._count(FAILED)
            log.exception("event could not be written", key=str(pending.key))
        else:
            self._count(SENT)

    async def _send(self, pending: _Pending) -> None:
        """Continue the series where it exists; an Event that expired, or that never was, is made."""
        if pending.count > 1:
            try:
                await self._client.merge_patch(EVENT, pending.key, pending.series)
            except NotFound:
                pass
            else:
                return
        try:
            await self._client.create(EVENT, {**pending.body, **pending.series})
        except AlreadyExists:
            return  # an earlier attempt arrived, although its answer did not

    def _count(self, result: str) -> None:
        self.dropped += result != SENT
        self._metrics.event(result)

    def _tell(self, error: ApiError) -> None:
        """Each kind of failure once: a missing right would else fill the log."""
        if type(error) not in self._told:
            self._told.add(type(error))
            log.warning("event not written", error=type(error).__name__, message=error.message)


def _cut(text: str, limit: int) -> str:
    """The text in at most `limit` bytes of UTF-8, shortened visibly where it is longer."""
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len("…".encode())].decode(errors="ignore") + "…"
