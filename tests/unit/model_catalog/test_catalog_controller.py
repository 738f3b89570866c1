"""The loop on a clock of its own: when it looks, what it survives, and what it tells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from magicstick.kube.errors import FenceClosed, Forbidden
from magicstick.model_catalog.backoff import Backoffs
from magicstick.model_catalog.controller import LONGEST_PASS_S, CatalogController, Parts
from magicstick.model_catalog.desired import Desired, Problem, Sources, desired_routes
from magicstick.model_catalog.documents import DocumentSettings
from magicstick.model_catalog.litellm import Refused, Unreachable
from magicstick.model_catalog.metrics import CatalogMetrics
from magicstick.model_catalog.plan import SyncPlan, plan
from magicstick.model_catalog.settings import CatalogSettings
from magicstick.model_catalog.sync import Synced
from tests.support.catalog_objects import KUBEAI_BASE, MASTER_KEY, applied, managed, model
from tests.support.sleeping_time import SleepingTime, settle

pytestmark = pytest.mark.anyio


class Played:
    """All parts of a pass in one; errors are raised where a test puts them."""

    def __init__(self, clock: SleepingTime) -> None:
        self.clock = clock
        self.passes: list[float] = []
        self.published: list[str] = []
        self.reports: list[str] = []
        self.restarts = 0
        self.owed = ""
        self.errors: dict[str, Exception] = {}
        self.wanted: tuple[Any, ...] = ()
        self.slow: asyncio.Event | None = None
        self.next_round_s = 0.0
        self.lists_models = True
        self.loaded = True

    def _raise(self, where: str) -> None:
        if where in self.errors:
            raise self.errors[where]

    async def sources(self) -> Sources:
        self.passes.append(self.clock.monotonic())
        if self.slow is not None:
            await self.slow.wait()
        self._raise("sources")
        return Sources(models=self.wanted)

    async def run(self, what: Any) -> Any:
        if isinstance(what, Desired):
            self._raise("sync")
            todo = plan(what, (), MASTER_KEY)
            return Synced(applied((), todo), SyncPlan(), frozenset(), what.problems, self.loaded)
        if isinstance(what, str):
            self._raise("restarts")
            self.restarts += 1
            return not self.next_round_s
        return None

    async def publish(self, document: Any, *, restarts: bool) -> bool:
        self._raise("publish")
        changed = self.published[-1:] != [document.hash]
        if changed:
            self.published.append(document.hash)
            self.owed = document.hash if restarts else ""
        return changed

    async def annotate(self, _: Any) -> None:
        self._raise("annotate")
        self.owed = ""

    async def report(self, text: str) -> None:
        if self.reports[-1:] != [text]:
            self.reports.append(text)

    def wait_s(self) -> float:
        return self.next_round_s


@pytest.fixture
def clock() -> SleepingTime:
    return SleepingTime()


@pytest.fixture
def played(clock: SleepingTime) -> Played:
    return Played(clock)


def controller(played: Played) -> CatalogController:
    each = cast("Any", played)
    parts = Parts(each, each, each, each, each, Backoffs(played.clock))
    return CatalogController(
        parts,
        CatalogSettings(),
        DocumentSettings("http://litellm/v1"),
        played.clock,
        Random(1),
        CatalogMetrics(CollectorRegistry()),
    )


@asynccontextmanager
async def running(played: Played) -> AsyncIterator[CatalogController]:
    loop = controller(played)
    task = asyncio.create_task(loop.run())
    await settle()
    try:
        yield loop
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_without_a_change_it_looks_again_after_three_quarters_of_a_minute(played: Played) -> None:
    async with running(played):
        assert len(played.passes) == 1
        await played.clock.elapse(400)
    gaps = [later - earlier for earlier, later in zip(played.passes, played.passes[1:], strict=False)]
    assert len(gaps) >= 8
    assert all(40.5 <= gap <= 49.5 for gap in gaps)
    assert len({round(gap, 3) for gap in gaps}) > 1
    assert len(played.published) == 1


async def test_changes_in_a_group_are_one_pass_a_second_later(played: Played) -> None:
    async with running(played) as loop:
        await played.clock.elapse(10)
        for _ in range(5):
            loop.wake()
            await played.clock.elapse(0.1)
        await played.clock.elapse(5)
    assert [moment - played.passes[0] for moment in played.passes] == pytest.approx([0, 11])


async def test_a_change_during_a_pass_is_looked_at_after_it(played: Played) -> None:
    played.slow = asyncio.Event()
    async with running(played) as loop:
        loop.wake()
        await settle()
        played.slow.set()
        await played.clock.elapse(2)
        assert len(played.passes) == 2


@pytest.mark.parametrize("error", [Refused("GET /model/info: HTTP 401"), Unreachable("no answer in time")])
async def test_while_litellm_cannot_be_read_it_asks_every_half_minute_and_publishes_nothing(
    played: Played, error: Exception
) -> None:
    played.errors["sync"] = error
    async with running(played):
        await played.clock.elapse(95)
    assert len(played.passes) == 4
    assert played.published == []
    assert played.reports == [f"LiteLLM: {error}"]


async def test_changes_do_not_make_it_press_a_litellm_that_is_away(played: Played) -> None:
    played.errors["sync"] = Unreachable("busy", answered=True, retry_after_s=20)
    async with running(played) as loop:
        for _ in range(19):
            loop.wake()
            await played.clock.elapse(1)
        assert len(played.passes) == 1
        await played.clock.elapse(3)
        assert len(played.passes) == 2


@pytest.mark.parametrize("lists_models", [False, True])
async def test_a_litellm_that_knows_no_models_takes_none_out_of_the_catalog(
    played: Played, *, lists_models: bool
) -> None:
    played.loaded, played.lists_models = False, lists_models
    async with running(played):
        assert bool(played.published) is not lists_models
        assert played.reports == (["LiteLLM: has loaded no models"] if lists_models else [""])


async def test_a_catalog_that_cannot_be_written_is_told_and_tried_again(played: Played) -> None:
    played.errors["publish"] = Forbidden("the server's words")
    async with running(played):
        assert played.reports == ["catalog: cannot be written (Forbidden)"]
        played.errors.clear()
        await played.clock.elapse(31)
    assert played.reports == ["catalog: cannot be written (Forbidden)", ""]
    assert len(played.published) == 1


async def test_a_restart_that_cannot_be_made_is_told_and_stays_owed(played: Played) -> None:
    played.errors["restarts"] = Forbidden("no")
    async with running(played):
        assert played.owed
        assert played.reports == ["consumers: cannot be restarted (Forbidden)"]
        played.errors.clear()
        await played.clock.elapse(31)
        assert not played.owed


async def test_a_restart_for_which_it_is_too_early_is_made_when_it_is_time(played: Played) -> None:
    played.next_round_s = 17.0
    async with running(played):
        assert played.owed
        played.next_round_s = 0.0
        await played.clock.elapse(18)
        assert not played.owed


@pytest.mark.parametrize("where", ["sources", "sync", "publish", "annotate"])
async def test_a_fault_of_the_program_ends_the_pass_alone(played: Played, where: str) -> None:
    played.errors[where] = RuntimeError("a fault")
    with capture_logs() as logs:
        async with running(played):
            assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == [
                "pass failed by a fault of the program"
            ]
            played.errors.clear()
            await played.clock.elapse(31)
    assert len(played.passes) == 2
    assert len(played.published) == 1


@pytest.mark.parametrize("where", ["sync", "publish", "restarts", "annotate"])
async def test_a_lost_lease_ends_the_pass_without_a_word_about_errors(played: Played, where: str) -> None:
    played.errors[where] = FenceClosed("no lease")
    with capture_logs() as logs:
        async with running(played):
            await settle()
    assert {entry["log_level"] for entry in logs} == {"info"}
    assert played.reports == []


async def test_a_problem_is_logged_when_it_begins_and_when_it_is_over_and_not_between(played: Played) -> None:
    with capture_logs() as logs:
        played.errors["sync"] = Refused("GET /model/info: HTTP 401")
        async with running(played):
            await played.clock.elapse(100)
            played.errors.clear()
            await played.clock.elapse(31)
    assert [entry["event"] for entry in logs] == ["catalog problem", "catalog problem is over"]


async def test_a_pass_that_does_not_end_is_found(played: Played) -> None:
    played.slow = asyncio.Event()
    async with running(played) as loop:
        assert loop.check() == ""
        await played.clock.elapse(LONGEST_PASS_S + 1)
        assert loop.check() == "a pass has been going on for 901 s"
        played.slow.set()
        await settle()
        assert loop.check() == ""


def test_metrics_tell_how_routes_are() -> None:
    registry = CollectorRegistry()
    metrics = CatalogMetrics(registry)
    desired = desired_routes(Sources(models=(model("good"), model("bad"))), KUBEAI_BASE)
    existing = (managed("held", "1", "external"), managed("good", "2"))
    synced = Synced(existing, SyncPlan(held=frozenset({"held"})), frozenset({"bad"}), (Problem("a", "b"),))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    metrics.synced(desired, synced, 5.0)
    assert value("catalog_routes", source="kubeai", state="synced") == 1
    assert value("catalog_routes", source="kubeai", state="failing") == 1
    assert value("catalog_routes", source="external", state="held") == 1
    assert value("catalog_last_success_timestamp") == 0
    metrics.synced(Desired(), Synced((), SyncPlan(), frozenset(), ()), 7.0)
    assert value("catalog_routes", source="kubeai", state="failing") is None
    assert value("catalog_last_success_timestamp") == 7
    metrics.published()
    assert value("catalog_publish_total") == 1
