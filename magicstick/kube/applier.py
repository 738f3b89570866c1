"""Makes the cluster match one step of a plan, and sends nothing where it already does.

Guarantees
    - What differs is decided from the caches (`differ`); a converged cluster gets no request, also
      from a process that has just started.
    - An object that belongs to someone else (it lacks our managed-by label) is never written:
      `NameConflict`; only `patch` and `apply_part` set fields of it, and those alone. One that appears
      at the very moment of a first apply is not taken over either: a first apply is not forced, so
      fields that another manager has set answer `Conflict`.
    - Everything that is written, patched or deleted carries the uid of the object that was decided
      on: one that was replaced meanwhile answers `Conflict`, or counts as gone when it is deleted.
    - A dying object gets no apply and no finalizer; its status and its finalizers may be written.
    - What a write returned is in the caches when the method returns.
    - Finalizers of others keep their place; a concurrent change of any kind answers `Conflict`.

Assumptions
    Desired objects are complete, canonical, and carry the managed-by label; views are never changed.

Failure modes
    Every `ApiError` of the request passes to the caller. After `Unavailable` the write may have
    happened: the next decision, on what the watch tells by then, finds out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from magicstick.kube.cache import NotCachedError
from magicstick.kube.differ import Differences, equal, holds
from magicstick.kube.errors import AlreadyExists, Conflict, KindNotServed, NameConflict, NotFound
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.timing import Clock, SystemClock
from magicstick.kube.writes import Compared, HotWrites, Place, Rewritten, Wanted, digest

Body = Mapping[str, Any]
OnHotWrites = Callable[[Kind, ObjectKey, int], None]
"""Told (kind, key, writes in the last minute) once per burst of writes without a new intention."""

MANAGED_BY = "app.kubernetes.io/managed-by"
UID_PRECONDITION = ("UID in precondition", "UID in the precondition")
"""How the server words, depending on the kind, that an object was replaced."""

log = structlog.get_logger(__name__)


class Writing(Protocol):
    """What the applier needs of a client."""

    async def get(self, kind: Kind, key: ObjectKey, *, view: type[Resource]) -> Resource:
        """Read one object."""
        ...

    async def create(self, kind: Kind, body: Body) -> Resource:
        """POST."""
        ...

    async def apply(
        self, kind: Kind, body: Body, *, subresource: str | None = None, force: bool = True
    ) -> Resource:
        """Server-side apply."""
        ...

    async def merge_patch(
        self, kind: Kind, key: ObjectKey, body: Body, *, subresource: str | None = None
    ) -> Resource:
        """JSON merge patch."""
        ...

    async def delete(
        self, kind: Kind, key: ObjectKey, *, uid: str | None = None, resource_version: str | None = None
    ) -> Resource | None:
        """DELETE with preconditions."""
        ...


class WriteThrough(Protocol):
    """What the applier needs of the caches."""

    def live(self, kind: Kind, key: ObjectKey) -> Resource | None:
        """The object, None when it does not exist; `NotCachedError` when the caches cannot tell."""
        ...

    def written(self, kind: Kind, obj: Resource) -> None:
        """Take what a write returned."""
        ...

    def deleted(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        """Take that an object is gone."""
        ...


@dataclass(slots=True)
class WriteCounters:
    """What an applier did, for metrics."""

    sent: int = 0
    skipped: int = 0
    """Steps for which nothing had to be sent."""
    without_effect: int = 0
    """Requests that the server answered with an unchanged object."""


class Applier:
    """See the module. `manager` is the field manager of the client; `managed_by` the label's value."""

    def __init__(
        self,
        client: Writing,
        caches: WriteThrough,
        *,
        manager: str,
        managed_by: str | None = None,
        on_hot_writes: OnHotWrites | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.counters = WriteCounters()
        self._client = client
        self._caches = caches
        self._manager = manager
        self._managed_by = managed_by or manager
        self._on_hot_writes = on_hot_writes
        self._clock = clock or SystemClock()
        self._rewritten = Rewritten()
        self._compared = Compared()
        self._hot = HotWrites()

    # --- whole objects ---------------------------------------------------------------------------

    async def apply(self, kind: Kind, body: Body) -> bool:
        """Make `body` true with server-side apply; whether that changed the object.

        Raises:
            NameConflict: the object exists and is not ours.
            Conflict: the object was replaced, or appeared, since the caches were read.
            ValueError: `body` lacks our managed-by label, so that we would not know it again.
        """
        if body["metadata"].get("labels", {}).get(MANAGED_BY) != self._managed_by:
            raise ValueError(f"a desired {kind} lacks the label {MANAGED_BY}={self._managed_by}")
        key = _key_of(body)
        live = await self._read(kind, key)
        if live is None:
            return await self._send(Wanted(Place(kind, key), body), None)
        if live.metadata.dying:
            self.counters.skipped += 1
            return False
        if live.metadata.labels.get(MANAGED_BY) != self._managed_by:
            raise NameConflict(f"{kind} {key} exists and is not managed by {self._managed_by}")
        wanted = Wanted(Place(kind, key), body)
        found = self._differences(wanted, live)
        if self._settled(wanted, live, found):
            return False
        log.debug("apply", kind=str(kind), key=str(key), differs=tuple(found))
        return await self._send(wanted, live)

    async def create(self, kind: Kind, body: Body) -> bool:
        """Create `body` unless an object of its name exists, whosever it is; whether it was created."""
        if self._cached(kind, _key_of(body)) is not None:
            self.counters.skipped += 1
            return False
        self.counters.sent += 1
        try:
            created = await self._client.create(kind, body)
        except AlreadyExists:
            return False
        self._note(Place(kind, _key_of(body)), digest(body))
        self._caches.written(kind, created)
        return True

    async def delete(self, kind: Kind, key: ObjectKey, uid: str, resource_version: str | None = None) -> bool:
        """Delete exactly the object with this uid; whether a deletion was asked for now.

        False when it is gone, replaced, or dying already: there is nothing left to ask for.

        Raises:
            Conflict: it is not in the `resource_version` that was asked for.
        """
        live = self._cached(kind, key)
        if live is not None and live.metadata.uid == uid and live.metadata.dying:
            self.counters.skipped += 1
            return False
        self.counters.sent += 1
        try:
            left = await self._client.delete(kind, key, uid=uid, resource_version=resource_version)
        except NotFound as error:
            self._gone(kind, key, uid, error)
            return False
        except Conflict as conflict:
            if not any(wording in conflict.message for wording in UID_PRECONDITION):
                raise
            self._forget(kind, key, uid)
            return False
        self._note(Place(kind, key), "delete")
        if left is not None and left.metadata.dying:
            self._caches.written(kind, left)
        else:
            self._forget(kind, key, uid)
        return True

    # --- objects of others -----------------------------------------------------------------------

    async def apply_part(self, kind: Kind, body: Body) -> bool:
        """Make fields of an object true that another manager has made and keeps; whether that changed it.

        By server-side apply, so that the fields are ours, and what we set before and `body` has no more
        is given back. False when the object that `metadata.uid` names is gone, replaced or dying.

        Raises:
            Conflict: the object was replaced since the caches were read.
            ValueError: `body` names no uid, so that an object could be made of a part.
        """
        uid, key = body["metadata"].get("uid"), _key_of(body)
        if not uid:
            raise ValueError(f"a part of {kind} {key} names no uid")
        live = await self._read(kind, key)
        if live is None or live.metadata.uid != uid or live.metadata.dying:
            self.counters.skipped += 1
            return False
        wanted = Wanted(Place(kind, key), body)
        if self._settled(wanted, live, self._differences(wanted, live)):
            return False
        return await self._send(wanted, live)

    async def patch(self, kind: Kind, key: ObjectKey, uid: str, body: Body) -> bool:
        """Set fields of an object that somebody else made and keeps; whether that changed it.

        Like `apply_part` for what does not carry our managed-by label, but the fields become nobody's:
        nothing but the fields of `body` is touched, now or later. False when the object is gone, replaced
        or dying.

        Raises:
            Conflict: the object changed since the caches were read.
        """
        live = await self._read(kind, key)
        if live is None or live.metadata.uid != uid or live.metadata.dying or holds(body, live):
            self.counters.skipped += 1
            return False
        self.counters.sent += 1
        bound = {"uid": uid, "resourceVersion": live.metadata.resource_version}
        result = await self._client.merge_patch(
            kind, key, {**body, "metadata": {**body.get("metadata", {}), **bound}}
        )
        self._note(Place(kind, key), digest(body))
        self._caches.written(kind, result)
        changed = live.metadata.resource_version != result.metadata.resource_version
        self.counters.without_effect += not changed
        return changed

    # --- finalizers ------------------------------------------------------------------------------

    async def add_finalizer(self, kind: Kind, live: View, finalizer: str) -> bool:
        """Put our finalizer behind those of others; whether that was needed. Never on a dying object.

        Raises:
            Conflict: the object changed since it was read.
            NotFound: it is gone.
        """
        if live.metadata.dying or finalizer in live.metadata.finalizers:
            return False
        await self._set_finalizers(kind, live, [*live.metadata.finalizers, finalizer])
        return True

    async def remove_finalizer(self, kind: Kind, live: View, finalizer: str) -> bool:
        """Take our finalizer out and leave those of others; whether it was there.

        Raises:
            Conflict: the object changed since it was read.
        """
        if finalizer not in live.metadata.finalizers:
            return False
        left = [name for name in live.metadata.finalizers if name != finalizer]
        try:
            await self._set_finalizers(kind, live, left)
        except NotFound as error:
            self._gone(kind, live.metadata.key, live.metadata.uid, error)
            return False
        return True

    async def _set_finalizers(self, kind: Kind, live: View, finalizers: list[str]) -> None:
        """Merge patch bound to the version that was read, so that no foreign entry can be lost."""
        metadata = live.metadata
        self.counters.sent += 1
        body = {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "finalizers": finalizers,
            }
        }
        patched = await self._client.merge_patch(kind, metadata.key, body)
        self._note(Place(kind, metadata.key), digest(finalizers))
        if patched.metadata.dying and not patched.metadata.finalizers:
            self._forget(kind, metadata.key, metadata.uid)
        else:
            self._caches.written(kind, patched)

    # --- status ----------------------------------------------------------------------------------

    async def apply_status(self, kind: Kind, live: Resource, status: Body) -> bool:
        """Make `status` the complete status, as far as we own it; whether that changed the object.

        False also when the object is gone.

        Raises:
            Conflict: the object was replaced.
        """
        place = Place(kind, live.metadata.key, "status")
        wanted = Wanted(place, _status_body(kind, live.metadata.key, status))
        if self._settled(wanted, live, self._differences(wanted, live)):
            return False
        try:
            return await self._send(wanted, live)
        except NotFound as error:
            self._gone(kind, live.metadata.key, live.metadata.uid, error)
            return False

    # --- shared ----------------------------------------------------------------------------------

    async def refresh(self, kind: Kind, key: ObjectKey) -> None:
        """Read an object from the server into the caches, after a `Conflict` showed them to be behind."""
        try:
            self._caches.written(kind, await self._client.get(kind, key, view=Resource))
        except NotFound:
            # The watch will tell the deletion; of which object, only it knows.
            return

    async def _read(self, kind: Kind, key: ObjectKey) -> Resource | None:
        """The object from the caches, or from the server where the caches cannot tell."""
        try:
            return self._caches.live(kind, key)
        except NotCachedError:
            pass
        try:
            return await self._client.get(kind, key, view=Resource)
        except KindNotServed:
            raise
        except NotFound:
            return None

    def _cached(self, kind: Kind, key: ObjectKey) -> Resource | None:
        """The object as far as the caches know it, without asking the server."""
        try:
            return self._caches.live(kind, key)
        except NotCachedError:
            return None

    async def _send(self, wanted: Wanted, live: Resource | None) -> bool:
        """Server-side apply bound to the object that was decided on; whether it changed anything."""
        place, body = wanted.place, wanted.body
        self.counters.sent += 1
        if live is not None:
            body = {**body, "metadata": {**body["metadata"], **_precondition(place, live)}}
        result = await self._client.apply(
            place.kind, body, subresource=place.subresource or None, force=live is not None
        )
        self._note(place, wanted.digest)
        self._caches.written(place.kind, result)
        self._rewritten.settle(wanted, result.metadata.uid, self._differences(wanted, result))
        changed = live is None or live.metadata.resource_version != result.metadata.resource_version
        self.counters.without_effect += not changed
        return changed

    def _differences(self, wanted: Wanted, live: Resource) -> Differences:
        """What applying it to `live` would change: of a status everything counts, whoever set it."""
        if wanted.place.subresource:
            return {} if equal(wanted.content, live.status) else {"status": live.status}
        return self._compared.differences(wanted, live, self._manager)

    def _settled(self, wanted: Wanted, live: Resource, found: Differences) -> bool:
        """Whether sending would change nothing: nothing differs, or only what the server rewrote."""
        settled = not found or self._rewritten.explains(wanted, live.metadata.uid, found)
        self.counters.skipped += settled
        return settled

    def _note(self, place: Place, desired: str) -> None:
        """Report an object that gets the same write over and over; one that was refused is none."""
        writes = self._hot.note(place, desired, self._clock.monotonic())
        if not writes:
            return
        log.warning("one object is written again and again", kind=str(place.kind), key=str(place.key))
        if self._on_hot_writes is not None:
            self._on_hot_writes(place.kind, place.key, writes)

    def _gone(self, kind: Kind, key: ObjectKey, uid: str, error: NotFound) -> None:
        """The object does not exist; that its kind is not served says nothing of it, and is raised."""
        if isinstance(error, KindNotServed):
            raise error
        self._forget(kind, key, uid)

    def _forget(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        self._rewritten.forget(kind, key)
        self._caches.deleted(kind, key, uid)


def _key_of(body: Body) -> ObjectKey:
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def _precondition(place: Place, live: Resource) -> dict[str, str]:
    """What binds an apply to the object that was decided on.

    The server checks the uid, save for a status: there only the version keeps a late report from landing
    on a successor of the same name.
    """
    if place.subresource:
        return {"resourceVersion": live.metadata.resource_version}
    return {"uid": live.metadata.uid}


def _status_body(kind: Kind, key: ObjectKey, status: Body) -> Body:
    """The object that a status apply sends: its identity and nothing but the status."""
    place = {"namespace": key.namespace} if key.namespace else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": key.name, **place},
        "status": status,
    }
