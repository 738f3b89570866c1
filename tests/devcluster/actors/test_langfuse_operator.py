"""Langfuse's operator as it is played."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hack.devcluster import DevCluster
from tests.devcluster.actors.foreign_stage import ForeignStage, foreign_stage

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

NAME = "obs-langfuse"
_numbers = itertools.count(1)


@pytest.fixture
async def stage(theatre: DevCluster) -> AsyncIterator[ForeignStage]:
    async with foreign_stage(theatre, f"langfuse-{next(_numbers)}") as stage:
        await stage.secret("database", url="postgresql://CHANGEME")
        yield stage


async def instance(stage: ForeignStage, **directions: str) -> None:
    reference = {"name": "keys", "key": "public"}
    spec: dict[str, Any] = {
        "image": {"tag": "3"},
        "auth": {"nextAuthUrl": "https://langfuse.example.com"},
        "database": {"external": {"secretRef": {"name": "database", "keys": {"url": "url"}}}},
        "web": {"extraEnv": [{"name": "PUBLIC_KEY", "valueFrom": {"secretKeyRef": reference}}]},
    }
    await stage.make("langfuseinstances", NAME, spec, **directions)


def phase(stage: ForeignStage) -> str:
    return str(stage.status("langfuseinstances", NAME).get("phase", ""))


async def running(stage: ForeignStage) -> None:
    await stage.secret("keys", public="pk-CHANGEME")
    await instance(stage)
    await stage.job_done(f"{NAME}-migrate")
    for component in ("web", "worker"):
        await stage.report(
            "deployments", f"{NAME}-{component}", replicas=1, readyReplicas=1, observedGeneration=1
        )
    await stage.until("Running", lambda: phase(stage) == "Running")


async def test_it_waits_for_secrets_migrates_starts_and_runs(stage: ForeignStage) -> None:
    await instance(stage)
    await stage.until("Pending", lambda: phase(stage) == "Pending")
    assert stage.names("jobs") == set()
    await stage.secret("keys", public="pk-CHANGEME")
    await stage.until("Migrating", lambda: phase(stage) == "Migrating")
    assert stage.told("langfuseinstances", NAME) == ("False", "MigrationInProgress")
    assert stage.names("deployments") == set()
    await stage.job_done(f"{NAME}-migrate")
    await stage.until("two Deployments", lambda: len(stage.names("deployments")) == 2)
    assert stage.told("langfuseinstances", NAME)[0] == "False"
    await running(stage)
    assert stage.told("langfuseinstances", NAME) == ("True", "AllComponentsReady")
    status = stage.status("langfuseinstances", NAME)
    assert status["ready"] is True
    assert status["publicUrl"] == "https://langfuse.example.com"
    assert status["web"]["endpoint"] == f"http://{NAME}-web.{stage.namespace}.svc.cluster.local:3000"


async def test_its_pods_carry_the_labels_that_walls_are_made_of(stage: ForeignStage) -> None:
    await running(stage)
    labels = stage.find("deployments", f"{NAME}-worker")["spec"]["template"]["metadata"]["labels"]
    assert (
        labels.items()
        >= {
            "app.kubernetes.io/name": "langfuse",
            "app.kubernetes.io/instance": NAME,
            "app.kubernetes.io/component": "worker",
        }.items()
    )
    assert stage.names("services") == {f"{NAME}-web"}
    assert "salt" in stage.values(f"{NAME}-generated-secrets")


@pytest.mark.parametrize(
    ("said", "phase_then", "reason"),
    [
        ("config", "Error", "ConfigError"),
        ("migration", "Error", "ReconcileError"),
        ("the worker is gone", "Degraded", "ComponentDegraded"),
    ],
)
async def test_failures_are_told_and_pass(
    stage: ForeignStage, said: str, phase_then: str, reason: str
) -> None:
    await running(stage)
    await instance(stage, fails=said)
    await stage.until_told("langfuseinstances", NAME, "False", reason)
    assert phase(stage) == phase_then
    assert stage.status("langfuseinstances", NAME)["ready"] is False
    await running(stage)


async def test_it_goes_when_it_is_deleted(stage: ForeignStage) -> None:
    await running(stage)
    await stage.delete("langfuseinstances", NAME)
    await stage.until("gone", lambda: not stage.names("langfuseinstances"))
