"""The lease: who may write (spec: README decision 5; durations as Flux has them).

Guarantees
    - `fence` lets a write pass only within `renew_deadline_s` after the *start* of the last renewal that
      succeeded, on the monotonic clock. A process that was stopped for longer finds it closed when it
      wakes, before its first write.
    - Another process takes the lease only after it has seen it unrenewed for `duration_s` on its own
      clock, so the machines' clocks need not agree.
    - Released at the end: the next holder need not wait.
    - Losing the lease ends nothing but the work: `held` turns False, caches stay warm, and the process
      tries again.

Assumes that a request which has been sent reaches the server within `duration_s - renew_deadline_s`.
"""

import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import anyio
import structlog

from magicstick.kube.errors import AlreadyExists, ApiError, Conflict, FenceClosed, NotFound
from magicstick.kube.kinds import LEASE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.clock import Clock

log = structlog.get_logger(__name__)

RELEASED_DURATION_S = 1


class LeaseClient(Protocol):
    """What the lease needs of a client, one whose requests do not pass this fence."""

    async def get(self, kind: Kind, key: ObjectKey) -> Resource:
        """See `kube.client.Client`."""
        ...

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Resource:
        """See `kube.client.Client`."""
        ...

    async def replace(self, kind: Kind, body: Mapping[str, Any]) -> Resource:
        """See `kube.client.Client`."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds; each smaller than the one before."""

    duration_s: float = 35.0
    renew_deadline_s: float = 30.0
    retry_s: float = 5.0


def identity() -> str:
    """A name for this process that no other has."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class Lease:
    """See the module's docstring. `run` keeps it until cancelled; `held` and `changed` tell."""

    def __init__(
        self,
        client: LeaseClient,
        place: tuple[str, str],
        clock: Clock,
        *,
        times: LeaseTimes | None = None,
        holder: str | None = None,
        on_change: Callable[[bool], None] | None = None,
    ) -> None:
        self._client = client
        self._key = ObjectKey(*place)
        self._clock = clock
        self._times = times or LeaseTimes()
        self.holder = holder or identity()
        self._on_change = on_change or (lambda _: None)
        self._valid_until = float("-inf")
        self._seen: tuple[str, float] | None = None
        """(resourceVersion, when we first saw it) of somebody else's record."""
        self._told = False
        self._waiting_for = ""
        self.changed = anyio.Event()
        self.last_attempt = clock.monotonic()
        """When the loop last came round, for liveness."""

    @property
    def held(self) -> bool:
        """Whether this process may write now."""
        return self._clock.monotonic() < self._valid_until

    def fence(self) -> None:
        """Called right before each write.

        Raises:
            FenceClosed: this process does not hold a valid lease.
        """
        if not self.held:
            self._tell()
            raise FenceClosed(f"the lease {self._key} is not held by this process")

    async def run(self) -> None:
        """Take, renew, and take again, until cancelled; then release."""
        try:
            while True:
                await self._attempt()
                await self._wait()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(self._times.retry_s):
                await self.release()

    async def wait_held(self) -> None:
        """Return as soon as this process holds the lease."""
        while not self.held:
            await self.changed.wait()

    async def wait_lost(self) -> None:
        """Return as soon as this process no longer holds the lease."""
        while self.held:
            await self.changed.wait()

    async def release(self) -> None:
        """Give the lease up, if we have it. Failures only mean that the next holder waits longer."""
        if not self.held:
            return
        self._valid_until = float("-inf")
        self._tell()
        try:
            live = await self._client.get(LEASE, self._key)
            if live.spec.get("holderIdentity") == self.holder:
                spec = {**live.spec, "holderIdentity": "", "leaseDurationSeconds": RELEASED_DURATION_S}
                await self._client.replace(LEASE, self._body(spec, live.metadata.resource_version))
                log.info("lease released", lease=str(self._key))
        except ApiError as error:
            log.warning("lease not released", lease=str(self._key), message=error.message)

    # -- one round -----------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Until the next attempt, but never beyond the moment in which a held lease runs out."""
        left = self._valid_until - self._clock.monotonic()
        pause = min(self._times.retry_s, left) if left > 0 else self._times.retry_s
        await anyio.sleep(pause)
        self._tell()

    async def _attempt(self) -> None:
        self.last_attempt = begun = self._clock.monotonic()
        try:
            with anyio.fail_after(self._times.renew_deadline_s):
                held = await self._take_or_renew()
        except TimeoutError:
            log.warning("lease not renewed in time", lease=str(self._key))
        except (Conflict, NotFound) as error:
            log.debug("lease changed meanwhile", lease=str(self._key), message=error.message)
        except ApiError as error:
            log.warning("lease not renewed", lease=str(self._key), message=error.message)
        else:
            self._valid_until = begun + self._times.renew_deadline_s if held else float("-inf")
        self._tell()

    async def _take_or_renew(self) -> bool:
        try:
            live = await self._client.get(LEASE, self._key)
        except NotFound:
            return await self._create()
        ours = live.spec.get("holderIdentity") == self.holder
        if not ours and not self._free(live):
            return False
        transitions = int(live.spec.get("leaseTransitions") or 0)
        spec = {
            **self._spec(),
            "acquireTime": live.spec.get("acquireTime") if ours else _micro(self._clock.now()),
            "leaseTransitions": transitions if ours else transitions + 1,
        }
        await self._client.replace(LEASE, self._body(spec, live.metadata.resource_version))
        return True

    async def _create(self) -> bool:
        spec = {**self._spec(), "acquireTime": _micro(self._clock.now()), "leaseTransitions": 0}
        try:
            await self._client.create(LEASE, self._body(spec))
        except AlreadyExists:
            return False
        return True

    def _free(self, live: Resource) -> bool:
        """Whether nobody has it: released, or not renewed while we watched for its whole duration."""
        holder = live.spec.get("holderIdentity")
        if not holder:
            return True
        now, version = self._clock.monotonic(), live.metadata.resource_version
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
        if self._waiting_for != holder:
            self._waiting_for = str(holder)
            log.info("waiting for the lease", lease=str(self._key), holder=holder)
        duration = float(live.spec.get("leaseDurationSeconds") or self._times.duration_s)
        return now - self._seen[1] > duration

    def _spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": max(1, int(self._times.duration_s)),
            "renewTime": _micro(self._clock.now()),
        }

    def _body(self, spec: Mapping[str, Any], resource_version: str | None = None) -> dict[str, Any]:
        metadata = {"namespace": self._key.namespace, "name": self._key.name}
        if resource_version is not None:
            metadata["resourceVersion"] = resource_version
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": dict(spec)}

    def _tell(self) -> None:
        """Let everybody know when the answer to `held` changed."""
        held = self.held
        if held is self._told:
            return
        self._told = held
        self._waiting_for = ""
        if held:
            log.info("lease held", lease=str(self._key), holder=self.holder)
        else:
            log.warning("lease lost or given up", lease=str(self._key), holder=self.holder)
        self._on_change(held)
        self.changed.set()
        self.changed = anyio.Event()


def _micro(moment: datetime) -> str:
    """MicroTime as the API wants it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
