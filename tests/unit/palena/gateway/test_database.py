"""What a gateway says of its database, and what it makes of it."""

import pytest

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.palena.common.kinds import STATEFUL_SET
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.gateway.cluster import TERMINAL
from tests.support import palena_crds
from tests.support.palena_gateway_scene import GatewayScene
from tests.support.palena_objects import HEALTHY, HOME, secret

pytestmark = pytest.mark.anyio

EXTERNAL = {"mode": "external", "external": {"secretRef": {"name": "db"}}}
URL = "postgresql://user:swordfish@db.example.com:5432/litellm"


@pytest.mark.req("PA-024", "PA-025", "PA-083")
async def test_a_managed_database_is_one_cluster_with_a_database_for_litellm() -> None:
    scene = GatewayScene()
    await scene.settle()
    assert scene.world.names(CNPG_CLUSTER) == {"gw-palena-pg"}
    cluster = scene.world.must(CNPG_CLUSTER, HOME, "gw-palena-pg")
    assert cluster.spec["bootstrap"] == {"initdb": {"database": "litellm"}}
    assert "managed" not in cluster.spec, "this list belongs to the observability"


@pytest.mark.req("PA-026")
async def test_other_settings_reach_the_cluster_that_is_there() -> None:
    scene = GatewayScene()
    await scene.running()
    uid = scene.world.must(CNPG_CLUSTER, HOME, "gw-palena-pg").metadata.uid
    managed = {
        "instances": 3,
        "storage": {"size": "20Gi"},
        "imageName": "example.com/postgresql:18",
        "parameters": {"max_connections": "200"},
        "resources": {"limits": {"memory": "1Gi"}},
    }
    scene.change(database={"managed": managed})
    await scene.settle()
    cluster = scene.world.must(CNPG_CLUSTER, HOME, "gw-palena-pg")
    assert cluster.metadata.uid == uid
    assert cluster.spec["instances"] == 3
    assert cluster.spec["storage"] == {"size": "20Gi"}
    assert cluster.spec["imageName"] == "example.com/postgresql:18"
    assert cluster.spec["postgresql"] == {"parameters": {"max_connections": "200"}}
    assert cluster.spec["resources"] == {"limits": {"memory": "1Gi"}}


@pytest.mark.req("PA-105")
async def test_a_healthy_cluster_says_so() -> None:
    scene = GatewayScene()
    await scene.running()
    assert scene.condition("DatabaseReady") == ("True", "ClusterReady")
    assert scene.message("DatabaseReady") == "CloudNativePG cluster is ready"


async def test_a_cluster_that_nobody_took_up_yet_is_being_created() -> None:
    scene = GatewayScene()
    plan = await scene.settle()
    assert scene.condition("DatabaseReady") == ("False", "ClusterCreating")
    assert (scene.phase, plan.outcome) == ("Provisioning", Outcome.NOT_READY)


@pytest.mark.req("PA-042")
@pytest.mark.parametrize(
    "phase",
    [
        "Setting up primary",
        "Creating a new replica",
        "Failing over",
        "Upgrading cluster",
        "Waiting for user action",
        "Cluster in healthy state soon",
        "A phase of a later version",
    ],
)
async def test_a_cluster_on_its_way_is_not_ready_and_a_gateway_that_ran_is_degraded(phase: str) -> None:
    fresh, old = GatewayScene(), GatewayScene()
    await fresh.settle()
    await old.running()
    for scene, expected in ((fresh, "Provisioning"), (old, "Degraded")):
        scene.operators.database(phase)
        plan = await scene.settle()
        assert scene.condition("DatabaseReady") == ("False", "ClusterNotReady")
        assert phase in scene.message("DatabaseReady")
        assert (scene.phase, plan.outcome) == (expected, Outcome.NOT_READY)


@pytest.mark.req("PA-043")
@pytest.mark.parametrize("phase", sorted(TERMINAL))
async def test_a_phase_that_cloudnativepg_does_not_leave_is_an_error(phase: str) -> None:
    scene = GatewayScene()
    await scene.running()
    scene.operators.database(phase)
    plan = await scene.settle()
    assert scene.condition("DatabaseReady") == ("False", "ClusterFailed")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert phase in scene.message("DatabaseReady")


async def test_a_healthy_cluster_whose_secret_is_not_there_is_waited_for() -> None:
    scene = GatewayScene()
    await scene.settle()
    scene.operators.database(secret_there=False)
    plan = await scene.settle()
    assert scene.condition("DatabaseReady") == ("False", "ConnectionSecretMissing")
    assert (scene.phase, plan.outcome) == ("Provisioning", Outcome.NOT_READY)
    scene.world.put(SECRET, secret("gw-palena-pg-app", {"username": "litellm"}))
    await scene.settle()
    assert scene.condition("DatabaseReady") == ("False", "ConnectionSecretMissing")
    scene.operators.database()
    await scene.settle()
    assert scene.condition("DatabaseReady") == ("True", "ClusterReady")


@pytest.mark.req("PA-027")
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (None, "SecretNotFound"),
        ({}, "SecretKeyMissing"),
        ({"OTHER": URL}, "SecretKeyMissing"),
        ({"DATABASE_URL": ""}, "SecretInvalid"),
        ({"DATABASE_URL": "mysql://user:swordfish@db.example.com/litellm"}, "SecretInvalid"),
        ({"DATABASE_URL": f"{URL}\n"}, "SecretInvalid"),
    ],
)
async def test_an_external_database_needs_a_secret_with_a_usable_url(
    values: dict[str, str] | None, reason: str
) -> None:
    scene = GatewayScene(database=EXTERNAL)
    if values is not None:
        scene.world.put(SECRET, secret("db", values))
    plan = await scene.settle()
    found, told = scene.condition("DatabaseReady")
    assert found == "False"
    assert told == reason
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert "swordfish" not in str(plan.status)
    assert not scene.world.names(STATEFUL_SET), "the next step begins after this one succeeded"
    assert scene.condition("RedisReady") == ("Unknown", "NotReached")


@pytest.mark.req("PA-028", "PA-035")
@pytest.mark.parametrize("url", [URL, URL.replace("postgresql", "postgres")])
async def test_an_external_database_has_no_cluster_and_needs_none(url: str) -> None:
    scene = GatewayScene(database=EXTERNAL)
    scene.world.definitions.missing.add(CNPG_CLUSTER)
    scene.world.put(SECRET, secret("db", {"DATABASE_URL": url}))
    await scene.running()
    assert scene.phase == "Running"
    assert scene.condition("DatabaseReady") == ("True", "ExternalSecretValid")
    assert not scene.world.names(CNPG_CLUSTER)
    instance = scene.world.must(LITELLM_INSTANCE, HOME, "gw-palena-litellm")
    assert instance.spec["database"]["external"] == {
        "connectionSecretRef": {"name": "db", "key": "DATABASE_URL"}
    }
    assert "cloudnativepg" not in instance.spec["database"]


async def test_the_key_of_an_external_database_can_be_called_otherwise() -> None:
    external = {"secretRef": {"name": "db", "urlKey": "uri"}}
    scene = GatewayScene(database={"mode": "external", "external": external})
    scene.world.put(SECRET, secret("db", {"uri": URL}))
    await scene.settle()
    assert scene.condition("DatabaseReady") == ("True", "ExternalSecretValid")


@pytest.mark.parametrize(
    ("storage", "size", "word"),
    [
        ({"size": "20Gi"}, "20Gi", ""),
        ({"size": "5Gi"}, "10Gi", "cannot shrink"),
        ({"size": "10Gi", "storageClassName": "other"}, "10Gi", "class"),
        ({"size": "10240Mi"}, "10240Mi", ""),
    ],
)
async def test_a_volume_only_grows_and_what_is_ignored_is_told(
    storage: dict[str, str], size: str, word: str
) -> None:
    scene = GatewayScene(database={"managed": {"storage": {"size": "10Gi"}}})
    await scene.running()
    scene.change(database={"managed": {"storage": storage}})
    plan = await scene.settle()
    assert scene.world.must(CNPG_CLUSTER, HOME, "gw-palena-pg").spec["storage"] == {"size": size}
    told = [each for each in plan.notices if each.reason == "ImmutableFieldIgnored"]
    assert bool(told) == bool(word)
    assert all(word in each.message for each in told)
    assert scene.phase == "Running"


async def test_somebody_elses_cluster_is_neither_taken_nor_changed() -> None:
    scene = GatewayScene()
    foreign = {"metadata": {"name": "gw-palena-pg", "namespace": HOME}, "spec": {"instances": 5}}
    scene.world.put(CNPG_CLUSTER, {**foreign, "status": {"phase": HEALTHY}})
    plan = await scene.settle()
    assert scene.condition("DatabaseReady") == ("False", "NameConflict")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert scene.world.must(CNPG_CLUSTER, HOME, "gw-palena-pg").spec == {"instances": 5}


async def test_a_field_that_this_cloudnativepg_lacks_is_not_sent_and_told() -> None:
    scene = GatewayScene(database={"managed": {"parameters": {"max_connections": "9"}}})
    definition = palena_crds.definition(palena_crds.CLUSTERS)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["postgresql"]
    scene.world.serve(definition)
    plan = await scene.settle()
    assert "postgresql" not in scene.world.must(CNPG_CLUSTER, HOME, "gw-palena-pg").spec
    assert [each.reason for each in plan.notices] == ["UnknownFieldIgnored"]
    assert "spec.postgresql" in plan.notices[0].message
