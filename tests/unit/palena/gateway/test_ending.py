"""The end of a gateway: in order, each stage only when the one before is gone, and what is kept stays."""

from datetime import timedelta
from typing import Any

import pytest

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE, PALENA_GATEWAY, PALENA_MODEL
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.kinds import NETWORK_POLICY, PERSISTENT_VOLUME_CLAIM, SERVICE, STATEFUL_SET
from magicstick.palena.common.labels import FINALIZER, RETAINED
from magicstick.palena.common.phases import REQUEUE_S, Outcome
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import Apply, Create, Delete, Finalizer
from tests.support.palena_gateway_scene import GatewayScene
from tests.support.palena_objects import GATEWAY, HOME, gateway, model, secret

pytestmark = pytest.mark.anyio

LITELLM, REDIS, CLUSTER, KEYS = (
    "gw-palena-litellm",
    "gw-palena-redis",
    "gw-palena-pg",
    "gw-palena-litellm-keys",
)
HELD = {"finalizers": ["example.com/held"]}


async def dying(**spec: Any) -> GatewayScene:
    """A gateway that ran and is being deleted, its children held by finalizers of their operators."""
    scene = GatewayScene(**spec)
    await scene.running()
    for kind, name in ((LITELLM_INSTANCE, LITELLM), (CNPG_CLUSTER, CLUSTER), (STATEFUL_SET, REDIS)):
        if scene.world.find(kind, HOME, name) is not None:
            scene.world.change(kind, HOME, name, metadata=HELD)
    scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    scene.world.log.clear()
    return scene


def deleted(scene: GatewayScene) -> list[tuple[Kind, str]]:
    return [(each.kind, each.key.name) for each in scene.world.log if isinstance(each, Delete)]


def gone(scene: GatewayScene, kind: Kind, name: str) -> None:
    """Its operator lets it go."""
    scene.world.remove(kind, HOME, name)


def is_released(scene: GatewayScene) -> bool:
    return FINALIZER not in scene.gateway.metadata.finalizers


def owners(live: Resource) -> list[str]:
    return [each.uid for each in live.metadata.owner_references]


def wall(scene: GatewayScene, name: str) -> Resource:
    return scene.world.must(NETWORK_POLICY, HOME, name)


@pytest.mark.req("PA-016", "PA-017", "PA-018")
async def test_litellm_goes_before_redis_and_redis_before_the_database() -> None:
    scene = await dying()
    plan = await scene.settle()
    assert (scene.phase, REQUEUE_S[plan.outcome]) == ("Deleting", 15.0)
    assert LITELLM in scene.message("Ready")
    assert deleted(scene) == [(LITELLM_INSTANCE, LITELLM)]

    gone(scene, LITELLM_INSTANCE, LITELLM)
    await scene.settle()
    workload = [(STATEFUL_SET, REDIS), (SERVICE, REDIS), (SERVICE, f"{REDIS}-headless")]
    assert deleted(scene)[1:] == workload
    assert scene.world.find(SECRET, HOME, REDIS) is not None
    assert scene.world.must(CNPG_CLUSTER, HOME, CLUSTER).metadata.deletion_timestamp is None

    gone(scene, STATEFUL_SET, REDIS)
    await scene.settle()
    assert deleted(scene)[4:] == [(SECRET, REDIS), (CNPG_CLUSTER, CLUSTER)]
    assert not is_released(scene)

    gone(scene, CNPG_CLUSTER, CLUSTER)
    plan = await scene.settle()
    assert plan.outcome == Outcome.RELEASED
    assert is_released(scene)


async def test_deletes_name_the_very_object() -> None:
    scene = await dying()
    await scene.settle()
    (step,) = scene.world.log
    assert isinstance(step, Delete)
    assert step.uid == scene.world.must(LITELLM_INSTANCE, HOME, LITELLM).metadata.uid


async def test_a_dying_gateway_makes_nothing_whatever_vanishes_around_it() -> None:
    scene = await dying()
    await scene.settle()
    gone(scene, CNPG_CLUSTER, CLUSTER)
    scene.world.remove(SERVICE, HOME, REDIS)
    scene.world.remove(SECRET, HOME, KEYS)
    await scene.settle()
    assert not [each for each in scene.world.log if isinstance(each, Apply | Create)]


async def test_a_dying_gateway_without_our_finalizer_is_none_of_our_business() -> None:
    scene = await dying()
    scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, metadata={"finalizers": ["example.com/other"]})
    plan = await scene.plan()
    assert (plan.outcome, plan.steps, plan.status) == (Outcome.IGNORED, (), None)


@pytest.mark.parametrize("kind", [LITELLM_INSTANCE, CNPG_CLUSTER])
async def test_a_kind_that_is_not_served_any_more_holds_up_nothing(kind: Kind) -> None:
    scene = await dying()
    scene.world.absent(kind)
    await scene.settle()
    for other, name in ((LITELLM_INSTANCE, LITELLM), (STATEFUL_SET, REDIS), (CNPG_CLUSTER, CLUSTER)):
        if scene.world.find(other, HOME, name) is not None:
            gone(scene, other, name)
            await scene.settle()
    assert is_released(scene)
    assert REDIS not in scene.world.names(SECRET)


async def test_a_kind_that_cannot_be_read_is_not_taken_for_gone() -> None:
    scene = await dying()
    scene.world.unreadable(LITELLM_INSTANCE)
    plan = await scene.settle()
    assert not scene.world.log
    assert not is_released(scene)
    assert plan.outcome == Outcome.DELETING


async def test_external_parts_are_skipped_and_their_secrets_stay() -> None:
    scene = GatewayScene(
        database={"mode": "external", "external": {"secretRef": {"name": "db"}}},
        redis={"mode": "external", "external": {"secretRef": {"name": "cache"}}},
    )
    scene.world.put(SECRET, secret("db", {"DATABASE_URL": "postgres://db.example.com/x"}))
    scene.world.put(SECRET, secret("cache", {"REDIS_URL": "redis://cache.example.com"}))
    await scene.running()
    scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    await scene.settle()
    assert is_released(scene)
    assert deleted(scene) == [(LITELLM_INSTANCE, LITELLM)]
    assert {"db", "cache"} <= scene.world.names(SECRET)


async def test_consumers_do_not_hold_it_up() -> None:
    scene = await dying()
    scene.world.put(PALENA_MODEL, model())
    for kind, name in ((LITELLM_INSTANCE, LITELLM), (STATEFUL_SET, REDIS), (CNPG_CLUSTER, CLUSTER)):
        await scene.settle()
        gone(scene, kind, name)
    await scene.settle()
    assert is_released(scene)


async def test_somebody_elses_objects_stay() -> None:
    scene = GatewayScene()
    await scene.settle()
    for kind, name in ((CNPG_CLUSTER, CLUSTER), (SECRET, REDIS), (STATEFUL_SET, REDIS)):
        scene.world.remove(kind, HOME, name)
        scene.world.put(kind, {"metadata": {"name": name, "namespace": HOME}, "spec": {"theirs": True}})
    scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    await scene.settle()
    assert is_released(scene)
    assert CLUSTER in scene.world.names(CNPG_CLUSTER)
    assert REDIS in scene.world.names(STATEFUL_SET)


async def test_a_child_that_does_not_go_is_told_after_ten_minutes() -> None:
    scene = await dying()
    await scene.settle()
    assert not (await scene.plan()).notices
    scene.world.now += timedelta(minutes=11)
    plan = await scene.plan()
    assert [each.reason for each in plan.notices] == ["TeardownStuck"]
    assert LITELLM in plan.notices[0].message


# --- what is kept -----------------------------------------------------------------------------------


async def test_with_retain_the_data_stays_and_all_that_it_is_worth_nothing_without() -> None:
    scene = await dying(deletionPolicy="Retain")
    workload = scene.world.must(STATEFUL_SET, HOME, REDIS)
    for kind, name in ((LITELLM_INSTANCE, LITELLM), (STATEFUL_SET, REDIS)):
        await scene.settle()
        gone(scene, kind, name)
    await scene.settle()
    assert is_released(scene)
    for kind, name in ((CNPG_CLUSTER, CLUSTER), (SECRET, KEYS), (SECRET, REDIS)):
        live = scene.world.must(kind, HOME, name)
        assert owners(live) == [], "the garbage collector would take it"
        assert live.metadata.labels[RETAINED] == "true"
    assert workload.spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    assert (CNPG_CLUSTER, CLUSTER) not in deleted(scene)
    walls = {f"gw-palena-{each}" for each in ("default-deny", "cnpg-internal")}
    kept = {name for name in scene.world.names(NETWORK_POLICY) if not owners(wall(scene, name))}
    assert kept == walls, "what runs on is as closed as it was, and CloudNativePG gets in"


@pytest.mark.parametrize("walls", [5, 0])
async def test_a_successor_takes_the_walls_over_or_away(walls: int) -> None:
    scene = await dying(deletionPolicy="Retain")
    for kind, name in ((LITELLM_INSTANCE, LITELLM), (STATEFUL_SET, REDIS)):
        await scene.settle()
        gone(scene, kind, name)
    await scene.settle()
    scene.world.remove(PALENA_GATEWAY, HOME, GATEWAY)
    for name in scene.world.names(NETWORK_POLICY):
        if owners(wall(scene, name)):
            scene.world.remove(NETWORK_POLICY, HOME, name)  # as the garbage collector does
    scene.world.put(PALENA_GATEWAY, gateway(networkPolicy={"enabled": walls > 0}))
    await scene.running()
    assert scene.phase == "Running"
    assert len(scene.world.names(NETWORK_POLICY)) == walls
    for name in scene.world.names(NETWORK_POLICY):
        assert owners(wall(scene, name)) == [scene.gateway.metadata.uid]


async def test_with_retain_said_at_the_last_moment_the_volume_is_spared_before_its_workload_goes() -> None:
    scene = GatewayScene()
    await scene.running()
    workload = scene.world.must(STATEFUL_SET, HOME, REDIS)
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": REDIS, "uid": workload.metadata.uid}
    volume = f"data-{REDIS}-0"
    scene.world.change(PERSISTENT_VOLUME_CLAIM, HOME, volume, metadata={"ownerReferences": [reference]})
    scene.world.change(STATEFUL_SET, HOME, REDIS, metadata=HELD)
    scene.change(deletionPolicy="Retain")
    scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    await scene.settle()
    retention = scene.world.must(STATEFUL_SET, HOME, REDIS).spec["persistentVolumeClaimRetentionPolicy"]
    assert retention["whenDeleted"] == "Retain"
    assert owners(scene.world.must(PERSISTENT_VOLUME_CLAIM, HOME, volume)) == []
    assert (STATEFUL_SET, REDIS) in deleted(scene)


async def test_a_successor_of_the_same_name_takes_over_what_was_kept() -> None:
    scene = await dying(deletionPolicy="Retain")
    for kind, name in ((LITELLM_INSTANCE, LITELLM), (STATEFUL_SET, REDIS)):
        await scene.settle()
        gone(scene, kind, name)
    await scene.settle()
    keys, password = scene.world.must(SECRET, HOME, KEYS).data, scene.world.must(SECRET, HOME, REDIS).data
    cluster = scene.world.must(CNPG_CLUSTER, HOME, CLUSTER).metadata.uid
    scene.world.remove(PALENA_GATEWAY, HOME, GATEWAY)
    for name in scene.world.names(NETWORK_POLICY):
        if owners(wall(scene, name)):
            scene.world.remove(NETWORK_POLICY, HOME, name)  # as the garbage collector does
    scene.world.put(PALENA_GATEWAY, gateway())
    await scene.running()
    assert scene.phase == "Running"
    assert scene.world.must(SECRET, HOME, KEYS).data == keys
    assert scene.world.must(SECRET, HOME, REDIS).data == password
    assert scene.world.must(CNPG_CLUSTER, HOME, CLUSTER).metadata.uid == cluster
    for kind, name in ((CNPG_CLUSTER, CLUSTER), (SECRET, KEYS), (SECRET, REDIS)):
        live = scene.world.must(kind, HOME, name)
        assert owners(live) == [scene.gateway.metadata.uid]
        assert RETAINED not in live.metadata.labels


async def test_a_deletion_that_orphans_leaves_everything_and_lets_go_at_once() -> None:
    scene = GatewayScene()
    await scene.running()
    finalizers = [FINALIZER, "orphan"]
    scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, metadata={"finalizers": finalizers})
    scene.world.dying(PALENA_GATEWAY, HOME, GATEWAY)
    await scene.settle()
    assert is_released(scene)
    assert not deleted(scene)
    for kind, name in ((CNPG_CLUSTER, CLUSTER), (LITELLM_INSTANCE, LITELLM), (STATEFUL_SET, REDIS)):
        live = scene.world.must(kind, HOME, name)
        assert owners(live) == []
        assert live.metadata.labels[RETAINED] == "true"


async def test_the_end_is_carried_out_although_the_spec_cannot_be_read() -> None:
    scene = await dying()
    scene.change(database={"managed": {"instances": "many"}})
    await scene.settle()
    assert deleted(scene) == [(LITELLM_INSTANCE, LITELLM)]
    assert (await scene.plan()).finalizer is Finalizer.KEEP
