"""One pass over one key, the same for every kind.

    observe → decide → finalizer, steps ─┬─ something was written: again, over caches that hold it
                                         └─ nothing was: status → finalizer released → requeue

Guarantees
    - The status is computed from what is, after all writes of the pass.
    - A dying object gets no finalizer. After our finalizer was released nothing more is written.
    - Nothing but the kinds that the declaration names is ever written.
    - Every failure ends in an answer to "when is this key looked at again"; none reaches the caller.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog

from magicstick.kube.errors import (
    ApiError,
    Conflict,
    FenceClosed,
    NamespaceTerminating,
    NotFound,
    Rejected,
    TooManyRequests,
)
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.runtime.clock import Clock
from magicstick.runtime.conditions import READY, find, summarise
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer, Plan, Step
from magicstick.runtime.reconciler import Reconciler
from magicstick.runtime.status import merge_status, same_meaning

Obs = TypeVar("Obs")
log = structlog.get_logger(__name__)

MAX_ROUNDS = 8
CONFLICT_RETRIES = 3
REFUSED_RETRY_S = 60.0
"""A refused request is tried again so often: rights and admission rules change without telling us."""


class Hands(Protocol):
    """What a pass may do to the cluster; `kube.applier.Applier` is the real one."""

    async def apply(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Make the body true; whether anything was sent."""
        ...

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Create it unless it exists; whether it was created."""
        ...

    async def delete(self, kind: Kind, key: ObjectKey, uid: str) -> bool:
        """Delete exactly this object; whether anything was sent."""
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


class Recorder(Protocol):
    """Takes note that an object's reason changed."""

    def record(self, kind: Kind, obj: Resource, *, normal: bool, reason: str, message: str) -> None:
        """Never blocks, never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """How a pass ended.

    Attributes:
        outcome: for metrics and the requeue table: an outcome of the plan, `gone`, or the class of failure.
        after_s: seconds until the next look without any event; None for never.
        backoff: the pass failed; the delay grows with each failure in a row.
    """

    outcome: str
    after_s: float | None = None
    backoff: bool = False


class WriteNotDeclaredError(Exception):
    """A plan holds a kind that its reconciler does not declare to write: a programming error."""


class Skeleton(Generic[Obs]):
    """See the module's docstring."""

    def __init__(
        self,
        reconciler: Reconciler[Obs],
        store: Store[Resource],
        hands: Hands,
        *,
        clock: Clock,
        recorder: Recorder | None = None,
    ) -> None:
        self._reconciler = reconciler
        self._declaration = reconciler.declaration
        self._store = store
        self._hands = hands
        self._clock = clock
        self._recorder = recorder
        self._told: dict[ObjectKey, tuple[int, str]] = {}
        """The last internal error of a key, (generation, text): told once, not on every retry."""

    async def reconcile(self, key: ObjectKey) -> Result:
        """One pass. Raises nothing but cancellation."""
        try:
            result = await self._pass(key)
        except FenceClosed:
            return Result("FenceClosed", backoff=True)
        except TooManyRequests as error:
            return Result("TooManyRequests", after_s=error.retry_after_s)
        except ApiError as error:
            log.warning("request failed", key=str(key), error=type(error).__name__, message=error.message)
            return Result(type(error).__name__, backoff=True)
        except Exception as error:  # noqa: BLE001 - one object's fault must not reach its neighbours
            return await self._broken(key, error)
        self._told.pop(key, None)
        return result

    async def _pass(self, key: ObjectKey) -> Result:
        conflicts = 0
        for _ in range(MAX_ROUNDS):
            observation = await self._reconciler.observe(key)
            if observation is None:
                return Result("gone")
            plan = self._reconciler.decide(observation, self._clock.now())
            try:
                wrote = await self._carry_out(key, plan)
            except Conflict as conflict:
                conflicts += 1
                if conflicts > CONFLICT_RETRIES:
                    raise
                await self._read_again(key, plan, conflict)
                continue
            except (Rejected, NamespaceTerminating) as error:
                return await self._refused(key, observation, error)
            if not wrote:
                return await self._finish(key, plan)
        log.warning("a decision does not come to rest", key=str(key), rounds=MAX_ROUNDS)
        return Result("unsettled", backoff=True)

    async def _carry_out(self, key: ObjectKey, plan: Plan) -> bool:
        """The finalizer, then the steps in order. Whether anything was written."""
        wrote = False
        if plan.finalizer is Finalizer.ADD and self._declaration.finalizer is not None:
            live = self._store.get(key)
            if live is not None and not live.metadata.dying:
                wrote = await self._hands.add_finalizer(
                    self._declaration.primary, live, self._declaration.finalizer
                )
        for step in plan.steps:
            wrote = await self._step(step) or wrote
        return wrote

    async def _step(self, step: Step) -> bool:
        if step.kind not in self._declaration.writes:
            raise WriteNotDeclaredError(f"{self._declaration.name} does not declare to write {step.kind}")
        match step:
            case Apply(kind, body):
                return await self._hands.apply(kind, body)
            case Create(kind, body):
                return await self._hands.create(kind, body)
            case Delete(kind, key, uid):
                return await self._hands.delete(kind, key, uid)

    async def _finish(self, key: ObjectKey, plan: Plan) -> Result:
        """Nothing is left to write but the status, or the release of the finalizer."""
        if plan.finalizer is Finalizer.REMOVE and self._declaration.finalizer is not None:
            live = self._store.get(key)
            if live is not None:
                await self._hands.remove_finalizer(
                    self._declaration.primary, live, self._declaration.finalizer
                )
            return Result(plan.outcome)
        await self._report(key, plan)
        return Result(plan.outcome, self._declaration.requeue_s[plan.outcome])

    async def _refused(self, key: ObjectKey, observation: Obs, error: ApiError) -> Result:
        """The server will refuse this until something changes: say so, and try again slowly."""
        plan = self._reconciler.decide_failure(observation, error, self._clock.now())
        await self._report(key, plan)
        return Result(plan.outcome, self._declaration.requeue_s.get(plan.outcome) or REFUSED_RETRY_S)

    async def _read_again(self, key: ObjectKey, plan: Plan, conflict: Conflict) -> None:
        """Something is newer than our cache: read it, so that the next round decides on it."""
        log.debug("conflict, reading again", key=str(key), message=conflict.message)
        await self._refresh(self._declaration.primary, key)
        for step in plan.steps:
            if isinstance(step, Delete):
                await self._refresh(step.kind, step.key)
            else:
                metadata = step.body["metadata"]
                await self._refresh(step.kind, ObjectKey(metadata.get("namespace", ""), metadata["name"]))

    async def _refresh(self, kind: Kind, key: ObjectKey) -> None:
        try:
            await self._hands.refresh(kind, key)
        except NotFound:
            return

    async def _report(self, key: ObjectKey, plan: Plan) -> None:
        """Write the status if it means something else than what stands there."""
        live = self._store.get(key)
        if live is None or plan.status is None:
            return
        status = merge_status(live.status, plan.status, self._clock.now())
        if same_meaning(live.status, status):
            return
        try:
            written = await self._hands.apply_status(self._declaration.primary, live, status)
        except NotFound:
            return
        if written:
            self._tell(live, status, plan)

    def _tell(self, before: Resource, status: Mapping[str, Any], plan: Plan) -> None:
        """One log line and one Event when the reason changed."""
        old = find(before.status.get("conditions", ()), READY) or {}
        new = find(status.get("conditions", ()), READY) or {}
        if (old.get("reason"), before.status.get("phase")) == (new.get("reason"), status.get("phase")):
            return
        log.info(
            "state changed",
            controller=self._declaration.name,
            key=str(before.metadata.key),
            phase=status.get("phase"),
            reason=new.get("reason"),
            message=new.get("message"),
            **plan.log,
        )
        if self._recorder is not None and old.get("reason") and old.get("reason") != new.get("reason"):
            self._recorder.record(
                self._declaration.primary,
                before,
                normal=find(status.get("conditions", ()), "Stalled") is None and plan.outcome != "Degraded",
                reason=str(new.get("reason")),
                message=str(new.get("message")),
            )

    async def _broken(self, key: ObjectKey, error: Exception) -> Result:
        """A fault of ours on this object: say it once, on the object too, and go on with the others."""
        live = self._store.get(key)
        generation = live.metadata.generation if live is not None else 0
        text = f"{type(error).__name__}: {error}"
        if self._told.get(key) != (generation, text):
            self._told[key] = (generation, text)
            log.error("reconcile failed", controller=self._declaration.name, key=str(key), exc_info=error)
        if live is not None and not isinstance(error, WriteNotDeclaredError):
            await self._report_broken(key, live)
        return Result("InternalError", backoff=True)

    async def _report_broken(self, key: ObjectKey, live: Resource) -> None:
        message = "the operator failed on this object; its log has the details"
        kept = {name: value for name, value in live.status.items() if name != "conditions"}
        conditions = summarise("False", "InternalError", message, live.metadata.generation, stalled=True)
        try:
            await self._report(key, Plan("InternalError", status={**kept, "conditions": conditions}))
        except ApiError as failure:
            log.warning("request failed", key=str(key), error=type(failure).__name__, message=failure.message)
