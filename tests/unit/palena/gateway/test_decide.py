"""The whole of a decision about a gateway: order, phases, requeues, what is not reached, what is paused."""

import base64
from typing import Any

import pytest

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE, PALENA_GATEWAY, PALENA_MODEL
from magicstick.api.palena.gateway import NAME_LIMIT
from magicstick.kube.errors import ApiError, Forbidden, Invalid, NameConflict, Unavailable
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.palena.common.kinds import NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.labels import PAUSED
from magicstick.palena.common.phases import FAILING, REQUEUE_S, Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.gateway import names
from magicstick.runtime.conditions import check_conditions
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer, Plan
from tests.support.palena_gateway_scene import GatewayScene
from tests.support.palena_objects import GATEWAY, HOME, gateway, model, secret
from tests.support.palena_world import body_of

pytestmark = pytest.mark.anyio

TYPES = ["PrerequisitesMet", "DatabaseReady", "RedisReady", "GatewayReady", "Ready"]
POLICIES = {
    f"gw-palena-{path}"
    for path in (
        "default-deny",
        "litellm-to-postgres",
        "cnpg-internal",
        "litellm-to-redis",
        "ingress-to-litellm",
    )
}


def written(plan: Plan) -> list[Kind]:
    return [each.kind for each in plan.steps]


# --- order ------------------------------------------------------------------------------------------


@pytest.mark.req("PA-010")
async def test_a_gateway_makes_exactly_these_kinds() -> None:
    scene = GatewayScene()
    await scene.running()
    made = {each.kind for each in scene.world.log}
    assert made == {NETWORK_POLICY, CNPG_CLUSTER, SECRET, SERVICE, STATEFUL_SET, LITELLM_INSTANCE}
    assert scene.reconciler.declaration.writes == made | {PERSISTENT_VOLUME_CLAIM}


async def test_walls_stand_before_anything_else_and_the_finalizer_before_them() -> None:
    scene = GatewayScene()
    plan = await scene.plan()
    assert plan.finalizer is Finalizer.ADD
    order = written(plan)
    assert order[:5] == [NETWORK_POLICY] * 5
    assert order[5:] == [CNPG_CLUSTER, SECRET, SERVICE, SERVICE, SECRET]


@pytest.mark.req("PA-015")
async def test_a_step_begins_only_after_the_one_before_it_succeeded() -> None:
    database: dict[str, Any] = {"mode": "external", "external": {"secretRef": {"name": "db"}}}
    cache: dict[str, Any] = {"mode": "external", "external": {"secretRef": {"name": "cache"}}}
    scene = GatewayScene(database=database, redis=cache)
    await scene.settle()
    states = [scene.condition(each)[1] for each in TYPES[1:4]]
    assert states == ["SecretNotFound", "NotReached", "NotReached"]
    scene.world.put(SECRET, secret("db", {"DATABASE_URL": "postgres://db.example.com/x"}))
    await scene.settle()
    states = [scene.condition(each)[1] for each in TYPES[1:4]]
    assert states == ["ExternalSecretValid", "SecretNotFound", "NotReached"]
    assert {each.kind for each in scene.world.log} == {NETWORK_POLICY}
    scene.world.put(SECRET, secret("cache", {"REDIS_URL": "redis://cache.example.com"}))
    await scene.settle()
    assert scene.world.names(LITELLM_INSTANCE) == {"gw-palena-litellm"}


async def test_what_is_not_reached_keeps_what_was_known_of_it() -> None:
    scene = GatewayScene()
    await scene.running()
    scene.operators.database("Invalid cluster definition")
    await scene.settle()
    assert scene.condition("RedisReady") == ("True", "StatefulSetReady")
    assert scene.condition("GatewayReady") == ("True", "InstanceReady")
    assert scene.condition("Ready") == ("False", "ClusterFailed")
    assert scene.phase == "Error"


async def test_consumers_keep_hearing_of_litellm_whatever_step_fails() -> None:
    database: dict[str, Any] = {"mode": "external", "external": {"secretRef": {"name": "db"}}}
    scene = GatewayScene(database=database)
    scene.world.put(SECRET, secret("db", {"DATABASE_URL": "postgres://db.example.com/x"}))
    await scene.running()
    before = scene.gateway.status
    scene.world.remove(SECRET, HOME, "db")
    await scene.settle()
    assert scene.phase == "Error"
    for name in ("endpoint", "litellmInstanceRef", "masterKeySecretRef", "gateway", "redis"):
        assert scene.gateway.status[name] == before[name]
    scene.world.remove(LITELLM_INSTANCE, HOME, "gw-palena-litellm")
    await scene.settle()
    assert "litellmInstanceRef" not in scene.gateway.status


# --- what is told -----------------------------------------------------------------------------------


@pytest.mark.req("PA-106")
async def test_all_conditions_are_told_from_the_beginning_in_their_order() -> None:
    scene = GatewayScene()
    for _ in range(2):
        await scene.settle()
        told = [each["type"] for each in scene.gateway.status["conditions"]]
        assert [each for each in told if each in TYPES] == TYPES
        assert not check_conditions(body_of(scene.gateway))
        await scene.running()
    assert all(scene.condition(each)[0] == "True" for each in TYPES)
    assert not check_conditions(body_of(scene.gateway))


@pytest.mark.req("PA-041", "PA-042", "PA-045", "PA-046")
async def test_a_gateway_comes_up_step_by_step() -> None:
    scene = GatewayScene()
    plan = await scene.settle()
    assert (scene.phase, REQUEUE_S[plan.outcome]) == ("Provisioning", 15.0)
    scene.operators.database()
    scene.operators.redis()
    plan = await scene.settle()
    assert (scene.phase, REQUEUE_S[plan.outcome]) == ("Provisioning", 15.0)
    assert "readySince" not in scene.gateway.status
    scene.operators.litellm()
    plan = await scene.settle()
    assert (scene.phase, REQUEUE_S[plan.outcome]) == ("Running", 60.0)
    assert scene.gateway.status["database"] == {
        "mode": "managed",
        "clusterName": "gw-palena-pg",
        "phase": "Cluster in healthy state",
        "instances": 1,
        "readyInstances": 1,
        "secretName": "gw-palena-pg-app",
    }
    assert scene.gateway.status["redis"] == {
        "mode": "managed",
        "host": f"gw-palena-redis.{HOME}.svc",
        "port": 6379,
        "secretName": "gw-palena-redis",
        "ready": True,
    }


@pytest.mark.req("PA-044")
async def test_an_error_is_tried_again_after_ten_seconds_that_double() -> None:
    scene = GatewayScene(litellm={"overrides": {"service": {}}})
    plan = await scene.settle()
    declaration = scene.reconciler.declaration
    assert plan.outcome in declaration.failing
    assert declaration.failing == FAILING
    assert declaration.requeue_s[plan.outcome] == declaration.backoff_s == 10.0


async def test_a_settled_gateway_has_nothing_to_write_and_keeps_its_status() -> None:
    scene = GatewayScene()
    await scene.running()
    before, done = scene.gateway.status, len(scene.world.log)
    plan = await scene.settle()
    assert plan.outcome == Outcome.HEALTHY
    assert len(scene.world.log) == done
    assert scene.gateway.status == before


async def test_models_are_counted_by_what_they_name() -> None:
    scene = GatewayScene()
    scene.world.put(PALENA_MODEL, model("a", GATEWAY, "other"))
    scene.world.put(PALENA_MODEL, model("b", {"name": GATEWAY, "namespace": HOME}, namespace="elsewhere"))
    scene.world.put(PALENA_MODEL, model("c", GATEWAY, namespace="elsewhere"))
    scene.world.put(PALENA_MODEL, {**model("d"), "spec": {"gatewayRefs": "broken"}})
    await scene.settle()
    assert scene.gateway.status["modelCount"] == 2
    scene.world.remove(PALENA_MODEL, HOME, "a")
    await scene.settle()
    assert scene.gateway.status["modelCount"] == 1


# --- prerequisites ----------------------------------------------------------------------------------


@pytest.mark.req("PA-019", "PA-020", "PA-021", "PA-022", "PA-023", "PA-047")
@pytest.mark.parametrize("missing", [(CNPG_CLUSTER,), (LITELLM_INSTANCE,), (CNPG_CLUSTER, LITELLM_INSTANCE)])
async def test_while_a_foreign_kind_is_missing_nothing_is_made(missing: tuple[Kind, ...]) -> None:
    scene = GatewayScene()
    scene.world.definitions.missing.update(missing)
    for _ in range(3):
        plan = await scene.settle()
        assert scene.phase == "Error"
        assert scene.condition("PrerequisitesMet") == ("False", "CRDMissing")
        for kind in missing:
            assert kind.kind in scene.message("PrerequisitesMet")
        assert REQUEUE_S[plan.outcome] == 30.0
        assert plan.outcome not in FAILING, "the wait does not grow"
        assert not scene.world.log
    scene.world.definitions.missing.clear()
    await scene.settle()
    assert scene.condition("PrerequisitesMet") == ("True", "AllPresent")
    assert scene.world.names(CNPG_CLUSTER)


async def test_a_kind_that_goes_while_the_gateway_runs_changes_nothing_that_is_there() -> None:
    scene = GatewayScene()
    await scene.running()
    done, endpoint = len(scene.world.log), scene.gateway.status["endpoint"]
    scene.world.absent(CNPG_CLUSTER)
    plan = await scene.settle()
    assert (scene.phase, plan.outcome) == ("Error", Outcome.MISSING)
    assert scene.condition("PrerequisitesMet") == ("False", "CRDMissing")
    assert scene.condition("GatewayReady") == ("True", "InstanceReady")
    assert scene.gateway.status["endpoint"] == endpoint
    assert len(scene.world.log) == done


async def test_definitions_that_cannot_be_read_are_an_error_and_no_absence() -> None:
    scene = GatewayScene()
    await scene.running()
    done = len(scene.world.log)
    scene.world.definitions.unknown = True
    plan = await scene.settle()
    assert scene.condition("PrerequisitesMet") == ("Unknown", "DiscoveryFailed")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert len(scene.world.log) == done


@pytest.mark.parametrize("kind", [SECRET, STATEFUL_SET, NETWORK_POLICY, CNPG_CLUSTER, LITELLM_INSTANCE])
async def test_what_cannot_be_read_stops_everything_and_is_taken_for_nothing(kind: Kind) -> None:
    scene = GatewayScene()
    await scene.running()
    scene.world.unreadable(kind)
    plan = await scene.plan()
    assert not plan.steps
    assert plan.status is not None
    assert plan.status["phase"] == "Error"
    assert kind.plural in plan.status["message"]
    scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    plan = await scene.plan()
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)


# --- NetworkPolicies --------------------------------------------------------------------------------


async def test_policies_come_and_go_with_what_they_are_for() -> None:
    scene = GatewayScene()
    await scene.settle()
    assert scene.world.names(NETWORK_POLICY) == POLICIES
    scene.change(networkPolicy={"enabled": False})
    await scene.settle()
    assert scene.world.names(NETWORK_POLICY) == set()
    external = {"mode": "external", "external": {"secretRef": {"name": "x"}}}
    other = GatewayScene(database=external, redis=external)
    await other.settle()
    assert other.world.names(NETWORK_POLICY) == {"gw-palena-default-deny", "gw-palena-ingress-to-litellm"}


async def test_somebody_elses_policy_is_left_alone_and_told() -> None:
    scene = GatewayScene()
    name = "gw-palena-default-deny"
    scene.world.put(NETWORK_POLICY, {"metadata": {"name": name, "namespace": HOME}, "spec": {"x": 1}})
    await scene.settle()
    assert scene.condition("GatewayReady") == ("False", "NameConflict")
    assert scene.world.must(NETWORK_POLICY, HOME, name).spec == {"x": 1}
    scene.change(networkPolicy={"enabled": False})
    await scene.settle()
    assert scene.world.names(NETWORK_POLICY) == {name}


async def test_a_gateway_with_an_external_database_needs_no_word_of_cloudnativepg() -> None:
    scene = GatewayScene(database={"mode": "external", "external": {"secretRef": {"name": "db"}}})
    scene.world.put(SECRET, secret("db", {"DATABASE_URL": "postgres://db.example.com/x"}))
    scene.world.unreadable(CNPG_CLUSTER)
    await scene.running()
    assert scene.phase == "Running"


# --- the rest ---------------------------------------------------------------------------------------


async def test_a_spec_that_cannot_be_read_names_the_field_and_changes_nothing() -> None:
    scene = GatewayScene()
    await scene.running()
    done = len(scene.world.log)
    scene.change(database={"managed": {"instances": 0}})
    plan = await scene.settle()
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert scene.condition("Ready") == ("False", "InvalidSpec")
    assert "spec.database.managed.instances" in scene.message("Ready")
    assert len(scene.world.log) == done


async def test_paused_writes_nothing_but_the_status_and_does_not_stop_the_end() -> None:
    scene = GatewayScene()
    scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, metadata={"annotations": {PAUSED: "true"}})
    plan = await scene.settle()
    assert not scene.world.log
    assert plan.status is not None
    assert "paused" in plan.status["message"]
    scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, metadata={"annotations": {}})
    await scene.running()
    scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, metadata={"annotations": {PAUSED: "true"}})
    scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    plan = await scene.plan()
    assert [type(each) for each in plan.steps] == [Delete]


@pytest.mark.parametrize(
    ("kind", "name", "type_"),
    [
        (CNPG_CLUSTER, "gw-palena-pg", "DatabaseReady"),
        (STATEFUL_SET, "gw-palena-redis", "RedisReady"),
        (SERVICE, "gw-palena-redis", "RedisReady"),
        (SECRET, "gw-palena-redis", "RedisReady"),
        (SECRET, "gw-palena-litellm-keys", "GatewayReady"),
        (LITELLM_INSTANCE, "gw-palena-litellm", "GatewayReady"),
        (NETWORK_POLICY, "gw-palena-default-deny", "GatewayReady"),
    ],
)
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Invalid("spec.instances: Invalid value", code=422), "ApplyRejected"),
        (Forbidden("denied by policy", code=403), "ApplyRejected"),
        (NameConflict("is somebody else's"), "NameConflict"),
        (Unavailable("no answer"), "ApiUnavailable"),
    ],
)
async def test_what_the_server_refuses_is_told_on_the_step_that_it_is_about(
    kind: Kind, name: str, type_: str, error: ApiError, reason: str
) -> None:
    scene = GatewayScene()
    await scene.running()
    observation = await scene.reconciler.observe(ObjectKey(HOME, GATEWAY))
    assert observation is not None
    error.about = (kind, ObjectKey(HOME, name))
    plan = scene.reconciler.decide_failure(observation, error, scene.world.now)
    assert plan.status is not None
    told = {each["type"]: each for each in plan.status["conditions"]}
    assert (told[type_]["status"], told[type_]["reason"]) == ("False", reason)
    assert error.message in told[type_]["message"]
    assert plan.status["phase"] == "Error"
    assert plan.status["endpoint"], "what is known of the rest stays"


async def test_nothing_that_is_made_holds_a_secret_but_secrets() -> None:
    scene = GatewayScene()
    await scene.running()
    drawn = [
        content
        for each in scene.world.log
        if isinstance(each, Create) and each.kind == SECRET
        for content in each.body["data"].values()
    ]
    assert len(drawn) == 6
    others = [each for each in scene.world.log if isinstance(each, Apply) and each.kind != SECRET]
    seen = await scene.reconciler.observe(scene.gateway.metadata.key)
    text = f"{others!r} {scene.gateway.status!r} {seen!r}"
    for content in drawn:
        value = base64.b64decode(content).decode()
        if value not in ("6379", f"gw-palena-redis.{HOME}.svc"):
            assert value not in text


@pytest.mark.parametrize("name", ["g" * 31, "1gateway", "-gw", "gw.example"])
async def test_f20_a_name_that_would_break_what_is_made_from_it_is_refused_before_anything_is_made(
    name: str,
) -> None:
    scene = GatewayScene()
    scene.world.put(PALENA_GATEWAY, gateway(name))
    plan = await scene.world.settle(scene.reconciler, HOME, name)
    assert plan.outcome == Outcome.FAILED
    assert plan.status is not None
    told = {each["type"]: each["reason"] for each in plan.status["conditions"]}
    assert told["Ready"] == "InvalidName"
    assert "30" in plan.status["message"]
    assert not scene.world.log


async def test_f20_the_longest_name_leaves_room_for_everything_that_is_made_from_it() -> None:
    longest = "g" * NAME_LIMIT
    scene = GatewayScene()
    scene.world.put(PALENA_GATEWAY, gateway(longest))
    await scene.world.settle(scene.reconciler, HOME, longest)
    made = {each.body["metadata"]["name"] for each in scene.world.log if isinstance(each, Apply | Create)}
    assert made
    assert all(len(each) <= 63 for each in made)
    assert len(names.cluster(longest)) <= 44, "a longer Cluster cannot be restored"
    assert len(f"{names.instance(longest)}-migrate-0123abcd") <= 63
    assert len(names.redis(longest)) <= 52, "a longer StatefulSet breaks the label of its revisions"
