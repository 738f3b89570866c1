"""CloudNativePG as it is played: Clusters, and the databases and roles in them."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hack.devcluster import DevCluster
from hack.devcluster.actors.cnpg import GROWING, HEALTHY, STARTING
from hack.devcluster.actors.definitions import PALENA_CRDS
from tests.devcluster.actors.foreign_stage import ForeignStage, foreign_stage, remove_kind

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]

ROLE = {"cluster": {"name": "pg"}, "name": "langfuse", "login": True, "passwordSecret": {"name": "role"}}
_numbers = itertools.count(1)
DATABASE = {"cluster": {"name": "pg"}, "name": "traces", "owner": "langfuse"}


@pytest.fixture
async def stage(theatre: DevCluster) -> AsyncIterator[ForeignStage]:
    async with foreign_stage(theatre, f"cnpg-{next(_numbers)}") as stage:
        yield stage


async def cluster(stage: ForeignStage, instances: int = 1, **directions: str) -> None:
    spec: dict[str, Any] = {
        "instances": instances,
        "storage": {"size": "1Gi"},
        "bootstrap": {"initdb": {"database": "litellm"}},
        "inheritedMetadata": {"labels": {"palena.ai/gateway": "gw"}},
    }
    await stage.make("clusters", "pg", spec, **directions)


async def healthy(stage: ForeignStage) -> None:
    await cluster(stage)
    await stage.pod_ready("pg-1")
    await stage.until_told("clusters", "pg", "True", "ClusterIsReady")


def phase(stage: ForeignStage) -> str:
    return str(stage.status("clusters", "pg").get("phase", ""))


async def test_a_cluster_is_healthy_once_each_instance_is(stage: ForeignStage) -> None:
    await cluster(stage, instances=2)
    await stage.until(STARTING, lambda: phase(stage) == STARTING)
    assert stage.told("clusters", "pg") == ("False", "ClusterIsNotReady")
    await stage.pod_ready("pg-1")
    await stage.until(GROWING, lambda: phase(stage) == GROWING)
    await stage.pod_ready("pg-2")
    await stage.until(HEALTHY, lambda: phase(stage) == HEALTHY)
    assert stage.status("clusters", "pg")["readyInstances"] == 2
    assert stage.status("clusters", "pg")["currentPrimary"] == "pg-1"
    assert stage.told("clusters", "pg", "Initialized") == ("True", "BootstrapCompleted")


async def test_a_cluster_brings_pods_volumes_services_and_the_secret_of_its_owner(
    stage: ForeignStage,
) -> None:
    await healthy(stage)
    assert stage.names("services") == {"pg-rw", "pg-ro", "pg-r"}
    assert stage.names("pods") == stage.names("persistentvolumeclaims") == {"pg-1"}
    labels = stage.find("pods", "pg-1")["metadata"]["labels"]
    assert (
        labels.items()
        >= {
            "palena.ai/gateway": "gw",
            "cnpg.io/cluster": "pg",
            "cnpg.io/instanceRole": "primary",
            "cnpg.io/podRole": "instance",
        }.items()
    )
    values = stage.values("pg-app")
    assert stage.find("secrets", "pg-app")["type"] == "kubernetes.io/basic-auth"
    password = values["password"]
    assert values["uri"] == f"postgresql://litellm:{password}@pg-rw.{stage.namespace}:5432/litellm"
    assert len(password) == 64
    owners = {each["metadata"]["ownerReferences"][0]["kind"] for each in _made(stage)}
    assert owners == {"Cluster"}


def _made(stage: ForeignStage) -> list[Any]:
    plurals = ("services", "pods", "persistentvolumeclaims", "secrets")
    return [each for plural in plurals for each in stage.mirror.all(stage.path(plural)).values()]


async def test_a_lost_instance_or_secret_is_made_anew_and_one_too_many_goes(stage: ForeignStage) -> None:
    await healthy(stage)
    before = stage.values("pg-app")["password"]
    await stage.delete("secrets", "pg-app")
    await stage.until("another password", lambda: stage.values("pg-app").get("password", before) != before)
    await cluster(stage, instances=2)
    await stage.pod_ready("pg-2")
    await stage.until(HEALTHY, lambda: stage.status("clusters", "pg").get("readyInstances") == 2)
    await cluster(stage, instances=1)
    await stage.until("one instance", lambda: stage.names("pods") == {"pg-1"})


async def test_a_cluster_reports_the_phase_that_it_is_told_to_until_it_is_not(stage: ForeignStage) -> None:
    await healthy(stage)
    await cluster(stage, fails="Failing over")
    await stage.until("Failing over", lambda: phase(stage) == "Failing over")
    assert stage.told("clusters", "pg") == ("False", "ClusterIsNotReady")
    await cluster(stage)
    await stage.until(HEALTHY, lambda: phase(stage) == HEALTHY)


async def test_nothing_is_made_while_the_operator_is_slow(stage: ForeignStage) -> None:
    await cluster(stage, delay="3600")
    await stage.until(STARTING, lambda: phase(stage) == STARTING)
    assert stage.names("pods") == set()
    await cluster(stage)
    await stage.until("an instance", lambda: stage.names("pods") == {"pg-1"})


async def test_a_database_waits_for_its_owner_and_is_applied_then(stage: ForeignStage) -> None:
    await healthy(stage)
    await stage.make("databases", "traces", DATABASE)
    await stage.until("a refusal", lambda: stage.status("databases", "traces").get("applied") is False)
    assert 'role "langfuse" does not exist' in stage.status("databases", "traces")["message"]
    await stage.make("databaseroles", "langfuse", ROLE)
    await stage.until(
        "a refusal", lambda: "role" in stage.status("databaseroles", "langfuse").get("message", "")
    )
    await stage.secret("role", username="langfuse", password="CHANGEME")
    await stage.until("the role is applied", lambda: stage.status("databaseroles", "langfuse").get("applied"))
    await stage.until("applied", lambda: stage.status("databases", "traces").get("applied"))
    assert "message" not in stage.status("databases", "traces")


async def test_a_managed_role_is_told_by_the_cluster(stage: ForeignStage) -> None:
    await healthy(stage)
    managed = {
        "managed": {"roles": [{"name": "langfuse", "login": True, "passwordSecret": {"name": "role"}}]}
    }
    await stage.client.merge(stage.path("clusters", "pg"), {"spec": managed})
    await stage.until("a refusal", lambda: "langfuse" in roles(stage).get("cannotReconcile", {}))
    await stage.secret("role", username="langfuse", password="CHANGEME")
    await stage.client.merge(stage.path("clusters", "pg"), {"metadata": {"labels": {"looked": "again"}}})
    await stage.until("the role", lambda: roles(stage).get("byStatus", {}).get("reconciled") == ["langfuse"])
    await stage.make("databases", "traces", DATABASE)
    await stage.until("applied", lambda: stage.status("databases", "traces").get("applied"))


def roles(stage: ForeignStage) -> Any:
    return stage.status("clusters", "pg").get("managedRolesStatus", {})


async def test_a_role_that_owns_a_database_stays_until_that_is_dropped(stage: ForeignStage) -> None:
    await healthy(stage)
    await stage.secret("role", username="langfuse", password="CHANGEME")
    await stage.make("databaseroles", "langfuse", {**ROLE, "databaseRoleReclaimPolicy": "delete"})
    await stage.make("databases", "traces", {**DATABASE, "databaseReclaimPolicy": "delete"})
    await stage.until("applied", lambda: stage.status("databases", "traces").get("applied"))
    await stage.delete("databaseroles", "langfuse")
    await stage.until(
        "deletion is asked for",
        lambda: "deletionTimestamp" in stage.metadata("databaseroles", "langfuse"),
    )
    server = stage.actors.clusters.server(stage.namespace, "pg")
    assert server.databases == {"litellm": "litellm", "traces": "langfuse"}
    await stage.delete("databases", "traces")
    await stage.until("both are gone", lambda: not stage.names("databases") | stage.names("databaseroles"))
    assert server.databases == {"litellm": "litellm"}
    assert "langfuse" not in server.roles


async def test_a_database_that_is_retained_outlives_its_object(stage: ForeignStage) -> None:
    await healthy(stage)
    await stage.make("databases", "traces", {**DATABASE, "owner": "litellm"})
    await stage.until("applied", lambda: stage.status("databases", "traces").get("applied"))
    await stage.delete("databases", "traces")
    await stage.until("it is gone", lambda: not stage.names("databases"))
    assert "traces" in stage.actors.clusters.server(stage.namespace, "pg").databases


async def test_it_goes_with_its_kind_and_comes_back_with_it(stage: ForeignStage, theatre: DevCluster) -> None:
    await healthy(stage)
    await stage.make("databases", "traces", {**DATABASE, "owner": "litellm"})
    await stage.until("applied", lambda: stage.status("databases", "traces").get("applied"))
    await remove_kind(stage, "clusters.postgresql.cnpg.io")
    await stage.until("no server", lambda: stage.status("databases", "traces").get("applied") is False)
    theatre.apply(PALENA_CRDS / "postgresql.cnpg.io_clusters.yaml")
    old = uid(stage)
    await cluster(stage)
    await stage.until("the volume of before is deleted", lambda: is_dying(stage, "pg-1"))
    await stage.client.merge(stage.path("persistentvolumeclaims", "pg-1"), {"metadata": {"finalizers": None}})
    await stage.until("another instance", lambda: uid(stage) not in {"", old})
    await stage.pod_ready("pg-1")
    await stage.until("applied", lambda: stage.status("databases", "traces").get("applied"))


def uid(stage: ForeignStage) -> str:
    return str(stage.metadata("pods", "pg-1").get("uid", ""))


def is_dying(stage: ForeignStage, claim: str) -> bool:
    return "deletionTimestamp" in stage.metadata("persistentvolumeclaims", claim)
