"""What is decided about a chat and its surroundings (spec: palena §6.2, §6.4, §6.5, §11, §13)."""

from typing import Any

import pytest

from magicstick.api.kinds import LITELLM_VIRTUAL_KEY, PALENA_GATEWAY, PALENA_MCP_SERVER, PALENA_UI
from magicstick.kube.errors import Invalid
from magicstick.palena.common.hashes import config_hash
from magicstick.palena.common.kinds import (
    DEPLOYMENT,
    INGRESS,
    PERSISTENT_VOLUME_CLAIM,
    SERVICE,
    STATEFUL_SET,
)
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import Apply
from tests.support.palena_chat import (
    CONFIG_HASH,
    annotation,
    content,
    template,
    text,
)
from tests.support.palena_consumers import UiScene, ui
from tests.support.palena_objects import GATEWAY, HOME, values

pytestmark = pytest.mark.anyio

BASE_URL = f"http://gw-palena-litellm.{HOME}.svc.cluster.local:4000/v1"


@pytest.mark.req("PA-012", "PA-064", "PA-066", "PA-108")
async def test_a_chat_goes_to_running_on_its_gateway_without_any_mcp_server() -> None:
    scene = UiScene()
    plan = await scene.running()

    assert scene.world.names(DEPLOYMENT) == {"chat-librechat", "chat-meilisearch"}
    assert scene.world.names(STATEFUL_SET) == {"chat-mongodb"}
    assert scene.world.names(SERVICE) == {"chat-librechat", "chat-meilisearch", "chat-mongodb"}
    assert (scene.phase, plan.outcome) == ("Running", Outcome.HEALTHY)
    types = [each["type"] for each in scene.status["conditions"]]
    assert types == ["GatewayReady", "MongoDBReady", "MeiliSearchReady", "ConfigGenerated", "Ready"]
    assert scene.condition("Ready") == ("True", "UIReady")
    assert content(scene)["endpoints"]["custom"][0]["baseURL"] == BASE_URL
    assert "mcpServers" not in content(scene)
    assert scene.status["endpoints"] == {
        "mongodb": f"chat-mongodb.{HOME}.svc.cluster.local:27017",
        "meilisearch": f"http://chat-meilisearch.{HOME}.svc.cluster.local:7700",
    }


@pytest.mark.req("PA-067", "PA-068")
async def test_the_config_hash_is_the_sha_256_of_the_file_on_the_pod_template() -> None:
    scene = UiScene()
    await scene.running()

    assert annotation(scene) == config_hash(text(scene)) == scene.status["configHash"]
    assert len(annotation(scene)) == 64
    assert annotation(scene)[:12] in scene.message("ConfigGenerated")
    assert CONFIG_HASH not in scene.must(DEPLOYMENT, "chat-librechat").metadata.annotations


@pytest.mark.req("PA-069", "PA-070", "PA-072")
async def test_e16_only_a_change_of_the_configuration_is_another_pod() -> None:
    scene = UiScene(host="chat.example.com", ingress={"enabled": True})
    await scene.running()
    before = template(scene)
    scene.change(ingress={"enabled": True, "annotations": {"a": "b"}})
    await scene.settle()
    assert template(scene) == before
    assert scene.must(INGRESS, "chat-librechat").metadata.annotations == {"a": "b"}

    scene.change(endpointName="Other")
    scene.written()
    await scene.settle()
    assert annotation(scene) != before["metadata"]["annotations"][CONFIG_HASH]
    written = [step.body["metadata"]["name"] for step in scene.written() if isinstance(step, Apply)]
    assert written == ["chat-librechat-config", "chat-librechat"]


@pytest.mark.req("PA-070")
async def test_e17_keys_in_another_order_are_the_same_configuration() -> None:
    scene = UiScene(config={"interface": {"a": 1, "b": 2}, "cache": True})
    await scene.running()
    before = text(scene), annotation(scene)
    scene.change(config={"cache": True, "interface": {"b": 2, "a": 1}})
    scene.written()
    await scene.settle()

    assert (text(scene), annotation(scene)) == before
    assert scene.written() == []


@pytest.mark.req("PA-071")
async def test_pods_are_replaced_one_after_another_and_a_volume_of_one_node_is_free_before() -> None:
    scene = UiScene()
    await scene.running()
    assert scene.must(DEPLOYMENT, "chat-librechat").spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }
    scene.change(persistence={"accessMode": "ReadWriteMany"})
    plan = await scene.plan()

    wanted = next(
        each.body["spec"]
        for each in plan.steps
        if isinstance(each, Apply)
        and each.kind == DEPLOYMENT
        and each.body["metadata"]["name"].endswith("librechat")
    )
    assert wanted["strategy"] == {"type": "RollingUpdate"}


# --- the gateway -------------------------------------------------------------------------------------


async def test_without_its_gateway_a_new_chat_is_pending_and_its_stores_are_made() -> None:
    scene = UiScene(with_gateway=False)
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Pending", Outcome.MISSING)
    assert scene.condition("GatewayReady") == ("False", "GatewayNotFound")
    assert scene.condition("ConfigGenerated") == ("False", "WaitingForGateway")
    assert scene.world.names(STATEFUL_SET) == {"chat-mongodb"}
    assert scene.world.names(DEPLOYMENT) == {"chat-meilisearch"}


@pytest.mark.parametrize("gone", [True, False])
async def test_e19_a_gateway_that_flaps_or_goes_leaves_the_chat_as_it_is(*, gone: bool) -> None:
    scene = UiScene()
    await scene.running()
    before = scene.must(DEPLOYMENT, "chat-librechat").spec, text(scene)
    scene.written()
    if gone:
        scene.world.remove(PALENA_GATEWAY, HOME, GATEWAY)
    else:
        scene.gateway(ready="False", allowedConsumers={"from": "All"})
    plan = await scene.settle()

    assert scene.written() == []
    assert (scene.must(DEPLOYMENT, "chat-librechat").spec, text(scene)) == before
    assert scene.phase == "Degraded"
    assert plan.outcome is (Outcome.MISSING if gone else Outcome.NOT_READY)
    assert scene.condition("GatewayReady")[1] == ("GatewayNotFound" if gone else "GatewayNotReady")
    assert scene.condition("ConfigGenerated") == ("True", "ConfigGenerated")


async def test_while_the_gateway_is_away_what_the_user_changes_still_counts() -> None:
    scene = UiScene()
    await scene.running()
    before = annotation(scene)
    scene.world.remove(PALENA_GATEWAY, HOME, GATEWAY)
    scene.change(replicas=1, nodeSelector={"disk": "fast"})
    await scene.settle()

    assert template(scene)["spec"]["nodeSelector"] == {"disk": "fast"}
    assert annotation(scene) == before


async def test_a_gateway_that_does_not_permit_it_is_an_error() -> None:
    scene = UiScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    scene.gateway()
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert scene.condition("GatewayReady") == ("False", "RefNotPermitted")
    assert scene.world.names(LITELLM_VIRTUAL_KEY) == set()


async def test_a_gateway_with_tls_is_reached_as_it_says() -> None:
    scene = UiScene()
    scene.world.change(
        PALENA_GATEWAY,
        HOME,
        GATEWAY,
        status={**scene.must(PALENA_GATEWAY, GATEWAY).status, "endpoint": "https://llm.example.com"},
    )
    await scene.running()

    assert content(scene)["endpoints"]["custom"][0]["baseURL"] == "https://llm.example.com/v1"


# --- models ------------------------------------------------------------------------------------------


async def test_models_of_the_gateway_are_offered_by_name_whether_they_are_ready_or_not() -> None:
    scene = UiScene()
    scene.model("small", GATEWAY, modelName="vendor/small")
    scene.model("large")
    scene.model("other", "another-gateway")
    await scene.running()
    endpoint = content(scene)["endpoints"]["custom"][0]

    assert endpoint["models"]["default"] == ["large", "vendor/small"]
    assert endpoint["titleModel"] == "large"


async def test_named_models_are_offered_instead() -> None:
    scene = UiScene(models={"default": ["b", "a"], "fetch": False, "titleModel": "a"})
    scene.model("large")
    await scene.running()
    endpoint = content(scene)["endpoints"]["custom"][0]

    assert endpoint["models"] == {"default": ["b", "a"], "fetch": False}
    assert endpoint["titleModel"] == "a"


# --- MCP servers -------------------------------------------------------------------------------------


@pytest.mark.req("PA-065")
async def test_an_mcp_server_is_registered_as_soon_as_it_is_there_and_its_readiness_restarts_nothing() -> (
    None
):
    scene = UiScene(mcpServerRefs=[{"name": "websearch", "alias": "web", "timeoutMs": 5000}])
    scene.server(service={"port": 9090})
    await scene.running()
    address = f"websearch.{HOME}.svc.cluster.local:9090"

    assert content(scene)["mcpServers"] == {
        "web": {"type": "streamable-http", "url": f"http://{address}/mcp", "timeout": 5000}
    }
    assert content(scene)["mcpSettings"] == {"allowedAddresses": [address]}
    told = scene.status["mcpServers"]
    assert told == [
        {
            "name": "websearch",
            "namespace": HOME,
            "alias": "web",
            "url": f"http://{address}/mcp",
            "found": True,
            "ready": False,
        }
    ]
    before = annotation(scene)
    ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x", "observedGeneration": 1}
    scene.world.change(PALENA_MCP_SERVER, HOME, "websearch", status={"conditions": [ready]})
    await scene.settle()
    assert scene.status["mcpServers"][0]["ready"] is True
    assert annotation(scene) == before
    assert scene.phase == "Running"


async def test_e18_a_deleted_mcp_server_loses_its_entry_with_one_rollout() -> None:
    scene = UiScene(mcpServerRefs=[{"name": "websearch"}, {"name": "files"}])
    scene.server()
    scene.server("files")
    await scene.running()
    before = annotation(scene)
    scene.world.remove(PALENA_MCP_SERVER, HOME, "websearch")
    scene.written()
    await scene.settle()

    assert set(content(scene)["mcpServers"]) == {"files"}
    assert content(scene)["mcpSettings"] == {"allowedAddresses": [f"files.{HOME}.svc.cluster.local:8080"]}
    assert annotation(scene) != before
    assert len([step for step in scene.written() if step.kind == DEPLOYMENT]) == 1
    scene.report_all()
    plan = await scene.settle()
    assert (scene.phase, plan.outcome) == ("Degraded", Outcome.MISSING)
    assert scene.condition("ConfigGenerated") == ("False", "MCPServerNotFound")
    assert f"{HOME}/websearch" in scene.message("ConfigGenerated")


async def test_an_mcp_server_that_does_not_permit_it_is_left_out_and_named() -> None:
    scene = UiScene(mcpServerRefs=[{"name": "websearch", "namespace": "tools"}])
    scene.server(namespace="tools", allowedConsumers={"from": "Same"})
    await scene.running()

    assert "mcpServers" not in content(scene)
    assert scene.condition("ConfigGenerated") == ("False", "RefNotPermitted")
    assert scene.status["mcpServers"][0]["found"] is False
    assert scene.status["mcpServers"][0]["url"] == ""


# --- the end -----------------------------------------------------------------------------------------


async def test_the_end_takes_the_virtual_key_and_leaves_conversations_and_their_keys() -> None:
    scene = UiScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.settle()
    scene.mint()
    await scene.running()
    scene.world.change(
        LITELLM_VIRTUAL_KEY, HOME, "chat-librechat", metadata={"finalizers": ["litellm.palena.ai/f"]}
    )
    scene.delete()
    await scene.settle()
    assert not scene.released
    assert scene.phase == "Deleting"
    assert scene.find(SECRET, "chat-librechat-gateway-key") is not None

    scene.world.remove(LITELLM_VIRTUAL_KEY, HOME, "chat-librechat")
    await scene.settle()
    assert scene.released
    assert scene.find(SECRET, "chat-librechat-gateway-key") is None
    kept = scene.must(SECRET, "chat-librechat-secrets")
    assert kept.metadata.owner_references == ()
    assert kept.metadata.labels["palena.ai/retained"] == "true"


async def test_a_successor_takes_the_retained_secret_over() -> None:
    scene = UiScene()
    await scene.running()
    kept = values(scene.must(SECRET, "chat-librechat-secrets"))
    scene.delete()
    await scene.settle()
    scene.collect()
    scene.world.put(PALENA_UI, ui())
    await scene.running()

    assert values(scene.must(SECRET, "chat-librechat-secrets")) == kept
    assert scene.phase == "Running"
    owner = scene.must(SECRET, "chat-librechat-secrets").metadata.owner_references
    assert [each.uid for each in owner] == [scene.live.metadata.uid]


async def test_with_retain_said_at_the_last_moment_conversations_are_spared() -> None:
    scene = UiScene(deletionPolicy="Delete")
    await scene.running()
    scene.volume()
    workload = scene.must(STATEFUL_SET, "chat-mongodb")
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "chat-mongodb"}
    owners = [{**reference, "uid": workload.metadata.uid}, {**reference, "name": "other", "uid": "uid-other"}]
    volume = "data-chat-mongodb-0"
    scene.world.change(PERSISTENT_VOLUME_CLAIM, HOME, volume, metadata={"ownerReferences": owners})
    scene.change(deletionPolicy="Retain")
    scene.delete()
    await scene.settle()

    assert scene.released
    kept = scene.must(STATEFUL_SET, "chat-mongodb").spec["persistentVolumeClaimRetentionPolicy"]
    assert kept["whenDeleted"] == "Retain"
    left = scene.must(PERSISTENT_VOLUME_CLAIM, volume).metadata.owner_references
    assert [each.uid for each in left] == ["uid-other"]


async def test_a_policy_that_nobody_knows_keeps_everything() -> None:
    scene = UiScene()
    await scene.running()
    scene.change(deletionPolicy="Snapshot")
    scene.delete()
    await scene.settle()
    assert scene.must(SECRET, "chat-librechat-secrets").metadata.owner_references == ()


async def test_with_delete_nothing_is_let_go() -> None:
    scene = UiScene(deletionPolicy="Delete")
    await scene.running()
    scene.delete()
    await scene.settle()

    assert scene.released
    assert scene.must(SECRET, "chat-librechat-secrets").metadata.owner_references != ()


async def test_the_end_of_a_chat_whose_gateway_kind_is_gone_does_not_hang() -> None:
    scene = UiScene()
    await scene.running()
    scene.world.absent(LITELLM_VIRTUAL_KEY)
    scene.delete()
    await scene.settle()

    assert scene.released


async def test_what_cannot_be_read_keeps_the_end_waiting() -> None:
    scene = UiScene()
    await scene.running()
    scene.world.unreadable(LITELLM_VIRTUAL_KEY)
    scene.delete()
    await scene.settle()

    assert not scene.released
    assert "cannot be read" in scene.status["message"]


@pytest.mark.parametrize(
    ("kind", "name", "type_"),
    [
        (STATEFUL_SET, "chat-mongodb", "MongoDBReady"),
        (PERSISTENT_VOLUME_CLAIM, "data-chat-mongodb-0", "MongoDBReady"),
        (DEPLOYMENT, "chat-meilisearch", "MeiliSearchReady"),
        (DEPLOYMENT, "chat-librechat", "ConfigGenerated"),
        (LITELLM_VIRTUAL_KEY, "chat-librechat", "ConfigGenerated"),
    ],
)
async def test_a_refused_write_is_told_on_the_condition_that_it_is_about(
    kind: Any, name: str, type_: str
) -> None:
    scene = UiScene()
    await scene.running()
    plan = await scene.refused(Invalid("the server says no"), kind, name)

    assert plan.status is not None
    told = {each["type"]: (each["status"], each["reason"]) for each in plan.status["conditions"]}
    assert told[type_] == ("False", "ApplyRejected")
    assert plan.status["phase"] == "Error"
