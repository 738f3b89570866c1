"""Models of the appliance in the same cluster, served through gateways."""

from typing import Any

import pytest

from magicstick.api.kinds import MODEL_ACTIVATION
from magicstick.palena.common.phases import REQUEUE_S
from tests.support.palena_model_scene import NAME, ModelScene

pytestmark = pytest.mark.anyio


def activation(*, ready: str = "True", **status: Any) -> dict[str, Any]:
    told = {"type": "Ready", "status": ready, "reason": "x", "message": "x"}
    return {
        "metadata": {"name": "local-model", "namespace": "ai-system"},
        "spec": {},
        "status": {"engine": "VLLM", "conditions": [told], **status},
    }


BRIDGED: dict[str, Any] = {"provider": {}, "modelActivationRef": {"name": "local-model"}}


@pytest.mark.parametrize(
    ("status", "base"),
    [
        ({}, "http://kubeai.ai.svc.cluster.local/openai/v1"),
        ({"runtimeEndpoint": "http://x.ai.svc.cluster.local/v1"}, "http://x.ai.svc.cluster.local/v1"),
    ],
)
async def test_a_model_of_the_appliance_is_served_where_it_answers(status: Any, base: str) -> None:
    scene = ModelScene(**BRIDGED)
    scene.world.put(MODEL_ACTIVATION, activation(**status))
    await scene.settle()
    assert scene.child().spec["litellmParams"] == {"model": "openai/local-model", "apiBase": base}


async def test_a_model_of_the_appliance_that_is_not_ready_is_waited_for_and_keeps_its_child() -> None:
    scene = ModelScene(**BRIDGED)
    await scene.settle()
    assert scene.condition("Synced") == ("False", "ModelActivationNotReady")
    scene.world.put(MODEL_ACTIVATION, activation(ready="False"))
    plan = await scene.settle()
    assert scene.condition("Synced") == ("False", "ModelActivationNotReady")
    assert REQUEUE_S[plan.outcome] == 15.0
    assert not scene.children
    scene.world.put(MODEL_ACTIVATION, activation())
    await scene.settle()
    assert scene.children
    scene.world.put(MODEL_ACTIVATION, activation(ready="False"))
    await scene.settle()
    assert scene.children == {f"{NAME}-gw"}


async def test_an_external_model_of_the_appliance_is_refused() -> None:
    scene = ModelScene(**BRIDGED)
    scene.world.put(MODEL_ACTIVATION, activation(engine="external"))
    await scene.settle()
    assert scene.condition("Synced") == ("False", "ModelActivationNotReady")
    assert "provider" in scene.model.status["message"]


async def test_a_cluster_without_the_other_half_says_so() -> None:
    scene = ModelScene(**BRIDGED)
    scene.world.absent(MODEL_ACTIVATION)
    await scene.settle()
    assert (scene.phase, scene.condition("Synced")) == ("Error", ("False", "CRDMissing"))
    assert not scene.children
