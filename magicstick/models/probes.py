"""Asks running models over HTTP, beside the reconcile loop: nobody ever waits for a Pod.

A pass over a model says what should be asked of it and gets the last answer; asking happens in the
background, and an answer that says something else wakes the model.

Guarantees
    - `check` neither waits nor sends. A slow Pod delays no other model, as long as no more than `AT_ONCE`
      are slow at a time.
    - A model is asked once for each question, and then at most once in each interval, when a pass looks
      at it: what nobody looks at is not asked.
    - An answer counts for exactly the question that it was given to, so for these very Pods.
    - A Pod that fails to answer is not taken for unwell at once: see `judged`.

Without `run` nobody is asked, and nothing is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio
import anyio.abc
import structlog

from magicstick.kube.kinds import ObjectKey
from magicstick.models.endpoints import Endpoint
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.ports import WakeUp
from magicstick.models.questions import Found, Question
from magicstick.models.runtime_http import NoAnswer, RuntimeHttp
from magicstick.models.samples import steady
from magicstick.runtime.clock import SleepingClock
from magicstick.runtime.controller import JITTER

log = structlog.get_logger(__name__)

AT_ONCE: Final = 256
"""Pods that are asked at the same time."""
PATIENCE: Final = 3
"""So often in succession a Pod may fail to answer before that counts against its model."""
_RANK: Final = (CheckState.PASSED, CheckState.UNKNOWN, CheckState.WAITING, CheckState.FAILED)
"""From best to worst: what one Pod says decides for the model."""


@dataclass(slots=True)
class _Asked:
    """One model, and what it was asked."""

    question: Question
    answer: EngineCheck = field(default_factory=EngineCheck)
    misses: Mapping[str, int] | None = None
    """How often each Pod, by uid, failed to answer in succession; None before the first answer."""
    begun_s: float | None = None
    asking: anyio.CancelScope | None = None


class EngineProbes:
    """See the module. `every_s` is how often a pass looks at a model at which nothing happens."""

    def __init__(self, clock: SleepingClock, http: RuntimeHttp, every_s: float) -> None:
        self._clock = clock
        self._http = http
        # A pass that comes early by chance asks as well.
        self._interval_s = every_s * (1 - 2 * JITTER)
        self._asked: dict[ObjectKey, _Asked] = {}
        self._group: anyio.abc.TaskGroup | None = None
        self._limit = anyio.CapacityLimiter(AT_ONCE)
        self._wake: WakeUp = lambda _keys: None

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called with the activations whose answer changed."""
        self._wake = wake

    async def run(self) -> None:
        """Ask, until cancelled."""
        async with self._http, anyio.create_task_group() as group:
            self._group = group
            try:
                await anyio.sleep_forever()
            finally:
                self._group = None

    def check(self, key: ObjectKey, question: Question | None) -> EngineCheck:
        """The last answer to this question, which is asked anew when its time has come.

        With None there is nothing to ask any more, and what was said is forgotten.
        """
        known = self._asked.get(key)
        if known is not None and known.question != question:
            self._leave(key, known)
        if question is None:
            return EngineCheck()
        asked = self._asked.get(key)
        if asked is None:
            asked = _Asked(question, misses=None if known is None else known.misses)
            self._asked[key] = asked
        if not question.endpoints:
            return EngineCheck(CheckState.WAITING, "No Pod of the model can be asked for its state yet.")
        if self._is_due(asked):
            self._begin(key, asked)
        return asked.answer

    def _leave(self, key: ObjectKey, known: _Asked) -> None:
        del self._asked[key]
        if known.asking is not None:
            known.asking.cancel()

    def _is_due(self, asked: _Asked) -> bool:
        if asked.asking is not None:
            return False
        return asked.begun_s is None or self._clock.monotonic() - asked.begun_s >= self._interval_s

    def _begin(self, key: ObjectKey, asked: _Asked) -> None:
        if self._group is None:
            return
        asked.begun_s = self._clock.monotonic()
        asked.asking = anyio.CancelScope()
        self._group.start_soon(self._probe, key, asked, asked.asking)

    # --- in the background -----------------------------------------------------------------------

    async def _probe(self, key: ObjectKey, asked: _Asked, scope: anyio.CancelScope) -> None:
        """One round over all Pods of a model."""
        try:
            with scope:
                answer = await self._answer(key, asked)
                before, asked.answer = asked.answer, steady(asked.answer, answer)
                if asked.answer != before:
                    self._wake([key])
        finally:
            asked.asking = None

    async def _answer(self, key: ObjectKey, asked: _Asked) -> EngineCheck:
        try:
            return await self._round(asked)
        except Exception:
            # A fault of ours costs this model its answer, and no other anything.
            log.exception("a model could not be asked", model=str(key))
            return EngineCheck()

    async def _round(self, asked: _Asked) -> EngineCheck:
        question, found = asked.question, dict[str, Found]()
        async with anyio.create_task_group() as group:
            for endpoint in question.endpoints:
                group.start_soon(self._one, question, endpoint, found)
        check, asked.misses = judged(found, asked.misses)
        samples = [each.sample for _, each in sorted(found.items()) if each.sample is not None]
        return question.completed(check, samples, self._clock.now())

    async def _one(self, question: Question, endpoint: Endpoint, found: dict[str, Found]) -> None:
        async with self._limit:
            try:
                found[endpoint.uid] = await question.ask(self._http, endpoint)
            except NoAnswer as missing:
                said = f"The runtime in a Pod does not answer as it should ({missing})."
                found[endpoint.uid] = Found(CheckState.UNKNOWN, said)


def judged(
    found: Mapping[str, Found], before: Mapping[str, int] | None
) -> tuple[EngineCheck, Mapping[str, int]]:
    """What the Pods, by uid, say together, and how often each has failed to answer by now.

    The worst decides. A Pod without an answer leaves open what is (UNKNOWN), since one request that fails
    says little of a runtime that the kubelet finds Ready; from the `PATIENCE`th in succession on it is
    waited for (WAITING). A Pod that has not vouched for itself yet gets no such patience, unless this
    process has only begun to ask: then it cannot tell what was.
    """
    misses = {uid: _misses(uid, each, before) for uid, each in found.items()}
    worst = max((each.state for each in found.values()), key=_RANK.index)
    said = sorted({each.message for each in found.values() if each.state is worst and each.message})
    tried = worst is CheckState.UNKNOWN and max(misses.values()) >= PATIENCE
    return EngineCheck(CheckState.WAITING if tried else worst, " ".join(said)), misses


def _misses(uid: str, found: Found, before: Mapping[str, int] | None) -> int:
    match found.state:
        case CheckState.PASSED:
            return 0
        case CheckState.UNKNOWN:
            return min(PATIENCE, 1 + (0 if before is None else before.get(uid, PATIENCE)))
        case _:
            return PATIENCE
