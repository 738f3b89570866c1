"""Which changes wake which gateway, and that nothing else does."""

from typing import Any

import msgspec
import pytest

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE, PALENA_GATEWAY, PALENA_MODEL
from magicstick.kube.discovery import CrdView
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.palena.common.kinds import NETWORK_POLICY, SERVICE, STATEFUL_SET
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_gateway_scene import GatewayScene
from tests.support.palena_objects import GATEWAY, HOME, gateway, model, secret
from tests.support.palena_world import body_of

pytestmark = pytest.mark.anyio

OURS = ObjectKey(HOME, GATEWAY)


def woken(scene: GatewayScene, kind: Kind, old: View | None, new: View | None) -> set[ObjectKey]:
    return {
        key
        for edge in scene.reconciler.declaration.edges
        if edge.kind == kind and edge.name is None and edge.changed(old, new)
        for key in edge.wakes(old, new)
    }


async def with_a_neighbour() -> GatewayScene:
    scene = GatewayScene()
    await scene.running()
    scene.world.put(PALENA_GATEWAY, gateway("other"))
    await scene.world.settle(scene.reconciler, HOME, "other")
    return scene


@pytest.mark.req("PA-049", "PA-050", "PA-051", "PA-052", "PA-053", "PA-054")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (STATEFUL_SET, "gw-palena-redis"),
        (SERVICE, "gw-palena-redis"),
        (SERVICE, "gw-palena-redis-headless"),
        (SECRET, "gw-palena-redis"),
        (SECRET, "gw-palena-litellm-keys"),
        (SECRET, "gw-palena-pg-app"),
        (NETWORK_POLICY, "gw-palena-default-deny"),
        (CNPG_CLUSTER, "gw-palena-pg"),
        (LITELLM_INSTANCE, "gw-palena-litellm"),
    ],
)
async def test_a_change_or_the_end_of_what_a_gateway_has_wakes_that_gateway_alone(
    kind: Kind, name: str
) -> None:
    scene = await with_a_neighbour()
    live = scene.world.must(kind, HOME, name)
    assert woken(scene, kind, live, live) == {OURS}
    assert woken(scene, kind, live, None) == {OURS}


@pytest.mark.parametrize("part", ["database", "redis", "litellm"])
async def test_a_secret_wakes_the_gateways_that_name_it_also_before_it_exists(part: str) -> None:
    named: dict[str, Any] = {"mode": "external", "external": {"secretRef": {"name": "given"}}}
    key = {"masterKeySecretRef": {"name": "given", "key": "x"}}
    scene = GatewayScene(**{part: key if part == "litellm" else named})
    scene.world.put(PALENA_GATEWAY, gateway("other"))
    await scene.settle()
    found = scene.world.put(SECRET, secret("given", {"x": "y"}))
    elsewhere = scene.world.put(SECRET, secret("given", {"x": "y"}, namespace="elsewhere"))
    unknown = scene.world.put(SECRET, secret("another", {"x": "y"}))
    assert woken(scene, SECRET, None, found) == {OURS}
    assert woken(scene, SECRET, None, elsewhere) == set()
    assert woken(scene, SECRET, None, unknown) == set()


async def test_models_wake_the_gateways_that_they_name_or_named() -> None:
    scene = await with_a_neighbour()
    old = scene.world.put(PALENA_MODEL, model("a", GATEWAY))
    new = scene.world.change(PALENA_MODEL, HOME, "a", spec={"gatewayRefs": [{"name": "other"}]})
    assert woken(scene, PALENA_MODEL, None, old) == {OURS}
    assert woken(scene, PALENA_MODEL, old, new) == {OURS, ObjectKey(HOME, "other")}
    told = scene.world.change(PALENA_MODEL, HOME, "a", status={"phase": "Running"})
    assert woken(scene, PALENA_MODEL, new, told) == set()


@pytest.mark.parametrize(
    ("group", "plural", "kind", "counts"),
    [
        ("postgresql.cnpg.io", "clusters", "Cluster", True),
        ("litellm.palena.ai", "litellminstances", "LiteLLMInstance", True),
        ("example.com", "clusters", "Cluster", False),
    ],
)
async def test_only_the_definitions_of_kinds_that_are_needed_wake_everybody(
    group: str, plural: str, kind: str, *, counts: bool
) -> None:
    scene = await with_a_neighbour()
    version = "v1" if group == "postgresql.cnpg.io" else "v1alpha1"
    body = {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": True}],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
    view = msgspec.convert(body, CrdView)
    everybody = {OURS, ObjectKey(HOME, "other")} if counts else set()
    assert woken(scene, CUSTOM_RESOURCE_DEFINITION, None, view) == everybody
    assert woken(scene, CUSTOM_RESOURCE_DEFINITION, view, None) == everybody
    assert woken(scene, CUSTOM_RESOURCE_DEFINITION, view, view) == set()


async def test_what_belongs_to_nobody_wakes_nobody() -> None:
    scene = await with_a_neighbour()
    live = scene.world.must(STATEFUL_SET, HOME, "gw-palena-redis")
    body = body_of(live)
    body["metadata"] = {"name": "theirs", "namespace": HOME}
    found = scene.world.put(STATEFUL_SET, body)
    assert woken(scene, STATEFUL_SET, None, found) == set()
