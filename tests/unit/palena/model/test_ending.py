"""What is refused, missing or unreadable around a model, and its end."""

from datetime import timedelta
from typing import Any

import pytest

from magicstick.api.kinds import LITELLM_MODEL, PALENA_GATEWAY, PALENA_MODEL
from magicstick.kube.errors import Invalid, NameConflict
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.palena.common.labels import FINALIZER
from magicstick.palena.common.phases import REQUEUE_S, Outcome
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_model_scene import KEY, NAME, ModelScene
from tests.support.palena_objects import HOME, secret

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "reason"),
    [(Invalid("no such field"), "ApplyRejected"), (NameConflict("theirs"), "NameConflict")],
)
async def test_what_is_refused_on_one_gateway_is_told_there(error: Any, reason: str) -> None:
    scene = ModelScene("a", "b", gateways=("a", "b"))
    await scene.settle()
    scene.synced("a", "b")
    await scene.settle()
    observation = await scene.reconciler.observe(ObjectKey(HOME, NAME))
    assert observation is not None
    error.about = (LITELLM_MODEL, ObjectKey(HOME, f"{NAME}-a"))
    plan = scene.reconciler.decide_failure(observation, error, scene.world.now)
    assert plan.status is not None
    told = {each["name"]: each["reason"] for each in plan.status["gateways"]}
    assert told == {"a": reason, "b": "Synced"}
    assert plan.status["phase"] == "Degraded"
    assert not plan.steps


async def test_without_the_kind_nothing_is_made_and_nothing_is_lost() -> None:
    scene = ModelScene()
    await scene.settle()
    scene.synced("gw")
    await scene.settle()
    scene.world.absent(LITELLM_MODEL)
    done = len(scene.world.log)
    plan = await scene.settle()
    assert (scene.phase, scene.condition("Synced")) == ("Error", ("False", "CRDMissing"))
    assert REQUEUE_S[plan.outcome] == 30.0
    assert len(scene.world.log) == done
    scene.world.dying(PALENA_MODEL, HOME, NAME)
    await scene.settle()
    assert FINALIZER not in scene.model.metadata.finalizers


@pytest.mark.parametrize("kind", [PALENA_GATEWAY, LITELLM_MODEL, SECRET])
async def test_what_cannot_be_read_removes_nothing(kind: Kind) -> None:
    scene = ModelScene("a", "b", gateways=("a", "b"))
    await scene.settle()
    scene.refer("b")
    scene.world.unreadable(kind)
    plan = await scene.plan()
    assert not plan.steps
    assert plan.status is not None
    assert plan.status["phase"] == "Error"


async def test_the_end_takes_all_children_along_in_every_namespace_and_waits_for_them() -> None:
    scene = ModelScene("gw", {"name": "far", "namespace": "other"}, provider=KEY)
    scene.gateway("far", namespace="other", allowedConsumers={"from": "All"})
    scene.world.put(SECRET, secret("provider", {"OPENAI_API_KEY": "sk-x"}))
    await scene.settle()
    held = {"finalizers": ["litellm.palena.ai/finalizer"]}
    scene.world.change(LITELLM_MODEL, HOME, f"{NAME}-gw", metadata=held)
    scene.world.dying(PALENA_MODEL, HOME, NAME)
    plan = await scene.settle()
    assert scene.children == {f"{NAME}-gw"}
    assert scene.world.names(SECRET) == {"provider"}
    assert (scene.phase, plan.outcome) == ("Deleting", Outcome.DELETING)
    scene.world.remove(LITELLM_MODEL, HOME, f"{NAME}-gw")
    await scene.settle()
    assert FINALIZER not in scene.model.metadata.finalizers


async def test_a_child_that_does_not_go_is_waited_for_a_minute_at_most() -> None:
    scene = ModelScene()
    await scene.settle()
    scene.world.change(LITELLM_MODEL, HOME, f"{NAME}-gw", metadata={"finalizers": ["example.com/held"]})
    scene.world.dying(PALENA_MODEL, HOME, NAME)
    await scene.settle()
    scene.world.now += timedelta(seconds=59)
    await scene.settle()
    assert FINALIZER in scene.model.metadata.finalizers
    scene.world.now += timedelta(seconds=2)
    await scene.settle()
    assert FINALIZER not in scene.model.metadata.finalizers
