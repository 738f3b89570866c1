"""The model catalog against the real API server and a LiteLLM that is played: what becomes of models."""

import json
from typing import Any

import pytest

from hack.devcluster import DevCluster
from tests.support.catalog_scene import CATALOG, MASTER_KEY, scene

pytestmark = pytest.mark.anyio
REFERENCE: Any = {"apiKeySecretRef": {"name": "keys", "key": "one"}}


def about(name: str) -> Any:
    return lambda call: call.writes and call.name == name


@pytest.mark.req("MS-364")
@pytest.mark.req("MS-365")
async def test_a_model_is_published_withdrawn_without_a_replica_and_published_again(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog() as running:
        await world.model("demo", args=["--max-model-len=4096"])
        await world.until_published("demo")
        stored: Any = world.litellm.named("demo")
        assert stored["litellm_params"]["model"] == "openai/demo"
        assert stored["model_info"]["max_input_tokens"] == 4096
        assert world.live["data"]["AI_APPLIANCE_DEFAULT_CHAT_MODEL"] == "demo"
        assert world.annotation("catalog-hash") == world.live["data"]["AI_APPLIANCE_MODEL_CATALOG_HASH"]

        await world.model("demo", ready=0)
        await world.until_published()
        await world.model("demo", ready=1)
        await world.until_published("demo")
        await world.assert_quiet(running)


@pytest.mark.req("MS-364")
@pytest.mark.req("MS-365")
async def test_a_model_of_an_activation_follows_what_is_reported_of_its_runtime(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog() as running:
        await world.activation("demo", engine="OLlama", computeTarget="cpu")
        await world.model("demo", owner="demo", engine="OLlama")
        await world.until_published()

        await world.runtime_ready("demo")
        await world.until_published("demo")
        await world.runtime_ready("demo", "False")  # its alias in Ollama was lost
        await world.until_published()
        await world.runtime_ready("demo")
        await world.until_published("demo")

        await world.activation("demo", engine="OLlama", computeTarget="cpu", contextWindow=8192)
        await world.until_published()  # the report speaks of an earlier spec
        await world.runtime_ready("demo")
        await world.until_published("demo")
        await world.delete(world.activations, "demo")
        await world.until_published()
        await world.assert_quiet(running)


async def test_runtimes_without_kubeai_are_published_with_their_endpoint(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        endpoint = f"http://direct.{world.namespace}.svc.cluster.local:1919/v1"
        await world.activation("direct", engine="FreeToken")
        await world.runtime_ready("direct", endpoint=endpoint)
        await world.until_published("direct")
        stored: Any = world.litellm.named("direct")
        assert (stored["litellm_params"]["api_base"], stored["model_info"]["source"]) == (
            endpoint,
            "freetoken",
        )

        await world.runtime_ready("direct", endpoint="http://direct.elsewhere.svc.cluster.local/v1")
        await world.until_published()
        await world.until("it is told", lambda: "runtimeEndpoint must be" in world.annotation("last-error"))


@pytest.mark.req("MS-366")
async def test_an_external_model_is_published_with_its_key_and_follows_the_secret(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog() as running:
        await world.activation("cloud", "external", model="openai/gpt", **REFERENCE)
        await world.external(
            {"name": "plain", "model": "openai/plain", "apiBase": "https://models.example.com/v1"}
        )
        await world.until_published("plain")
        told = "external model 'cloud': Secret 'keys' is not there"
        await world.until("it is told", lambda: world.annotation("last-error") == told)

        await world.key("keys", one="sk-first-value")
        await world.until_published("cloud", "plain")
        assert stored_key(world, "cloud") == "sk-first-value"
        await world.until("the problem is over", lambda: not world.annotation("last-error"))

        await world.key("keys", one="sk-second-value")
        await world.litellm.until(lambda: stored_key(world, "cloud") == "sk-second-value")
        before = json.dumps(world.litellm.named("cloud"))
        await world.delete(world.secrets, "keys")
        await world.until("it is told", lambda: "keys" in world.annotation("last-error"))
        assert json.dumps(world.litellm.named("cloud")) == before

        await world.activation("cloud", "external", enabled=False, model="openai/gpt", **REFERENCE)
        await world.until_published("plain")
        await world.assert_quiet(running)  # the Secret of a model that is not wanted is not read


def stored_key(world: Any, name: str) -> str:
    stored: Any = world.litellm.named(name)
    return str(stored["litellm_params"]["api_key"])


async def test_no_provider_is_ever_sent_the_master_key(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog() as running:
        await world.key("masterkey", one=f"{MASTER_KEY}\n")
        stolen = {"apiKeySecretRef": {"name": "masterkey", "key": "one"}}
        await world.external(
            {"name": "thief", "model": "openai/x", "apiBase": "https://example.com", **stolen},
            {"name": "good", "model": "openai/good"},
        )
        await world.until_published("good")
        told = "external model 'thief': Secret 'masterkey' holds LiteLLM's master key, which no provider gets"
        await world.until("it is told", lambda: world.annotation("last-error") == told)
        assert world.litellm.named("thief") is None
        await world.assert_quiet(running, reads=[("get", "secrets")])


@pytest.mark.parametrize("bad", ["{ no json", '{"models": 7}', '[{"name": "bad"}, 7]'])
async def test_a_bad_list_of_external_models_costs_no_other_model_anything(
    control_plane: DevCluster, bad: str
) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.external({"name": "listed", "model": "m"})
        await world.until_published("listed")
        await world.external_text(bad)
        await world.until("it is told", lambda: world.annotation("last-error"))
        await world.model("demo")
        stays = ["listed"] if "name" not in bad else []
        await world.until_published("demo", *stays)


@pytest.mark.req("MS-023")
@pytest.mark.req("MS-024")
async def test_what_is_the_meshs_or_nobodys_is_never_touched(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        marks: Any = {"ai_appliance_managed": True, "magicstick_mesh_owner": "node-1"}
        world.litellm.put("mesh/node/demo", "mesh-1", **marks, source="mesh-import")
        world.litellm.put("demo", "mesh-2", **marks, order=1)
        world.litellm.put("share/node/demo", "mesh-3", **marks, source="mesh-export")
        world.litellm.put("theirs", "foreign", stored=False)
        before = json.dumps(world.litellm.models, sort_keys=True)

        await world.model("demo")
        await world.until("published", lambda: world.published == ["demo", "mesh/node/demo", "theirs"])
        await world.model("demo", ready=0)
        await world.litellm.until(lambda: "ai-appliance-kubeai-demo" not in world.litellm.models)

        assert json.dumps(world.litellm.models, sort_keys=True) == before


async def test_a_route_that_somebody_deleted_or_changed_is_set_again(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.model("demo")
        await world.until_published("demo")
        world.litellm.forget()
        await world.litellm.until(lambda: world.litellm.named("demo"))
        stored: Any = world.litellm.named("demo")
        stored["litellm_params"]["api_base"] = "http://elsewhere.example.com"
        await world.litellm.until(
            lambda: (
                "elsewhere"
                not in world.litellm.models["ai-appliance-kubeai-demo"]["litellm_params"]["api_base"]
            )
        )


async def test_an_older_litellm_is_kept_up_to_date_as_well(control_plane: DevCluster) -> None:
    async with scene(control_plane, patches=False) as world, world.catalog() as running:
        await world.model("demo")
        await world.until_published("demo")
        await world.model("demo", args=["--max-model-len=4096"])
        await world.litellm.until(lambda: limit_of(world, "demo") == 4096)
        await world.model("demo")
        await world.litellm.until(lambda: limit_of(world, "demo") is None)
        await world.assert_quiet(running)


def limit_of(world: Any, name: str) -> int | None:
    stored = world.litellm.named(name) or {"model_info": {}}
    found: int | None = stored["model_info"].get("max_input_tokens")
    return found


async def test_one_failing_model_never_blocks_another(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        with world.litellm.fault(about("bad"), 400):
            await world.model("bad")
            await world.model("good")
            await world.until_published("good")
            await world.until("it is told", lambda: world.annotation("last-error").startswith("route 'bad'"))
            await world.model("better")
            await world.until_published("better", "good")
        await world.until_published("bad", "better", "good")
        await world.until("the problem is over", lambda: not world.annotation("last-error"))


@pytest.mark.parametrize("status", [400, 500])
async def test_what_litellm_says_is_not_passed_on_since_it_may_quote_a_key(
    control_plane: DevCluster, status: int
) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.key("keys", one="sk-value-that-is-quoted")
        quoting = b'{"error": "the key sk-value-that-is-quoted is wrong"}'
        with world.litellm.fault(about("cloud"), status, body=quoting):
            await world.activation("cloud", "external", model="m", **REFERENCE)
            told = f"HTTP {status}"
            await world.until("it is told", lambda: told in world.annotation("last-error"))
            await world.assert_secrets_kept()
        await world.until_published("cloud")


# -- LiteLLM is away, slow, or wrong -----------------------------------------------------------------------


async def test_while_litellm_is_away_the_catalog_stays_and_everything_is_made_up_for(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.model("demo")
        await world.until_published("demo")
        await world.litellm.stop()
        await world.model("demo", ready=0)
        await world.model("other")
        await world.until("it is told", lambda: world.annotation("last-error").startswith("LiteLLM: GET"))
        assert world.published == ["demo"]

        await world.litellm.start()
        await world.until_published("other")
        await world.until("the problem is over", lambda: not world.annotation("last-error"))


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>welcome</html>"), (200, b'{"data": null}'), (401, b"{}"), (503, b"")]
)
async def test_an_inventory_that_cannot_be_read_withdraws_nothing(
    control_plane: DevCluster, status: int, body: bytes
) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.model("demo")
        await world.until_published("demo")
        with world.litellm.fault(lambda call: not call.writes, status, body=body):
            await world.delete(world.models, "demo")
            await world.until("it is told", lambda: world.annotation("last-error"))
            assert (world.routes, world.published) == (["demo"], ["demo"])
        await world.until_published()


async def test_a_fresh_litellm_is_published_as_empty_and_gets_its_first_model(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog():
        world.litellm.loaded = False  # it answers with an error as long as there is no model
        await world.until_published()
        assert not world.annotation("last-error")
        await world.model("demo")
        await world.until_published("demo")


async def test_a_litellm_that_starts_anew_takes_no_model_out_of_the_catalog(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog():
        world.litellm.put("theirs", "foreign")
        await world.until_published("theirs")
        world.litellm.loaded = False
        await world.until("it is told", lambda: "has loaded no models" in world.annotation("last-error"))
        assert world.published == ["theirs"]
        world.litellm.loaded = True
        await world.until("the problem is over", lambda: not world.annotation("last-error"))
        assert world.published == ["theirs"]


async def test_a_litellm_that_hangs_holds_up_nothing_but_itself(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog() as running:
        running.program.litellm._timeout = running.program.litellm._timeout.__class__(total=0.2)
        await world.model("demo")
        await world.until_published("demo")
        world.litellm.shut()
        await world.until("it is told", lambda: "no answer in time" in world.annotation("last-error"))
        world.litellm.open()
        await world.model("other")
        await world.until_published("demo", "other")


async def test_writes_that_litellm_shows_late_are_published_once_they_show(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.until_published()
        world.litellm.lag()
        await world.model("demo")
        await world.litellm.until(lambda: world.litellm.named("demo"))
        world.litellm.catch_up()
        await world.until_published("demo")
        creations = [call for call in world.litellm.writes() if call.path == "/model/new"]
        assert len(creations) == 1


# -- the cluster cannot be read ------------------------------------------------------------------------


async def test_without_kubeai_externals_are_published_and_with_it_models_are(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await world.delete(definition, "models.kubeai.org")
        await world.gone(f"{definition}/models.kubeai.org")
        async with world.catalog():
            await world.external({"name": "cloud", "model": "m"})
            await world.until_published("cloud")
            assert not world.annotation("last-error")
            await world.install_models()
            await world.model("demo")
            await world.until_published("cloud", "demo")


@pytest.mark.parametrize("status", [403, 404, 500])
async def test_a_list_of_models_that_fails_withdraws_none_and_externals_go_on(
    control_plane: DevCluster, status: int
) -> None:
    async with scene(control_plane) as world:
        async with world.catalog():
            await world.model("demo")
            await world.until_published("demo")
        await world.delete(world.models, "demo")
        async with world.catalog(sync_timeout_seconds=1.0) as running:
            with running.failing("/models", status):
                await world.external({"name": "cloud", "model": "m"})
                await world.until_published("cloud", "demo")
                await world.until("it is told", lambda: "KubeAI Models" in world.annotation("last-error"))
            await world.until_published("cloud")


async def test_a_list_of_activations_that_fails_withdraws_no_route_of_theirs(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        async with world.catalog():
            await world.activation("cloud", "external", model="m")
            await world.activation("bound", engine="VLLM", computeTarget="cpu")
            await world.model("bound", owner="bound")
            await world.runtime_ready("bound")
            await world.until_published("bound", "cloud")
        async with world.catalog(sync_timeout_seconds=1.0) as running:
            with running.failing("/modelactivations", 403):
                await world.model("free")
                await world.until_published("bound", "cloud", "free")
                await world.runtime_ready("bound", "False")
                await running.passes(2)
                assert world.published == ["bound", "cloud", "free"]
            await world.until_published("cloud", "free")


# -- the ConfigMap -----------------------------------------------------------------------------------------


async def test_the_first_publication_replaces_what_was_shipped_and_keeps_its_labels(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world:
        labels = {"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "app-model-catalog"}}}
        await world.client.merge(f"{world.config_maps}/{CATALOG}", labels)
        async with world.catalog() as running:
            await world.until_published()
            assert world.live["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == "app-model-catalog"
            assert world.annotation("last-sync").endswith("Z")
            await world.assert_quiet(running)


async def test_data_that_was_edited_by_hand_is_repaired_and_foreign_keys_go(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.model("demo")
        await world.until_published("demo")
        before = dict(world.live["data"])
        await world.client.merge(
            f"{world.config_maps}/{CATALOG}",
            {"data": {"openclaw.json": "{}", "extra": "x", "defaults.env": None}},
        )
        await world.until("it is repaired", lambda: world.live["data"] == before)


async def test_a_catalog_that_was_deleted_is_made_anew(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog():
        await world.model("demo")
        await world.until_published("demo")
        uid = world.live["metadata"]["uid"]
        await world.delete(world.config_maps, CATALOG)
        await world.until("it is back", lambda: world.live["metadata"].get("uid") not in (None, uid))
        await world.until_published("demo")
        assert world.live["metadata"]["labels"] == {"app": "ai-model-catalog"}


async def test_a_conflict_is_resolved_at_once_and_the_other_writers_change_stays(
    control_plane: DevCluster,
) -> None:
    async with scene(control_plane) as world, world.catalog() as running:
        await world.until_published()

        async def meddle() -> None:
            change = {"metadata": {"annotations": {"example.com/other": "1"}}}
            await world.client.merge(f"{world.config_maps}/{CATALOG}", change)

        with running.overtaken(f"/configmaps/{CATALOG}", meddle):
            await world.model("demo")
            await world.until_published("demo")
        assert world.live["metadata"]["annotations"]["example.com/other"] == "1"
        assert not world.annotation("last-error")


async def test_a_catalog_that_cannot_be_written_is_tried_again(control_plane: DevCluster) -> None:
    async with scene(control_plane) as world, world.catalog() as running:
        await world.until_published()
        with running.failing(f"/configmaps/{CATALOG}", 409, method="PATCH") as fault:
            await world.model("demo")
            await world.litellm.until(lambda: world.litellm.named("demo"))
            await running.passes(1)
            assert fault.hits >= 3
            assert world.published == []
        await world.until_published("demo")
