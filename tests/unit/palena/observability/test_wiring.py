"""The callback of the gateway's LiteLLM (spec: palena §3.6, §7.6)."""

from typing import Any

import pytest

from magicstick.api.kinds import (
    LITELLM_INSTANCE,
    PALENA_OBSERVABILITY,
)
from magicstick.kube.kinds import ObjectKey
from magicstick.palena.common.phases import Outcome
from magicstick.palena.observability.callbacks import Shape
from magicstick.runtime.plan import ApplyPart
from tests.support import palena_crds
from tests.support.palena_consumers import ObservabilityScene
from tests.support.palena_objects import GATEWAY, HOME
from tests.support.palena_traces import INSTANCE, KEYS, LISTS, OWN_ENV, rival, variables

pytestmark = pytest.mark.anyio


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
