"""What a pass may do to the cluster, and how what was begun is finished when the process has to end."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
import anyio.lowlevel

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource


class Hands(Protocol):
    """`kube.applier.Applier` is the real one. Every method may raise any `ApiError`."""

    async def apply(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Make the body true; whether anything was sent."""
        ...

    async def apply_part(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Make fields of exactly this object of somebody else's true; whether anything was sent."""
        ...

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Create it unless it exists; whether it was created."""
        ...

    async def delete(self, kind: Kind, key: ObjectKey, uid: str, resource_version: str | None = None) -> bool:
        """Delete exactly this object, perhaps only in this version; whether anything was sent."""
        ...

    async def patch(self, kind: Kind, key: ObjectKey, uid: str, body: Mapping[str, Any]) -> bool:
        """Set fields of exactly this object of somebody else's; whether anything was sent."""
        ...

    async def add_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        """Put it last, foreign ones kept; whether anything was sent."""
        ...

    async def remove_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        """Take it away, foreign ones kept; whether anything was sent."""
        ...

    async def apply_status(self, kind: Kind, live: Resource, status: Mapping[str, Any]) -> bool:
        """Write the whole status; whether anything was sent."""
        ...

    async def refresh(self, kind: Kind, key: ObjectKey) -> None:
        """Read it from the server into the cache."""
        ...


class Drain:
    """Lets a write that was begun end, and no new one begin, once the work around it is cancelled.

    Guarantees: a write is never cut off by a cancellation before `bound_s` seconds after `begin`. When
    it returns, the cancellation takes effect at the next await.

    Failure modes: a write that takes longer than the bound is cut off; whether it happened is then
    unknown, as with any lost connection.
    """

    def __init__(self, bound_s: float) -> None:
        self._bound_s = bound_s
        self._writes: set[anyio.CancelScope] = set()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        """Around one write. Raises the cancellation instead of beginning when there is one."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        with anyio.CancelScope(shield=True) as scope:
            self._writes.add(scope)
            try:
                yield
            finally:
                self._writes.discard(scope)
        if scope.cancelled_caught:
            await anyio.lowlevel.checkpoint_if_cancelled()
            raise TimeoutError(f"a write did not end within {self._bound_s:g} s")

    def begin(self) -> None:
        """The work was cancelled: from now on the bound counts for the writes under way."""
        deadline = anyio.current_time() + self._bound_s
        for scope in self._writes:
            scope.deadline = min(scope.deadline, deadline)
