"""What a gateway says of its cache, and what it makes of it."""

from datetime import timedelta

import pytest

from magicstick.api.kinds import LITELLM_INSTANCE, PALENA_GATEWAY
from magicstick.kube.kinds import ObjectKey
from magicstick.palena.common.kinds import PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.labels import SECRET_HASH
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import Patch
from tests.support.palena_gateway_scene import GatewayScene
from tests.support.palena_objects import GATEWAY, HOME, claim, gateway, secret, values

pytestmark = pytest.mark.anyio

REDIS = "gw-palena-redis"
EXTERNAL = {"mode": "external", "external": {"secretRef": {"name": "cache"}}}
URL = "rediss://:swordfish@cache.example.com:6380/0"


def secret_values(scene: GatewayScene) -> dict[str, str]:
    return values(scene.world.must(SECRET, HOME, REDIS))


def pod_hash(scene: GatewayScene) -> str:
    template = scene.world.must(STATEFUL_SET, HOME, REDIS).spec["template"]
    return str(template["metadata"]["annotations"][SECRET_HASH])


@pytest.mark.req("PA-029", "PA-031", "PA-032")
async def test_a_managed_redis_has_a_generated_password_a_stateful_set_and_two_services() -> None:
    scene = GatewayScene()
    await scene.settle()
    found = secret_values(scene)
    assert len(found["password"]) == 32
    assert found["host"] == f"{REDIS}.{HOME}.svc"
    assert found["port"] == "6379"
    assert found["url"] == f"redis://:{found['password']}@{REDIS}.{HOME}.svc:6379/0"
    workload = scene.world.must(STATEFUL_SET, HOME, REDIS)
    assert workload.spec["serviceName"] == f"{REDIS}-headless"
    assert scene.world.must(SERVICE, HOME, f"{REDIS}-headless").spec["clusterIP"] == "None"
    assert "clusterIP" not in scene.world.must(SERVICE, HOME, REDIS).spec
    selector = workload.spec["selector"]["matchLabels"]
    assert selector.items() <= workload.spec["template"]["metadata"]["labels"].items()
    for service in (REDIS, f"{REDIS}-headless"):
        assert scene.world.must(SERVICE, HOME, service).spec["selector"] == selector


@pytest.mark.req("PA-030")
async def test_passes_never_draw_another_password() -> None:
    scene = GatewayScene()
    await scene.running()
    before = secret_values(scene)
    for _ in range(3):
        await scene.settle()
    scene.change(redis={"managed": {"image": "example.com/redis:7"}})
    await scene.settle()
    assert secret_values(scene) == before


@pytest.mark.req("PA-030")
async def test_an_older_secret_gets_what_it_lacks_and_keeps_its_password() -> None:
    scene = GatewayScene()
    old = secret(REDIS, {"password": "kept0" * 6})
    old["metadata"]["labels"] = {
        "app.kubernetes.io/managed-by": "palena-operator",
        "palena.ai/owner-uid": scene.gateway.metadata.uid,
    }
    scene.world.put(SECRET, old)
    await scene.settle()
    found = secret_values(scene)
    assert found["password"] == "kept0" * 6
    assert found["url"] == f"redis://:{'kept0' * 6}@{REDIS}.{HOME}.svc:6379/0"
    assert {"host", "port"} <= found.keys()


@pytest.mark.req("PA-042")
async def test_redis_without_a_ready_pod_is_waited_for_and_degrades_a_gateway_that_ran() -> None:
    scene = GatewayScene()
    await scene.settle()
    scene.operators.database()
    await scene.settle()
    assert (scene.phase, scene.condition("RedisReady")) == ("Provisioning", ("False", "StatefulSetNotReady"))
    await scene.running()
    assert scene.condition("RedisReady") == ("True", "StatefulSetReady")
    scene.operators.redis(ready=False)
    plan = await scene.settle()
    assert (scene.phase, scene.condition("RedisReady")) == ("Degraded", ("False", "StatefulSetNotReady"))
    assert plan.outcome == Outcome.NOT_READY


async def test_a_stateful_set_whose_controller_is_behind_is_not_ready() -> None:
    scene = GatewayScene()
    await scene.running()
    status = {"observedGeneration": 0, "readyReplicas": 1}
    scene.world.change(STATEFUL_SET, HOME, REDIS, status=status)
    await scene.settle()
    assert scene.condition("RedisReady") == ("False", "StatefulSetNotReady")


@pytest.mark.req("PA-033", "PA-036")
@pytest.mark.parametrize("url", [URL, "redis://cache.example.com:6379"])
async def test_an_external_redis_has_no_objects_of_ours(url: str) -> None:
    scene = GatewayScene(redis=EXTERNAL)
    scene.world.put(SECRET, secret("cache", {"REDIS_URL": url}))
    await scene.running()
    assert scene.phase == "Running"
    assert scene.condition("RedisReady") == ("True", "ExternalSecretValid")
    assert not scene.world.names(STATEFUL_SET) | scene.world.names(SERVICE)
    assert REDIS not in scene.world.names(SECRET)
    instance = scene.world.must(LITELLM_INSTANCE, HOME, "gw-palena-litellm")
    reference = {"name": "cache", "key": "REDIS_URL"}
    assert instance.spec["redis"] == {"enabled": True, "connectionSecretRef": reference}


@pytest.mark.req("PA-033")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "SecretNotFound"),
        ({"OTHER": URL}, "SecretKeyMissing"),
        ({"REDIS_URL": "http://:swordfish@cache.example.com"}, "SecretInvalid"),
        ({"REDIS_URL": f"{URL}\n"}, "SecretInvalid"),
    ],
)
async def test_an_external_redis_needs_a_secret_with_a_usable_url(
    content: dict[str, str] | None, reason: str
) -> None:
    scene = GatewayScene(redis=EXTERNAL)
    if content is not None:
        scene.world.put(SECRET, secret("cache", content))
    plan = await scene.settle()
    assert scene.condition("RedisReady") == ("False", reason)
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert scene.condition("GatewayReady") == ("Unknown", "NotReached")
    assert "swordfish" not in str(plan.status)


async def test_f19_a_secret_that_is_gone_while_its_volume_lives_is_not_made_anew_until_it_is_put_back() -> (
    None
):
    scene = GatewayScene()
    await scene.running()
    kept, workload = secret_values(scene), scene.world.must(STATEFUL_SET, HOME, REDIS)
    scene.world.remove(SECRET, HOME, REDIS)
    plan = await scene.settle()
    assert (scene.phase, scene.condition("RedisReady")) == ("Degraded", ("False", "SecretLost"))
    assert plan.outcome == Outcome.NOT_READY
    assert "PersistentVolumeClaim data-gw-palena-redis-0" in scene.message("RedisReady")
    assert REDIS in scene.message("RedisReady")
    assert REDIS not in scene.world.names(SECRET)
    assert scene.world.must(STATEFUL_SET, HOME, REDIS).spec == workload.spec, "what runs is left alone"
    assert scene.world.names(LITELLM_INSTANCE) == {"gw-palena-litellm"}

    restored = secret(REDIS, kept)
    restored["metadata"]["labels"] = workload.metadata.labels
    scene.world.put(SECRET, restored)
    await scene.settle()
    assert (scene.phase, secret_values(scene)) == ("Running", kept)
    assert scene.world.must(STATEFUL_SET, HOME, REDIS).spec == workload.spec


async def test_f19_without_the_volume_a_lost_secret_is_made_anew() -> None:
    scene = GatewayScene()
    await scene.running()
    old = secret_values(scene)["password"]
    scene.world.remove(SECRET, HOME, REDIS)
    await scene.settle()
    scene.world.remove(PERSISTENT_VOLUME_CLAIM, HOME, f"data-{REDIS}-0")
    await scene.settle()
    assert secret_values(scene)["password"] != old
    assert scene.condition("RedisReady")[1] != "SecretLost"


async def test_f19_a_secret_that_lost_its_password_is_not_filled_up_while_the_volume_lives() -> None:
    scene = GatewayScene()
    await scene.running()
    live = scene.world.must(SECRET, HOME, REDIS)
    left = {key: value for key, value in live.data.items() if key != "password"}
    scene.world.change(SECRET, HOME, REDIS, data=left)
    await scene.settle()
    assert scene.condition("RedisReady") == ("False", "SecretLost")
    assert "password" not in secret_values(scene)


async def test_f19_a_password_that_a_person_changed_is_kept_and_restarts_redis_and_litellm() -> None:
    scene = GatewayScene()
    await scene.running()
    before, litellm = pod_hash(scene), scene.world.must(LITELLM_INSTANCE, HOME, "gw-palena-litellm").spec
    changed = secret(REDIS, {**secret_values(scene), "password": "an@ther"})
    scene.world.change(SECRET, HOME, REDIS, data=changed["data"])
    plan = await scene.settle()
    assert pod_hash(scene) != before
    found = secret_values(scene)
    assert found["password"] == "an@ther"
    assert found["url"] == f"redis://:an%40ther@{REDIS}.{HOME}.svc:6379/0"
    assert scene.world.must(LITELLM_INSTANCE, HOME, "gw-palena-litellm").spec != litellm
    assert "an@ther" not in str(plan.status) + repr(plan)


@pytest.mark.parametrize("password", ["with blank", 'with"quote', "with\\backslash", "with\nnewline", ""])
async def test_a_password_that_redis_could_not_be_started_with_is_refused(password: str) -> None:
    scene = GatewayScene()
    await scene.running()
    changed = secret(REDIS, {**secret_values(scene), "password": password})
    before = pod_hash(scene)
    scene.world.change(SECRET, HOME, REDIS, data=changed["data"])
    await scene.settle()
    assert scene.condition("RedisReady") == ("False", "SecretInvalid" if password else "SecretLost")
    assert pod_hash(scene) == before
    assert not password or password not in scene.message("RedisReady")


@pytest.mark.parametrize(
    "name_and_kind",
    [(REDIS, SECRET), (REDIS, SERVICE), (f"{REDIS}-headless", SERVICE), (REDIS, STATEFUL_SET)],
)
async def test_somebody_elses_object_of_a_wanted_name_is_left_alone(
    name_and_kind: tuple[str, object],
) -> None:
    name, kind = name_and_kind
    scene = GatewayScene()
    body = {"metadata": {"name": name, "namespace": HOME}, "spec": {"theirs": True}}
    scene.world.put(kind, body)  # type: ignore[arg-type] # a kind, as parametrised
    plan = await scene.settle()
    assert scene.condition("RedisReady") == ("False", "NameConflict")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert scene.world.must(kind, HOME, name).spec == {"theirs": True}  # type: ignore[arg-type] # as above


async def test_the_volume_grows_where_its_class_allows_it_and_the_template_stays() -> None:
    scene = GatewayScene()
    await scene.running()
    scene.world.storage_class("fast", grows=True)
    template = scene.world.must(STATEFUL_SET, HOME, REDIS).spec["volumeClaimTemplates"]
    scene.change(redis={"managed": {"storage": {"size": "4Gi"}}})
    plan = await scene.settle()
    grown = scene.world.must(PERSISTENT_VOLUME_CLAIM, HOME, f"data-{REDIS}-0")
    assert grown.spec["resources"]["requests"]["storage"] == "4Gi"
    assert grown.spec["storageClassName"] == "fast"
    assert scene.world.must(STATEFUL_SET, HOME, REDIS).spec["volumeClaimTemplates"] == template
    assert not plan.notices


@pytest.mark.parametrize(
    ("storage", "word"),
    [
        ({"size": "4Gi"}, "cannot grow"),
        ({"size": "512Mi"}, "cannot shrink"),
        ({"size": "1Gi", "storageClassName": "slow"}, "class"),
    ],
)
async def test_what_a_volume_cannot_do_is_ignored_and_told(storage: dict[str, str], word: str) -> None:
    scene = GatewayScene()
    await scene.running()
    scene.world.storage_class("fast", grows=False)
    scene.change(redis={"managed": {"storage": storage}})
    plan = await scene.settle()
    claimed = scene.world.must(PERSISTENT_VOLUME_CLAIM, HOME, f"data-{REDIS}-0").spec
    assert claimed == {**claim()["spec"]}
    assert [each.reason for each in plan.notices] == ["ImmutableFieldIgnored"]
    assert word in plan.notices[0].message
    assert scene.phase == "Running"
    assert not [each for each in scene.world.log if isinstance(each, Patch)]


@pytest.mark.parametrize(("policy", "expected"), [("Delete", "Delete"), ("Retain", "Retain")])
async def test_the_volume_follows_the_deletion_policy(policy: str, expected: str) -> None:
    scene = GatewayScene(deletionPolicy=policy)
    await scene.settle()
    retention = scene.world.must(STATEFUL_SET, HOME, REDIS).spec["persistentVolumeClaimRetentionPolicy"]
    assert retention == {"whenDeleted": expected, "whenScaled": "Retain"}


async def test_a_successor_waits_until_the_volume_of_its_namesake_is_gone() -> None:
    """Its data was written with a password that went with it, and goes itself a moment later."""
    scene = GatewayScene()
    going = claim()
    going["metadata"]["deletionTimestamp"] = (scene.world.now - timedelta(seconds=1)).isoformat()
    scene.world.put(PERSISTENT_VOLUME_CLAIM, going)
    await scene.settle()
    scene.operators.database()
    await scene.settle()
    assert (scene.phase, scene.condition("RedisReady")) == ("Degraded", ("False", "SecretLost"))
    scene.world.remove(PERSISTENT_VOLUME_CLAIM, HOME, f"data-{REDIS}-0")
    await scene.settle()
    assert scene.condition("RedisReady") == ("False", "StatefulSetNotReady")


async def test_the_volume_wakes_its_gateway_by_label() -> None:
    scene = GatewayScene()
    edges = [each for each in scene.reconciler.declaration.edges if each.kind == PERSISTENT_VOLUME_CLAIM]
    found = scene.world.put(PERSISTENT_VOLUME_CLAIM, claim())
    assert [list(each.wakes(None, found)) for each in edges] == [[ObjectKey(HOME, GATEWAY)]]
    assert scene.world.names(PALENA_GATEWAY) == {gateway()["metadata"]["name"]}
