"""What is decided about an MCP server (spec: palena §8.4, §8.5, §11, §13)."""

from typing import Any

import pytest

from magicstick.api.kinds import PALENA_MCP_SERVER
from magicstick.kube.errors import Invalid, NameConflict, NamespaceTerminating
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.palena.common.kinds import DEPLOYMENT, NETWORK_POLICY, SERVICE
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.mcp_server.components import SIDECARS
from magicstick.runtime.plan import Apply, Delete
from tests.support.palena_consumers import McpScene
from tests.support.palena_objects import HOME, values
from tests.support.palena_schemas import check

pytestmark = pytest.mark.anyio

DEFAULT = {"searxng", "chromium", "presidio-analyzer", "presidio-anonymizer", "flashrank"}
CONFIG_HASH = "operator.palena.ai/config-hash"


def workloads(scene: McpScene) -> set[str]:
    return scene.world.names(DEPLOYMENT)


def pod_hash(scene: McpScene, name: str) -> str:
    template = scene.must(DEPLOYMENT, name).spec["template"]
    return str(template["metadata"]["annotations"][CONFIG_HASH])


def configuration(scene: McpScene) -> Any:
    return check("palena", scene.must(CONFIG_MAP, "websearch-config").data["palena.yaml"])


@pytest.mark.req("PA-014", "PA-095", "PA-096", "PA-110")
async def test_by_default_a_server_runs_with_all_its_sidecars_and_without_any_gateway() -> None:
    scene = McpScene()
    plan = await scene.running()

    assert workloads(scene) == {"websearch", *(f"websearch-{each}" for each in DEFAULT)}
    assert scene.phase == "Running"
    assert plan.outcome is Outcome.HEALTHY
    types = [each["type"] for each in scene.status["conditions"]]
    assert types == ["SidecarsReady", "ServerReady", "Ready"]
    assert scene.condition("SidecarsReady") == ("True", "AllSidecarsReady")
    assert scene.condition("ServerReady") == ("True", "DeploymentReady")
    assert scene.condition("Ready") == ("True", "AllComponentsReady")
    assert scene.status["endpoint"] == "http://websearch.ai-gateway.svc.cluster.local:8080/mcp"
    assert scene.status["sidecarsSummary"] == "5/5"


@pytest.mark.req("PA-097", "PA-098", "PA-099")
async def test_each_sidecar_has_a_deployment_and_a_service_named_after_server_and_sidecar() -> None:
    scene = McpScene(sidecars={"injectionGuard": {"enabled": True}})
    await scene.running()

    for sidecar in SIDECARS:
        workload = scene.must(DEPLOYMENT, f"websearch-{sidecar}")
        service = scene.must(SERVICE, f"websearch-{sidecar}")
        pod = workload.spec["template"]["metadata"]["labels"]
        assert service.spec["selector"].items() <= pod.items()
        assert workload.spec["selector"]["matchLabels"] == service.spec["selector"]
        ports = workload.spec["template"]["spec"]["containers"][0]["ports"]
        assert [each["containerPort"] for each in ports] == [each["port"] for each in service.spec["ports"]]


@pytest.mark.req("PA-100", "PA-101")
async def test_the_servers_pod_mounts_the_configuration_with_the_endpoint_of_each_sidecar() -> None:
    scene = McpScene()
    await scene.running()

    pod = scene.must(DEPLOYMENT, "websearch").spec["template"]["spec"]
    mount = pod["containers"][0]["volumeMounts"][0]
    volume = next(each for each in pod["volumes"] if each["name"] == mount["name"])
    assert volume["configMap"] == {"name": "websearch-config"}
    assert {"name": "PALENA_CONFIG_PATH", "value": f"{mount['mountPath']}/palena.yaml"} in pod["containers"][
        0
    ]["env"]
    content = configuration(scene)
    reached = {each["name"]: each["endpoint"] for each in scene.status["sidecars"]}
    assert content["search"]["searxngURL"] == reached["searxng"]
    assert content["scraper"]["playwright"]["endpoint"] == reached["chromium"]
    assert content["pii"]["analyzerURL"] == reached["presidio-analyzer"]
    assert content["pii"]["anonymizerURL"] == reached["presidio-anonymizer"]
    assert content["reranker"]["endpoint"] == reached["flashrank"]
    for sidecar in DEFAULT:
        port = scene.must(SERVICE, f"websearch-{sidecar}").spec["ports"][0]["port"]
        assert reached[sidecar].endswith(f"://websearch-{sidecar}.{HOME}.svc.cluster.local:{port}")


async def test_the_server_waits_for_searxng_alone_and_only_before_it_is_there() -> None:
    scene = McpScene()
    plan = await scene.settle()
    assert (plan.outcome, scene.phase) == (Outcome.NOT_READY, "Provisioning")
    assert scene.condition("ServerReady") == ("False", "WaitingForSearXNG")
    assert "websearch" not in workloads(scene)

    scene.report(DEPLOYMENT, "websearch-searxng")
    await scene.settle()
    assert "websearch" in workloads(scene)
    assert scene.condition("ServerReady") == ("False", "DeploymentNotReady")

    scene.report(DEPLOYMENT, "websearch-searxng", ready=False)
    await scene.settle()
    assert "websearch" in workloads(scene)


async def test_a_server_without_an_optional_sidecar_is_degraded_and_says_which() -> None:
    scene = McpScene()
    await scene.settle()
    scene.report_all(but=("websearch-flashrank",))
    await scene.settle()
    scene.report_all(but=("websearch-flashrank",))
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Degraded", Outcome.NOT_READY)
    assert scene.condition("SidecarsReady") == ("False", "SidecarsNotReady")
    assert scene.message("SidecarsReady") == "not ready: flashrank"
    assert scene.condition("ServerReady") == ("True", "DeploymentReady")
    assert scene.condition("Ready") == ("False", "SidecarsNotReady")


async def test_a_server_that_was_ready_and_is_not_is_degraded() -> None:
    scene = McpScene()
    await scene.running()
    scene.report(DEPLOYMENT, "websearch", ready=False)
    await scene.settle()

    assert scene.phase == "Degraded"
    assert scene.condition("ServerReady") == ("False", "DeploymentNotReady")


async def test_e28_presidio_switched_off_takes_its_objects_and_restarts_the_server_once() -> None:
    scene = McpScene()
    await scene.running()
    before = pod_hash(scene, "websearch")
    scene.written()
    scene.change(sidecars={"presidio": {"enabled": False}})
    await scene.settle()

    gone = {(step.kind, step.key.name) for step in scene.written() if isinstance(step, Delete)}
    assert gone == {
        (kind, f"websearch-presidio-{part}")
        for kind in (DEPLOYMENT, SERVICE, NETWORK_POLICY)
        for part in ("analyzer", "anonymizer")
    }
    assert configuration(scene)["pii"] == {"enabled": False}
    assert pod_hash(scene, "websearch") != before
    scene.report_all()
    await scene.settle()
    assert scene.written() == []
    assert scene.status["sidecarsSummary"] == "3/3"


async def test_e29_an_external_searxng_is_used_and_none_is_made() -> None:
    scene = McpScene(sidecars={"searxng": {"externalURL": "https://search.example.com"}})
    await scene.settle()

    assert "websearch-searxng" not in workloads(scene)
    assert scene.find(SECRET, "websearch-searxng") is None
    assert scene.find(CONFIG_MAP, "websearch-searxng-config") is None
    assert "websearch" in workloads(scene)
    assert configuration(scene)["search"]["searxngURL"] == "https://search.example.com"
    scene.report_all()
    await scene.settle()
    assert scene.condition("SidecarsReady") == ("True", "AllSidecarsReady")
    told = next(each for each in scene.status["sidecars"] if each["name"] == "searxng")
    assert told == {
        "name": "searxng",
        "enabled": True,
        "external": True,
        "endpoint": "https://search.example.com",
        "ready": True,
    }


async def test_a_searxng_that_becomes_external_leaves_nothing_but_its_secret() -> None:
    scene = McpScene()
    await scene.running()
    scene.change(sidecars={"searxng": {"externalURL": "https://search.example.com"}})
    await scene.settle()

    assert "websearch-searxng" not in workloads(scene)
    assert scene.find(CONFIG_MAP, "websearch-searxng-config") is None
    assert scene.find(SECRET, "websearch-searxng") is not None


async def test_searxng_restarts_with_its_settings_and_the_server_does_not() -> None:
    scene = McpScene()
    await scene.running()
    settings, server = pod_hash(scene, "websearch-searxng"), pod_hash(scene, "websearch")
    scene.change(search={"engineRoutes": {"general": ["google"]}})
    await scene.settle()
    assert pod_hash(scene, "websearch-searxng") != settings

    scene.change(search={"engineRoutes": {"general": ["google"]}}, replicas=2)
    before = pod_hash(scene, "websearch")
    await scene.settle()
    assert pod_hash(scene, "websearch") == before != server


async def test_the_secret_of_searxng_is_generated_once() -> None:
    scene = McpScene()
    await scene.running()
    before = values(scene.must(SECRET, "websearch-searxng"))
    for _ in range(3):
        await scene.settle()

    assert values(scene.must(SECRET, "websearch-searxng")) == before
    assert len(before["SEARXNG_SECRET"]) == 64


async def test_a_secret_value_stands_in_no_configuration_status_or_representation() -> None:
    scene = McpScene()
    await scene.settle()
    value = values(scene.must(SECRET, "websearch-searxng"))["SEARXNG_SECRET"]
    texts = [
        str(each.data) for name in scene.world.names(CONFIG_MAP) for each in [scene.must(CONFIG_MAP, name)]
    ]

    assert all(value not in each for each in (*texts, str(scene.status), repr(await scene.plan())))


async def test_a_settled_server_writes_nothing() -> None:
    scene = McpScene()
    await scene.running()
    scene.written()
    before = scene.live.status
    plan = await scene.settle()

    assert scene.written() == []
    assert scene.live.status == before
    assert plan.outcome is Outcome.HEALTHY


async def test_walls_come_first_and_let_only_the_server_in() -> None:
    scene = McpScene()
    plan = await scene.plan()
    first = plan.steps[: len(DEFAULT)]

    assert {each.body["metadata"]["name"] for each in first if isinstance(each, Apply)} == {
        f"websearch-{each}" for each in DEFAULT
    }
    assert {each.kind for each in first} == {NETWORK_POLICY}


async def test_without_walls_there_are_none() -> None:
    scene = McpScene()
    await scene.running()
    assert len(scene.world.names(NETWORK_POLICY)) == len(DEFAULT)
    scene.change(networkPolicy={"enabled": False})
    await scene.settle()

    assert scene.world.names(NETWORK_POLICY) == set()


@pytest.mark.parametrize(
    ("name", "type_"), [("websearch-chromium", "SidecarsReady"), ("websearch", "ServerReady")]
)
async def test_somebody_elses_object_is_left_alone_and_named(name: str, type_: str) -> None:
    scene = McpScene(sidecars={"searxng": {"externalURL": "https://search.example.com"}})
    foreign = {"metadata": {"name": name, "namespace": HOME}, "spec": {"selector": {"app": "mine"}}}
    scene.world.put(SERVICE, foreign)
    plan = await scene.settle()

    assert scene.must(SERVICE, name).spec == {"selector": {"app": "mine"}}
    assert scene.condition(type_) == ("False", "NameConflict")
    assert f"Service {HOME}/{name}" in scene.message(type_)
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)


async def test_users_environment_is_merged_by_name() -> None:
    scene = McpScene(
        sidecars={"searxng": {"externalURL": "https://search.example.com"}},
        env=[{"name": "PALENA_CONFIG_PATH", "value": "/own"}, {"name": "EXTRA", "value": "1"}],
    )
    await scene.settle()

    env = scene.must(DEPLOYMENT, "websearch").spec["template"]["spec"]["containers"][0]["env"]
    assert env == [{"name": "PALENA_CONFIG_PATH", "value": "/own"}, {"name": "EXTRA", "value": "1"}]


async def test_the_port_of_the_service_is_the_users_and_leads_to_the_server() -> None:
    scene = McpScene(
        service={"port": 9090}, sidecars={"searxng": {"externalURL": "https://search.example.com"}}
    )
    await scene.settle()

    assert scene.must(SERVICE, "websearch").spec["ports"][0] == {
        "name": "http",
        "protocol": "TCP",
        "port": 9090,
        "targetPort": "http",
    }
    assert scene.status["endpoint"] == "http://websearch.ai-gateway.svc.cluster.local:9090/mcp"


@pytest.mark.req("PA-005")
async def test_a_server_that_is_deleted_is_let_go_and_makes_nothing() -> None:
    scene = McpScene()
    await scene.running()
    scene.delete()
    scene.written()
    await scene.settle()

    assert scene.released
    assert scene.written() == []


async def test_e32_a_paused_server_is_only_reported_on() -> None:
    scene = McpScene()
    await scene.running()
    scene.annotate(paused="true")
    scene.change(replicas=3)
    scene.written()
    plan = await scene.settle()

    assert scene.written() == []
    assert plan.outcome is Outcome.PAUSED
    assert "paused" in scene.status["message"]


async def test_an_invalid_spec_names_the_field_and_leaves_what_is_there() -> None:
    scene = McpScene()
    await scene.running()
    scene.written()
    scene.change(search={"safeSearch": 7})
    await scene.settle()

    assert scene.written() == []
    assert scene.phase == "Error"
    assert "spec.search.safeSearch" in scene.message("Ready")


async def test_what_cannot_be_read_changes_nothing() -> None:
    scene = McpScene()
    await scene.running()
    scene.written()
    scene.world.unreadable(DEPLOYMENT)
    plan = await scene.settle()

    assert scene.written() == []
    assert plan.outcome is Outcome.FAILED
    assert scene.condition("Ready") == ("False", "ReadFailed")


@pytest.mark.parametrize(
    ("error", "name", "type_", "reason", "phase"),
    [
        (Invalid("field is wrong"), "websearch-chromium", "SidecarsReady", "ApplyRejected", "Error"),
        (Invalid("field is wrong"), "websearch", "ServerReady", "ApplyRejected", "Error"),
        (NameConflict("is there"), "websearch-searxng-config", "SidecarsReady", "NameConflict", "Error"),
        (NamespaceTerminating("ends"), "websearch", "ServerReady", "NamespaceTerminating", "Provisioning"),
    ],
)
async def test_a_refused_write_is_told_on_the_condition_that_it_is_about(
    error: Any, name: str, type_: str, reason: str, phase: str
) -> None:
    plan = await McpScene().refused(error, DEPLOYMENT, name)

    assert plan.status is not None
    told = {each["type"]: (each["status"], each["reason"]) for each in plan.status["conditions"]}
    assert told[type_] == ("False", reason)
    assert plan.status["phase"] == phase


async def test_an_object_that_is_gone_is_not_observed() -> None:
    scene = McpScene()
    scene.world.remove(PALENA_MCP_SERVER, HOME, "websearch")

    assert await scene.reconciler.observe(ObjectKey(HOME, "websearch")) is None
