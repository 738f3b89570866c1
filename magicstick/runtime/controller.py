"""A reconciler at work: its queue, its wake-ups, its workers."""

import random
import time
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

import anyio
import structlog

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.store import Store
from magicstick.runtime.clock import Clock
from magicstick.runtime.queue import Closed, Priority, QueueMetrics, Timers, WorkQueue
from magicstick.runtime.reconciler import Declaration, Edge, Reconciler, meaning_changed
from magicstick.runtime.skeleton import Hands, Recorder, Result, Skeleton

Obs = TypeVar("Obs")
log = structlog.get_logger(__name__)

JITTER = 0.1


class Stores(Protocol):
    """Where stores come from; `kube.cache.Caches` is the real one."""

    def store(self, kind: Kind, namespace: str = "", name: str | None = None) -> Store[Any]:
        """The store of a kind in a scope."""
        ...


class ReconcileMetrics(Protocol):
    """Told how passes end."""

    def reconciled(self, controller: str, result: Result, took_s: float) -> None:
        """A pass of this controller ended."""
        ...


class NoReconcileMetrics:
    """Metrics that nobody reads."""

    def reconciled(self, controller: str, result: Result, took_s: float) -> None:
        """See `ReconcileMetrics`."""


class Controller(Generic[Obs]):
    """Runs one reconciler.

    Guarantees: every change that an edge covers wakes the keys it names; a key is never worked on twice
    at a time; one key's failure delays only that key. Cancelled, it starts nothing new, and a write that
    was sent is waited for by whoever cancels within the time given there.

    Wake-ups are noted from construction on, so that nothing between the first list and `run` is missed.
    `run` may be called again after it ended (the lease was lost and came back).
    """

    def __init__(
        self,
        reconciler: Reconciler[Obs],
        stores: Stores,
        hands: Hands,
        *,
        clock: Clock,
        recorder: Recorder | None = None,
        metrics: ReconcileMetrics | None = None,
        queue_metrics: QueueMetrics | None = None,
        rng: random.Random | None = None,
        timers: Timers | None = None,
    ) -> None:
        self.declaration: Declaration = reconciler.declaration
        self._stores = stores
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._metrics = metrics or NoReconcileMetrics()
        self._queue_metrics, self._timers = queue_metrics, timers
        self._primary: Store[Resource] = stores.store(self.declaration.primary, self.declaration.namespace)
        self._skeleton = Skeleton(reconciler, self._primary, hands, clock=clock, recorder=recorder)
        self._begun: dict[ObjectKey, float] = {}
        self.queue = self._new_queue()
        self._subscribe()

    @property
    def name(self) -> str:
        """As in logs and metrics."""
        return self.declaration.name

    def wake(self, keys: Iterable[ObjectKey], priority: Priority = Priority.NORMAL) -> None:
        """Something outside of the watched objects changed (a catalog, a setting)."""
        for key in keys:
            self._wake(key, priority)

    def wake_all(self, priority: Priority = Priority.NORMAL) -> None:
        """Look at every primary object."""
        self.wake(self._primary.keys(), priority)

    async def run(self) -> None:
        """Work until cancelled. Every primary object is looked at first, urgent ones before."""
        if self.queue.closed:
            self.queue = self._new_queue()
        self.wake_all(Priority.LOW)
        try:
            async with anyio.create_task_group() as group:
                for _ in range(self.declaration.workers):
                    group.start_soon(self._work)
        finally:
            self.queue.close()

    # -- wake-ups ----------------------------------------------------------------------------------

    def _new_queue(self) -> WorkQueue[ObjectKey]:
        return WorkQueue(timers=self._timers, rng=self._rng, metrics=self._queue_metrics)

    def _subscribe(self) -> None:
        self._primary.subscribe(self._primary_changed)
        for edge in self.declaration.edges:
            self._stores.store(edge.kind, edge.namespace, edge.name).subscribe(_Follower(self, edge))

    def _primary_changed(self, old: Resource | None, new: Resource | None) -> None:
        if not meaning_changed(old, new):
            return
        latest = new or old
        if latest is None:
            return
        urgent = new is None or new.metadata.dying
        self._wake(latest.metadata.key, Priority.URGENT if urgent else Priority.NORMAL)

    def _wake(self, key: ObjectKey, priority: Priority) -> None:
        if priority is Priority.URGENT:
            self.queue.forget(key)
        wait_s = self.declaration.coalesce_s
        if wait_s:
            wait_s -= self._clock.monotonic() - self._begun.get(key, -wait_s)
        if wait_s > 0:
            self.queue.add_after(key, wait_s, priority)
        else:
            self.queue.add(key, priority)

    # -- work --------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except Closed:
                return
            try:
                await self._one(key)
            finally:
                self.queue.done(key)

    async def _one(self, key: ObjectKey) -> None:
        if self.declaration.coalesce_s:
            self._begun[key] = self._clock.monotonic()
        begun = time.perf_counter()
        result = await self._skeleton.reconcile(key)
        self._metrics.reconciled(self.name, result, time.perf_counter() - begun)
        if result.backoff:
            self.queue.add_backoff(key)
            return
        self.queue.forget(key)
        if result.after_s is not None:
            self.queue.add_after(key, result.after_s * self._rng.uniform(1 - JITTER, 1 + JITTER))
        elif self._primary.get(key) is None:
            self._begun.pop(key, None)


class _Follower:
    """Turns changes of one edge's kind into wake-ups. Passed to a store as its subscriber."""

    def __init__(self, controller: Controller[Any], edge: Edge[Any]) -> None:
        self._controller, self._edge = controller, edge

    def __call__(self, old: View | None, new: View | None) -> None:
        if self._edge.changed(old, new):
            self._controller.wake(self._edge.wakes(old, new))
