"""The lease: who may write (spec: README decision 5; durations as Flux has them).

Guarantees
    - `fence` lets a write pass only within `renew_deadline_s` after the *start* of the last renewal that
      succeeded, on the monotonic clock. A process that was stopped for longer finds it closed when it
      wakes, before its first write.
    - Another process takes the lease only after it has seen it unrenewed for its whole duration on its
      own clock, so the machines' clocks need not agree.
    - One renewal that hangs does not lose it: each attempt has a third of the deadline at most.
    - `wait_lost` returns when the lease runs out, also while an attempt is under way.
    - Losing the lease ends nothing but the work: caches stay warm, and the process tries again.
    - Released at the end: the next holder need not wait.

Assumes that a request which has been sent reaches the server within `duration_s - renew_deadline_s`, and
that whoever stops the process ends `run` after everything that writes, since `run` releases.

Failure modes: an API server that is away for `renew_deadline_s` stops all work until it is back.
"""

import math
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import structlog

from magicstick.kube.errors import AlreadyExists, ApiError, Conflict, FenceClosed, NotFound
from magicstick.kube.kinds import LEASE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.runtime.clock import SleepingClock, microtime, within

log = structlog.get_logger(__name__)

RELEASED_DURATION_S = 1
RELEASE_WITHIN_S = 5.0
"""The end of the process waits so long for the release, and no longer."""
ATTEMPTS_PER_DEADLINE = 3
NEVER = float("-inf")


class LeaseClient(Protocol):
    """What the lease needs of a client, one whose requests do not pass this fence."""

    async def get(self, kind: Kind, key: ObjectKey) -> Resource:
        """See `kube.client.Client`."""
        ...

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Resource:
        """See `kube.client.Client`."""
        ...

    async def merge_patch(self, kind: Kind, key: ObjectKey, body: Mapping[str, Any]) -> Resource:
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
        clock: SleepingClock,
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
        self._valid_until = NEVER
        self._seen: tuple[str, float] | None = None
        """(resourceVersion, when we first saw it) of somebody else's record."""
        self._claimed = False
        """Whether the record may name us: a claim was sent, whatever became of its answer."""
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
                await self._clock.sleep(self._pause_s())
                self._tell()
        finally:
            with anyio.CancelScope(shield=True):
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
        """Give up the lease, or the claim to it. Failures only mean that the next holder waits longer."""
        self._valid_until = NEVER
        if self._claimed:
            try:
                await within(self._clock, RELEASE_WITHIN_S, self._give_up())
            except (ApiError, TimeoutError) as error:
                log.warning("lease not released", lease=str(self._key), message=str(error))
            except Exception:
                log.exception("lease not released", lease=str(self._key))
        self._tell(expected=True)

    # -- one round -----------------------------------------------------------------------------------

    def _left_s(self) -> float:
        """How long the lease is valid; zero when it is not."""
        return max(0.0, self._valid_until - self._clock.monotonic())

    def _pause_s(self) -> float:
        """Until the next attempt, but never beyond the moment in which a held lease runs out."""
        return min(self._times.retry_s, self._left_s() or self._times.retry_s)

    def _patience_s(self) -> float:
        """For one attempt: time remains for others, and a lease that runs out meanwhile is noticed."""
        share = self._times.renew_deadline_s / ATTEMPTS_PER_DEADLINE
        return min(share, self._left_s() or share)

    async def _attempt(self) -> None:
        self.last_attempt = begun = self._clock.monotonic()
        try:
            held = await within(self._clock, self._patience_s(), self._take_or_renew())
        except (Conflict, NotFound) as error:
            log.debug("lease changed meanwhile", lease=str(self._key), message=error.message)
        except (ApiError, TimeoutError) as error:
            log.warning(
                "lease not renewed",
                lease=str(self._key),
                error=type(error).__name__,
                message=str(error),
                valid_seconds=round(self._left_s(), 1),
            )
        except Exception:
            log.exception("lease not renewed", lease=str(self._key))
        else:
            self._valid_until = begun + self._times.renew_deadline_s if held else NEVER
        self._tell()

    async def _take_or_renew(self) -> bool:
        """Whether the record says, by our own writing of this moment, that we hold the lease."""
        try:
            live = await self._client.get(LEASE, self._key)
        except NotFound:
            return await self._create()
        ours = live.spec.get("holderIdentity") == self.holder
        if not ours and not self._free(live):
            self._claimed = False
            return False
        spec = self._spec()
        if not ours:
            transitions = int(live.spec.get("leaseTransitions") or 0) + 1
            spec |= {"acquireTime": microtime(self._clock.now()), "leaseTransitions": transitions}
        self._claimed = True
        await self._patch(live, spec)
        return True

    async def _create(self) -> bool:
        spec = {**self._spec(), "acquireTime": microtime(self._clock.now()), "leaseTransitions": 0}
        metadata = {"namespace": self._key.namespace, "name": self._key.name}
        body = {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
        self._claimed = True
        try:
            await self._client.create(LEASE, body)
        except AlreadyExists:
            return False
        return True

    async def _give_up(self) -> None:
        """A renewal that was cut off may still arrive and change the record between reading and writing."""
        while self._claimed:
            try:
                live = await self._client.get(LEASE, self._key)
                if live.spec.get("holderIdentity") == self.holder:
                    await self._patch(
                        live, {"holderIdentity": "", "leaseDurationSeconds": RELEASED_DURATION_S}
                    )
                    log.info("lease released", lease=str(self._key))
            except Conflict:
                continue
            except NotFound:
                pass  # nothing names us
            self._claimed = False

    async def _patch(self, live: Resource, spec: Mapping[str, Any]) -> None:
        """Change these fields, unless anybody changed the record since it was read."""
        version = {"resourceVersion": live.metadata.resource_version}
        await self._client.merge_patch(LEASE, self._key, {"metadata": version, "spec": spec})

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
            "leaseDurationSeconds": math.ceil(self._times.duration_s),
            "renewTime": microtime(self._clock.now()),
        }

    def _tell(self, *, expected: bool = False) -> None:
        """Let everybody know when the answer to `held` changed; the log only where nobody expected it."""
        held = self.held
        if held is self._told:
            return
        self._told = held
        self._waiting_for = ""
        if held:
            log.info("lease held", lease=str(self._key), holder=self.holder)
        elif not expected:
            log.warning("lease no longer held, nothing is written", lease=str(self._key), holder=self.holder)
        self._on_change(held)
        self.changed.set()
        self.changed = anyio.Event()


class NoLease:
    """Stands in for the lease where leader election is off: the fence is always open."""

    held = True

    def __init__(self, clock: SleepingClock) -> None:
        self._clock = clock
        self.holder = identity()
        """Events name it as well, and the server takes none without."""

    @property
    def last_attempt(self) -> float:
        """Never late: there is no loop that could get stuck."""
        return self._clock.monotonic()

    def fence(self) -> None:
        """Everything may be written."""

    async def run(self) -> None:
        """Until cancelled."""
        await anyio.sleep_forever()

    async def wait_held(self) -> None:
        """It always is."""

    async def wait_lost(self) -> None:
        """It never is: until cancelled."""
        await anyio.sleep_forever()
