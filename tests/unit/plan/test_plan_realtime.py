"""Plans for realtime models: their three objects, as the operator would make them."""

import json
from typing import Any

import pytest

from magicstick.plan.changes import Action, Change
from magicstick.plan.rehearsal import Plan
from tests.unit.plan.conftest import Planned, body_of

pytestmark = pytest.mark.anyio

NODE = {
    **body_of("Node", "node-1", api_version="v1"),
    "metadata": {"name": "node-1", "labels": {"kubernetes.io/os": "linux"}},
    "status": {
        "allocatable": {"cpu": "32", "memory": "128Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def model(**changes: Any) -> dict[str, Any]:
    block = {"profile": "qwen3-omni-cpu", "gpuNode": "node-1", "runtimeImage": "registry.example.com/omni:v1"}
    local = {"computeTarget": "cpu", "url": "hf://example/omni", "realtime": {**block, **changes}}
    return body_of("ModelActivation", "talks", spec={"type": "local", "local": local})


def made(plan: Plan) -> dict[str, Change]:
    named = (each for each in plan.derived if each.key.name == "talks-realtime")
    return {each.kind.kind: each for each in named if each.action is Action.CREATE}


def phase(plan: Plan) -> tuple[str, str]:
    found = next(each for each in plan.standings if each.key.name == "talks")
    return found.phase, found.message


async def test_a_realtime_model_comes_with_its_modules_and_its_objects(planned: Planned) -> None:
    plan = await planned(model(), NODE)
    objects = made(plan)
    assert list(objects) == ["ConfigMap", "Service", "Deployment"]
    assert json.loads(objects["ConfigMap"].body["data"]["profile.json"])["session_mode"] == "duplex"
    assert "ModuleActivation/kubeai" not in {f"{each.kind.kind}/{each.key.name}" for each in plan.derived}
    assert phase(plan)[0] == "Starting"


async def test_a_realtime_model_that_is_wrong_says_so_and_makes_nothing(planned: Planned) -> None:
    plan = await planned(model(systemMemoryMi=999999), NODE)
    assert made(plan) == {}
    assert phase(plan)[0] == "Degraded"
    assert "spec.local.realtime.systemMemoryMi must be at most 131072" in phase(plan)[1]
