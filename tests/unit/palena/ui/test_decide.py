"""What is decided about a chat (spec: palena §6.2, §6.4, §6.5, §11, §13)."""

from typing import Any

import pytest

from magicstick.api.kinds import LITELLM_VIRTUAL_KEY, PALENA_GATEWAY, PALENA_MCP_SERVER, PALENA_UI
from magicstick.kube.errors import Invalid
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
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
from tests.support.palena_consumers import UiScene, ui
from tests.support.palena_objects import GATEWAY, HOME, secret, values
from tests.support.palena_schemas import check

pytestmark = pytest.mark.anyio

CONFIG_HASH = "operator.palena.ai/config-hash"
SECRET_HASH = "operator.palena.ai/secret-hash"
BASE_URL = f"http://gw-palena-litellm.{HOME}.svc.cluster.local:4000/v1"


def text(scene: UiScene) -> str:
    return scene.must(CONFIG_MAP, "chat-librechat-config").data["librechat.yaml"]


def content(scene: UiScene) -> Any:
    return check("librechat", text(scene))


def template(scene: UiScene) -> Any:
    return scene.must(DEPLOYMENT, "chat-librechat").spec["template"]


def annotation(scene: UiScene, name: str = CONFIG_HASH) -> str:
    return str(template(scene)["metadata"]["annotations"][name])


def environment(scene: UiScene) -> dict[str, Any]:
    env = template(scene)["spec"]["containers"][0]["env"]
    assert len({each["name"] for each in env}) == len(env)
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in env}


def reference(name: str, key: str) -> Any:
    return {"secretKeyRef": {"name": name, "key": key}}


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


# --- the key -----------------------------------------------------------------------------------------


async def test_the_gateway_mints_a_key_of_its_own_and_the_chat_waits_for_it() -> None:
    scene = UiScene(gatewayKey={"maxBudget": "10", "budgetDuration": "30d", "rpmLimit": 5})
    plan = await scene.settle()
    key = scene.must(LITELLM_VIRTUAL_KEY, "chat-librechat")

    assert key.spec == {
        "instanceRef": {"name": "gw-palena-litellm"},
        "keyAlias": f"palena-ui-{HOME}-chat",
        "keySecretName": "chat-librechat-gateway-key",
        "maxBudget": "10",
        "budgetDuration": "30d",
        "rpmLimit": 5,
    }
    assert (scene.phase, plan.outcome) == ("Provisioning", Outcome.NOT_READY)
    assert scene.condition("ConfigGenerated") == ("False", "WaitingForGatewayKey")
    assert "chat-librechat" not in scene.world.names(DEPLOYMENT)
    await scene.running()
    assert environment(scene)["LITELLM_API_KEY"] == reference("chat-librechat-gateway-key", "api-key")


async def test_a_key_of_a_gateway_elsewhere_is_copied_and_kept_in_sync() -> None:
    scene = UiScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.settle()
    key = scene.must(LITELLM_VIRTUAL_KEY, "chat-librechat", HOME)
    assert key.metadata.owner_references == ()
    assert key.metadata.annotations["palena.ai/owner"] == "PalenaUI/elsewhere/chat"
    scene.mint("sk-one")
    await scene.settle()
    assert values(scene.must(SECRET, "chat-librechat-gateway-key")) == {"api-key": "sk-one"}
    before = annotation(scene, SECRET_HASH)

    scene.mint("sk-two")
    await scene.settle()
    assert values(scene.must(SECRET, "chat-librechat-gateway-key")) == {"api-key": "sk-two"}
    assert annotation(scene, SECRET_HASH) != before


async def test_without_virtual_keys_there_is_no_other_way_of_its_own_accord() -> None:
    scene = UiScene()
    scene.world.absent(LITELLM_VIRTUAL_KEY)
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Error", Outcome.MISSING)
    assert scene.condition("ConfigGenerated") == ("False", "CRDMissing")
    assert "chat-librechat" not in scene.world.names(DEPLOYMENT)


async def test_the_master_key_is_used_only_beside_the_gateway() -> None:
    scene = UiScene(gatewayKey={"mode": "masterKey"})
    scene.world.put(SECRET, secret("gw-palena-litellm-keys", {"master-key": "sk-x"}))
    await scene.running()
    assert environment(scene)["LITELLM_API_KEY"] == reference("gw-palena-litellm-keys", "master-key")
    assert scene.phase == "Running"

    other = UiScene(
        namespace="elsewhere",
        gatewayRef={"name": GATEWAY, "namespace": HOME},
        gatewayKey={"mode": "masterKey"},
    )
    await other.settle()
    assert other.condition("ConfigGenerated") == ("False", "RefNotPermitted")
    assert other.phase == "Error"


@pytest.mark.parametrize(
    ("given", "reason"),
    [(None, "SecretNotFound"), ({"other": "x"}, "SecretKeyMissing"), ({"key": "sk\n"}, "SecretInvalid")],
)
async def test_a_key_of_the_users_own_is_checked(given: dict[str, str] | None, reason: str) -> None:
    scene = UiScene(gatewayKey={"mode": "secret", "secretRef": {"name": "own", "key": "key"}})
    if given is not None:
        scene.world.put(SECRET, secret("own", given))
    plan = await scene.settle()
    assert scene.condition("ConfigGenerated") == ("False", reason)
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)

    scene.world.put(SECRET, secret("own", {"key": "sk-mine"}))
    await scene.running()
    assert environment(scene)["LITELLM_API_KEY"] == reference("own", "key")
    assert scene.phase == "Running"


async def test_another_mode_takes_the_virtual_key_away() -> None:
    scene = UiScene()
    await scene.running()
    scene.world.put(SECRET, secret("own", {"key": "sk-mine"}))
    scene.change(gatewayKey={"mode": "secret", "secretRef": {"name": "own", "key": "key"}})
    await scene.settle()

    assert scene.world.names(LITELLM_VIRTUAL_KEY) == set()


async def test_another_gateway_mints_another_key_and_the_old_one_goes() -> None:
    scene = UiScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.settle()
    scene.gateway(namespace="third", allowedConsumers={"from": "All"})
    scene.change(gatewayRef={"name": GATEWAY, "namespace": "third"})
    await scene.settle()

    assert scene.world.names(LITELLM_VIRTUAL_KEY, HOME) == set()
    assert scene.world.names(LITELLM_VIRTUAL_KEY, "third") == {"chat-librechat"}


async def test_a_virtual_key_of_somebody_else_is_not_taken_over() -> None:
    scene = UiScene()
    foreign = {"metadata": {"name": "chat-librechat", "namespace": HOME}, "spec": {"keyAlias": "mine"}}
    scene.world.put(LITELLM_VIRTUAL_KEY, foreign)
    await scene.settle()

    assert scene.must(LITELLM_VIRTUAL_KEY, "chat-librechat").spec == {"keyAlias": "mine"}
    assert scene.condition("ConfigGenerated") == ("False", "NameConflict")


# --- secrets and stores ------------------------------------------------------------------------------


async def test_generated_secrets_fit_what_libre_chat_asks_for_and_are_made_once() -> None:
    scene = UiScene()
    await scene.running()
    made = values(scene.must(SECRET, "chat-librechat-secrets"))
    sizes = {"CREDS_KEY": 64, "CREDS_IV": 32, "JWT_SECRET": 64, "JWT_REFRESH_SECRET": 64}

    assert {name: len(made[name]) for name in sizes} == sizes
    assert len(made["MEILI_MASTER_KEY"]) >= 16
    assert made["MONGO_ROOT_USERNAME"] == "librechat"
    password = made["MONGO_ROOT_PASSWORD"]
    host = f"chat-mongodb.{HOME}.svc.cluster.local:27017"
    assert made["MONGO_URI"] == f"mongodb://librechat:{password}@{host}/LibreChat?authSource=admin"
    scene.change(image={"tag": "v0.9.0"})
    await scene.settle()
    assert values(scene.must(SECRET, "chat-librechat-secrets")) == made


async def test_e33_a_key_of_a_later_release_is_added_and_the_others_stay() -> None:
    scene = UiScene()
    await scene.running()
    made = values(scene.must(SECRET, "chat-librechat-secrets"))
    old = secret("chat-librechat-secrets", {key: made[key] for key in made if key != "OPENID_SESSION_SECRET"})
    live = scene.must(SECRET, "chat-librechat-secrets")
    scene.world.change(SECRET, HOME, "chat-librechat-secrets", data=old["data"])
    await scene.settle()
    now = values(scene.must(SECRET, "chat-librechat-secrets"))

    assert len(now["OPENID_SESSION_SECRET"]) == 64
    assert {key: value for key, value in now.items() if key != "OPENID_SESSION_SECRET"} == {
        key: value for key, value in made.items() if key != "OPENID_SESSION_SECRET"
    }
    assert live.metadata.uid == scene.must(SECRET, "chat-librechat-secrets").metadata.uid


async def test_f19_a_lost_secret_is_not_made_anew_while_its_volume_lives() -> None:
    scene = UiScene()
    await scene.running()
    kept = scene.must(SECRET, "chat-librechat-secrets")
    before = scene.must(STATEFUL_SET, "chat-mongodb").spec, scene.must(DEPLOYMENT, "chat-librechat").spec
    scene.world.remove(SECRET, HOME, "chat-librechat-secrets")
    scene.written()
    await scene.settle()

    assert scene.find(SECRET, "chat-librechat-secrets") is None
    assert scene.written() == []
    assert (
        scene.must(STATEFUL_SET, "chat-mongodb").spec,
        scene.must(DEPLOYMENT, "chat-librechat").spec,
    ) == before
    assert scene.phase == "Degraded"
    assert scene.condition("MongoDBReady") == ("False", "SecretLost")
    assert "data-chat-mongodb-0" in scene.message("MongoDBReady")

    body = secret("chat-librechat-secrets", values(kept))
    body["metadata"] |= {"labels": kept.metadata.labels}
    scene.world.put(SECRET, body)
    await scene.settle()
    assert scene.phase == "Running"


async def test_f19_a_lost_secret_is_made_anew_when_its_volumes_are_gone() -> None:
    scene = UiScene()
    await scene.running()
    for name in scene.world.names(PERSISTENT_VOLUME_CLAIM):
        scene.world.remove(PERSISTENT_VOLUME_CLAIM, HOME, name)
    scene.world.remove(SECRET, HOME, "chat-librechat-secrets")
    await scene.settle()

    assert scene.find(SECRET, "chat-librechat-secrets") is not None


async def test_secret_values_stand_in_no_status_configuration_or_representation() -> None:
    scene = UiScene()
    await scene.running()
    made = values(scene.must(SECRET, "chat-librechat-secrets"))
    observation = await scene.reconciler.observe(ObjectKey(HOME, "chat"))
    shown = (
        str(scene.status),
        text(scene),
        repr(await scene.plan()),
        repr(observation.fresh),
        str(template(scene)),
    )

    hidden = [made["MONGO_ROOT_PASSWORD"], made["CREDS_KEY"], "sk-minted"]
    assert not [value for value in hidden for each in shown if value in each]


@pytest.mark.req("PA-075")
async def test_mongodb_is_a_stateful_set_behind_a_headless_service_and_its_volume_names_the_chat() -> None:
    scene = UiScene(mongodb={"storage": {"size": "20Gi", "storageClassName": "fast"}})
    await scene.running()
    workload = scene.must(STATEFUL_SET, "chat-mongodb")

    assert workload.spec["serviceName"] == "chat-mongodb"
    assert scene.must(SERVICE, "chat-mongodb").spec["clusterIP"] == "None"
    claim = workload.spec["volumeClaimTemplates"][0]
    assert claim["spec"]["resources"] == {"requests": {"storage": "20Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"
    assert workload.spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    found = {
        key
        for edge in scene.reconciler.declaration.edges
        if edge.kind == PERSISTENT_VOLUME_CLAIM
        for key in edge.wakes(None, scene.must(PERSISTENT_VOLUME_CLAIM, "data-chat-mongodb-0"))
    }
    assert found == {ObjectKey(HOME, "chat")}


async def test_mongodb_that_is_not_ready_is_waited_for() -> None:
    scene = UiScene()
    await scene.running()
    scene.report(STATEFUL_SET, "chat-mongodb", ready=False)
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Degraded", Outcome.NOT_READY)
    assert scene.condition("MongoDBReady") == ("False", "StatefulSetNotReady")


async def test_an_external_mongodb_is_used_and_none_is_made() -> None:
    scene = UiScene(mongodb={"mode": "external", "secretRef": {"name": "mongo"}})
    await scene.settle()
    assert scene.condition("MongoDBReady") == ("False", "SecretNotFound")
    assert scene.phase == "Error"
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "postgres://x"}))
    await scene.settle()
    assert scene.condition("MongoDBReady") == ("False", "SecretInvalid")

    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb+srv://u:p@db.example.com/x"}))
    await scene.running()
    assert scene.world.names(STATEFUL_SET) == set()
    assert scene.condition("MongoDBReady") == ("True", "ExternalSecretValid")
    assert environment(scene)["MONGO_URI"] == reference("mongo", "MONGO_URI")
    assert scene.phase == "Running"


async def test_f19_a_rotated_external_address_restarts_libre_chat() -> None:
    scene = UiScene(mongodb={"mode": "external", "secretRef": {"name": "mongo"}})
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:one@db.example.com"}))
    await scene.running()
    before = annotation(scene, SECRET_HASH)
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:two@db.example.com", "other": "x"}))
    await scene.settle()
    after = annotation(scene, SECRET_HASH)
    assert after != before

    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:two@db.example.com", "other": "y"}))
    await scene.settle()
    assert annotation(scene, SECRET_HASH) == after


async def test_a_managed_mongodb_that_is_given_up_leaves_its_volume() -> None:
    scene = UiScene(deletionPolicy="Delete")
    await scene.running()
    assert (
        scene.must(STATEFUL_SET, "chat-mongodb").spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"]
        == "Delete"
    )
    scene.world.put(SECRET, secret("mongo", {"MONGO_URI": "mongodb://u:p@db.example.com"}))
    scene.change(mongodb={"mode": "external", "secretRef": {"name": "mongo"}})
    scene.written()
    await scene.settle()

    about = [step for step in scene.written() if step.kind == STATEFUL_SET]
    assert isinstance(about[0], Apply)
    assert about[0].body["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    assert scene.world.names(STATEFUL_SET) == set()
    assert "data-chat-mongodb-0" in scene.world.names(PERSISTENT_VOLUME_CLAIM)


async def test_search_can_be_switched_off() -> None:
    scene = UiScene()
    await scene.running()
    scene.change(meilisearch={"enabled": False})
    await scene.settle()

    assert scene.world.names(DEPLOYMENT) == {"chat-librechat"}
    assert "chat-meilisearch" not in scene.world.names(PERSISTENT_VOLUME_CLAIM)
    assert scene.condition("MeiliSearchReady") == ("True", "Disabled")
    assert environment(scene)["SEARCH"] == "false"
    assert "MEILI_HOST" not in environment(scene)


async def test_each_minor_version_of_meilisearch_has_an_index_of_its_own() -> None:
    folders = []
    for image in (
        "getmeili/meilisearch:v1.12.3",
        "getmeili/meilisearch:v1.12.4",
        "getmeili/meilisearch:v1.13.0",
        "x@sha256:1",
    ):
        scene = UiScene(meilisearch={"image": image})
        await scene.settle()
        env = scene.must(DEPLOYMENT, "chat-meilisearch").spec["template"]["spec"]["containers"][0]["env"]
        folders.append(next(each["value"] for each in env if each["name"] == "MEILI_DB_PATH"))

    assert folders == [
        "/meili_data/v1.12.ms",
        "/meili_data/v1.12.ms",
        "/meili_data/v1.13.ms",
        "/meili_data/data.ms",
    ]


async def test_volumes_grow_and_do_not_shrink() -> None:
    scene = UiScene()
    await scene.running()
    scene.change(persistence={"size": "5Gi"}, mongodb={"storage": {"size": "4Gi"}})
    plan = await scene.settle()
    assert scene.must(PERSISTENT_VOLUME_CLAIM, "chat-librechat-data").spec["resources"]["requests"] == {
        "storage": "10Gi"
    }
    assert {each.reason for each in plan.notices} == {"ImmutableFieldIgnored"}
    assert len(plan.notices) == 2

    scene.change(persistence={"size": "50Gi"}, mongodb={"storage": {"size": "80Gi"}})
    await scene.settle()
    sizes = {
        name: scene.must(PERSISTENT_VOLUME_CLAIM, name).spec["resources"]["requests"]["storage"]
        for name in ("chat-librechat-data", "data-chat-mongodb-0")
    }
    assert sizes == {"chat-librechat-data": "50Gi", "data-chat-mongodb-0": "80Gi"}
    template_ = scene.must(STATEFUL_SET, "chat-mongodb").spec["volumeClaimTemplates"][0]
    assert template_["spec"]["resources"]["requests"] == {"storage": "8Gi"}


# --- LibreChat ---------------------------------------------------------------------------------------


async def test_the_environment_says_what_is_specified() -> None:
    scene = UiScene(
        host="chat.example.com", ingress={"enabled": True, "tls": {"enabled": True, "secretName": "t"}}
    )
    await scene.running()
    own = "chat-librechat-secrets"

    assert environment(scene) == {
        "HOST": "0.0.0.0",  # noqa: S104 - within its Pod
        "PORT": "3080",
        "SEARCH": "true",
        "MEILI_NO_ANALYTICS": "true",
        "MEILI_HOST": f"http://chat-meilisearch.{HOME}.svc.cluster.local:7700",
        "DOMAIN_CLIENT": "https://chat.example.com",
        "DOMAIN_SERVER": "https://chat.example.com",
        "ALLOW_REGISTRATION": "false",
        "ALLOW_EMAIL_LOGIN": "true",
        "ALLOW_SOCIAL_LOGIN": "false",
        "NO_INDEX": "true",
        "TRUST_PROXY": "1",
        "ENDPOINTS": "custom,agents",
        "MONGO_URI": reference(own, "MONGO_URI"),
        "LITELLM_API_KEY": reference("chat-librechat-gateway-key", "api-key"),
        **{
            each: reference(own, each)
            for each in ("CREDS_KEY", "CREDS_IV", "JWT_SECRET", "JWT_REFRESH_SECRET", "MEILI_MASTER_KEY")
        },
    }
    assert scene.status["url"] == "https://chat.example.com"


async def test_sign_in_with_open_id_is_passed_on_and_its_secrets_are_checked() -> None:
    oidc = {
        "enabled": True,
        "issuer": "https://login.example.com",
        "clientIdRef": {"name": "login", "key": "id"},
        "clientSecretRef": {"name": "login", "key": "secret"},
        "buttonLabel": "Sign in",
    }
    scene = UiScene(auth={"oidc": oidc})
    await scene.running()
    assert scene.condition("ConfigGenerated") == ("False", "SecretNotFound")

    scene.world.put(SECRET, secret("login", {"id": "a", "secret": "b"}))
    await scene.settle()
    env = environment(scene)
    assert scene.condition("ConfigGenerated") == ("True", "ConfigGenerated")
    assert env["ALLOW_SOCIAL_LOGIN"] == "true"
    assert env["OPENID_ISSUER"] == "https://login.example.com"
    assert env["OPENID_CLIENT_SECRET"] == reference("login", "secret")
    assert env["OPENID_SESSION_SECRET"] == reference("chat-librechat-secrets", "OPENID_SESSION_SECRET")
    assert env["OPENID_CALLBACK_URL"] == "/oauth/openid/callback"
    assert env["OPENID_BUTTON_LABEL"] == "Sign in"


async def test_users_environment_wins_and_its_secrets_count_for_the_hash() -> None:
    own = {"name": "REDIS_URI", "valueFrom": {"secretKeyRef": {"name": "cache", "key": "uri"}}}
    scene = UiScene(extraEnv=[{"name": "NO_INDEX", "value": "false"}, own])
    scene.world.put(SECRET, secret("cache", {"uri": "one"}))
    await scene.running()
    assert environment(scene)["NO_INDEX"] == "false"
    before = annotation(scene, SECRET_HASH)
    scene.world.put(SECRET, secret("cache", {"uri": "two"}))
    await scene.settle()

    assert annotation(scene, SECRET_HASH) != before


async def test_an_ingress_is_there_only_while_it_is_wanted() -> None:
    tls = {"enabled": True, "secretName": "certificate"}
    scene = UiScene(host="chat.example.com", ingress={"enabled": True, "className": "nginx", "tls": tls})
    await scene.running()
    assert scene.must(INGRESS, "chat-librechat").spec == {
        "ingressClassName": "nginx",
        "rules": [
            {
                "host": "chat.example.com",
                "http": {
                    "paths": [
                        {
                            "path": "/",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "chat-librechat", "port": {"number": 3080}}},
                        }
                    ]
                },
            }
        ],
        "tls": [{"hosts": ["chat.example.com"], "secretName": "certificate"}],
    }
    scene.change(ingress={"enabled": False})
    await scene.settle()
    assert scene.world.names(INGRESS) == set()
    assert scene.status["url"] == "http://chat.example.com"


async def test_e20_content_that_cannot_be_merged_is_named_and_the_last_one_stays() -> None:
    scene = UiScene()
    await scene.running()
    before = text(scene)
    scene.change(config={"endpoints": []})
    plan = await scene.settle()

    assert text(scene) == before
    assert scene.condition("ConfigGenerated") == ("False", "InvalidConfig")
    assert scene.message("ConfigGenerated") == "spec.config.endpoints must be an object"
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)


async def test_a_chat_that_is_not_rolled_out_is_not_ready() -> None:
    scene = UiScene()
    await scene.running()
    scene.report(DEPLOYMENT, "chat-librechat", ready=False)
    await scene.settle()

    assert scene.condition("Ready") == ("False", "DeploymentNotReady")
    assert scene.phase == "Degraded"


async def test_a_settled_chat_writes_nothing() -> None:
    scene = UiScene(mcpServerRefs=[{"name": "websearch"}])
    scene.server()
    await scene.running()
    scene.written()
    before = scene.status
    await scene.settle()

    assert scene.written() == []
    assert scene.status == before


async def test_a_pod_of_a_chat_is_none_of_the_gateways() -> None:
    scene = UiScene()
    await scene.running()

    for kind, name in ((DEPLOYMENT, "chat-librechat"), (STATEFUL_SET, "chat-mongodb")):
        labels = scene.must(kind, name).spec["template"]["metadata"]["labels"]
        assert "palena.ai/gateway" not in labels
        assert labels["palena.ai/ui"] == "chat"


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
