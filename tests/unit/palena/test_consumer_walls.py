"""Between all Pods that there may be, exactly the paths that chats, tools and traces need are open.

(spec: palena §4.5, §8.4)
"""

from typing import Any

import pytest

from magicstick.palena.common.kinds import DEPLOYMENT, NETWORK_POLICY
from tests.support.network_policies import Endpoint, paths
from tests.support.palena_consumers import McpScene, ObservabilityScene
from tests.support.palena_gateway_scene import GatewayScene
from tests.support.palena_objects import GATEWAY, HOME
from tests.support.palena_world import PalenaWorld, body_of

pytestmark = pytest.mark.anyio


def walls(world: PalenaWorld, namespace: str = HOME) -> list[dict[str, Any]]:
    return [
        body_of(world.must(NETWORK_POLICY, namespace, name))
        for name in world.names(NETWORK_POLICY, namespace)
    ]


def pods(scene: McpScene) -> list[Endpoint]:
    """The Pods of all workloads, which listen where their containers say."""
    found = []
    for name in sorted(scene.world.names(DEPLOYMENT)):
        template = scene.must(DEPLOYMENT, name).spec["template"]
        ports = template["spec"]["containers"][0]["ports"]
        listening = tuple(each["containerPort"] for each in ports)
        found.append(Endpoint(name, HOME, template["metadata"]["labels"], listening))
    return found


async def test_sidecars_are_reached_by_their_server_alone_and_the_server_by_everybody() -> None:
    scene = McpScene(sidecars={"injectionGuard": {"enabled": True}})
    await scene.running()
    ours = pods(scene)
    other = [
        Endpoint(f"other-{each.name}", HOME, {**each.labels, "app.kubernetes.io/instance": "other"})
        for each in ours
    ]
    stranger = Endpoint(
        "stranger", "elsewhere", {**ours[0].labels, "app.kubernetes.io/name": "websearch-mcp"}
    )
    everybody = [*ours, *other, stranger]
    server = next(each for each in ours if each.name == "websearch")
    sidecars = [each for each in ours if each is not server]

    assert len(sidecars) == 6
    assert paths(everybody, walls(scene.world)) == {
        *(("websearch", each.name, port) for each in sidecars for port in each.ports),
        *((each.name, "websearch", 8080) for each in everybody if each is not server),
    }


@pytest.mark.parametrize("home", [HOME, "traces"])
async def test_langfuse_comes_through_the_walls_of_its_gateway_to_both_stores_and_nowhere_else(
    home: str,
) -> None:
    gateway = GatewayScene()
    await gateway.running()
    scene = ObservabilityScene(namespace=home, gatewayRef={"name": GATEWAY, "namespace": HOME})
    await scene.running()
    before, after = walls(gateway.world), [*walls(gateway.world), *walls(scene.world)]

    def langfuse(name: str, namespace: str, instance: str = "obs-langfuse") -> Endpoint:
        labels = {"app.kubernetes.io/name": "langfuse", "app.kubernetes.io/instance": instance}
        return Endpoint(name, namespace, {**labels, "app.kubernetes.io/component": name})

    instance = {"litellm.palena.ai/instance": "gw-palena-litellm"}
    cluster = {"cnpg.io/cluster": "gw-palena-pg", "palena.ai/gateway": GATEWAY}
    cache = {
        "app.kubernetes.io/name": "redis",
        "app.kubernetes.io/instance": GATEWAY,
        "palena.ai/gateway": GATEWAY,
    }
    everybody = [
        langfuse("web", home),
        langfuse("worker", home),
        langfuse("impostor", "elsewhere"),
        langfuse("another", home, "another-langfuse"),
        Endpoint("litellm", HOME, instance, (4000,)),
        Endpoint("postgres", HOME, cluster, (5432, 8000, 9187)),
        Endpoint("redis", HOME, cache, (6379,)),
        Endpoint("stranger", HOME, {}),
    ]

    assert paths(everybody, after) - paths(everybody, before) == {
        (source, target, port)
        for source in ("web", "worker")
        for target, port in (("postgres", 5432), ("redis", 6379))
    }
