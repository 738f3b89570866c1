"""Models are asked in the background: nobody waits, and each is asked as seldom as it may (spec: models §10.3)."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

import anyio
import pytest
from structlog.testing import capture_logs

from magicstick.kube.kinds import ObjectKey
from magicstick.models.endpoints import Endpoint
from magicstick.models.observation import CheckState, EngineCheck
from magicstick.models.probes import PATIENCE, EngineProbes, judged
from magicstick.models.questions import Found, Sample
from magicstick.models.runtime_http import NoAnswer, RuntimeHttp
from tests.support.sleeping_time import SleepingTime, settle

pytestmark = pytest.mark.anyio

DEMO, OTHER = ObjectKey("ai-system", "demo"), ObjectKey("ai-system", "other")
PASSED, WAITING = Found(CheckState.PASSED), Found(CheckState.WAITING, "not yet")
FAILED, SILENT = Found(CheckState.FAILED, "broken"), Found(CheckState.UNKNOWN, "silent")
ROUND_S = 20.0


@dataclass
class Script:
    """What Pods answer from now on, and how often they were asked."""

    answer: Found | Exception = PASSED
    asked: list[str] = field(default_factory=list)
    hold: anyio.Event | None = None
    ended: int = 0


@dataclass(frozen=True)
class Played:
    """A question that a test answers. Two are equal when they name the same and go to the same Pods."""

    name: str
    script: Script = field(compare=False)
    endpoints: tuple[Endpoint, ...] = (Endpoint("uid-1", "127.0.0.1", 1),)

    async def ask(self, http: RuntimeHttp, endpoint: Endpoint) -> Found:  # noqa: ARG002 - as the protocol says
        script = self.script
        script.asked.append(endpoint.uid)
        try:
            if script.hold is not None:
                await script.hold.wait()
        finally:
            script.ended += 1
        if isinstance(script.answer, Exception):
            raise script.answer
        return script.answer

    def completed(self, check: EngineCheck, samples: Sequence[Sample], now: datetime) -> EngineCheck:
        taken = {**samples[0], "sampledAt": now.isoformat()} if samples else None
        return replace(check, memory_usage=taken)


class Desk:
    """Probes whose time a test moves, and whom they have woken."""

    def __init__(self) -> None:
        self.time = SleepingTime()
        self.probes = EngineProbes(self.time, RuntimeHttp(self.time, fence=lambda: None), ROUND_S)
        self.woken: list[str] = []
        self.probes.follow(self._wake)

    def _wake(self, keys: Iterable[ObjectKey]) -> None:
        self.woken += [each.name for each in keys]

    async def told(self, question: Played, key: ObjectKey = DEMO) -> EngineCheck:
        """What is known once the asking that a look begins has ended."""
        self.probes.check(key, question)
        await settle()
        return self.probes.check(key, question)


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    found = Desk()
    async with anyio.create_task_group() as group:
        group.start_soon(found.probes.run)
        await settle()
        yield found
        group.cancel_scope.cancel()


async def test_a_look_waits_for_nobody_and_the_answer_wakes_the_model() -> None:
    async with desk() as found:
        question = Played("demo", Script())
        assert found.probes.check(DEMO, question) == EngineCheck()
        assert found.woken == []
        await settle()
        assert found.woken == ["demo"]
        assert found.probes.check(DEMO, question).state is CheckState.PASSED


async def test_a_settled_model_is_asked_once_in_each_round_and_wakes_nobody() -> None:
    async with desk() as found:
        script = Script()
        for expected in range(1, 5):
            for _ in range(3):  # events of the cluster make passes of their own
                await found.told(Played("demo", script))
                await found.time.elapse(1)
            assert len(script.asked) == expected
            await found.time.elapse(ROUND_S * 0.9 - 3)
        assert found.woken == ["demo"]


async def test_what_nobody_looks_at_is_not_asked() -> None:
    async with desk() as found:
        script = Script()
        await found.told(Played("demo", script))
        await found.time.elapse(100 * ROUND_S)
        assert len(script.asked) == 1


async def test_another_answer_wakes_the_model_and_its_time_alone_does_not() -> None:
    async with desk() as found:
        script = Script(Found(CheckState.PASSED, sample={"totalMi": 7}))
        question = Played("demo", script)
        first = await found.told(question)
        await found.time.elapse(ROUND_S)
        assert await found.told(question) == first
        assert found.woken == ["demo"]
        script.answer = Found(CheckState.PASSED, sample={"totalMi": 8})
        await found.time.elapse(ROUND_S)
        latest = (await found.told(question)).memory_usage
        assert latest is not None
        assert latest["totalMi"] == 8
        assert found.woken == ["demo", "demo"]


async def test_a_slow_pod_delays_no_other_model() -> None:
    async with desk() as found:
        slow = Script(hold=anyio.Event())
        pods = tuple(Endpoint(f"uid-{number}", "127.0.0.1", number) for number in range(1, 5))
        assert (await found.told(Played("slow", slow, pods))).state is CheckState.UNKNOWN
        assert (await found.told(Played("quick", Script()), OTHER)).state is CheckState.PASSED
        assert len(slow.asked) == 4  # nor does one Pod delay the others of its model
        assert found.woken == ["other"]


async def test_a_model_is_not_asked_again_while_it_has_not_answered() -> None:
    async with desk() as found:
        slow = Script(hold=anyio.Event())
        for _ in range(3):
            await found.told(Played("demo", slow))
            await found.time.elapse(ROUND_S)
        assert len(slow.asked) == 1
        assert slow.hold is not None
        slow.hold.set()
        await settle()
        assert found.probes.check(DEMO, Played("demo", slow)).state is CheckState.PASSED


async def test_another_question_ends_the_asking_and_the_old_answer_does_not_count() -> None:
    async with desk() as found:
        slow = Script(hold=anyio.Event())
        await found.told(Played("demo", slow))
        other = Played("demo", Script(WAITING), (Endpoint("uid-2", "127.0.0.1", 1),))
        assert found.probes.check(DEMO, other) == EngineCheck()
        await settle()
        assert slow.ended == 1
        assert found.probes.check(DEMO, other).state is CheckState.WAITING
        assert found.woken == ["demo"]


async def test_without_a_question_nothing_is_remembered() -> None:
    async with desk() as found:
        question = Played("demo", Script(hold=anyio.Event()))
        await found.told(question)
        assert found.probes.check(DEMO, None) == EngineCheck()
        await settle()
        assert question.script.ended == 1
        assert found.woken == []
        question.script.hold = None
        assert (await found.told(question)).state is CheckState.PASSED
        assert found.probes.check(DEMO, None) == EngineCheck()
        assert found.probes.check(DEMO, question) == EngineCheck()


async def test_without_a_pod_to_ask_the_model_is_waited_for() -> None:
    async with desk() as found:
        script = Script()
        assert (await found.told(Played("demo", script, ()))).state is CheckState.WAITING
        assert script.asked == []


async def test_a_fault_of_ours_costs_one_model_one_answer() -> None:
    async with desk() as found:
        script = Script(RuntimeError("a fault"))
        with capture_logs() as logs:
            assert await found.told(Played("demo", script)) == EngineCheck()
        assert [each["log_level"] for each in logs] == ["error"]
        assert (await found.told(Played("other", Script()), OTHER)).state is CheckState.PASSED
        script.answer = PASSED
        await found.time.elapse(ROUND_S)
        assert (await found.told(Played("demo", script))).state is CheckState.PASSED


async def test_nobody_is_asked_before_the_process_runs_and_everybody_then() -> None:
    found = Desk()
    script = Script(hold=anyio.Event())
    assert await found.told(Played("demo", script)) == EngineCheck()
    assert script.asked == []
    for expected in (1, 2):  # ended in the midst of asking, it begins anew
        async with anyio.create_task_group() as group:
            group.start_soon(found.probes.run)
            await settle()
            await found.told(Played("demo", script))
            group.cancel_scope.cancel()
        assert len(script.asked) == expected
        await found.time.elapse(ROUND_S)


async def test_a_pod_that_was_well_may_fail_to_answer_a_few_times() -> None:
    async with desk() as found:
        script = Script()
        question = Played("demo", script)
        await found.told(question)
        script.answer = NoAnswer("HTTP 502")
        states = []
        for _ in range(PATIENCE):
            await found.time.elapse(ROUND_S)
            states.append((await found.told(question)).state)
        assert states == [CheckState.UNKNOWN, CheckState.UNKNOWN, CheckState.WAITING]
        assert "HTTP 502" in found.probes.check(DEMO, question).message


async def test_a_pod_that_joins_and_does_not_answer_is_not_taken_for_well() -> None:
    async with desk() as found:
        script = Script()
        first = Endpoint("uid-1", "127.0.0.1", 1)
        await found.told(Played("demo", script, (first,)))
        script.answer = NoAnswer("refused")
        grown = Played("demo", script, (first, Endpoint("uid-2", "127.0.0.1", 2)))
        assert (await found.told(grown)).state is CheckState.WAITING


# --- what the Pods say together --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "state", "message"),
    [
        ((PASSED, PASSED), CheckState.PASSED, ""),
        ((PASSED, SILENT), CheckState.UNKNOWN, "silent"),
        ((PASSED, SILENT, WAITING), CheckState.WAITING, "not yet"),
        ((FAILED, SILENT, WAITING, PASSED), CheckState.FAILED, "broken"),
        (
            (replace(FAILED, message="b"), replace(FAILED, message="a"), FAILED),
            CheckState.FAILED,
            "a b broken",
        ),
        ((FAILED, FAILED), CheckState.FAILED, "broken"),
    ],
)
async def test_the_worst_decides_and_its_distinct_words_are_told_in_order(
    said: tuple[Found, ...], state: CheckState, message: str
) -> None:
    check, _ = judged({str(number): each for number, each in enumerate(said)}, None)
    assert (check.state, check.message) == (state, message)


async def test_patience_ends_with_whatever_a_pod_says_against_itself() -> None:
    _, misses = judged({"a": WAITING}, {"a": 0})
    check, _ = judged({"a": SILENT}, misses)
    assert check.state is CheckState.WAITING


async def test_who_has_only_begun_to_ask_cannot_tell_what_was() -> None:
    misses = None
    states = []
    for _ in range(PATIENCE + 1):
        check, misses = judged({"a": SILENT}, misses)
        states.append(check.state)
    assert states == [CheckState.UNKNOWN] * (PATIENCE - 1) + [CheckState.WAITING] * 2
    check, misses = judged({"a": PASSED}, misses)
    assert (check.state, misses) == (CheckState.PASSED, {"a": 0})
