"""The model catalog ends at any moment, runs twice, or as a process: what it leaves is the same."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hack.devcluster import DevCluster
from hack.devcluster.actors.litellm import Call as LiteLlmCall
from tests.support.catalog_scene import MASTER_KEY, CatalogWorld, Running, scene
from tests.support.faultproxy import Call, Hold, LoseAnswer
from tests.support.polling import until

pytestmark = pytest.mark.anyio
STEPS = ["withdraw", "update", "create", "publish", "template", "restart", "annotate"]


def of_litellm(step: str, call: LiteLlmCall) -> bool:
    return {
        "withdraw": call.path == "/model/delete",
        "update": call.method == "PATCH",
        "create": call.path == "/model/new",
    }.get(step, False)


def of_server(step: str, call: Call, published: list[Call]) -> bool:
    """Whether a request is the step; the first write of the ConfigMap publishes, later ones annotate."""
    if call.mutating and call.path.endswith("/ai-model-catalog"):
        published.append(call)
        return step == ("publish" if len(published) == 1 else "annotate")
    template = call.method == "PUT" and "/agenttemplates/" in call.path
    restart = call.method == "DELETE" and "/pods/" in call.path
    return (step == "template" and template) or (step == "restart" and restart)


async def prepare(world: CatalogWorld) -> None:
    """A state in which the next pass has every kind of step to do."""
    await world.template("litellm-default", {})
    await world.model("gone")
    await world.model("changed")
    async with world.catalog():
        await world.until_published("changed", "gone")
        await world.until("nothing is owed", lambda: not world.annotation("restart-pending"))
    await world.delete(world.models, "gone")
    await world.model("changed", args=["--max-model-len=4096"])
    await world.model("new")
    await world.pod("consumer")


async def dies_at(world: CatalogWorld, running: Running, step: str, *, carried_out: bool) -> None:
    """Wait until it is in the middle of a step, and end it there."""
    reached = asyncio.Event()
    published: list[Call] = []

    def at_litellm(call: LiteLlmCall) -> bool:
        hit = of_litellm(step, call)
        if hit and not carried_out:
            world.litellm.shut()
        if hit:
            reached.set()
        return False

    def at_server(call: Call) -> bool:
        hit = of_server(step, call, published)
        if hit:
            reached.set()
        return hit

    action = LoseAnswer() if carried_out else Hold()
    with world.litellm.fault(at_litellm), running.proxy.fault(action, when=at_server):
        await asyncio.wait_for(reached.wait(), 20)
        await running.kill()
    world.litellm.open()


@pytest.mark.parametrize("carried_out", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_an_end_in_the_middle_of_any_step_is_made_up_for(
    control_plane: DevCluster, step: str, *, carried_out: bool
) -> None:
    async with scene(control_plane) as world:
        await prepare(world)
        async with world.catalog() as running:
            await dies_at(world, running, step, carried_out=carried_out)
        async with world.catalog() as running:
            await world.until_published("changed", "new")
            await world.until("consumers know", lambda: "consumer" not in world.mirror.all(world.pods))
            await world.until("nothing is owed", lambda: not world.annotation("restart-pending"))
            await world.assert_quiet(running)
        assert world.routes == ["changed", "new"]
        template = await world.client.get(f"{world.templates}/litellm-default")
        assert sorted(template["spec"]["config"]["provider"]["litellm"]["models"]) == ["changed", "new"]


async def test_a_start_on_a_settled_world_sends_nothing(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.model("demo")
        await world.key("keys", one="sk-value-of-a-provider")
        reference = {"apiKeySecretRef": {"name": "keys", "key": "one"}}
        await world.external({"name": "cloud", "model": "m", **reference})
        async with world.catalog() as running:
            await world.until_published("cloud", "demo")
            await world.assert_quiet(running, reads=[("get", "secrets")])
        mark, writes = world.cluster.audit_mark(), len(world.litellm.writes())
        async with world.catalog() as running:
            await running.passes(3)
        assert [each for each in world.requests(mark) if each.is_write] == []
        assert len(world.litellm.writes()) == writes


async def test_of_two_only_the_holder_of_the_lease_asks_and_the_other_takes_over(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.model("demo")
        async with world.catalog(leader_election=True) as first:
            await world.until_published("demo")
            async with world.catalog(leader_election=True, agent=f"{world.agent}-second") as second:
                await asyncio.wait_for(second.program.started.wait(), 20)
                await first.passes(2)
                assert (second.program.controller.passes, second.program.lease.held) == (0, False)
                await first.kill()
                await world.model("other")
                await world.until_published("demo", "other")
                assert second.program.lease.held


# -- as a process ----------------------------------------------------------------------------------------


@asynccontextmanager
async def process(world: CatalogWorld, directory: Path, **settings: str) -> AsyncIterator[tuple[Any, Path]]:
    given = {
        "NAMESPACE": world.namespace,
        "APPLIANCE_NAMESPACE": world.home,
        "LITELLM_BASE_URL": world.litellm.url,
        "LITELLM_MASTER_KEY": MASTER_KEY,
        "KUBECONFIG": str(world.cluster.kubeconfig),
        "HEALTH_BIND_ADDRESS": "127.0.0.1:0",
        "METRICS_BIND_ADDRESS": "127.0.0.1:0",
        **settings,
    }
    log = directory / "catalog.log"
    with log.open("wb") as sink:
        command = (sys.executable, "-m", "magicstick", "model-catalog")
        running = await asyncio.create_subprocess_exec(
            *command, stdout=sink, stderr=sink, env={**os.environ, **given}
        )
    try:
        yield running, log
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def test_the_process_says_how_it_is_and_ends_when_it_is_asked_to(
    control_plane: DevCluster, tmp_path: Path
) -> None:
    async with scene(control_plane) as world:
        await world.model("demo")
        async with process(world, tmp_path) as (running, log), aiohttp.ClientSession() as session:
            await world.until_published("demo")
            started = next(
                entry
                for line in log.read_text().splitlines()
                if (entry := json.loads(line))["event"] == "started"
            )

            async def ready() -> bool:
                async with session.get(f"{started['health']}/readyz") as answer:
                    return answer.status == 200

            await until("it is ready", ready)
            async with session.get(f"{started['health']}/livez") as answer:
                assert answer.status == 200
            async with session.get(f"{started['metrics']}/metrics") as answer:
                metrics = await answer.text()
            running.terminate()
            assert await asyncio.wait_for(running.wait(), 20) == 0
        assert 'catalog_routes{source="kubeai",state="synced"} 1.0' in metrics
        assert "catalog_publish_total 1.0" in metrics
        assert "catalog_last_success_timestamp" in metrics
        lease = await world.client.get(
            f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases/ai-model-catalog-controller"
        )
        assert not lease["spec"].get("holderIdentity")
        assert MASTER_KEY not in log.read_text()


async def test_without_a_master_key_the_process_does_not_start(
    control_plane: DevCluster, tmp_path: Path
) -> None:
    async with scene(control_plane) as world:
        async with process(world, tmp_path, LITELLM_MASTER_KEY="") as (running, log):
            assert await asyncio.wait_for(running.wait(), 20) == 2
        assert "magicstick: LITELLM_MASTER_KEY is not set" in log.read_text()
        assert world.litellm.calls == []
