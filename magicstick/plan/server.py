"""An answering machine in place of the API server: takes every write, tells what would have come of it.

Guarantees
    Nothing leaves the process. What a write returned has a version above everything that was read, so that
    the caches take it.

Assumptions
    Nobody else writes meanwhile; whatever is deleted goes at once, finalizers of others included.

Failure modes
    What only the server can judge (admission, quotas, immutable fields) is not noticed.
"""

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from itertools import count
from typing import Any

import msgspec

from magicstick.kube.cache import Caches, NotCachedError
from magicstick.kube.differ import owned_fields
from magicstick.kube.errors import NotFound
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import FullObjectMeta, ManagedFields, OwnerReference, Resource
from magicstick.kube.store import Store, version
from magicstick.plan.fields import Body, applied, ownership, patched
from magicstick.plan.unknown import UID
from magicstick.runtime.clock import Clock

Get = Callable[[Kind, ObjectKey], Awaitable[Resource]]
"""Reads one object that no cache holds."""


async def nothing_there(kind: Kind, key: ObjectKey) -> Resource:
    """`Get` where there is no cluster."""
    raise NotFound(f"{kind} {key} does not exist")


class PretendServer:
    """`kube.applier.Writing` over what the caches hold. To be made once they are complete."""

    def __init__(self, caches: Caches, clock: Clock, *, manager: str, get: Get = nothing_there) -> None:
        self._caches = caches
        self._clock = clock
        self._manager = manager
        self._get = get
        self._versions = count(1 + max((_newest(each.store) for each in caches.informers()), default=0))
        self._uids = count(1)

    def speaking_as(self, manager: str) -> "PretendServer":
        """The same, for another field manager."""
        other = copy(self)
        other._manager = manager  # noqa: SLF001 - of its own class
        return other

    # --- as the applier asks it ------------------------------------------------------------------

    async def get(self, kind: Kind, key: ObjectKey, *, view: type[Resource]) -> Resource:  # noqa: ARG002 - as the protocol says
        """See `kube.applier.Writing`."""
        try:
            live = self._caches.live(kind, key)
        except NotCachedError:
            return await self._get(kind, key)
        return live or await nothing_there(kind, key)

    async def create(self, kind: Kind, body: Body) -> Resource:  # noqa: ARG002 - as the protocol says
        """See `kube.applier.Writing`."""
        return self.new(body)

    async def apply(
        self,
        kind: Kind,
        body: Body,
        *,
        subresource: str | None = None,
        force: bool = True,  # noqa: ARG002 - nobody else writes
    ) -> Resource:
        """See `kube.applier.Writing`."""
        live = await self._live(kind, key_of(body))
        if live is None:
            return self.new(body, manager=self._manager)
        if subresource == "status":
            return self.with_status(live, body["status"])
        return self._applied(live, body)

    async def merge_patch(
        self,
        kind: Kind,
        key: ObjectKey,
        body: Body,
        *,
        subresource: str | None = None,  # noqa: ARG002 - as the protocol says
    ) -> Resource:
        """See `kube.applier.Writing`."""
        live = await self.get(kind, key, view=Resource)
        metadata = body.get("metadata", {})
        result = self._changed(
            live,
            labels=patched(live.metadata.labels, metadata.get("labels", {})),
            annotations=patched(live.metadata.annotations, metadata.get("annotations", {})),
            finalizers=tuple(metadata.get("finalizers", live.metadata.finalizers)),
            spec=patched(live.spec, body.get("spec", {})),
            data=patched(live.data, body.get("data", {})),
        )
        if "ownerReferences" not in metadata:
            return result
        owners = _owners(metadata)
        return msgspec.structs.replace(
            result, metadata=msgspec.structs.replace(result.metadata, owner_references=owners)
        )

    async def delete(
        self,
        kind: Kind,  # noqa: ARG002 - as the protocol says
        key: ObjectKey,  # noqa: ARG002 - as the protocol says
        *,
        uid: str | None = None,  # noqa: ARG002 - as the protocol says
        resource_version: str | None = None,  # noqa: ARG002 - as the protocol says
    ) -> Resource | None:
        """See `kube.applier.Writing`."""
        return None

    # --- as somebody else writes -----------------------------------------------------------------

    async def lay(self, kind: Kind, body: Body, *, if_missing: bool = False) -> Resource | None:
        """Make `body` true as if a person had applied it, or created it; what was there before."""
        before = await self._live(kind, key_of(body))
        if before is None:
            self._caches.written(kind, self.new(body))
        elif not if_missing:
            self._caches.written(kind, self.replaced(before, body))
        return before

    # --- objects ---------------------------------------------------------------------------------

    def new(self, body: Body, *, manager: str = "") -> Resource:
        """An object that did not exist, as it is stored; `manager` is who applied it."""
        metadata = body["metadata"]
        return Resource(
            FullObjectMeta(
                name=metadata["name"],
                namespace=metadata.get("namespace", ""),
                uid=f"{UID}{next(self._uids):012d}",
                resource_version=str(next(self._versions)),
                generation=1,
                creation_timestamp=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                labels=dict(metadata.get("labels") or {}),
                annotations=dict(metadata.get("annotations") or {}),
                finalizers=tuple(metadata.get("finalizers") or ()),
                owner_references=_owners(metadata),
                managed_fields=_managed(manager, body) if manager else (),
            ),
            api_version=body["apiVersion"],
            kind=body["kind"],
            spec=body.get("spec") or {},
            status=body.get("status") or {},
            data=body.get("data") or {},
            type=body.get("type") or "",
        )

    def replaced(self, live: Resource, body: Body) -> Resource:
        """`live` after a person applied `body`; its status stays unless the body has one."""
        metadata = body["metadata"]
        result = self._changed(
            live,
            labels={**live.metadata.labels, **(metadata.get("labels") or {})},
            annotations={**live.metadata.annotations, **(metadata.get("annotations") or {})},
            finalizers=live.metadata.finalizers,
            spec=body.get("spec") or {},
            data=body.get("data") or {},
        )
        return msgspec.structs.replace(result, status=body.get("status") or live.status)

    def with_status(self, live: Resource, status: Mapping[str, Any]) -> Resource:
        """`live` with this status."""
        metadata = msgspec.structs.replace(live.metadata, resource_version=str(next(self._versions)))
        return msgspec.structs.replace(live, metadata=metadata, status=status)

    async def _live(self, kind: Kind, key: ObjectKey) -> Resource | None:
        try:
            return await self.get(kind, key, view=Resource)
        except NotFound:
            return None

    def _applied(self, live: Resource, body: Body) -> Resource:
        owned, metadata = owned_fields(live, self._manager), body["metadata"]
        result = self._changed(
            live,
            labels=_member("labels", metadata, live.metadata.labels, owned.get("f:metadata", {})),
            annotations=_member(
                "annotations", metadata, live.metadata.annotations, owned.get("f:metadata", {})
            ),
            finalizers=live.metadata.finalizers,
            spec=_member("spec", body, live.spec, owned),
            data=_member("data", body, live.data, owned),
        )
        others = tuple(
            each
            for each in live.metadata.managed_fields
            if (each.manager, each.operation, each.subresource) != (self._manager, "Apply", "")
        )
        managed = (*others, *_managed(self._manager, body))
        meta = msgspec.structs.replace(
            result.metadata,
            managed_fields=managed,
            owner_references=_owners(metadata) or live.metadata.owner_references,
        )
        return msgspec.structs.replace(result, metadata=meta)

    def _changed(
        self,
        live: Resource,
        *,
        labels: dict[str, str],
        annotations: dict[str, str],
        finalizers: tuple[str, ...],
        spec: Mapping[str, Any],
        data: Mapping[str, str],
    ) -> Resource:
        metadata = msgspec.structs.replace(
            live.metadata,
            labels=labels,
            annotations=annotations,
            finalizers=finalizers,
            generation=live.metadata.generation + (spec != live.spec),
            resource_version=str(next(self._versions)),
        )
        return msgspec.structs.replace(live, metadata=metadata, spec=spec, data=data)


def key_of(body: Body) -> ObjectKey:
    """Where the object of a body lives."""
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def _member(name: str, want: Body, have: Mapping[str, Any], owned: Body) -> dict[str, Any]:
    return applied(want.get(name) or {}, have, owned.get(f"f:{name}", {}))


def _owners(metadata: Mapping[str, Any]) -> tuple[OwnerReference, ...]:
    return msgspec.convert(metadata.get("ownerReferences") or (), tuple[OwnerReference, ...])


def _managed(manager: str, body: Body) -> tuple[ManagedFields, ...]:
    fields = msgspec.Raw(msgspec.json.encode(ownership(body)))
    return (ManagedFields(manager, "Apply", "", fields),)


def _newest(store: Store[Any]) -> int:
    return max([store.resource_version, *map(version, store.list())])
