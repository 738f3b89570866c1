"""A reconciler at work: its queue, its wake-ups, its workers."""

import random
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

import anyio
import anyio.lowlevel
import structlog

from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.pulse import Pulse
from magicstick.kube.store import Store
from magicstick.runtime.clock import Clock
from magicstick.runtime.hands import Drain, Hands
from magicstick.runtime.queue import Closed, Priority, QueueMetrics, Timers, WorkQueue
from magicstick.runtime.reads import Reads, Stores
from magicstick.runtime.reconciler import Declaration, Edge, Reconciler, meaning_changed
from magicstick.runtime.reporter import Recorder
from magicstick.runtime.skeleton import DRAIN_S, Result, Skeleton

__all__ = ["JITTER", "Controller", "NoReconcileMetrics", "ReconcileMetrics", "Stores"]

Obs = TypeVar("Obs")
log = structlog.get_logger(__name__)

JITTER = 0.1


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

    Guarantees
        - Every change that an edge covers wakes the keys it names; every change of a watched kind's
          state (it came, went, fails, healed) wakes all. Wake-ups are noted from construction on, so
          that nothing between the first list and `run` is missed.
        - A key is never worked on twice at a time, and one key's failure delays only that key.
        - No pass before the first list of every kind that the declaration names has arrived, or the
          kind turned out to be absent or unreadable: such a kind holds up nobody.
        - Cancelled, it starts nothing new; a write under way gets `drain_s` seconds to end.

    `run` may be called again after it ended (the lease was lost and came back).

    Failure modes: an edge whose `wakes` raises wakes nobody for that change; the store logs it, and
    the requeue table's timers make up for it.
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
        drain_s: float = DRAIN_S,
        workers: int | None = None,
    ) -> None:
        self.declaration: Declaration = reconciler.declaration
        self.workers = min(workers or self.declaration.workers, self.declaration.workers)
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._metrics = metrics or NoReconcileMetrics()
        self._queue_metrics, self._timers = queue_metrics, timers
        self._reads = Reads(stores, self.declaration)
        self._primary: Store[Resource] = self._reads.at(self.declaration.scope)
        self._drain = Drain(drain_s)
        self._skeleton = Skeleton(
            reconciler, self._primary, hands, clock=clock, recorder=recorder, drain=self._drain
        )
        self._begun: dict[ObjectKey, float] = {}
        self._states = Pulse()
        self._working = False
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
        """Work until cancelled. Every primary object is looked at first, dying ones before all others."""
        if self.queue.closed:
            self.queue = self._new_queue()
        try:
            while self._reads.syncing:
                await self._states.next().wait()
            self._working = True
            for found in self._primary.list():
                self._wake(found.metadata.key, Priority.URGENT if found.metadata.dying else Priority.LOW)
            async with anyio.create_task_group() as group:
                for _ in range(self.workers):
                    group.start_soon(self._work)
                await self._until_cancelled()
        finally:
            self._working = False
            self.queue.close()

    async def _until_cancelled(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._drain.begin()

    # -- wake-ups ----------------------------------------------------------------------------------

    def _new_queue(self) -> WorkQueue[ObjectKey]:
        return WorkQueue(timers=self._timers, rng=self._rng, metrics=self._queue_metrics)

    def _subscribe(self) -> None:
        self._primary.subscribe(self._primary_changed)
        for edge in self.declaration.edges:
            self._reads.at(edge.scope).subscribe(_Follower(self, edge))
        self._reads.subscribe_state(self._state_changed)

    def _primary_changed(self, old: Resource | None, new: Resource | None) -> None:
        latest = new or old
        if latest is None or not meaning_changed(old, new):
            return
        key = latest.metadata.key
        self.queue.forget(key)
        urgent = new is None or new.metadata.dying
        usual = Priority.NORMAL if self._working else Priority.LOW
        self._wake(key, Priority.URGENT if urgent else usual)

    def _state_changed(self, kind: Kind, state: InformerState) -> None:
        self._states.beat()
        if self._working:
            log.debug("looking at everything", controller=self.name, kind=str(kind), state=str(state))
            self.wake_all()

    def _wake(self, key: ObjectKey, priority: Priority) -> None:
        """Add the key, but not sooner than `coalesce_s` after the beginning of its last pass."""
        begun = self._begun.get(key)
        wait_s = 0.0
        if begun is not None:
            wait_s = begun + self.declaration.coalesce_s - self._clock.monotonic()
        self.queue.add_after(key, wait_s, priority)

    # -- work --------------------------------------------------------------------------------------

    async def _work(self) -> None:
        queue = self.queue
        while True:
            try:
                key = await queue.get()
            except Closed:
                return
            try:
                await self._one(key)
            finally:
                queue.done(key)
            # A pass over caches alone never waits: let the watches and probes have their turn.
            await anyio.lowlevel.checkpoint()

    async def _one(self, key: ObjectKey) -> None:
        begun = self._clock.monotonic()
        if self.declaration.coalesce_s:
            self._begun[key] = begun
        result = await self._skeleton.reconcile(key)
        self._metrics.reconciled(self.name, result, self._clock.monotonic() - begun)
        self._schedule(key, result)

    def _schedule(self, key: ObjectKey, result: Result) -> None:
        if result.backoff:
            self._back_off(key, result)
            return
        self.queue.forget(key)
        if result.after_s is not None:
            self.queue.add_after(key, result.after_s * self._rng.uniform(1 - JITTER, 1 + JITTER))
        elif self._primary.get(key) is None:
            self._begun.pop(key, None)

    def _back_off(self, key: ObjectKey, result: Result) -> None:
        first_s, least_s = self.declaration.backoff_s, result.after_s or 0.0
        if first_s is None or result.brief:
            self.queue.add_backoff(key, at_least_s=least_s)
            return
        if result.outcome in self.declaration.requeue_s:
            least_s = 0.0  # the table's delay is the first one then, not a floor under all of them
        self.queue.add_backoff(key, at_least_s=least_s, first_s=first_s)


class _Follower:
    """Turns changes of one edge's kind into wake-ups. Passed to a store as its subscriber."""

    def __init__(self, controller: Controller[Any], edge: Edge[Any]) -> None:
        self._controller, self._edge = controller, edge

    def __call__(self, old: View | None, new: View | None) -> None:
        if self._edge.changed(old, new):
            self._controller.wake(self._edge.wakes(old, new), self._edge.priority)
