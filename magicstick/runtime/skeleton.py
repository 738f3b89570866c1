"""One pass over one key, the same for every kind.

    observe → decide → finalizer, steps ─┬─ something was written: again, over caches that hold it
                                         └─ nothing was: status, or finalizer released → requeue

Guarantees
    - The status is computed from what is, after all writes of the pass, and written once.
    - Our finalizer is there before the first step is carried out; a dying object gets none.
    - The finalizer is released after everything else, and nothing is written after it. Not even the
      status before it: a status that the server refuses must not keep an object from going.
    - Nothing but the kinds that the declaration names is ever written; a plan that holds anything else
      is not begun.
    - Every failure ends in an answer to "when is this key looked at again"; none reaches the caller.

What failed                          what happens
    Conflict, NotFound               what the plan was about is read again and decided anew at once,
                                     three times; then back-off
    Rejected                         `decide_failure` is reported; back-off, not before the table says
    NamespaceTerminating             `decide_failure` is reported; again when the table says
    TooManyRequests                  back-off, not before the server wishes; status untouched
    Unavailable and the rest         back-off; status untouched, unless there never was one
    FenceClosed                      back-off
    anything that may pass           where the declaration `tells_failures` and its `patience` is over,
                                     `decide_failure` is reported too
    any other exception              logged once; `Stalled` with `InternalError`; back-off
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from magicstick.kube.errors import (
    ApiError,
    Conflict,
    FenceClosed,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    Rejected,
    TooManyRequests,
)
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.runtime.clock import Clock
from magicstick.runtime.hands import Drain, Hands
from magicstick.runtime.plan import Apply, ApplyPart, Create, Delete, Finalizer, Patch, Plan, Step
from magicstick.runtime.reconciler import Reconciler
from magicstick.runtime.reporter import INTERNAL_ERROR, Recorder, Reporter

__all__ = [
    "Hands",
    "OutcomeNotDeclaredError",
    "Recorder",
    "Result",
    "Skeleton",
    "WriteNotDeclaredError",
]

Obs = TypeVar("Obs")

MAX_ROUNDS = 8
CONFLICT_RETRIES = 3
REFUSED_RETRY_S = 60.0
"""A refused request is tried again so often: rights and admission rules change without telling us."""
DRAIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Result:
    """How a pass ended.

    Attributes:
        outcome: for metrics and the requeue table: an outcome of the plan, `gone`, `unsynced`,
            `unsettled`, or the class of the failure.
        after_s: seconds until the next look without any event, None for never; with `backoff` the
            shortest delay, None for none.
        backoff: the pass failed; the delay grows with each failure in a row.
        refused: it failed since the server refuses something, and will until a person changes it.
        brief: it failed since something changed meanwhile, which the next look will find settled.
    """

    outcome: str
    after_s: float | None = None
    backoff: bool = False
    refused: bool = False
    brief: bool = False


class WriteNotDeclaredError(Exception):
    """A plan writes what its reconciler does not declare to write: a programming error."""


class OutcomeNotDeclaredError(Exception):
    """A plan has an outcome that its reconciler's requeue table lacks: a programming error."""


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
        drain: Drain | None = None,
    ) -> None:
        self._reconciler = reconciler
        self._declaration = reconciler.declaration
        self._store = store
        self._hands = hands
        self._clock = clock
        self._drain = drain or Drain(DRAIN_S)
        self._unanswered: dict[ObjectKey, int] = {}
        self._reporter = Reporter(
            self._declaration, store, hands, clock=clock, recorder=recorder, drain=self._drain
        )

    async def reconcile(self, key: ObjectKey) -> Result:
        """One pass. Raises nothing but cancellation."""
        try:
            result = await self._pass(key)
        except ApiError as error:
            self._reporter.request_failed(key, error)
            wish_s = error.retry_after_s if isinstance(error, TooManyRequests) else None
            return Result(type(error).__name__, wish_s, backoff=True, brief=isinstance(error, Conflict))
        except Exception as error:  # noqa: BLE001 - one object's fault must not reach its neighbours
            await self._reporter.broken(key, error)
            return Result(INTERNAL_ERROR, backoff=True)
        if not result.backoff:
            self._reporter.recovered(key)
        self._unanswered.pop(key, None)
        return result

    async def _pass(self, key: ObjectKey) -> Result:
        conflicts = 0
        for _ in range(MAX_ROUNDS):
            if not self._store.synced:
                return Result("unsynced")
            observation = await self._reconciler.observe(key)
            if observation is None:
                self._reporter.forget(key)
                return Result("gone")
            plan = self._reconciler.decide(observation, self._clock.now())
            self._check(plan)
            try:
                if not await self._carry_out(key, plan):
                    return await self._finish(key, plan)
            except (Conflict, NotFound) as error:
                conflicts += 1
                if conflicts > CONFLICT_RETRIES or isinstance(error, KindNotServed):
                    return await self._lasting(key, observation, error)
                await self._refresh(self._declaration.primary, key)
            except ApiError as error:
                return await self._failed(key, observation, error)
        self._reporter.unsettled(key, MAX_ROUNDS)
        return Result("unsettled", backoff=True)

    # --- carrying out ----------------------------------------------------------------------------

    def _check(self, plan: Plan) -> None:
        """Refuse a plan that its declaration does not cover, before anything of it is done."""
        declared, name = self._declaration, self._declaration.name
        for step in plan.steps:
            if step.kind not in declared.writes:
                raise WriteNotDeclaredError(f"{name} does not declare to write {step.kind}")
        if plan.finalizer is not Finalizer.KEEP and declared.finalizer is None:
            raise WriteNotDeclaredError(f"{name} declares no finalizer")
        if plan.status is not None and declared.owns_status is False:
            raise WriteNotDeclaredError(f"{name} does not own the status of {declared.primary}")
        if plan.outcome not in declared.requeue_s:
            raise OutcomeNotDeclaredError(f"{name} does not say when to look again after {plan.outcome}")

    async def _carry_out(self, key: ObjectKey, plan: Plan) -> bool:
        """The finalizer, or else the steps in order. Whether anything was written."""
        if plan.finalizer is Finalizer.ADD and await self._add_finalizer(key):
            return True
        wrote, failure = False, None
        for step in plan.steps:
            try:
                wrote = await self._step(step) or wrote
            except ApiError as error:
                if not plan.independent:
                    raise
                failure = failure or error
        if failure is not None:
            raise failure
        return wrote

    async def _step(self, step: Step) -> bool:
        try:
            async with self._drain.write():
                return await self._write(step)
        except ApiError as error:
            error.about = (step.kind, _key_of(step))
            if isinstance(error, Conflict | NotFound):
                await self._refresh(step.kind, _key_of(step))
            raise

    async def _write(self, step: Step) -> bool:
        match step:
            case Apply(kind, body):
                return await self._hands.apply(kind, body)
            case ApplyPart(kind, body):
                return await self._hands.apply_part(kind, body)
            case Create(kind, body):
                return await self._hands.create(kind, body)
            case Delete(kind, key, uid, resource_version):
                return await self._hands.delete(kind, key, uid, resource_version)
            case Patch(kind, key, uid, body):
                return await self._hands.patch(kind, key, uid, body)

    async def _add_finalizer(self, key: ObjectKey) -> bool:
        live, finalizer = self._store.get(key), self._declaration.finalizer
        if live is None or finalizer is None or live.metadata.dying:
            return False
        async with self._drain.write():
            return await self._hands.add_finalizer(self._declaration.primary, live, finalizer)

    async def _finish(self, key: ObjectKey, plan: Plan) -> Result:
        """Nothing is left to write but the status, or the release of the finalizer."""
        if plan.finalizer is not Finalizer.REMOVE:
            await self._reporter.report(key, plan)
            failing = plan.outcome in self._declaration.failing
            return Result(plan.outcome, self._declaration.requeue_s[plan.outcome], backoff=failing)
        live, finalizer = self._store.get(key), self._declaration.finalizer
        if live is not None and finalizer is not None:
            async with self._drain.write():
                await self._hands.remove_finalizer(self._declaration.primary, live, finalizer)
        return Result(plan.outcome)

    # --- failures --------------------------------------------------------------------------------

    async def _lasting(self, key: ObjectKey, observation: Obs, error: ApiError) -> Result:
        """A conflict that reading again did not end. Raises what is not reported."""
        if not self._declaration.tells_failures:
            raise error
        return await self._failed(key, observation, error)

    async def _failed(self, key: ObjectKey, observation: Obs, error: ApiError) -> Result:
        """Report what the server will refuse until something changes. Raises what may pass by itself."""
        refused = isinstance(error, Rejected | NamespaceTerminating)
        told = refused or self._tells(key) or not self._has_status(key)
        if not told or isinstance(error, FenceClosed):
            raise error
        plan = self._reconciler.decide_failure(observation, error, self._clock.now())
        if self._declaration.owns_status is not False:
            await self._reporter.try_report(key, plan)
        if not refused:
            raise error
        after_s = self._declaration.requeue_s.get(plan.outcome) or REFUSED_RETRY_S
        lasting = isinstance(error, Rejected)
        return Result(plan.outcome, after_s, backoff=lasting, refused=lasting)

    def _tells(self, key: ObjectKey) -> bool:
        """Whether a failure that may pass by itself is told, counting this one."""
        if not self._declaration.tells_failures:
            return False
        self._unanswered[key] = self._unanswered.get(key, 0) + 1
        return self._unanswered[key] >= self._declaration.patience

    def _has_status(self, key: ObjectKey) -> bool:
        live = self._store.get(key)
        return live is None or bool(live.status)

    async def _refresh(self, kind: Kind, key: ObjectKey) -> None:
        """Something is newer than our cache: read it, so that the next round decides on it."""
        try:
            await self._hands.refresh(kind, key)
        except NotFound:
            return


def _key_of(step: Step) -> ObjectKey:
    if isinstance(step, Delete | Patch):
        return step.key
    metadata = step.body["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])
