"""Who uses the model catalog: Pods that read it at their start, and AgentTemplates."""

import asyncio
import time
from typing import Any

import pytest

from hack.devcluster import DevCluster
from tests.support.catalog_scene import CATALOG, CONSUMER, FAST, CatalogWorld, scene, template_definition

pytestmark = pytest.mark.anyio
INSTANCE = "appliance.magicstick.dev/appinstance"


def pods(world: CatalogWorld) -> set[str]:
    return set(world.mirror.all(world.pods))


def deleted(world: CatalogWorld) -> list[str]:
    """The Pods that were deleted, in order."""
    return [
        str(obj["metadata"]["name"])
        for path, type_, obj in world.mirror.history
        if path == world.pods and type_ == "DELETED"
    ]


async def told(world: CatalogWorld) -> None:
    """Wait until consumers know of the last publication."""
    await world.until("no restart is owed", lambda: not world.annotation("restart-pending"))


# -- Pods --------------------------------------------------------------------------------------------


async def test_consumers_are_restarted_after_a_publication_and_nobody_else_is(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        await world.pod("labelled")
        await world.pod("annotated", {"app": "other"}, **CONSUMER)
        await world.pod("known", {"app": "anything-llm"})
        await world.pod(
            "opted-out", {"app": "anything-llm", "ai-appliance.io/model-catalog-consumer": "false"}
        )
        await world.pod("bystander", {"app": "litellm"})
        async with world.catalog() as running:
            await world.until("consumers are gone", lambda: pods(world) == {"opted-out", "bystander"})
            await world.until_published()
            await told(world)
            await world.pod("fresh")
            await world.assert_quiet(running)
            assert "fresh" in pods(world)


async def test_an_unchanged_catalog_restarts_nobody_also_after_a_start(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.model("demo")
        async with world.catalog():
            await world.until_published("demo")
            await told(world)
        await world.pod("consumer")
        async with world.catalog() as running:
            await running.passes(3)
        assert pods(world) == {"consumer"}


async def test_publications_in_short_order_are_one_restart(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.until_published()
        await told(world)
        begun = time.monotonic()
        await world.pod("consumer")
        for name in ("a", "b"):
            await world.model(name)
            await world.until("published", lambda name=name: name in world.published)
        await world.until("the consumer is gone", lambda: not pods(world))
        assert (time.monotonic() - begun) * FAST > 30
        assert deleted(world) == ["consumer"]
        await told(world)


async def test_a_repair_of_data_that_was_edited_restarts_as_well(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.until_published()
        await told(world)
        await world.pod("consumer")
        await world.client.merge(f"{world.config_maps}/{CATALOG}", {"data": {"openclaw.json": "{}"}})
        await world.until("the consumer is gone", lambda: not pods(world))


async def test_a_restart_that_failed_is_still_owed_also_after_a_start(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.pod("one")
        await world.pod("other")
        async with world.catalog() as running:
            with running.failing("/pods/other", 500, method="DELETE"):
                await world.until("one is gone", lambda: pods(world) == {"other"})
                await world.until("it is told", lambda: "consumers:" in world.annotation("last-error"))
                assert world.annotation("restart-pending") == world.annotation("catalog-hash")
                await running.kill()
        async with world.catalog():
            await world.until("the other is gone", lambda: not pods(world))
            await told(world)
            await world.until("the problem is over", lambda: not world.annotation("last-error"))


async def test_without_restarts_none_is_owed(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.pod("consumer")
        async with world.catalog(consumer_restart_enabled=False) as running:
            await world.until_published()
            await running.passes(2)
            assert not world.annotation("restart-pending")
        assert pods(world) == {"consumer"}


# -- AgentTemplates ------------------------------------------------------------------------------------


async def template(world: CatalogWorld, name: str) -> Any:
    return await world.client.get(f"{world.templates}/{name}")


async def until_models(world: CatalogWorld, name: str, *models: str) -> Any:
    """Wait until a template offers exactly these models; the template."""
    async with asyncio.timeout(20):
        while True:
            found = await template(world, name)
            offered = found["spec"]["config"].get("provider", {}).get("litellm", {}).get("models")
            if offered is not None and sorted(offered) == sorted(models):
                return found
            await asyncio.sleep(0.05)


async def test_templates_offer_the_models_of_the_catalog_and_keep_what_was_chosen(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        old = {"provider": {"litellm": {"npm": "x", "models": {"gone": {}}}}, "model": "litellm/chosen"}
        await world.template("litellm-default", old)
        await world.template("code", old, **{INSTANCE: "code"})
        await world.template("new", {"model": "litellm/CHANGEME_MODEL"}, **{INSTANCE: "new"})
        await world.template("theirs", old)
        before = await template(world, "theirs")
        await world.model("demo")
        async with world.catalog() as running:
            shared = await until_models(world, "litellm-default", "demo")
            instance = await until_models(world, "code", "demo")
            new = await until_models(world, "new", "demo")
            await world.assert_quiet(running)
            await world.model("other")
            await until_models(world, "code", "demo", "other")

        assert shared["spec"]["config"]["model"] == shared["spec"]["config"]["small_model"] == "litellm/demo"
        assert shared["spec"]["config"]["provider"]["litellm"]["npm"] == "x"
        assert instance["spec"]["config"]["model"] == "litellm/chosen"
        assert new["spec"]["config"]["model"] == "litellm/demo"
        assert len(new["spec"]["podSpec"]["annotations"]["ai-appliance.io/catalog-hash"]) == 16
        assert await template(world, "theirs") == before


async def test_templates_stay_as_they_are_without_a_chat_model(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await world.template("litellm-default", {"model": "litellm/chosen"})
        before = await template(world, "litellm-default")
        await world.model("an-embedding", features=["TextEmbedding"])
        async with world.catalog():
            await world.until_published("an-embedding")
            await told(world)
        assert await template(world, "litellm-default") == before


async def test_a_schema_without_a_place_for_the_hash_gets_none(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world:
        await asyncio.to_thread(world.cluster.apply, template_definition(annotations=False))
        await world.template("litellm-default", {})
        await world.model("demo")
        async with world.catalog() as running:
            await until_models(world, "litellm-default", "demo")
            await world.assert_quiet(running)


async def test_one_template_that_cannot_be_written_costs_the_others_nothing(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        for name in ("a", "b", "c"):
            await world.template(name, {}, **{INSTANCE: name})
        await world.model("demo")
        async with world.catalog() as running:
            with running.failing("/agenttemplates/b", 409, method="PUT"):
                await until_models(world, "a", "demo")
                await until_models(world, "c", "demo")
                await world.until_published("demo")
            await until_models(world, "b", "demo")
        warned = [entry for entry in world.logs if entry["event"] == "agent template not written"]
        assert [entry["template"] for entry in warned] == ["b: Conflict"]


async def test_without_templates_in_the_cluster_the_catalog_is_published_all_the_same(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await world.delete(definition, "agenttemplates.kubeopencode.io")
        await world.gone(f"{definition}/agenttemplates.kubeopencode.io")
        await world.model("demo")
        async with world.catalog() as running:
            await world.until_published("demo")
            await world.assert_quiet(running)
        assert not [entry for entry in world.logs if "template" in str(entry["event"])]
