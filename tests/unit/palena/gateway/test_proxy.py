"""LiteLLM in front of a gateway: when it is made, how it is wired, and what is said of it."""

from typing import Any

import pytest

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.gateway.litellm import FORBIDDEN_OVERRIDES
from magicstick.palena.gateway.proxy import REVISION_VARIABLE
from magicstick.runtime.plan import Apply
from tests.support import palena_crds
from tests.support.palena_gateway_scene import GatewayScene
from tests.support.palena_objects import HOME, secret, values

pytestmark = pytest.mark.anyio

LITELLM, KEYS = "gw-palena-litellm", "gw-palena-litellm-keys"


def spec_of(scene: GatewayScene) -> dict[str, Any]:
    return dict(scene.world.must(LITELLM_INSTANCE, HOME, LITELLM).spec)


def revision(scene: GatewayScene) -> str:
    found = [each for each in spec_of(scene)["extraEnvVars"] if each["name"] == REVISION_VARIABLE]
    assert len(found) == 1
    return str(found[0]["value"])


# --- when -------------------------------------------------------------------------------------------


async def test_it_is_made_once_database_and_cache_are_ready() -> None:
    scene = GatewayScene()
    await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "WaitingForDependencies")
    scene.operators.database()
    await scene.settle()
    assert not scene.world.names(LITELLM_INSTANCE)
    scene.operators.redis()
    await scene.settle()
    assert scene.world.names(LITELLM_INSTANCE) == {LITELLM}
    assert scene.condition("GatewayReady") == ("False", "InstanceCreating")


@pytest.mark.parametrize("part", ["database", "redis"])
async def test_once_it_is_there_it_is_kept_as_wanted_although_the_others_flap(part: str) -> None:
    scene = GatewayScene()
    await scene.running()
    if part == "database":
        scene.operators.database("Failing over")
    else:
        scene.operators.redis(ready=False)
    scene.change(litellm={"replicas": 3})
    await scene.settle()
    assert scene.phase == "Degraded"
    assert spec_of(scene)["replicas"] == 3


# --- how --------------------------------------------------------------------------------------------


@pytest.mark.req("PA-034", "PA-035", "PA-036")
async def test_it_is_wired_to_what_the_gateway_made() -> None:
    scene = GatewayScene()
    await scene.running()
    spec = spec_of(scene)
    assert spec["database"] == {
        "cloudnativepg": {"clusterName": "gw-palena-pg"},
        "migration": {"enabled": True, "timeout": "300s"},
    }
    assert spec["redis"] == {
        "enabled": True,
        "connectionSecretRef": {"name": "gw-palena-redis", "key": "url"},
    }
    assert spec["masterKey"] == {"secretRef": {"name": KEYS, "key": "master-key"}}
    assert spec["saltKey"] == {"secretRef": {"name": KEYS, "key": "salt-key"}}
    assert spec["service"] == {"type": "ClusterIP", "port": 4000}
    assert spec["security"] == {"networkPolicy": {"enabled": False}}
    assert "callbacks" not in spec, "this block belongs to the observability"


@pytest.mark.req("PA-034")
async def test_what_the_user_says_of_litellm_is_handed_on() -> None:
    litellm: dict[str, Any] = {
        "image": {"repository": "example.com/litellm", "tag": "v1", "pullSecrets": [{"name": "registry"}]},
        "autoscaling": {"enabled": True, "minReplicas": 2, "maxReplicas": 5, "targetCPUUtilization": 70},
        "resources": {"limits": {"memory": "2Gi"}},
        "routerSettings": {"routingStrategy": "least-busy", "numRetries": 0},
        "generalSettings": {"maxBudget": "100"},
        "fallbacks": {"defaultFallbacks": ["small"]},
        "extraEnvVars": [{"name": "LITELLM_LOG", "value": "INFO"}],
    }
    ingress = {
        "enabled": True,
        "className": "nginx",
        "host": "llm.example.com",
        "annotations": {"a": "b"},
        "tls": {"enabled": True, "secretName": "llm-tls"},
    }
    route = {"enabled": True, "host": "llm.example.com", "parentRefs": [{"name": "front"}]}
    backup = {"enabled": True, "schedule": "0 3 * * *", "retention": 3}
    database = {"managed": {"backup": backup}}
    scene = GatewayScene(litellm=litellm, ingress=ingress, gatewayRoute=route, database=database)
    await scene.running()
    spec = spec_of(scene)
    for name in ("image", "autoscaling", "resources", "routerSettings", "generalSettings", "fallbacks"):
        assert spec[name] == litellm[name]
    assert litellm["extraEnvVars"][0] in spec["extraEnvVars"]
    assert "replicas" not in spec, "an autoscaler decides"
    assert spec["ingress"] == {
        "enabled": True,
        "ingressClassName": "nginx",
        "host": "llm.example.com",
        "annotations": {"a": "b"},
        "tls": {"enabled": True, "secretName": "llm-tls"},
    }
    assert spec["gatewayHTTPRoute"] == route
    assert spec["database"]["cloudnativepg"]["backup"] == backup


@pytest.mark.parametrize("given", [None, [], [{"name": REVISION_VARIABLE, "value": "mine"}]])
async def test_an_odd_environment_in_the_overrides_leaves_the_revision_ours(given: Any) -> None:
    scene = GatewayScene(litellm={"overrides": {"extraEnvVars": given}})
    await scene.running()
    assert scene.phase == "Running"
    assert len(revision(scene)) == 64


@pytest.mark.parametrize("given", ["abc", 7, [1, None]])
async def test_an_environment_that_is_no_list_of_variables_is_left_for_the_server_to_refuse(
    given: Any,
) -> None:
    scene = GatewayScene(litellm={"overrides": {"extraEnvVars": given}})
    await scene.running()
    sent = spec_of(scene)["extraEnvVars"]
    assert sent[: len(given)] == given if isinstance(given, list) else sent == given


async def test_overrides_are_merged_last_and_deep() -> None:
    overrides = {
        "replicas": 7,
        "security": {"runAsNonRoot": True},
        "routerSettings": {"numRetries": 9},
        "upgrade": {"strategy": "recreate"},
    }
    litellm = {"routerSettings": {"timeout": 5, "numRetries": 1}, "overrides": overrides}
    scene = GatewayScene(litellm=litellm)
    await scene.running()
    spec = spec_of(scene)
    assert (spec["replicas"], spec["upgrade"]) == (7, {"strategy": "recreate"})
    assert spec["routerSettings"] == {"timeout": 5, "numRetries": 9}
    assert spec["security"] == {"networkPolicy": {"enabled": False}, "runAsNonRoot": True}


@pytest.mark.parametrize("name", FORBIDDEN_OVERRIDES)
async def test_an_override_of_the_wiring_is_refused_and_changes_nothing(name: str) -> None:
    scene = GatewayScene()
    await scene.running()
    before = spec_of(scene)
    scene.change(litellm={"overrides": {name: {}, "replicas": 9}})
    plan = await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "ForbiddenOverride")
    assert name in scene.message("GatewayReady")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert spec_of(scene) == before


async def test_a_field_that_this_litellm_operator_lacks_is_not_sent_and_told() -> None:
    scene = GatewayScene(litellm={"adminUI": {"enabled": True}})
    definition = palena_crds.definition(palena_crds.INSTANCES)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["adminUI"]
    scene.world.serve(definition)
    plan = await scene.running()
    assert "adminUI" not in spec_of(scene)
    assert [each.reason for each in plan.notices] == ["UnknownFieldIgnored"]
    assert scene.phase == "Running"


# --- keys -------------------------------------------------------------------------------------------


async def test_keys_are_drawn_once() -> None:
    scene = GatewayScene()
    await scene.running()
    keys = values(scene.world.must(SECRET, HOME, KEYS))
    assert keys.keys() == {"master-key", "salt-key"}
    assert all(each.startswith("sk-") and len(each) == 67 for each in keys.values())
    scene.change(litellm={"replicas": 2})
    await scene.settle()
    assert values(scene.world.must(SECRET, HOME, KEYS)) == keys


@pytest.mark.parametrize("left", [None, ("master-key",), ("salt-key",)])
async def test_f19_keys_that_are_gone_are_an_error_and_never_made_anew(left: tuple[str, ...] | None) -> None:
    scene = GatewayScene()
    await scene.running()
    live, before = scene.world.must(SECRET, HOME, KEYS), spec_of(scene)
    if left is None:
        scene.world.remove(SECRET, HOME, KEYS)
    else:
        scene.world.change(SECRET, HOME, KEYS, data={key: live.data[key] for key in left})
    plan = await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "KeysSecretMissing")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert KEYS in scene.message("GatewayReady")
    found = scene.world.find(SECRET, HOME, KEYS)
    assert set(found.data if found is not None else ()) == set(left or ())
    assert spec_of(scene) == before


async def test_f19_keys_of_a_database_that_was_taken_over_are_not_made_anew() -> None:
    scene = GatewayScene()
    kept = {
        "name": "gw-palena-pg",
        "namespace": HOME,
        "creationTimestamp": "2026-04-01T00:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "palena-operator", "palena.ai/retained": "true"},
    }
    scene.world.put(CNPG_CLUSTER, {"metadata": kept, "spec": {"instances": 1}})
    await scene.settle()
    scene.operators.database()
    await scene.settle()
    assert scene.condition("DatabaseReady") == ("True", "ClusterReady")
    assert scene.condition("GatewayReady") == ("False", "KeysSecretMissing")
    assert KEYS not in scene.world.names(SECRET)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "SecretNotFound"),
        ({"other": "sk-1"}, "SecretKeyMissing"),
        ({"key": "swordfish"}, "SecretInvalid"),
        ({"key": "sk-swordfish\n"}, "SecretInvalid"),
    ],
)
async def test_an_own_master_key_must_be_usable(content: dict[str, str] | None, reason: str) -> None:
    scene = GatewayScene(litellm={"masterKeySecretRef": {"name": "mine", "key": "key"}})
    if content is not None:
        scene.world.put(SECRET, secret("mine", content))
    plan = await scene.settle()
    assert scene.condition("GatewayReady") == ("False", reason)
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert "swordfish" not in str(plan.status)


async def test_an_own_master_key_is_used_and_said() -> None:
    scene = GatewayScene(litellm={"masterKeySecretRef": {"name": "mine", "key": "key"}})
    scene.world.put(SECRET, secret("mine", {"key": "sk-mine"}))
    await scene.running()
    assert spec_of(scene)["masterKey"] == {"secretRef": {"name": "mine", "key": "key"}}
    assert scene.gateway.status["masterKeySecretRef"] == {"name": "mine", "key": "key"}


# --- rotation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["database", "redis", "master"])
async def test_f19_another_value_of_a_secret_restarts_litellm(what: str) -> None:
    scene = GatewayScene(
        database={"mode": "external", "external": {"secretRef": {"name": "database"}}},
        redis={"mode": "external", "external": {"secretRef": {"name": "redis"}}},
        litellm={"masterKeySecretRef": {"name": "master", "key": "key"}},
    )
    before = {
        "database": {"DATABASE_URL": "postgres://a:b@db.example.com/x"},
        "redis": {"REDIS_URL": "redis://:a@redis.example.com"},
        "master": {"key": "sk-a"},
    }
    after = {
        "database": {"DATABASE_URL": "postgres://a:c@db.example.com/x"},
        "redis": {"REDIS_URL": "redis://:c@redis.example.com"},
        "master": {"key": "sk-c"},
    }
    for name, content in before.items():
        scene.world.put(SECRET, secret(name, content))
    await scene.running()
    first = revision(scene)
    scene.world.put(SECRET, secret(what, {**before[what], "UNUSED": "another"}))
    await scene.settle()
    assert revision(scene) == first, "a key that nobody uses restarts nobody"
    scene.world.put(SECRET, secret(what, after[what]))
    await scene.settle()
    assert revision(scene) != first
    scene.world.put(SECRET, secret(what, before[what]))
    await scene.settle()
    assert revision(scene) == first


async def test_f19_a_secret_that_is_missing_for_a_moment_restarts_nobody() -> None:
    scene = GatewayScene()
    await scene.running()
    first = revision(scene)
    scene.world.remove(SECRET, HOME, "gw-palena-pg-app")
    scene.change(litellm={"replicas": 2})
    await scene.settle()
    assert revision(scene) == first
    assert spec_of(scene)["replicas"] == 2


# --- what is said -----------------------------------------------------------------------------------


@pytest.mark.req("PA-041")
async def test_a_ready_instance_makes_the_gateway_run_and_its_address_known() -> None:
    scene = GatewayScene()
    plan = await scene.running()
    assert (scene.phase, plan.outcome) == ("Running", Outcome.HEALTHY)
    assert scene.condition("GatewayReady") == ("True", "InstanceReady")
    assert scene.condition("Ready") == ("True", "AllComponentsReady")
    status = scene.gateway.status
    assert status["endpoint"] == f"http://{LITELLM}.{HOME}.svc:4000"
    assert status["litellmInstanceRef"] == {"name": LITELLM}
    assert status["masterKeySecretRef"] == {"name": KEYS, "key": "master-key"}
    assert status["gateway"] == {"replicas": 1, "readyReplicas": 1, "version": "1.80.0"}
    assert status["readySince"]


@pytest.mark.parametrize(
    "status",
    [
        {"ready": False},
        {"ready": True, "conditions": []},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "x", "message": "y"}]},
        {"conditions": [{"type": "Ready", "status": "True", "reason": "x", "observedGeneration": 0}]},
        {"ready": "true"},
        {"conditions": "broken"},
        {"unhealthyPods": [{"name": "litellm-1", "reason": "CrashLoopBackOff"}], "ready": False},
    ],
)
async def test_anything_less_is_not_ready(status: dict[str, Any]) -> None:
    scene = GatewayScene()
    await scene.running()
    scene.operators.litellm(**status)
    plan = await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "InstanceNotReady")
    assert (scene.phase, plan.outcome) == ("Degraded", Outcome.NOT_READY)
    for pod in status.get("unhealthyPods", ()):
        assert pod["name"] in scene.message("GatewayReady")
        assert pod["reason"] in scene.message("GatewayReady")


@pytest.mark.req("PA-043")
async def test_a_migration_that_failed_is_an_error() -> None:
    scene = GatewayScene()
    await scene.running()
    told = {"type": "DatabaseReady", "status": "False", "reason": "MigrationFailed", "message": "no rights"}
    scene.operators.litellm(ready=False, conditions=[told])
    plan = await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "MigrationFailed")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert "no rights" in scene.message("GatewayReady")


@pytest.mark.parametrize("reason", ["MigrationRunning", "MigrationSkipped"])
async def test_a_migration_that_runs_is_no_error(reason: str) -> None:
    scene = GatewayScene()
    await scene.running()
    told = {"type": "DatabaseReady", "status": "False", "reason": reason, "message": "wait"}
    scene.operators.litellm(ready=False, conditions=[told])
    await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "InstanceNotReady")


async def test_somebody_elses_instance_is_left_alone_and_not_passed_off_as_ours() -> None:
    scene = GatewayScene()
    await scene.settle()
    scene.world.put(LITELLM_INSTANCE, {"metadata": {"name": LITELLM, "namespace": HOME}, "spec": {"x": 1}})
    scene.operators.litellm()
    await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "NameConflict")
    assert spec_of(scene) == {"x": 1}
    assert "litellmInstanceRef" not in scene.gateway.status


async def test_an_endpoint_that_the_operator_does_not_name_is_the_services() -> None:
    scene = GatewayScene()
    await scene.running()
    scene.operators.litellm(endpoint="https://gw-palena-litellm.ai-gateway.svc:4000")
    await scene.settle()
    assert scene.gateway.status["endpoint"].startswith("https://")
    scene.operators.litellm(endpoint="")
    await scene.settle()
    assert scene.gateway.status["endpoint"] == f"http://{LITELLM}.{HOME}.svc:4000"


async def test_the_step_writes_nothing_but_keys_and_instance() -> None:
    scene = GatewayScene()
    await scene.running()
    applied = [each for each in scene.world.log if isinstance(each, Apply) and each.kind == LITELLM_INSTANCE]
    assert [each.body["metadata"]["name"] for each in applied] == [LITELLM]
