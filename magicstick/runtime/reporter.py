"""What becomes known of a pass: the status, one log line, one Event, and failures told once."""

from collections.abc import Hashable, Mapping
from traceback import walk_tb
from typing import Any, Protocol

import structlog

from magicstick.kube.errors import ApiError, Conflict, FenceClosed
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.runtime.clock import Clock
from magicstick.runtime.conditions import ABNORMAL, READY, RECONCILING, conditions_of, find, summarise
from magicstick.runtime.hands import Drain, Hands
from magicstick.runtime.plan import Notice, Plan
from magicstick.runtime.reconciler import Declaration
from magicstick.runtime.status import merge_status, same_meaning

log = structlog.get_logger(__name__)

INTERNAL_ERROR = "InternalError"


class Recorder(Protocol):
    """Takes note that an object's reason changed."""

    def record(self, kind: Kind, obj: Resource, *, normal: bool, reason: str, message: str) -> None:
        """Never blocks, never raises."""
        ...


class Reporter:
    """Speaks for the primary objects of one reconciler.

    Guarantees
        - A status is written only when it means something else than what stands there.
        - A change of phase or reason makes one log line; a change of an earlier reason one Event, unless
          one wait follows another: many objects on their way would fill the Events with their progress,
          and what they come to would be lost in it.
        - A notice makes one Event when it appears, and none while it stays.
        - A failure that repeats itself on the same generation of an object is logged once.
        - No text of an unexpected exception reaches the object: it could quote anything.
    """

    def __init__(
        self,
        declaration: Declaration,
        store: Store[Resource],
        hands: Hands,
        *,
        clock: Clock,
        recorder: Recorder | None,
        drain: Drain,
    ) -> None:
        self._declaration = declaration
        self._store = store
        self._hands = hands
        self._clock = clock
        self._recorder = recorder
        self._drain = drain
        self._log = log.bind(controller=declaration.name)
        self._told: dict[ObjectKey, Hashable] = {}
        self._noticed: dict[ObjectKey, frozenset[Notice]] = {}

    # --- status ----------------------------------------------------------------------------------

    async def report(self, key: ObjectKey, plan: Plan) -> None:
        """Write the plan's status where it tells something new. Raises the `ApiError` of the write."""
        self._notice(key, plan.notices)
        if plan.status is not None:
            await self._write(key, plan.status, plan.log)

    async def try_report(self, key: ObjectKey, plan: Plan) -> None:
        """`report`, when the pass has failed already and a second failure adds nothing."""
        try:
            await self.report(key, plan)
        except ApiError as error:
            self.request_failed(key, error)

    async def _write(self, key: ObjectKey, status: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        live = self._store.get(key)
        if live is None:
            return
        status = merge_status(live.status, status, self._clock.now())
        if same_meaning(live.status, status):
            return
        async with self._drain.write():
            written = await self._hands.apply_status(self._declaration.primary, live, status)
        if written:
            self._tell(live, status, more)

    def _tell(self, before: Resource, status: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        old = find(conditions_of(before.status), READY) or {}
        new = find(status.get("conditions", ()), READY) or {}
        reason, message = str(new.get("reason", "")), str(new.get("message", ""))
        if (old.get("reason", ""), before.status.get("phase")) == (reason, status.get("phase")):
            return
        fields = {"key": str(before.metadata.key), "phase": status.get("phase")}
        self._log.info("state changed", **{**more, **fields, "reason": reason, "message": message})
        if self._recorder is None or not old.get("reason") or old["reason"] == reason:
            return
        waits = find(status.get("conditions", ()), RECONCILING) is not None
        if waits and find(conditions_of(before.status), RECONCILING) is not None:
            return
        normal = new.get("status") == "True" or waits
        self._recorder.record(
            self._declaration.primary, before, normal=normal, reason=reason, message=message
        )

    def _notice(self, key: ObjectKey, notices: tuple[Notice, ...]) -> None:
        """Tell those that the last plan did not have; the process's own memory, so a restart tells again."""
        live = self._store.get(key)
        known = self._noticed.pop(key, frozenset())
        if live is None or not notices:
            return
        self._noticed[key] = frozenset(notices)
        for each in notices:
            if each in known or self._recorder is None:
                continue
            self._recorder.record(
                self._declaration.primary, live, normal=False, reason=each.reason, message=each.message
            )

    def forget(self, key: ObjectKey) -> None:
        """The object does not exist any more."""
        self._told.pop(key, None)
        self._noticed.pop(key, None)

    # --- failures --------------------------------------------------------------------------------

    def request_failed(self, key: ObjectKey, error: ApiError) -> None:
        """Log a failed request; a conflict is everyday life, and a closed fence is told by the lease."""
        fields = {"key": str(key), "error": type(error).__name__, "message": error.message}
        if isinstance(error, Conflict | FenceClosed):
            self._log.debug("request failed", **fields)
        elif self._is_news(key, (type(error), error.message)):
            self._log.warning("request failed", **fields)

    async def broken(self, key: ObjectKey, error: Exception) -> None:
        """Log a fault of the operator on this object with its traceback, and say so on the object.

        Raises nothing: what made the decision fail may make the report fail as well, and the worker
        has other objects to look at.
        """
        frames = tuple((frame.f_code, line) for frame, line in walk_tb(error.__traceback__))
        if self._is_news(key, (type(error), frames)):
            self._log.error("reconcile failed", key=str(key), exc_info=error)
        live = self._store.get(key)
        if live is None or not self._declaration.tells_faults:
            return
        try:
            status = _broken_status(live, error, self._declaration.fault_phase)
            await self.try_report(key, Plan(INTERNAL_ERROR, status=status))
        except Exception:  # noqa: BLE001 - as the docstring says; `exception` is a method of a bound logger
            self._log.exception("the fault cannot be told on the object", key=str(key))

    def unsettled(self, key: ObjectKey, rounds: int) -> None:
        """Log that a decision wanted something new after each of so many rounds of writes."""
        if self._is_news(key, "unsettled"):
            self._log.warning("a decision does not come to rest", key=str(key), rounds=rounds)

    def recovered(self, key: ObjectKey) -> None:
        """The pass succeeded: the next failure is news again."""
        self._told.pop(key, None)

    def _is_news(self, key: ObjectKey, failure: Hashable) -> bool:
        live = self._store.get(key)
        fingerprint = (live.metadata.generation if live is not None else 0, failure)
        if self._told.get(key) == fingerprint:
            return False
        self._told[key] = fingerprint
        return True


def _broken_status(live: Resource, error: Exception, phase: str) -> dict[str, Any]:
    """What stood there before, with the summary replaced: nobody knows whether the rest still holds."""
    generation = live.metadata.generation
    message = f"the operator failed on this object ({type(error).__name__}); its log has the details"
    summary = summarise("False", INTERNAL_ERROR, message, generation, stalled=True)
    kept = [entry for entry in conditions_of(live.status) if entry["type"] not in {READY, *ABNORMAL}]
    told = {"observedGeneration": generation, "conditions": [*summary, *kept]}
    return {**live.status, **told, **({"phase": phase} if phase else {})}
