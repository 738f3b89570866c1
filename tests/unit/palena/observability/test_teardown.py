"""The end of an observability, in order (spec: palena §7.8, §13)."""

from typing import Any

import pytest

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    CNPG_DATABASE_ROLE,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    PALENA_GATEWAY,
)
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import Delete, Patch
from tests.support.palena_consumers import ObservabilityScene
from tests.support.palena_objects import GATEWAY, HOME

pytestmark = pytest.mark.anyio

NAME = "obs-langfuse"
KEYS = "obs-langfuse-apikeys"
CLUSTER = f"{GATEWAY}-palena-pg"
INSTANCE = f"{GATEWAY}-palena-litellm"
ELSEWHERE: dict[str, Any] = {"namespace": "elsewhere", "gatewayRef": {"name": GATEWAY, "namespace": HOME}}
OWN_ENV = {"name": "OTEL_ENDPOINT", "value": "http://collector.example.com"}


def held(scene: ObservabilityScene, kind: Any, name: str, namespace: str = HOME) -> None:
    """Its own operator's finalizer keeps an object until the test lets it go."""
    scene.world.change(kind, namespace, name, metadata={"finalizers": ["theirs.example.com/finalizer"]})


def deleted(scene: ObservabilityScene) -> list[str]:
    return [f"{step.kind.kind} {step.key.name}" for step in scene.written() if isinstance(step, Delete)]


@pytest.mark.req("PA-093", "PA-094")
async def test_the_callback_goes_first_and_the_finalizer_only_after_it() -> None:
    scene = ObservabilityScene()
    await scene.running()
    held(scene, LANGFUSE_INSTANCE, NAME)
    scene.delete()
    scene.written()
    await scene.settle()
    steps = scene.written()

    assert isinstance(steps[0], Patch)
    assert (steps[0].kind, steps[0].body) == (LITELLM_INSTANCE, {"spec": {"callbacks": None}})
    assert scene.callbacks is None
    assert not scene.released
    assert scene.phase == "Deleting"
    assert NAME in scene.status["message"]
    scene.world.remove(LANGFUSE_INSTANCE, HOME, NAME)
    await scene.settle()
    assert scene.released


async def test_e23_entries_of_others_stay() -> None:
    scene = ObservabilityScene()
    scene.surroundings()
    scene.litellm({"types": ["otel"], "envVars": [OWN_ENV]})
    await scene.running()
    scene.litellm(
        {**scene.callbacks, "types": ["otel", "langfuse"], "envVars": [OWN_ENV, *scene.callbacks["envVars"]]}
    )
    scene.delete()
    await scene.settle()

    assert scene.callbacks == {"types": ["otel"], "envVars": [OWN_ENV]}
    assert scene.released


async def test_the_stages_follow_one_another_and_each_waits_for_the_one_before() -> None:
    scene = ObservabilityScene(**ELSEWHERE)
    await scene.running()
    assert scene.find(SECRET, KEYS, HOME) is not None
    held(scene, LANGFUSE_INSTANCE, NAME, "elsewhere")
    held(scene, CNPG_DATABASE, NAME)
    scene.delete()
    scene.written()
    await scene.settle()
    assert deleted(scene) == [f"Secret {KEYS}", f"LangfuseInstance {NAME}"]

    scene.world.remove(LANGFUSE_INSTANCE, "elsewhere", NAME)
    await scene.settle()
    assert deleted(scene) == [
        "NetworkPolicy obs-palena-langfuse-to-postgres",
        "NetworkPolicy obs-palena-langfuse-to-redis",
        f"Database {NAME}",
    ]
    scene.world.remove(CNPG_DATABASE, HOME, NAME)
    await scene.settle()
    assert deleted(scene) == [f"DatabaseRole {NAME}", f"Secret {NAME}-pg"]
    assert scene.released


async def test_e26_nothing_is_left_beside_a_gateway_elsewhere() -> None:
    scene = ObservabilityScene(**ELSEWHERE)
    await scene.running()
    made = [
        (CNPG_DATABASE, NAME),
        (CNPG_DATABASE_ROLE, NAME),
        (SECRET, KEYS),
        (SECRET, f"{NAME}-pg"),
        (NETWORK_POLICY, "obs-palena-langfuse-to-postgres"),
        (NETWORK_POLICY, "obs-palena-langfuse-to-redis"),
    ]
    for kind, name in made:
        live = scene.must(kind, name, HOME)
        assert live.metadata.owner_references == ()
        assert live.metadata.annotations["palena.ai/owner"] == "PalenaObservability/elsewhere/obs"
    policy = scene.must(NETWORK_POLICY, "obs-palena-langfuse-to-redis", HOME)
    peer = policy.spec["ingress"][0]["from"][0]
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
    scene.delete()
    await scene.settle()

    assert scene.released
    assert not [name for kind, name in made if scene.find(kind, name, HOME) is not None]


async def test_beside_its_gateway_everything_has_an_owner() -> None:
    scene = ObservabilityScene()
    await scene.running()

    for kind, name in ((CNPG_DATABASE, NAME), (SECRET, f"{NAME}-pg"), (LANGFUSE_INSTANCE, NAME)):
        assert [each.uid for each in scene.must(kind, name).metadata.owner_references] == [
            scene.live.metadata.uid
        ]


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_the_policy_says_what_becomes_of_the_database_itself(policy: str) -> None:
    scene = ObservabilityScene(deletionPolicy=policy)
    await scene.running()
    held(scene, CNPG_DATABASE, NAME)
    held(scene, CNPG_DATABASE_ROLE, NAME)
    scene.delete()
    await scene.settle()
    word = policy.lower()
    assert scene.must(CNPG_DATABASE, NAME).spec["databaseReclaimPolicy"] == word
    scene.world.remove(CNPG_DATABASE, HOME, NAME)
    await scene.settle()

    role = scene.must(CNPG_DATABASE_ROLE, NAME)
    assert role.metadata.dying
    assert role.spec["databaseRoleReclaimPolicy"] == word


async def test_a_policy_that_was_changed_at_the_end_counts() -> None:
    scene = ObservabilityScene()
    await scene.running()
    held(scene, CNPG_DATABASE, NAME)
    scene.world.change(scene.kind, HOME, "obs", spec={**scene.live.spec, "deletionPolicy": "Delete"})
    scene.delete()
    await scene.settle()

    assert scene.must(CNPG_DATABASE, NAME).spec["databaseReclaimPolicy"] == "delete"


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ("Retain", [{"name": "reporting"}]),
        ("Delete", [{"name": "reporting"}, {"name": "langfuse", "ensure": "absent"}]),
    ],
)
async def test_the_role_of_a_cluster_is_given_back_or_dropped(policy: str, left: Any) -> None:
    scene = ObservabilityScene(deletionPolicy=policy)
    scene.world.absent(CNPG_DATABASE_ROLE)
    scene.surroundings()
    scene.world.change(CNPG_CLUSTER, HOME, CLUSTER, spec={"managed": {"roles": [{"name": "reporting"}]}})
    await scene.settle()
    assert len(scene.must(CNPG_CLUSTER, CLUSTER).spec["managed"]["roles"]) == 2
    scene.delete()
    await scene.settle()

    assert scene.must(CNPG_CLUSTER, CLUSTER).spec["managed"]["roles"] == left
    assert scene.released


@pytest.mark.parametrize("dying", ["gone", "dying"])
async def test_e24_after_its_gateway_nothing_of_the_gateway_is_touched(dying: str) -> None:
    scene = ObservabilityScene()
    await scene.running()
    if dying == "gone":
        scene.world.remove(PALENA_GATEWAY, HOME, GATEWAY)
    else:
        scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    scene.delete()
    scene.written()
    await scene.settle()

    assert scene.released
    assert not [step for step in scene.written() if step.kind in (LITELLM_INSTANCE, CNPG_CLUSTER)]


async def test_a_database_beside_a_gateway_that_is_gone_is_deleted_and_not_waited_for() -> None:
    scene = ObservabilityScene(**ELSEWHERE)
    await scene.running()
    held(scene, CNPG_DATABASE, NAME)
    scene.world.remove(PALENA_GATEWAY, HOME, GATEWAY)
    scene.delete()
    await scene.settle()

    assert scene.must(CNPG_DATABASE, NAME, HOME).metadata.dying
    assert scene.released


async def test_a_database_that_outlived_its_gateway_is_kept_if_that_was_said_at_the_last_moment() -> None:
    scene = ObservabilityScene(**ELSEWHERE, deletionPolicy="Delete")
    await scene.running()
    held(scene, CNPG_DATABASE, NAME)
    scene.world.remove(PALENA_GATEWAY, HOME, GATEWAY)
    scene.change(deletionPolicy="Retain")
    scene.delete()
    await scene.settle()

    left = scene.must(CNPG_DATABASE, NAME, HOME)
    assert (left.spec["databaseReclaimPolicy"], left.metadata.dying) == ("retain", True)
    assert scene.released


@pytest.mark.parametrize("kind", [LITELLM_INSTANCE, LANGFUSE_INSTANCE, CNPG_DATABASE])
async def test_a_kind_that_is_served_no_more_keeps_nobody(kind: Any) -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.world.absent(kind)
    scene.delete()
    await scene.settle()

    assert scene.released


@pytest.mark.parametrize("kind", [LITELLM_INSTANCE, PALENA_GATEWAY, SECRET])
async def test_a_kind_that_cannot_be_read_keeps_the_finalizer(kind: Any) -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.world.unreadable(kind)
    scene.delete()
    scene.written()
    await scene.settle()

    assert not scene.released
    assert scene.written() == []
    assert str(kind) in scene.status["message"]


async def test_an_observability_whose_spec_cannot_be_read_ends_all_the_same() -> None:
    scene = ObservabilityScene()
    await scene.running()
    scene.change(blobStorage={"provider": "odd"})
    scene.delete()
    await scene.settle()

    assert scene.callbacks is None
    assert scene.world.names(LANGFUSE_INSTANCE) == set()
    assert scene.released


async def test_somebody_elses_objects_outlive_the_end() -> None:
    scene = ObservabilityScene()
    foreign = {"metadata": {"name": NAME, "namespace": HOME}, "spec": {"image": {"tag": "2"}}}
    scene.world.put(LANGFUSE_INSTANCE, foreign)
    scene.surroundings()
    await scene.settle()
    scene.delete()
    plan = await scene.settle()

    assert plan.outcome is Outcome.RELEASED
    assert scene.must(LANGFUSE_INSTANCE, NAME).spec == {"image": {"tag": "2"}}
