"""Langfuse as it is made and reported, and its keys (spec: palena §7.3, §7.5)."""

import dataclasses
from typing import Any

import msgspec
import pytest

from magicstick.api.kinds import (
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
)
from magicstick.kube.kinds import ObjectKey
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.observability.langfuse import REVISION_VARIABLE
from tests.support.palena_consumers import ObservabilityScene
from tests.support.palena_objects import GATEWAY, HOME, secret, values
from tests.support.palena_traces import (
    KEYS,
    LISTS,
    NAME,
    langfuse,
)
from tests.support.palena_world import body_of

pytestmark = pytest.mark.anyio


def revision(scene: ObservabilityScene) -> str:
    """The same for both parts of Langfuse."""
    found = {
        each["value"]
        for part in ("web", "worker")
        for each in langfuse(scene)[part]["extraEnv"]
        if each["name"] == REVISION_VARIABLE
    }
    assert len(found) == 1
    return str(found.pop())


@pytest.mark.parametrize("rotated", ["s3-keys", f"{GATEWAY}-palena-redis", f"{NAME}-pg"])
async def test_f19_another_value_of_what_langfuse_starts_with_restarts_it(rotated: str) -> None:
    scene = ObservabilityScene()
    await scene.running()
    before, applied = revision(scene), len(scene.written())
    held = values(scene.must(SECRET, rotated, HOME))
    secret_part = held.get("password") or held["secret"]
    now = {key: value.replace(secret_part, f"{secret_part}1") for key, value in held.items()}
    scene.world.put(SECRET, named_secret(scene, rotated, now))
    await scene.settle()
    assert revision(scene) != before
    assert applied
    scene.written()
    await scene.settle()
    assert scene.written() == [], "once"


async def test_f19_a_value_that_is_missing_or_not_langfuses_restarts_nothing() -> None:
    scene = ObservabilityScene()
    await scene.running()
    before = langfuse(scene)
    scene.world.put(SECRET, secret("s3-keys", {"access": "a", "secret": "b", "more": "c"}))
    await scene.settle()
    assert langfuse(scene) == before
    scene.world.remove(SECRET, HOME, "s3-keys")
    await scene.settle()
    assert (scene.condition("LangfuseReady"), langfuse(scene)) == (("False", "SecretNotFound"), before)


def named_secret(scene: ObservabilityScene, name: str, data: dict[str, str]) -> dict[str, Any]:
    """The Secret with other values, and whose it was."""
    live = scene.must(SECRET, name, HOME)
    return {**secret(name, data), "metadata": body_of(live)["metadata"]}


async def test_langfuse_is_built_as_specified() -> None:
    scene = ObservabilityScene(langfuse={"url": "https://langfuse.example.com"})
    await scene.running()
    redis = f"{NAME}-redis"
    restarting = {"name": REVISION_VARIABLE, "value": revision(scene)}

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
                restarting,
            ],
        },
        "worker": {"replicas": 1, "extraEnv": [restarting]},
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
