"""Langfuse's database in the Cluster of its gateway (spec: palena §7.4, fault F20)."""

import copy

import pytest

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    CNPG_DATABASE_ROLE,
    LANGFUSE_INSTANCE,
)
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import ApplyPart
from tests.support import palena_crds
from tests.support.palena_consumers import ObservabilityScene
from tests.support.palena_objects import HOME, values
from tests.support.palena_traces import (
    CLUSTER,
    NAME,
    langfuse,
    roles,
    without_roles,
)

pytestmark = pytest.mark.anyio


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


async def test_another_owner_of_the_database_is_the_one_that_its_secret_names_and_keeps_the_password() -> (
    None
):
    scene = ObservabilityScene()
    await scene.running()
    password = values(scene.must(SECRET, f"{NAME}-pg", HOME))["password"]
    scene.change(database={"owner": "tracer"})
    await scene.settle()
    assert values(scene.must(SECRET, f"{NAME}-pg", HOME)) == {"username": "tracer", "password": password}
