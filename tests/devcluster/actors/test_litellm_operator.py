"""LiteLLM's operator as it is played: proxies, and the models and keys that they know."""

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hack.devcluster import DevCluster
from hack.devcluster.actors.definitions import DEFINITIONS
from tests.devcluster.actors.foreign_stage import ForeignStage, foreign_stage
from tests.support import palena_crds

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

NAME = "proxy"
MODEL = {"instanceRef": {"name": NAME}, "modelName": "large", "litellmParams": {"model": "openai/gpt-4o"}}
_numbers = itertools.count(1)


@pytest.fixture
async def stage(theatre: DevCluster) -> AsyncIterator[ForeignStage]:
    async with foreign_stage(theatre, f"litellm-{next(_numbers)}") as stage:
        await stage.secret("pg-app", uri="postgresql://CHANGEME")
        await stage.secret("keys", master="sk-CHANGEME")
        yield stage


async def instance(stage: ForeignStage, *, migrate: bool = False, **more: Any) -> None:
    directions = {name: more.pop(name) for name in ("fails", "delay", "deletion") if name in more}
    spec = {
        "masterKey": {"secretRef": {"name": "keys", "key": "master"}},
        "database": {
            "cloudnativepg": {"clusterName": "pg"},
            **({"migration": {"enabled": True}} if migrate else {}),
        },
        **more,
    }
    await stage.make("litellminstances", NAME, spec, **directions)


async def serving(stage: ForeignStage) -> None:
    await instance(stage)
    await stage.report("deployments", NAME, replicas=1, readyReplicas=1, observedGeneration=1)
    await stage.until_told("litellminstances", NAME, "True", "AllResourcesReady")


def environment(stage: ForeignStage) -> dict[str, Any]:
    (container,) = stage.find("deployments", NAME)["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each for each in container["env"]}


async def test_a_proxy_is_migrated_first_and_ready_with_its_first_replica(stage: ForeignStage) -> None:
    await instance(stage, migrate=True)
    await stage.until_told("litellminstances", NAME, "False", "MigrationRunning", type_="DatabaseReady")
    assert stage.names("deployments") == set()
    (job,) = stage.names("jobs")
    await stage.job_done(job)
    await stage.until_told("litellminstances", NAME, "True", "MigrationComplete", type_="DatabaseReady")
    assert stage.told("litellminstances", NAME) == ("False", "DeploymentNotReady")
    await stage.report("deployments", NAME, replicas=1, readyReplicas=1, observedGeneration=1)
    await stage.until("ready", lambda: stage.status("litellminstances", NAME)["ready"])
    status = stage.status("litellminstances", NAME)
    assert status["endpoint"] == f"http://{NAME}.{stage.namespace}.svc:4000"
    assert "phase" not in status


async def test_without_a_migration_block_there_is_no_job(stage: ForeignStage) -> None:
    await serving(stage)
    assert stage.told("litellminstances", NAME, "DatabaseReady") == ("True", "MigrationSkipped")
    assert stage.names("jobs") == set()
    labels = stage.find("deployments", NAME)["spec"]["template"]["metadata"]["labels"]
    assert labels["litellm.palena.ai/instance"] == NAME


async def test_nothing_starts_before_the_secrets_are_there(stage: ForeignStage) -> None:
    await stage.delete("secrets", "pg-app")
    await instance(stage)
    await stage.until_told("litellminstances", NAME, "False", "ReconcileError")
    assert stage.names("deployments") == set()
    await stage.secret("pg-app", uri="postgresql://CHANGEME")
    await stage.until("a Deployment", lambda: stage.names("deployments") == {NAME})


@pytest.mark.parametrize("shape", ["types", "seed"])
async def test_callbacks_of_either_shape_reach_the_proxy(
    stage: ForeignStage, theatre: DevCluster, shape: str
) -> None:
    keys = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_HOST")
    if shape == "types":
        variables = [
            {"name": each, "valueFrom": {"secretKeyRef": {"name": "traces", "key": each}}} for each in keys
        ]
        callbacks: dict[str, Any] = {"types": ["langfuse"], "envVars": variables}
    else:
        theatre.apply(palena_crds.with_seed_callbacks())
        reference = {
            "name": "traces",
            "keys": dict(zip(("publicKey", "secretKey", "host"), keys, strict=True)),
        }
        callbacks = {"langfuse": {"enabled": True, "secretRef": reference}}
    try:
        await instance(stage, callbacks=callbacks)
        await stage.until("a Deployment", lambda: stage.names("deployments") == {NAME})
    finally:
        definition = palena_crds.definition(palena_crds.INSTANCES)
        await stage.client.apply(f"{DEFINITIONS}/{palena_crds.INSTANCES}", definition, manager="devcluster")
    told = json.loads(stage.find("configmaps", f"{NAME}-config")["data"]["config.yaml"])
    assert told["litellm_settings"]["success_callback"] == ["langfuse"]
    for each in keys:
        assert environment(stage)[each]["valueFrom"]["secretKeyRef"] == {"name": "traces", "key": each}


async def test_failures_are_told_as_its_operator_tells_them(stage: ForeignStage) -> None:
    await instance(stage, fails="migration")
    await stage.until_told("litellminstances", NAME, "False", "MigrationFailed", type_="DatabaseReady")
    await instance(stage, fails="no quota")
    await stage.until_told("litellminstances", NAME, "False", "ReconcileError")
    await serving(stage)


async def test_a_model_is_known_once_its_proxy_serves_and_its_key_is_there(stage: ForeignStage) -> None:
    parameters = {"model": "openai/gpt-4o", "apiKeySecretRef": {"name": "provider", "key": "key"}}
    await stage.make("litellmmodels", "large", {**MODEL, "litellmParams": parameters})
    await stage.until_told("litellmmodels", "large", "False", "InstanceNotReady", type_="Synced")
    await serving(stage)
    await stage.until_told("litellmmodels", "large", "False", "SyncFailed", type_="Synced")
    assert stage.status("litellmmodels", "large")["synced"] is False
    await stage.secret("provider", key="CHANGEME")
    await stage.make("litellmmodels", "large", {**MODEL, "litellmParams": parameters, "tags": ["a"]})
    await stage.until_told("litellmmodels", "large", "True", "Synced", type_="Synced")
    (told,) = stage.status("litellmmodels", "large")["conditions"]
    assert "observedGeneration" not in told


async def test_what_was_synchronised_once_stays_so_in_the_field_alone(stage: ForeignStage) -> None:
    await serving(stage)
    await stage.make("litellmmodels", "large", MODEL)
    await stage.until_told("litellmmodels", "large", "True", "Synced", type_="Synced")
    await stage.make("litellmmodels", "large", MODEL, fails="the provider refuses")
    await stage.until_told("litellmmodels", "large", "False", "SyncFailed", type_="Synced")
    assert stage.status("litellmmodels", "large")["synced"] is True


async def test_a_key_is_minted_once(stage: ForeignStage) -> None:
    await serving(stage)
    spec = {"instanceRef": {"name": NAME}, "keyAlias": "chat", "keySecretName": "chat-key"}
    await stage.make("litellmvirtualkeys", "chat", spec)
    await stage.until_told("litellmvirtualkeys", "chat", "True", "Synced", type_="Synced")
    assert stage.status("litellmvirtualkeys", "chat")["keySecretRef"] == {
        "name": "chat-key",
        "key": "api-key",
    }
    minted = stage.values("chat-key")["api-key"]
    await stage.make("litellmvirtualkeys", "chat", {**spec, "rpmLimit": 10})
    await stage.until(
        "its new limit",
        lambda: stage.find("litellmvirtualkeys", "chat")["metadata"]["generation"] == 2,
    )
    assert stage.values("chat-key")["api-key"] == minted


async def test_a_proxy_is_held_until_its_operator_lets_go(stage: ForeignStage) -> None:
    await instance(stage, deletion="stuck")
    await stage.until("held", lambda: stage.metadata("litellminstances", NAME).get("finalizers"))
    await stage.delete("litellminstances", NAME)
    await stage.make("litellmmodels", "large", MODEL)
    await stage.until_told("litellmmodels", "large", "False", "InstanceNotReady", type_="Synced")
    assert "deletionTimestamp" in stage.metadata("litellminstances", NAME)
    annotations = {"metadata": {"annotations": {"devcluster.magicstick.dev/deletion": None}}}
    await stage.client.merge(stage.path("litellminstances", NAME), annotations)
    await stage.until("gone", lambda: not stage.names("litellminstances"))
    await stage.delete("litellmmodels", "large")
    await stage.until("the model goes without it", lambda: not stage.names("litellmmodels"))


async def test_a_gate_that_is_shut_holds_up_everything(stage: ForeignStage) -> None:
    stage.actors.models.gate.shut()
    await serving(stage)
    await stage.make("litellmmodels", "large", MODEL)
    await stage.until("the model is there", lambda: stage.names("litellmmodels") == {"large"})
    assert stage.status("litellmmodels", "large") == {}
    stage.actors.models.gate.open()
    await stage.until_told("litellmmodels", "large", "True", "Synced", type_="Synced")
