"""Events: what a person sees under `kubectl describe`, best effort and bounded.

An Event is recorded when the reason of an object changes from an earlier one; the first status of an
object makes none. Recording never blocks and never fails a pass: Events wait in a bounded queue and are
dropped, and counted, when it is full or the API server does not take them.

Numbers as in client-go: per object a burst of 25, then one per 300 s; the same (object, reason) within
600 s is one series.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import anyio
import structlog

from magicstick.kube.errors import ApiError, NotFound
from magicstick.kube.kinds import EVENT, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.clock import Clock
from magicstick.runtime.conditions import cut

log = structlog.get_logger(__name__)

BURST = 25
REFILL_S = 300.0
SERIES_S = 600.0
REMEMBERED = 4096
QUEUE = 1000
MESSAGE_LIMIT = 1024
NAME_LIMIT = 230


class EventClient(Protocol):
    """What the recorder needs of a client."""

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Resource:
        """See `kube.client.Client`."""
        ...

    async def merge_patch(self, kind: Kind, key: ObjectKey, body: Mapping[str, Any]) -> Resource:
        """See `kube.client.Client`."""
        ...


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True)
class _Series:
    key: ObjectKey
    count: int
    at: float


@dataclass(frozen=True, slots=True)
class _Note:
    kind: Kind
    obj: Resource
    normal: bool
    reason: str
    message: str
    at: datetime


class EventRecorder:
    """See the module's docstring. `run` sends what `record` took."""

    def __init__(self, client: EventClient, clock: Clock, *, controller: str, instance: str) -> None:
        self._client = client
        self._clock = clock
        self._controller, self._instance = controller, instance
        self._send, self._receive = anyio.create_memory_object_stream[_Note](QUEUE)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._series: OrderedDict[tuple[str, str], _Series] = OrderedDict()
        self._number = 0
        self.dropped = 0

    def record(self, kind: Kind, obj: Resource, *, normal: bool, reason: str, message: str) -> None:
        """Take note. Never blocks, never raises."""
        if not self._allowed(obj.metadata.uid):
            self.dropped += 1
            return
        note = _Note(kind, obj, normal, reason, cut(message, MESSAGE_LIMIT), self._clock.now())
        try:
            self._send.send_nowait(note)
        except anyio.WouldBlock:
            self.dropped += 1

    async def run(self) -> None:
        """Send until cancelled."""
        async for note in self._receive:
            try:
                await self._post(note)
            except ApiError as error:
                self.dropped += 1
                log.debug("event not recorded", reason=note.reason, message=error.message)

    def _allowed(self, uid: str) -> bool:
        now = self._clock.monotonic()
        bucket = self._buckets.get(uid)
        if bucket is None:
            bucket = self._buckets[uid] = _Bucket(float(BURST), now)
        self._buckets.move_to_end(uid)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(float(BURST), bucket.tokens + (now - bucket.at) / REFILL_S)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    async def _post(self, note: _Note) -> None:
        known = self._series.get((note.obj.metadata.uid, note.reason))
        now = self._clock.monotonic()
        if known is not None and now - known.at < SERIES_S:
            known.count, known.at = known.count + 1, now
            series = {"count": known.count, "lastObservedTime": _micro(note.at)}
            try:
                await self._client.merge_patch(EVENT, known.key, {"series": series})
            except NotFound:
                del self._series[(note.obj.metadata.uid, note.reason)]
            else:
                return
        body = self._body(note)
        await self._client.create(EVENT, body)
        key = ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])
        self._series[(note.obj.metadata.uid, note.reason)] = _Series(key, 1, now)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)

    def _body(self, note: _Note) -> dict[str, Any]:
        metadata = note.obj.metadata
        self._number += 1
        name = f"{metadata.name[:NAME_LIMIT].rstrip('-.')}.{self._number:x}{int(note.at.timestamp() * 1e6):x}"
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name[:253], "namespace": metadata.namespace or "default"},
            "eventTime": _micro(note.at),
            "type": "Normal" if note.normal else "Warning",
            "reason": note.reason,
            "note": note.message,
            "action": "Reconcile",
            "reportingController": self._controller,
            "reportingInstance": self._instance[:128],
            "regarding": {
                "apiVersion": note.kind.api_version,
                "kind": note.kind.kind,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
        }


def _micro(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
