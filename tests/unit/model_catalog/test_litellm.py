"""The HTTP contract with LiteLLM, against the actor that plays it (spec: companions §1.2)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from hack.devcluster.actors.litellm import Call, LiteLlmActor
from magicstick.kube.errors import FenceClosed
from magicstick.model_catalog import litellm as module
from magicstick.model_catalog.backoff import Backoffs
from magicstick.model_catalog.desired import Desired, Sources, desired_routes
from magicstick.model_catalog.litellm import (
    LiteLlm,
    MissingMasterKeyError,
    Refused,
    Unreachable,
    UnreadableAnswer,
)
from magicstick.model_catalog.sync import CONCURRENCY, Sync
from magicstick.runtime.logs import Secret
from tests.support.catalog_objects import KUBEAI_BASE, model
from tests.support.virtual_time import VirtualTime

pytestmark = pytest.mark.anyio
KEY = "sk-master-CHANGEME"


class Skipping(VirtualTime):
    """Waits take no time, and are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)


@pytest.fixture
def clock() -> Skipping:
    return Skipping()


@pytest.fixture
async def actor() -> AsyncIterator[LiteLlmActor]:
    async with LiteLlmActor(KEY).running() as playing:
        yield playing


@pytest.fixture
async def client(actor: LiteLlmActor, clock: Skipping) -> AsyncIterator[LiteLlm]:
    async with LiteLlm(actor.url, Secret(KEY), clock) as opened:
        yield opened


def body(name: str, id_: str, **params: Any) -> dict[str, Any]:
    return {
        "model_name": name,
        "litellm_params": {"model": f"openai/{name}", **params},
        "model_info": {"id": id_, "ai_appliance_managed": True},
    }


def models(*names: str) -> Desired:
    return desired_routes(Sources(models=tuple(map(model, names))), KUBEAI_BASE)


def everything(_: Call) -> bool:
    return True


def about(name: str, *, deletions: bool = False) -> Any:
    """Writes about one model."""
    return lambda call: call.writes and (call.name == name or (deletions and call.id.endswith(name)))


# -- single calls ----------------------------------------------------------------------------------------


async def test_what_is_created_updated_and_deleted_is_seen_in_the_inventory(
    actor: LiteLlmActor, client: LiteLlm
) -> None:
    await client.create(body("demo", "one"))
    (created,) = await client.inventory()
    await client.update("one", body("demo", "one", rpm=5))
    (updated,) = await client.inventory()
    await client.delete("one")

    assert (created.name, created.id, created.managed) == ("demo", "one", True)
    assert updated.params["rpm"] == 5
    assert await client.inventory() == ()
    assert all(call.authorized for call in actor.calls)


async def test_an_older_litellm_is_asked_the_old_way_from_the_second_update_on(clock: Skipping) -> None:
    async with (
        LiteLlmActor(KEY, patches=False).running() as actor,
        LiteLlm(actor.url, Secret(KEY), clock) as client,
    ):
        await client.create(body("demo", "a b/c"))
        for rpm in (1, 2):
            await client.update("a b/c", body("demo", "a b/c", rpm=rpm))
        assert actor.models["a b/c"]["litellm_params"]["rpm"] == 2
        assert [call.method for call in actor.writes()] == ["POST", "PATCH", "POST", "POST"]


async def test_ids_lead_nowhere_else(actor: LiteLlmActor, client: LiteLlm) -> None:
    await client.create(body("demo", "../new?x=1#"))
    await client.update("../new?x=1#", body("demo", "../new?x=1#", rpm=1))
    assert actor.models["../new?x=1#"]["litellm_params"]["rpm"] == 1


async def test_without_a_master_key_nothing_is_sent(actor: LiteLlmActor, clock: Skipping) -> None:
    async with LiteLlm(actor.url, Secret(""), clock) as client:
        with pytest.raises(MissingMasterKeyError):
            await client.inventory()
    assert actor.calls == []


async def test_a_wrong_master_key_is_refused_at_once(actor: LiteLlmActor, clock: Skipping) -> None:
    async with LiteLlm(actor.url, Secret("sk-wrong"), clock) as client:
        with pytest.raises(Refused, match="GET /model/info: HTTP 401"):
            await client.inventory()
    assert len(actor.calls) == 1


@pytest.mark.parametrize(
    "answer", [b"<html>hello</html>", b"", b"{}", b"[]", b'{"data": {}}', b'{"data":', b"[" * 10_000]
)
async def test_an_inventory_that_is_none_is_an_error_and_not_empty(
    actor: LiteLlmActor, client: LiteLlm, answer: bytes
) -> None:
    with actor.fault(everything, 200, body=answer), pytest.raises(UnreadableAnswer):
        await client.inventory()


async def test_an_answer_without_end_is_cut_off(
    actor: LiteLlmActor, client: LiteLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_ANSWER", 1000)
    with actor.fault(everything, 200, body=b"x" * 1001), pytest.raises(UnreadableAnswer):
        await client.inventory()


@pytest.mark.parametrize("status", [201, 202])
async def test_other_successes_count(actor: LiteLlmActor, client: LiteLlm, status: int) -> None:
    with actor.fault(everything, status, body=b""):
        await client.create(body("demo", "one"))


@pytest.mark.parametrize("status", [204, 301, 302, 307, 400, 403, 404, 409, 422])
async def test_anything_else_is_a_refusal_and_is_not_repeated_or_followed(
    actor: LiteLlmActor, client: LiteLlm, status: int
) -> None:
    with actor.fault(everything, status, headers={"Location": actor.url}), pytest.raises(Refused):
        await client.delete("one")
    assert len(actor.calls) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_what_may_pass_is_asked_again_a_few_times(
    actor: LiteLlmActor, client: LiteLlm, clock: Skipping, status: int
) -> None:
    with actor.fault(everything, status), pytest.raises(Unreachable) as caught:
        await client.inventory()
    assert caught.value.answered
    assert len(actor.calls) == 3
    assert clock.waits == [0.5, 1.0]


async def test_the_patience_that_a_server_asks_for_is_kept(
    actor: LiteLlmActor, client: LiteLlm, clock: Skipping
) -> None:
    with actor.fault(everything, 429, headers={"Retry-After": "7"}), pytest.raises(Unreachable):
        await client.inventory()
    assert clock.waits == [7.0, 7.0]


async def test_a_server_that_asks_for_more_is_left_alone(
    actor: LiteLlmActor, client: LiteLlm, clock: Skipping
) -> None:
    with actor.fault(everything, 503, headers={"Retry-After": "120"}), pytest.raises(Unreachable) as caught:
        await client.inventory()
    assert (caught.value.retry_after_s, len(actor.calls), clock.waits) == (120.0, 1, [])


async def test_a_creation_is_never_sent_twice(actor: LiteLlmActor, client: LiteLlm) -> None:
    with actor.fault(everything, 503), pytest.raises(Unreachable):
        await client.create(body("demo", "one"))
    assert len(actor.calls) == 1


async def test_a_server_that_is_away_is_unreachable_and_has_not_answered(
    actor: LiteLlmActor, client: LiteLlm
) -> None:
    await actor.stop()
    with pytest.raises(Unreachable) as caught:
        await client.inventory()
    assert not caught.value.answered


async def test_a_server_that_hangs_is_given_up(actor: LiteLlmActor, clock: Skipping) -> None:
    actor.shut()
    async with LiteLlm(actor.url, Secret(KEY), clock, timeout_s=0.05) as client:
        with pytest.raises(Unreachable, match="no answer in time"):
            await client.create(body("demo", "one"))


async def test_the_fence_is_asked_before_every_write_and_no_read(
    actor: LiteLlmActor, clock: Skipping
) -> None:
    def closed() -> None:
        raise FenceClosed("no lease")

    async with LiteLlm(actor.url, Secret(KEY), clock, fence=closed) as client:
        await client.inventory()
        for write in (client.create(body("d", "1")), client.update("1", body("d", "1")), client.delete("1")):
            with pytest.raises(FenceClosed):
                await write
    assert actor.writes() == []


async def test_no_error_holds_a_key_or_an_answer(actor: LiteLlmActor, client: LiteLlm) -> None:
    echo = b'{"error": "the key sk-provider of ' + KEY.encode() + b' is wrong"}'
    for status in (200, 400, 500):
        with (
            actor.fault(everything, status, body=echo),
            pytest.raises((Refused, Unreachable, UnreadableAnswer)) as caught,
        ):
            await (
                client.inventory() if status == 200 else client.create(body("d", "1", api_key="sk-provider"))
            )
        shown = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.args}"
        assert "sk-" not in shown


# -- whole passes ----------------------------------------------------------------------------------------


@pytest.fixture
def backoffs(clock: Skipping) -> Backoffs:
    return Backoffs(clock)


@pytest.fixture
def sync(client: LiteLlm, backoffs: Backoffs) -> Sync:
    return Sync(client, backoffs, Secret(KEY))


async def test_a_pass_brings_litellm_to_what_is_wanted_and_the_next_one_only_looks(
    actor: LiteLlmActor, sync: Sync
) -> None:
    done = await sync.run(models("a", "b"))
    calls = len(actor.calls)
    again = await sync.run(models("a", "b"))

    assert sorted(each["model_name"] for each in actor.models.values()) == ["a", "b"]
    assert (done.failing, done.problems) == (frozenset(), ())
    assert [call.method for call in actor.calls[calls:]] == ["GET"]
    assert again.plan.empty


async def test_withdrawals_updates_and_creations_are_sent_in_this_order(
    actor: LiteLlmActor, sync: Sync
) -> None:
    await sync.run(models("gone", "changed"))
    actor.calls.clear()
    wanted = (model("new"), model("changed", args=("--max-model-len=1",)))
    await sync.run(desired_routes(Sources(models=wanted), KUBEAI_BASE))
    assert [(call.method, call.id.rpartition("-")[2]) for call in actor.writes()] == [
        ("POST", "gone"),
        ("PATCH", "changed"),
        ("POST", "new"),
    ]


async def test_a_few_calls_are_under_way_at_a_time(actor: LiteLlmActor, sync: Sync) -> None:
    def first(call: Call) -> bool:
        if call.writes:
            actor.shut()  # the first write is answered, those after it wait
        return False

    names = [f"m{number}" for number in range(3 * CONCURRENCY)]
    with actor.fault(first):
        run = asyncio.create_task(sync.run(models(*names)))
        await actor.until_waiting(CONCURRENCY)
        assert len(actor.writes()) == 1 + CONCURRENCY
    actor.open()
    assert (await run).failing == frozenset()


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_a_route_that_is_refused_costs_the_others_nothing(
    actor: LiteLlmActor, sync: Sync, status: int
) -> None:
    with actor.fault(about("bad"), status):
        done = await sync.run(models("a", "bad", "c"))

    assert sorted(each["model_name"] for each in actor.models.values()) == ["a", "c"]
    assert done.failing == {"bad"}
    assert [each.subject for each in done.problems] == ["route 'bad'"]


async def test_a_creation_that_is_refused_is_tried_once_as_an_update(actor: LiteLlmActor, sync: Sync) -> None:
    with actor.fault(about("bad"), 400):
        await sync.run(models("bad"))
    assert [call.method for call in actor.writes()] == ["POST", "PATCH"]


async def test_a_refused_route_is_tried_later_and_later_and_at_once_when_it_changes(
    actor: LiteLlmActor, sync: Sync, backoffs: Backoffs, clock: Skipping
) -> None:
    waits = []
    with actor.fault(about("bad"), 400):
        for _ in range(7):
            actor.calls.clear()
            done = await sync.run(models("bad"))
            assert actor.writes()
            assert done.problems
            waits.append(backoffs.next_s())
            actor.calls.clear()
            assert (await sync.run(models("bad"))).problems == done.problems
            assert actor.writes() == []
            clock.advance(waits[-1] or 0.0)
        await sync.run(models("bad"))
        actor.calls.clear()
        changed = desired_routes(Sources(models=(model("bad", engine="OLlama"),)), KUBEAI_BASE)
        await sync.run(changed)
        assert actor.writes()

    assert [pytest.approx(each, abs=1.0) for each in (30, 60, 120, 240, 480, 600, 600)] == waits


async def test_a_route_that_recovers_has_no_problem_any_more(
    actor: LiteLlmActor, sync: Sync, clock: Skipping
) -> None:
    with actor.fault(about("bad"), 400):
        await sync.run(models("bad"))
    clock.advance(31)
    done = await sync.run(models("bad"))
    assert (done.failing, done.problems) == (frozenset(), ())


async def test_the_patience_asked_for_one_route_is_kept(
    actor: LiteLlmActor, sync: Sync, backoffs: Backoffs
) -> None:
    with actor.fault(about("busy"), 429, headers={"Retry-After": "300"}):
        await sync.run(models("busy"))
    assert backoffs.next_s() == pytest.approx(300, abs=1)


async def test_a_write_whose_answer_was_lost_is_no_failure_when_litellm_shows_it(
    actor: LiteLlmActor, sync: Sync
) -> None:
    with actor.fault(about("demo"), 502, carried_out=True):
        done = await sync.run(models("demo"))
    assert (done.failing, done.problems) == (frozenset(), ())
    assert (await sync.run(models("demo"))).plan.empty


async def test_a_deletion_of_what_is_gone_is_no_failure(actor: LiteLlmActor, sync: Sync) -> None:
    await sync.run(models("demo"))
    with actor.fault(lambda call: call.path == "/model/delete", 400, carried_out=True):
        done = await sync.run(models())
    assert (done.failing, done.problems, actor.models) == (frozenset(), (), {})


async def test_a_write_that_litellm_shows_late_is_not_repeated_at_once(
    actor: LiteLlmActor, sync: Sync, clock: Skipping
) -> None:
    actor.lag()
    done = await sync.run(models("demo"))
    assert done.failing == {"demo"}
    assert done.problems == ()
    await sync.run(models("demo"))
    assert len(actor.writes()) == 1
    actor.catch_up()
    assert (await sync.run(models("demo"))).plan.empty


async def test_a_write_that_never_shows_becomes_a_problem(
    actor: LiteLlmActor, sync: Sync, clock: Skipping
) -> None:
    actor.lag()
    await sync.run(models("demo"))
    actor.forget()
    clock.advance(31)
    done = await sync.run(models("demo"))
    assert [each.reason for each in done.problems] == ["LiteLLM accepts it and does not show it"]


async def test_once_litellm_is_silent_nothing_more_is_sent(actor: LiteLlmActor, clock: Skipping) -> None:
    def first(call: Call) -> bool:
        if call.writes:
            actor.shut()
        return False

    async with LiteLlm(actor.url, Secret(KEY), clock, timeout_s=0.1) as client:
        sync = Sync(client, Backoffs(clock), Secret(KEY))
        names = [f"m{number:02}" for number in range(40)]
        with actor.fault(first), pytest.raises(Unreachable):
            await sync.run(models(*names))
    assert len(actor.writes()) <= 2 * CONCURRENCY


async def test_an_inventory_that_cannot_be_read_leads_to_no_write(actor: LiteLlmActor, sync: Sync) -> None:
    await sync.run(models("demo"))
    actor.calls.clear()
    with actor.fault(everything, 200, body=b"<html>"), pytest.raises(UnreadableAnswer):
        await sync.run(models())
    assert actor.writes() == []


async def test_a_litellm_that_knows_no_models_yet_gets_the_first(actor: LiteLlmActor, sync: Sync) -> None:
    actor.loaded = False
    nothing = await sync.run(models())
    assert (nothing.loaded, nothing.existing, nothing.problems) == (False, (), ())
    done = await sync.run(models("demo"))
    assert done.loaded
    assert [each.name for each in done.existing] == ["demo"]


async def test_a_litellm_that_has_not_looked_into_its_database_gets_nothing_twice_and_loses_nothing(
    actor: LiteLlmActor, sync: Sync
) -> None:
    await sync.run(models("demo", "other"))
    before = dict(actor.models)
    actor.loaded = False
    await sync.run(models("demo"))
    assert actor.models == before
    await sync.run(models("demo"))
    assert list(actor.models) == ["ai-appliance-kubeai-demo"]


async def test_a_closed_fence_ends_the_pass(actor: LiteLlmActor, clock: Skipping) -> None:
    def closed() -> None:
        raise FenceClosed("no lease")

    async with LiteLlm(actor.url, Secret(KEY), clock, fence=closed) as client:
        with pytest.raises(FenceClosed):
            await Sync(client, Backoffs(clock), Secret(KEY)).run(models("a", "b"))
    assert actor.models == {}


async def test_what_is_logged_of_a_pass_holds_no_key(actor: LiteLlmActor, sync: Sync) -> None:
    content = '[{"name": "cloud", "model": "m", "apiKey": "sk-provider"}]'
    with capture_logs() as logs:
        await sync.run(desired_routes(Sources(external=content), KUBEAI_BASE))
        await sync.run(desired_routes(Sources(), KUBEAI_BASE))

    assert [entry["event"] for entry in logs] == ["route created", "route withdrawn"]
    assert "sk-" not in str(logs)
