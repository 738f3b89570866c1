"""The API server as far as one Lease is concerned, with the faults that a test asks for."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from magicstick.kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from magicstick.kube.kinds import LEASE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from tests.support.sleeping_time import SleepingTime

Object = dict[str, Any]
PLACE = ObjectKey("system", "lease")


class LeaseServer:
    """Holds one record, with resourceVersions as the API server counts them."""

    def __init__(self) -> None:
        self.record: Object | None = None
        self.writes = 0

    @property
    def holder(self) -> str:
        return str(self.record["spec"]["holderIdentity"]) if self.record else ""

    def client(self, clock: SleepingTime) -> "LeaseClient":
        """A connection of its own, which can be slow or broken by itself."""
        return LeaseClient(self, clock)

    def put(self, record: Object) -> Resource:
        self.writes += 1
        record["metadata"]["resourceVersion"] = str(self.writes)
        self.record = record
        return self.read()

    def read(self) -> Resource:
        if self.record is None:
            raise NotFound("no lease")
        return msgspec.json.decode(msgspec.json.encode(self.record), type=Resource)


class LeaseClient:
    """`error` is raised by every request; `delay_s` passes before each is carried out."""

    def __init__(self, server: LeaseServer, clock: SleepingTime) -> None:
        self.server = server
        self.error: Exception | None = None
        self.delay_s = 0.0
        self.answers_lost = False
        self.meanwhile: Callable[[], object] | None = None
        """Called once, after a patch was sent and before it is carried out."""
        self._clock = clock

    def go_away(self) -> None:
        self.error = Unavailable("connection refused")

    def come_back(self) -> None:
        self.error = None

    async def get(self, kind: Kind, key: ObjectKey) -> Resource:
        await self._pass(kind, key)
        return self.server.read()

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Resource:
        await self._pass(kind, ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"]))
        if self.server.record is not None:
            raise AlreadyExists("the lease exists")
        return self._answer(self.server.put({**body, "metadata": dict(body["metadata"])}))

    async def merge_patch(self, kind: Kind, key: ObjectKey, body: Mapping[str, Any]) -> Resource:
        await self._pass(kind, key)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        record = self.server.record
        if record is None:
            raise NotFound("no lease")
        if record["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict("the lease changed")
        merged = {part: {**record[part], **body[part]} for part in ("metadata", "spec")}
        return self._answer(self.server.put({**record, **merged}))

    async def _pass(self, kind: Kind, key: ObjectKey) -> None:
        assert (kind, key) == (LEASE, PLACE)
        if self.error is not None:
            raise self.error
        if self.delay_s:
            await self._clock.sleep(self.delay_s)

    def _answer(self, written: Resource) -> Resource:
        if self.answers_lost:
            raise Unavailable("the connection broke after the write")
        return written

    def renew(self) -> None:
        """A renewal that was cut off arrives late: the record changes, the holder does not."""
        assert self.server.record is not None
        self.server.put(self.server.record)


def foreign(holder: str, **spec: object) -> Object:
    """A record that somebody else wrote."""
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"namespace": "system", "name": "lease", "labels": {"team": "blue"}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 35, "leaseTransitions": 4, **spec},
    }
