"""Which changes wake which model, and that nothing else does."""

from typing import Any

import pytest

from magicstick.api.kinds import LITELLM_MODEL, MODEL_ACTIVATION, PALENA_GATEWAY, PALENA_MODEL
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.model.reconciler import ModelReconciler
from tests.support.palena_objects import HOME, gateway, gateway_status, litellm_status, model, secret
from tests.support.palena_world import PalenaWorld

pytestmark = pytest.mark.anyio

A, B, BOTH = (ObjectKey(HOME, name) for name in ("on-a", "on-b", "on-both"))
KEY = {"model": "openai/x", "apiKeySecretRef": {"name": "provider", "key": "KEY"}}


class ModelWorld(PalenaWorld):
    """A world with the reconciler of models in it."""

    def __init__(self) -> None:
        super().__init__()
        self.models = ModelReconciler(self.facts, self.reads)
        self.declare(self.models)


@pytest.fixture
async def world() -> ModelWorld:
    """Three models on two gateways."""
    made = ModelWorld()
    for name in ("a", "b"):
        made.put(PALENA_GATEWAY, {**gateway(name), "status": gateway_status(name)})
    made.put(SECRET, secret("provider", {"KEY": "sk-x"}))
    made.put(PALENA_MODEL, model("on-a", "a", provider=KEY))
    made.put(PALENA_MODEL, model("on-b", "b"))
    made.put(PALENA_MODEL, model("on-both", "a", {"name": "b", "namespace": HOME}))
    for name in ("on-a", "on-b", "on-both"):
        await made.settle(made.models, HOME, name)
    return made


def woken(world: ModelWorld, kind: Kind, old: View | None, new: View | None) -> set[ObjectKey]:
    return {
        key
        for edge in world.models.declaration.edges
        if edge.kind == kind and edge.changed(old, new)
        for key in edge.wakes(old, new)
    }


@pytest.mark.req("PA-062", "PA-063")
@pytest.mark.parametrize(("name", "expected"), [("a", {A, BOTH}), ("b", {B, BOTH})])
async def test_a_gateway_that_becomes_ready_wakes_the_models_that_name_it_and_no_other(
    world: ModelWorld, name: str, expected: set[ObjectKey]
) -> None:
    before = world.change(PALENA_GATEWAY, HOME, name, status=gateway_status(name, ready="False"))
    after = world.change(PALENA_GATEWAY, HOME, name, status=gateway_status(name))
    assert woken(world, PALENA_GATEWAY, before, after) == expected
    assert woken(world, PALENA_GATEWAY, after, None) == expected


@pytest.mark.req("PA-063")
async def test_news_of_a_gateway_that_concern_no_model_wake_none(world: ModelWorld) -> None:
    before = world.must(PALENA_GATEWAY, HOME, "a")
    told = {**gateway_status("a"), "modelCount": 7, "database": {"phase": "Failing over"}}
    after = world.change(PALENA_GATEWAY, HOME, "a", status=told)
    assert woken(world, PALENA_GATEWAY, before, after) == set()
    other = world.put(PALENA_GATEWAY, {**gateway("c"), "status": gateway_status("c")})
    assert woken(world, PALENA_GATEWAY, None, other) == set()


async def test_a_gateway_that_appears_or_gets_its_instance_wakes_its_models(world: ModelWorld) -> None:
    found = world.must(PALENA_GATEWAY, HOME, "a")
    assert woken(world, PALENA_GATEWAY, None, found) == {A, BOTH}
    without = world.change(PALENA_GATEWAY, HOME, "a", status=gateway_status("a", instance=False))
    assert woken(world, PALENA_GATEWAY, without, found) == {A, BOTH}


async def test_a_child_wakes_the_model_that_it_was_made_for(world: ModelWorld) -> None:
    child = world.must(LITELLM_MODEL, HOME, "on-both-a")
    told = world.change(LITELLM_MODEL, HOME, "on-both-a", status=litellm_status())
    assert woken(world, LITELLM_MODEL, child, told) == {BOTH}
    assert woken(world, LITELLM_MODEL, told, None) == {BOTH}


async def test_a_key_wakes_the_models_that_name_it(world: ModelWorld) -> None:
    before = world.must(SECRET, HOME, "provider")
    after = world.put(SECRET, secret("provider", {"KEY": "sk-y"}))
    assert woken(world, SECRET, before, after) == {A}
    elsewhere = world.put(SECRET, secret("provider", {"KEY": "sk-y"}, namespace="elsewhere"))
    assert woken(world, SECRET, None, elsewhere) == set()


async def test_a_model_of_the_appliance_wakes_those_that_are_bridged_to_it(world: ModelWorld) -> None:
    spec: dict[str, Any] = {"provider": {}, "modelActivationRef": {"name": "local"}}
    world.put(PALENA_MODEL, model("bridged", "a", **spec))
    body = {"metadata": {"name": "local", "namespace": "ai-system"}, "spec": {}}
    found = world.put(MODEL_ACTIVATION, body)
    assert woken(world, MODEL_ACTIVATION, None, found) == {ObjectKey(HOME, "bridged")}
