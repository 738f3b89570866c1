"""What is decided about an observability and its surroundings (spec: palena §7.2, §7.7, §11, §13)."""

from typing import Any

import pytest

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    PALENA_GATEWAY,
)
from magicstick.kube.errors import Invalid
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_consumers import ObservabilityScene
from tests.support.palena_objects import GATEWAY, HOME, secret
from tests.support.palena_traces import CLUSTER, INSTANCE, KEYS, LISTS, NAME, langfuse

pytestmark = pytest.mark.anyio


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


# --- the gateway --------------------------------------------------------------------------------


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


# --- walls --------------------------------------------------------------------------------


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


async def test_whoever_may_not_use_the_gateway_any_more_gets_no_traces_and_no_way_to_its_stores() -> None:
    scene = ObservabilityScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.running()
    assert scene.callbacks == LISTS
    scene.gateway(allowedConsumers={"from": "Same"})
    await scene.settle()

    assert not scene.callbacks
    assert scene.world.names(NETWORK_POLICY) == set()
    assert scene.condition("CallbackConfigured") == ("False", "RefNotPermitted")
    assert scene.status["callback"]["configured"] is False
    assert scene.world.names(LANGFUSE_INSTANCE) == {NAME}, "what was traced can be read on"
    scene.gateway(allowedConsumers={"from": "All"})
    await scene.settle()
    assert (scene.phase, scene.callbacks) == ("Running", LISTS)


async def test_a_gateway_whose_consumers_cannot_be_read_closes_nothing() -> None:
    scene = ObservabilityScene(namespace="elsewhere", gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.running()
    scene.gateway(allowedConsumers={"from": "Selector"})
    await scene.settle()

    assert scene.callbacks == LISTS
    assert len(scene.world.names(NETWORK_POLICY)) == 2


async def test_a_settled_observability_writes_nothing() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.written()
    before = scene.status
    await scene.settle()

    assert scene.written() == []
    assert scene.status == before


@pytest.mark.parametrize(
    ("kind", "name", "type_", "reason"),
    [
        (LITELLM_INSTANCE, INSTANCE, "CallbackConfigured", "CallbackShapeUnsupported"),
        (LANGFUSE_INSTANCE, NAME, "LangfuseReady", "ApplyRejected"),
    ],
)
async def test_a_refused_write_is_told_on_the_condition_that_it_is_about(
    kind: Any, name: str, type_: str, reason: str
) -> None:
    scene = ObservabilityScene()
    await scene.running()
    plan = await scene.refused(Invalid("the server says no"), kind, name)

    assert plan.status is not None
    told = {each["type"]: (each["status"], each["reason"]) for each in plan.status["conditions"]}
    assert told[type_] == ("False", reason)
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
