"""Which changes wake which observability, and that nothing else does (spec: palena §9)."""

import pytest

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    CNPG_DATABASE_ROLE,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    PALENA_GATEWAY,
    PALENA_OBSERVABILITY,
)
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_consumers import ObservabilityScene, foreign, observability
from tests.support.palena_objects import GATEWAY, HOME, secret

pytestmark = pytest.mark.anyio

OURS = ObjectKey("elsewhere", "obs")
REFERENCE = {"name": GATEWAY, "namespace": HOME}


def woken(scene: ObservabilityScene, kind: Kind, old: View | None, new: View | None) -> set[ObjectKey]:
    return {
        key
        for edge in scene.reconciler.declaration.edges
        if edge.kind == kind and edge.name is None and edge.changed(old, new)
        for key in edge.wakes(old, new)
    }


async def with_a_neighbour() -> ObservabilityScene:
    """One beside another namespace's gateway, and another of another gateway."""
    scene = ObservabilityScene(namespace="elsewhere", gatewayRef=REFERENCE)
    await scene.running()
    scene.world.put(PALENA_OBSERVABILITY, observability("other", gatewayRef={"name": "another"}))
    return scene


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        (LANGFUSE_INSTANCE, "obs-langfuse", "elsewhere"),
        (SECRET, "obs-langfuse-apikeys", "elsewhere"),
        (SECRET, "obs-langfuse-apikeys", HOME),
        (SECRET, "obs-langfuse-db", "elsewhere"),
        (SECRET, "obs-langfuse-redis", "elsewhere"),
        (SECRET, "obs-langfuse-pg", HOME),
        (SECRET, "gw-palena-redis", HOME),
        (SECRET, "s3-keys", "elsewhere"),
        (CNPG_DATABASE, "obs-langfuse", HOME),
        (CNPG_DATABASE_ROLE, "obs-langfuse", HOME),
        (NETWORK_POLICY, "obs-palena-langfuse-to-redis", HOME),
        (LITELLM_INSTANCE, "gw-palena-litellm", HOME),
        (CNPG_CLUSTER, "gw-palena-pg", HOME),
    ],
)
async def test_a_change_or_the_end_of_what_it_has_or_reads_wakes_it_alone(
    kind: Kind, name: str, namespace: str
) -> None:
    scene = await with_a_neighbour()
    live = scene.must(kind, name, namespace)

    assert woken(scene, kind, live, live) == {OURS}
    assert woken(scene, kind, live, None) == {OURS}


async def test_what_it_sees_of_its_gateway_wakes_it_and_nothing_else_does() -> None:
    scene = await with_a_neighbour()
    ready = scene.must(PALENA_GATEWAY, GATEWAY, HOME)
    scene.gateway(ready="False", allowedConsumers={"from": "All"})
    unready = scene.must(PALENA_GATEWAY, GATEWAY, HOME)
    told = scene.world.change(PALENA_GATEWAY, HOME, GATEWAY, status={**unready.status, "modelCount": 7})

    assert woken(scene, PALENA_GATEWAY, ready, unready) == {OURS}
    assert woken(scene, PALENA_GATEWAY, ready, None) == {OURS}
    assert woken(scene, PALENA_GATEWAY, unready, told) == set()


async def test_the_redis_that_a_gateway_is_given_wakes_those_who_share_it() -> None:
    scene = await with_a_neighbour()
    external = {"mode": "external", "external": {"secretRef": {"name": "cache"}}}
    scene.gateway(redis=external, allowedConsumers={"from": "All"})

    assert woken(scene, SECRET, None, scene.world.put(SECRET, secret("cache", {"x": "y"}))) == {OURS}
    assert woken(scene, SECRET, None, scene.world.put(SECRET, secret("unknown", {"x": "y"}))) == set()


async def test_a_litellm_that_is_no_gateways_wakes_nobody() -> None:
    scene = await with_a_neighbour()
    body = foreign("litellm.palena.ai/v1alpha1", "LiteLLMInstance", "by-hand")

    assert woken(scene, LITELLM_INSTANCE, None, scene.world.put(LITELLM_INSTANCE, body)) == set()


async def test_others_of_the_same_gateway_wake_one_another() -> None:
    scene = await with_a_neighbour()
    made = scene.world.put(PALENA_OBSERVABILITY, observability("second"))
    status = scene.world.change(PALENA_OBSERVABILITY, HOME, "second", status={"phase": "Running"})

    assert woken(scene, PALENA_OBSERVABILITY, None, made) == {OURS}
    assert woken(scene, PALENA_OBSERVABILITY, made, None) == {OURS}
    assert woken(scene, PALENA_OBSERVABILITY, made, status) == set()
