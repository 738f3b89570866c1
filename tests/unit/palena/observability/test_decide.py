"""What is decided about an observability (spec: palena §7, §11, §13)."""

import copy
import dataclasses
from typing import Any

import pytest

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    CNPG_DATABASE_ROLE,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    PALENA_GATEWAY,
    PALENA_OBSERVABILITY,
)
from magicstick.kube.errors import Invalid
from magicstick.kube.kinds import ObjectKey
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.observability.callbacks import Shape
from magicstick.runtime.plan import ApplyPart
from tests.support import palena_crds
from tests.support.palena_consumers import ObservabilityScene, observability
from tests.support.palena_objects import GATEWAY, HOME, secret, values

pytestmark = pytest.mark.anyio

NAME = "obs-langfuse"
KEYS = "obs-langfuse-apikeys"
CLUSTER = f"{GATEWAY}-palena-pg"
INSTANCE = f"{GATEWAY}-palena-litellm"
THREE = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_HOST")
OWN_ENV = {"name": "OTEL_ENDPOINT", "value": "http://collector.example.com"}


def variables(secret_name: str = KEYS) -> list[Any]:
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name, "key": name}}} for name in THREE
    ]


LISTS = {"types": ["langfuse"], "envVars": variables()}


def without_roles(scene: ObservabilityScene) -> None:
    """The Cluster's own list is the only place for roles."""
    scene.world.absent(CNPG_DATABASE_ROLE)


def roles(scene: ObservabilityScene) -> Any:
    return scene.must(CNPG_CLUSTER, CLUSTER, HOME).spec.get("managed", {}).get("roles")


def langfuse(scene: ObservabilityScene) -> Any:
    return scene.must(LANGFUSE_INSTANCE, NAME).spec


def rival(scene: ObservabilityScene, name: str, *, made: str, namespace: str = HOME, **spec: Any) -> None:
    body = observability(name, namespace=namespace, **spec)
    body["metadata"]["creationTimestamp"] = made
    scene.world.put(PALENA_OBSERVABILITY, body)


# --- the whole way -----------------------------------------------------------------------------------


@pytest.mark.req("PA-013", "PA-081", "PA-082", "PA-109")
async def test_an_observability_goes_to_running_with_one_langfuse_and_the_callback_of_its_gateway() -> None:
    scene = ObservabilityScene()
    plan = await scene.running()

    assert scene.world.names(LANGFUSE_INSTANCE) == {NAME}
    assert scene.callbacks == LISTS
    assert (scene.phase, plan.outcome) == ("Running", Outcome.HEALTHY)
    assert [each["type"] for each in scene.status["conditions"]] == [
        "PrerequisitesMet",
        "GatewayReady",
        "LangfuseReady",
        "CallbackConfigured",
        "Ready",
    ]
    assert scene.condition("Ready") == ("True", "AllComponentsReady")
    assert scene.status["langfuseInstanceRef"] == {"name": NAME}
    assert scene.status["apiKeysSecretName"] == KEYS
    assert scene.status["callback"] == {
        "shape": "types",
        "configured": True,
        "litellmInstanceRef": {"name": INSTANCE},
    }
    assert scene.status["database"] == {
        "name": "langfuse",
        "clusterName": CLUSTER,
        "applied": True,
        "message": "",
    }
    assert scene.status["internalUrl"] == f"http://{NAME}-web.{HOME}.svc.cluster.local:3000"


@pytest.mark.parametrize("kind", [LANGFUSE_INSTANCE, LITELLM_INSTANCE, CNPG_DATABASE, CNPG_CLUSTER])
async def test_a_missing_prerequisite_is_named_and_nothing_is_touched(kind: Any) -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    scene.world.absent(kind)
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Error", Outcome.MISSING)
    assert scene.condition("PrerequisitesMet") == ("False", "CRDMissing")
    assert kind.kind in scene.message("PrerequisitesMet")
    assert scene.written() == []


async def test_an_external_database_needs_no_cloud_native_pg() -> None:
    scene = ObservabilityScene(database={"mode": "external", "external": {"secretRef": {"name": "pg"}}})
    scene.world.put(SECRET, secret("pg", {"DATABASE_URL": "postgresql://u:p@db.example.com/langfuse"}))
    scene.world.absent(CNPG_DATABASE)
    await scene.running()

    assert scene.phase == "Running"
    assert langfuse(scene)["database"]["external"] == {
        "secretRef": {"name": "pg", "keys": {"url": "DATABASE_URL"}}
    }


@pytest.mark.parametrize(
    ("value", "reason"), [(None, "SecretNotFound"), ("", "SecretInvalid"), ("mysql://x", "SecretInvalid")]
)
async def test_an_external_database_is_checked(value: str | None, reason: str) -> None:
    scene = ObservabilityScene(database={"mode": "external", "external": {"secretRef": {"name": "pg"}}})
    if value is not None:
        scene.world.put(SECRET, secret("pg", {"DATABASE_URL": value}))
    scene.surroundings()
    await scene.settle()

    assert scene.condition("LangfuseReady") == ("False", reason)
    assert scene.phase == "Error"
    assert scene.world.names(LANGFUSE_INSTANCE) == set()


# --- the gateway -------------------------------------------------------------------------------------


async def test_without_its_gateway_an_observability_is_pending_and_makes_nothing() -> None:
    scene = ObservabilityScene()
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Pending", Outcome.MISSING)
    assert scene.condition("GatewayReady") == ("False", "GatewayNotFound")
    assert scene.condition("CallbackConfigured") == ("Unknown", "NotReached")
    assert scene.written() == []


async def test_a_gateway_that_is_not_ready_is_waited_for_at_first_and_no_more_later() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    scene.gateway(ready="False", allowedConsumers={"from": "All"})
    await scene.settle()
    assert scene.world.names(CNPG_DATABASE) == set()
    assert scene.condition("GatewayReady") == ("False", "GatewayNotReady")

    await scene.running()
    before = langfuse(scene)
    scene.gateway(ready="False", allowedConsumers={"from": "All"})
    scene.written()
    await scene.settle()
    assert scene.phase == "Degraded"
    assert scene.written() == []
    assert langfuse(scene) == before
    assert scene.callbacks == LISTS


async def test_a_gateway_that_does_not_permit_it_is_an_error() -> None:
    scene = ObservabilityScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    scene.surroundings(allowedConsumers={"from": "Same"})
    await scene.settle()

    assert scene.condition("GatewayReady") == ("False", "RefNotPermitted")
    assert scene.phase == "Error"
    assert scene.written() == []


# --- the database ------------------------------------------------------------------------------------


@pytest.mark.req("PA-084", "PA-085", "PA-086")
async def test_langfuse_gets_a_database_of_its_own_in_the_gateways_one_cluster() -> None:
    scene = ObservabilityScene()
    await scene.running()

    assert scene.must(CNPG_DATABASE, NAME, HOME).spec == {
        "cluster": {"name": CLUSTER},
        "name": "langfuse",
        "owner": "langfuse",
        "ensure": "present",
        "databaseReclaimPolicy": "retain",
    }
    assert scene.world.names(CNPG_CLUSTER) == {CLUSTER}
    password = values(scene.must(SECRET, f"{NAME}-pg", HOME))["password"]
    assert values(scene.must(SECRET, f"{NAME}-db")) == {
        "database_url": f"postgresql://langfuse:{password}@{CLUSTER}-rw.{HOME}.svc.cluster.local:5432/langfuse"
    }
    assert langfuse(scene)["database"] == {
        "external": {"secretRef": {"name": f"{NAME}-db", "keys": {"url": "database_url"}}},
        "migration": {"runOnDeploy": True},
    }


async def test_the_role_is_an_object_of_its_own_where_there_are_such() -> None:
    scene = ObservabilityScene()
    await scene.running()

    assert scene.must(CNPG_DATABASE_ROLE, NAME, HOME).spec == {
        "cluster": {"name": CLUSTER},
        "name": "langfuse",
        "login": True,
        "passwordSecret": {"name": f"{NAME}-pg"},
        "databaseRoleReclaimPolicy": "retain",
    }
    assert roles(scene) is None
    made = scene.must(SECRET, f"{NAME}-pg", HOME)
    assert made.metadata.labels["cnpg.io/reload"] == "true"
    assert values(made)["username"] == "langfuse"


async def test_the_role_is_an_entry_of_the_cluster_where_there_are_no_such_objects() -> None:
    scene = ObservabilityScene()
    without_roles(scene)
    scene.surroundings()
    theirs = {"name": "reporting", "ensure": "present", "login": True}
    scene.world.change(CNPG_CLUSTER, HOME, CLUSTER, spec={"instances": 1, "managed": {"roles": [theirs]}})
    await scene.settle()

    ours = {"name": "langfuse", "ensure": "present", "login": True, "passwordSecret": {"name": f"{NAME}-pg"}}
    assert roles(scene) == [theirs, ours]
    parts = [step for step in scene.written() if isinstance(step, ApplyPart)]
    assert [step.body["metadata"]["uid"] for step in parts] == [
        scene.must(CNPG_CLUSTER, CLUSTER, HOME).metadata.uid
    ]
    assert [set(step.body["spec"]) for step in parts] == [{"managed"}]


async def test_an_entry_from_before_there_were_role_objects_is_given_back() -> None:
    scene = ObservabilityScene()
    ours = {"name": "langfuse", "ensure": "present", "login": True, "passwordSecret": {"name": f"{NAME}-pg"}}
    theirs = {"name": "reporting", "ensure": "present"}
    scene.surroundings()
    scene.world.change(
        CNPG_CLUSTER, HOME, CLUSTER, spec={"instances": 1, "managed": {"roles": [theirs, ours]}}
    )
    await scene.settle()

    assert roles(scene) == [theirs]


async def test_a_cluster_that_takes_databases_itself_gets_ours_among_them() -> None:
    scene = ObservabilityScene()
    definition = copy.deepcopy(palena_crds.definition(palena_crds.CLUSTERS))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["managed"]["properties"]["databases"] = {
        "type": "array",
        "items": {"type": "object", "properties": {each: {"type": "string"} for each in ("name", "owner")}},
    }
    scene.world.serve(definition)
    scene.surroundings()
    await scene.settle()

    managed = scene.must(CNPG_CLUSTER, CLUSTER, HOME).spec["managed"]
    assert managed["databases"] == [{"name": "langfuse", "owner": "langfuse"}]
    assert scene.world.names(CNPG_DATABASE) == set()
    assert scene.condition("LangfuseReady") == ("False", "DatabasePending")
    told = {"type": "Ready", "status": "True", "reason": "ClusterIsReady", "message": ""}
    scene.world.change(CNPG_CLUSTER, HOME, CLUSTER, status={"conditions": [told]})
    await scene.settle()
    assert scene.world.names(LANGFUSE_INSTANCE) == {NAME}


@pytest.mark.req("PA-087")
async def test_e25_a_role_that_is_not_there_yet_is_waited_for_and_is_no_error() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    await scene.settle()
    assert scene.condition("LangfuseReady") == ("False", "DatabasePending")
    scene.database(
        applied=False, message='while creating database "langfuse": role "langfuse" does not exist'
    )
    plan = await scene.settle()

    assert (scene.phase, plan.outcome) == ("Provisioning", Outcome.NOT_READY)
    assert scene.condition("LangfuseReady") == ("False", "DatabasePending")
    assert scene.world.names(LANGFUSE_INSTANCE) == set()
    assert scene.callbacks is None


async def test_a_database_that_cannot_be_made_is_an_error_with_the_words_of_its_operator() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    await scene.settle()
    scene.database(applied=False, message="invalid locale")
    await scene.settle()
    assert scene.condition("LangfuseReady") == ("False", "DatabaseFailed")
    assert "invalid locale" in scene.message("LangfuseReady")

    scene.world.change(
        CNPG_CLUSTER,
        HOME,
        CLUSTER,
        status={"managedRolesStatus": {"cannotReconcile": {"langfuse": ["not allowed"]}}},
    )
    await scene.settle()
    assert scene.phase == "Error"
    assert "not allowed" in scene.message("LangfuseReady")


async def test_a_report_about_an_earlier_database_does_not_count() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    await scene.settle()
    scene.world.change(CNPG_DATABASE, HOME, NAME, status={"applied": True, "observedGeneration": 0})
    await scene.settle()

    assert scene.condition("LangfuseReady") == ("False", "DatabasePending")
    assert scene.world.names(LANGFUSE_INSTANCE) == set()


async def test_a_gateway_with_an_external_database_has_none_to_share() -> None:
    scene = ObservabilityScene()
    scene.surroundings(database={"mode": "external", "external": {"secretRef": {"name": "pg"}}})
    plan = await scene.settle()

    assert scene.condition("LangfuseReady") == ("False", "DatabaseNotShareable")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)


# --- Langfuse ----------------------------------------------------------------------------------------


async def test_langfuse_is_built_as_specified() -> None:
    scene = ObservabilityScene(langfuse={"url": "https://langfuse.example.com"})
    await scene.running()
    redis = f"{NAME}-redis"

    assert langfuse(scene) == {
        "image": {"tag": "3"},
        "auth": {"nextAuthUrl": "https://langfuse.example.com"},
        "web": {
            "replicas": 1,
            "extraEnv": [
                {"name": "LANGFUSE_INIT_ORG_ID", "value": "palena"},
                {"name": "LANGFUSE_INIT_PROJECT_ID", "value": f"{HOME}-{GATEWAY}"},
                {"name": "LANGFUSE_INIT_ORG_NAME", "value": "Palena"},
                {"name": "LANGFUSE_INIT_PROJECT_NAME", "value": GATEWAY},
                {
                    "name": "LANGFUSE_INIT_PROJECT_PUBLIC_KEY",
                    "valueFrom": {"secretKeyRef": {"name": KEYS, "key": "LANGFUSE_PUBLIC_KEY"}},
                },
                {
                    "name": "LANGFUSE_INIT_PROJECT_SECRET_KEY",
                    "valueFrom": {"secretKeyRef": {"name": KEYS, "key": "LANGFUSE_SECRET_KEY"}},
                },
            ],
        },
        "worker": {"replicas": 1},
        "database": {
            "external": {"secretRef": {"name": f"{NAME}-db", "keys": {"url": "database_url"}}},
            "migration": {"runOnDeploy": True},
        },
        "redis": {
            "external": {
                "secretRef": {
                    "name": redis,
                    "keys": {"host": "host", "port": "port", "password": "password"},
                }
            }
        },
        "clickhouse": {"managed": {"storageSize": "50Gi"}},
        "blobStorage": scene.live.spec["blobStorage"],
    }
    assert values(scene.must(SECRET, redis)) == {
        "host": f"{GATEWAY}-palena-redis.{HOME}.svc",
        "port": "6379",
        "password": "swordfish",
    }
    assert scene.status["url"] == "https://langfuse.example.com"


async def test_a_first_user_carries_the_names_so_that_none_is_said_twice() -> None:
    user = {"email": "admin@example.com", "passwordSecretRef": {"name": "admin", "key": "password"}}
    scene = ObservabilityScene(seed={"orgName": "Team", "projectName": "Chat", "adminUser": user})
    scene.world.put(SECRET, secret("admin", {"password": "x"}))
    await scene.running()

    assert langfuse(scene)["auth"]["initUser"] == {
        "enabled": True,
        "email": "admin@example.com",
        "password": {"name": "admin", "key": "password"},
        "orgName": "Team",
        "projectName": "Chat",
    }
    names = [each["name"] for each in langfuse(scene)["web"]["extraEnv"]]
    assert not [each for each in names if each.endswith("_NAME")]


@pytest.mark.parametrize(
    ("ingress", "url"),
    [
        ({"enabled": True, "host": "l.example.com"}, "http://l.example.com"),
        ({"enabled": True, "host": "l.example.com", "tls": {"enabled": True}}, "https://l.example.com"),
        ({"enabled": False, "host": "l.example.com"}, f"http://{NAME}-web.{HOME}.svc.cluster.local:3000"),
    ],
)
async def test_users_are_sent_to_the_host_of_the_ingress(ingress: Any, url: str) -> None:
    scene = ObservabilityScene(langfuse={"ingress": ingress})
    await scene.running()

    assert langfuse(scene)["auth"]["nextAuthUrl"] == url
    assert langfuse(scene)["ingress"] == ingress


async def test_users_environment_is_kept_and_the_seeding_is_ours() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "LANGFUSE_INIT_ORG_ID", "value": "theirs"}]
    scene = ObservabilityScene(
        langfuse={"web": {"extraEnv": env}, "overrides": {"worker": {"concurrency": 3}}}
    )
    await scene.running()
    found = langfuse(scene)["web"]["extraEnv"]

    assert {"name": "A", "value": "1"} in found
    assert [each["value"] for each in found if each["name"] == "LANGFUSE_INIT_ORG_ID"] == ["palena"]
    assert langfuse(scene)["worker"]["concurrency"] == 3


async def test_a_field_that_the_served_schema_lacks_is_not_sent() -> None:
    scene = ObservabilityScene(langfuse={"overrides": {"noSuchField": 1, "web": {"nor": 2}}})
    await scene.running()

    assert "noSuchField" not in langfuse(scene)
    assert "nor" not in langfuse(scene)["web"]


@pytest.mark.parametrize(
    ("overrides", "field"),
    [({"database": {}}, "database"), ({"redis": {}}, "redis"), ({"image": {"tag": ""}}, "image.tag")],
)
async def test_overrides_that_would_break_the_wiring_are_refused(overrides: Any, field: str) -> None:
    scene = ObservabilityScene(langfuse={"overrides": overrides})
    scene.surroundings()
    await scene.settle()

    assert scene.condition("LangfuseReady") == ("False", "ForbiddenOverride")
    assert field in scene.message("LangfuseReady")
    assert scene.world.names(LANGFUSE_INSTANCE) == set()


async def test_a_redis_of_the_gateways_that_is_external_is_taken_apart() -> None:
    scene = ObservabilityScene()
    external = {"mode": "external", "external": {"secretRef": {"name": "cache", "urlKey": "u"}}}
    scene.surroundings(redis=external)
    await scene.settle()
    assert scene.condition("LangfuseReady") == ("False", "SecretNotFound")
    scene.world.put(SECRET, secret("cache", {"u": "http://nonsense"}))
    await scene.settle()
    assert scene.condition("LangfuseReady") == ("False", "SecretInvalid")
    assert "nonsense" not in scene.message("LangfuseReady")

    scene.world.put(SECRET, secret("cache", {"u": "rediss://:p%40w@cache.example.com:6380/0"}))
    await scene.running(redis=external)
    assert values(scene.must(SECRET, f"{NAME}-redis")) == {
        "host": "cache.example.com",
        "port": "6380",
        "password": "p@w",
        "tls": "true",
    }
    assert langfuse(scene)["redis"]["external"]["tls"] == {"enabled": True}


@pytest.mark.parametrize(
    ("redis", "made"),
    [
        ({"mode": "managed"}, {"managed": {}}),
        (
            {"mode": "external", "external": {"secretRef": {"name": "own", "hostKey": "h"}}},
            {
                "external": {
                    "secretRef": {
                        "name": "own",
                        "keys": {"host": "h", "port": "port", "password": "password"},
                    }
                }
            },
        ),
    ],
)
async def test_another_redis_is_used_as_it_is_given(redis: Any, made: Any) -> None:
    scene = ObservabilityScene(redis=redis)
    scene.world.put(SECRET, secret("own", {"h": "x", "port": "1", "password": "y"}))
    await scene.running()

    assert langfuse(scene)["redis"] == made
    assert scene.find(SECRET, f"{NAME}-redis") is None


async def test_f19_another_password_of_redis_reaches_langfuse() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.world.put(
        SECRET, secret(f"{GATEWAY}-palena-redis", {"url": "redis://:new@host.example.com:6379/0"})
    )
    await scene.settle()

    assert values(scene.must(SECRET, f"{NAME}-redis"))["password"] == "new"


async def test_a_secret_of_the_bucket_that_is_missing_is_named_before_langfuse_is_made() -> None:
    scene = ObservabilityScene(bucket_key=False)
    scene.surroundings()
    await scene.settle()
    scene.database()
    await scene.settle()

    assert scene.condition("LangfuseReady") == ("False", "SecretNotFound")
    assert "s3-keys" in scene.message("LangfuseReady")
    assert scene.world.names(LANGFUSE_INSTANCE) == set()


@pytest.mark.parametrize(
    ("phase", "ready", "condition", "reason", "told"),
    [
        ("Migrating", False, {}, "InstanceMigrating", "Provisioning"),
        ("Pending", False, {}, "InstanceNotReady", "Provisioning"),
        ("Degraded", True, {}, "InstanceNotReady", "Provisioning"),
        ("Error", False, {}, "InstanceFailed", "Error"),
        ("Pending", False, {"reason": "ConfigError"}, "InstanceFailed", "Error"),
    ],
)
async def test_what_its_operator_says_of_langfuse_is_told(
    phase: str,
    ready: bool,  # noqa: FBT001 - a table
    condition: Any,
    reason: str,
    told: str,
) -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    await scene.settle()
    scene.database()
    await scene.settle()
    assert scene.condition("LangfuseReady") == ("False", "InstanceCreating")
    scene.langfuse(phase, ready=ready, **condition)
    await scene.settle()

    assert scene.condition("LangfuseReady") == ("False", reason)
    assert scene.phase == told
    assert scene.callbacks is None


# --- the keys ----------------------------------------------------------------------------------------


@pytest.mark.req("PA-090", "PA-091")
async def test_the_keys_are_made_before_langfuse_once_and_fit_its_seeding() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    await scene.settle()
    made = values(scene.must(SECRET, KEYS))
    assert scene.world.names(LANGFUSE_INSTANCE) == set()
    await scene.running()

    assert values(scene.must(SECRET, KEYS)) == made
    assert made["LANGFUSE_PUBLIC_KEY"].startswith("pk-lf-")
    assert made["LANGFUSE_SECRET_KEY"].startswith("sk-lf-")
    assert made["LANGFUSE_HOST"] == scene.status["internalUrl"]


async def test_f19_keys_that_langfuse_was_seeded_with_are_not_made_anew() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.world.remove(SECRET, HOME, KEYS)
    scene.written()
    await scene.settle()

    assert scene.find(SECRET, KEYS) is None
    assert scene.phase == "Degraded"
    assert scene.condition("LangfuseReady") == ("False", "SecretLost")
    assert scene.callbacks == LISTS


async def test_f19_a_password_whose_database_lives_is_not_made_anew() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.world.remove(SECRET, HOME, f"{NAME}-pg")
    await scene.settle()

    assert scene.find(SECRET, f"{NAME}-pg") is None
    assert scene.phase == "Degraded"
    assert "Database obs-langfuse" in scene.message("LangfuseReady")


@pytest.mark.req("PA-088")
async def test_the_callback_waits_for_complete_keys_beside_the_gateway() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    await scene.settle()
    scene.database()
    await scene.settle()
    scene.langfuse()
    observation = await scene.reconciler.observe(ObjectKey(HOME, "obs"))
    live = dict(observation.live)
    whole = live[SECRET, HOME, KEYS]
    live[SECRET, HOME, KEYS] = _less(whole, "LANGFUSE_HOST")
    plan = scene.reconciler.decide(dataclasses.replace(observation, live=live), scene.world.now)

    assert not [step for step in plan.steps if step.kind == LITELLM_INSTANCE]
    assert plan.status is not None
    told = {each["type"]: each["reason"] for each in plan.status["conditions"]}
    assert told["CallbackConfigured"] == "WaitingForAPIKeys"
    await scene.settle()
    assert scene.callbacks == LISTS


def _less(live: Any, key: str) -> Any:
    import msgspec

    return msgspec.structs.replace(
        live, data={name: value for name, value in live.data.items() if name != key}
    )


async def test_secret_values_stand_in_no_status_or_representation() -> None:
    scene = ObservabilityScene()
    await scene.running()
    hidden = [
        values(scene.must(SECRET, KEYS))["LANGFUSE_SECRET_KEY"],
        values(scene.must(SECRET, f"{NAME}-pg"))["password"],
        "swordfish",
    ]
    observation = await scene.reconciler.observe(ObjectKey(HOME, "obs"))
    shown = (str(scene.status), repr(await scene.plan()), repr(observation), str(langfuse(scene)))

    assert not [value for value in hidden for each in shown if value in each]


# --- the callback ------------------------------------------------------------------------------------


@pytest.mark.req("PA-089")
async def test_the_seeds_shape_is_written_where_it_is_served() -> None:
    scene = ObservabilityScene()
    scene.world.serve(palena_crds.with_seed_callbacks())
    await scene.running()

    assert scene.callbacks == {
        "langfuse": {
            "enabled": True,
            "secretRef": {
                "name": KEYS,
                "keys": {
                    "publicKey": "LANGFUSE_PUBLIC_KEY",
                    "secretKey": "LANGFUSE_SECRET_KEY",
                    "host": "LANGFUSE_HOST",
                },
            },
        }
    }
    assert scene.status["callback"]["shape"] == "seed"


async def test_a_setting_decides_the_shape_over_the_schema() -> None:
    scene = ObservabilityScene(shape=Shape.SEED)
    await scene.running()

    assert set(scene.callbacks) == {"langfuse"}


async def test_a_shape_that_nobody_knows_is_an_error() -> None:
    scene = ObservabilityScene()
    definition = palena_crds.with_seed_callbacks()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["callbacks"] = {
        "type": "object",
        "properties": {"url": {"type": "string"}},
    }
    scene.world.serve(definition)
    plan = await scene.running()

    assert scene.condition("CallbackConfigured") == ("False", "CallbackShapeUnsupported")
    assert (scene.phase, plan.outcome) == ("Error", Outcome.FAILED)
    assert scene.callbacks is None


@pytest.mark.req("PA-092")
async def test_the_callback_asks_nothing_of_models_or_clients() -> None:
    scene = ObservabilityScene()
    await scene.running()

    written = {step.kind for step in scene.world.log if step.kind == LITELLM_INSTANCE}
    parts = [step for step in scene.world.log if isinstance(step, ApplyPart)]
    assert written == {LITELLM_INSTANCE}
    assert [set(step.body["spec"]) for step in parts] == [{"callbacks"}]
    assert scene.message("CallbackConfigured") == "LiteLLM traces every request to Langfuse"


async def test_e22_a_block_that_somebody_takes_away_comes_back() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.litellm({})
    await scene.settle()

    assert scene.callbacks == LISTS


async def test_entries_of_others_stay_beside_ours() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    scene.litellm({"types": ["otel"], "envVars": [OWN_ENV]})
    await scene.settle()
    scene.database()
    await scene.settle()
    scene.langfuse()
    await scene.settle()

    assert scene.callbacks == {"types": ["otel", "langfuse"], "envVars": [OWN_ENV, *variables()]}


async def test_a_langfuse_that_goes_down_later_leaves_the_callback_where_it_is() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.written()
    scene.langfuse("Degraded", ready=False)
    plan = await scene.settle()

    assert scene.written() == []
    assert scene.callbacks == LISTS
    assert (scene.phase, plan.outcome) == ("Degraded", Outcome.NOT_READY)
    assert scene.condition("LangfuseReady") == ("False", "InstanceNotReady")
    assert scene.condition("CallbackConfigured") == ("True", "CallbackConfigured")


async def test_a_callback_that_is_switched_off_is_taken_out() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.change(callback={"enabled": False})
    await scene.settle()

    assert scene.callbacks is None
    assert scene.condition("CallbackConfigured") == ("True", "Disabled")
    assert scene.phase == "Running"


async def test_without_its_litellm_the_callback_waits() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.world.remove(LITELLM_INSTANCE, HOME, INSTANCE)
    await scene.settle()

    assert scene.condition("CallbackConfigured") == ("False", "LiteLLMInstanceNotFound")
    assert scene.phase == "Degraded"


async def test_e27_the_oldest_has_the_callback_and_when_it_goes_the_next_takes_over() -> None:
    scene = ObservabilityScene()
    rival(scene, "first", made="2026-05-01T10:00:00Z")
    await scene.running()
    assert scene.condition("CallbackConfigured") == ("False", "GatewayAlreadyObserved")
    assert f"{HOME}/first" in scene.message("CallbackConfigured")
    assert scene.callbacks is None
    woken = {
        key
        for edge in scene.reconciler.declaration.edges
        if edge.kind == PALENA_OBSERVABILITY
        for key in edge.wakes(scene.must(PALENA_OBSERVABILITY, "first"), None)
    }
    assert ObjectKey(HOME, "obs") in woken

    scene.world.dying(PALENA_OBSERVABILITY, HOME, "first")
    await scene.settle()
    assert scene.callbacks == LISTS
    assert scene.phase == "Running"


@pytest.mark.parametrize(
    ("made", "spec"),
    [
        ("2026-05-01T11:30:00Z", {}),
        ("2026-05-01T10:00:00Z", {"callback": {"enabled": False}}),
        ("2026-05-01T10:00:00Z", {"gatewayRef": {"name": "another"}}),
    ],
)
async def test_others_that_have_no_claim_stand_in_nobodys_way(made: str, spec: Any) -> None:
    scene = ObservabilityScene()
    rival(scene, "other", made=made, **spec)
    await scene.running()

    assert scene.callbacks == LISTS


async def test_one_that_may_not_use_the_gateway_stands_in_nobodys_way() -> None:
    scene = ObservabilityScene()
    reference = {"name": GATEWAY, "namespace": HOME}
    rival(scene, "other", made="2026-05-01T10:00:00Z", namespace="elsewhere", gatewayRef=reference)
    await scene.running(allowedConsumers={"from": "Same"})

    assert scene.callbacks == LISTS


# --- walls -------------------------------------------------------------------------------------------


async def test_langfuse_is_let_through_the_walls_to_what_it_shares_and_first() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    plan = await scene.plan()
    assert [step.kind for step in plan.steps[:2]] == [NETWORK_POLICY, NETWORK_POLICY]
    await scene.settle()
    langfuse_pods = {"app.kubernetes.io/name": "langfuse", "app.kubernetes.io/instance": NAME}

    for name, selected, port in (
        ("obs-palena-langfuse-to-postgres", {"cnpg.io/cluster": CLUSTER}, 5432),
        (
            "obs-palena-langfuse-to-redis",
            {"app.kubernetes.io/name": "redis", "app.kubernetes.io/instance": GATEWAY},
            6379,
        ),
    ):
        assert scene.must(NETWORK_POLICY, name, HOME).spec == {
            "podSelector": {"matchLabels": selected},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"podSelector": {"matchLabels": langfuse_pods}}],
                    "ports": [{"protocol": "TCP", "port": port}],
                }
            ],
        }


@pytest.mark.parametrize(
    ("spec", "gateway", "left"),
    [
        ({}, {"networkPolicy": {"enabled": False}}, set()),
        ({"redis": {"mode": "managed"}}, {}, {"obs-palena-langfuse-to-postgres"}),
        (
            {"database": {"mode": "external", "external": {"secretRef": {"name": "pg"}}}},
            {},
            {"obs-palena-langfuse-to-redis"},
        ),
    ],
)
async def test_there_are_only_the_ways_that_are_needed(spec: Any, gateway: Any, left: set[str]) -> None:
    scene = ObservabilityScene(**spec)
    scene.surroundings(**gateway)
    await scene.settle()

    assert scene.world.names(NETWORK_POLICY) == left


async def test_ways_that_are_needed_no_more_are_closed() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.gateway(networkPolicy={"enabled": False}, allowedConsumers={"from": "All"})
    await scene.settle()

    assert scene.world.names(NETWORK_POLICY) == set()


async def test_a_settled_observability_writes_nothing() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.written()
    before = scene.status
    await scene.settle()

    assert scene.written() == []
    assert scene.status == before


@pytest.mark.parametrize(
    ("kind", "name", "type_"),
    [(LITELLM_INSTANCE, INSTANCE, "CallbackConfigured"), (LANGFUSE_INSTANCE, NAME, "LangfuseReady")],
)
async def test_a_refused_write_is_told_on_the_condition_that_it_is_about(
    kind: Any, name: str, type_: str
) -> None:
    scene = ObservabilityScene()
    await scene.running()
    plan = await scene.refused(Invalid("the server says no"), kind, name)

    assert plan.status is not None
    told = {each["type"]: each["status"] for each in plan.status["conditions"]}
    assert told[type_] == "False"
    assert plan.status["phase"] == "Error"


async def test_somebody_elses_langfuse_is_left_alone() -> None:
    scene = ObservabilityScene()
    foreign = {"metadata": {"name": NAME, "namespace": HOME}, "spec": {"image": {"tag": "2"}}}
    scene.world.put(LANGFUSE_INSTANCE, foreign)
    scene.surroundings()
    await scene.settle()

    assert langfuse(scene) == {"image": {"tag": "2"}}
    assert scene.condition("LangfuseReady") == ("False", "NameConflict")


async def test_a_gateway_whose_spec_cannot_be_read_changes_nothing() -> None:
    scene = ObservabilityScene()
    await scene.running()
    live = scene.must(PALENA_GATEWAY, GATEWAY)
    scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, spec={**live.spec, "database": {"mode": "odd"}})
    scene.written()
    await scene.settle()

    assert scene.written() == []
    assert scene.callbacks == LISTS
