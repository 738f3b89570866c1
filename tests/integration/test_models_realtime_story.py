"""A realtime model from its activation to Ready and back: real controllers, a played kubelet and vLLM-Omni.

The operator is whole: it asks the runtime for its health itself, and reads the model catalog's own ConfigMap.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hack.devcluster import WITH_CONTROLLERS, DevCluster
from hack.devcluster.actors.following import DIRECTIONS
from hack.devcluster.actors.kubeai import KubeAiActor
from hack.devcluster.actors.omni import OmniServer
from magicstick.runtime.conditions import find
from tests.support.kubeai import PODS
from tests.support.mirror import Mirror, Object
from tests.support.model_scene import ModelScene, install_kinds, model_corner, publish
from tests.support.operator import operator
from tests.support.oracles import told
from tests.support.realtime_scene import mirror_of, parts, pods_of

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

NODE = "omni-host"
GPU = "nvidia.com/gpu"
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster.start(WITH_CONTROLLERS) as cluster:
        install_kinds(cluster)
        cluster.apply(RUNTIME_CLASS)
        labels = {f"{GPU}.count": "2", f"{GPU}.memory": "24576"}
        cluster.add_node(NODE, labels=labels, allocatable={GPU: "2"})
        yield cluster


def omni(**changes: Any) -> dict[str, Any]:
    block = {"profile": "qwen3-omni", "gpuNode": NODE, "systemMemoryMi": 4096, **changes}
    return {"computeTarget": "nvidia-gpu", "url": "hf://example/omni", "realtime": block}


class Stage:
    """The corner, what serves its models, and the kubelet's actor."""

    def __init__(self, scene: ModelScene, mirror: Mirror, actor: KubeAiActor) -> None:
        self.scene, self.mirror, self._actor = scene, mirror, actor

    async def until_pod(self, name: str, *, beside: str = "") -> Object:
        """Wait for the only Pod of a model that is not the one `beside`."""

        def only() -> bool:
            return len(pods_of(self.mirror, name)) == 1 and beside not in pods_of(self.mirror, name)

        await self.mirror.until(f"{name} has one Pod", only)
        return next(iter(pods_of(self.mirror, name).values()))

    async def direct(self, pod: Object, **directions: str | None) -> None:
        """Have the kubelet, or the server in the Pod, behave so."""
        annotations = {f"{DIRECTIONS}/{name}": value for name, value in directions.items()}
        path = f"{PODS}/{pod['metadata']['name']}"
        await self.scene.world.client.merge(path, {"metadata": {"annotations": annotations}})

    def server_of(self, pod: Object) -> OmniServer:
        """vLLM-Omni in the Pod."""
        server = self._actor.node.servers[pod["metadata"]["uid"]]
        assert isinstance(server, OmniServer)
        return server

    def condition(self, name: str, type_: str) -> object:
        """Whether a condition of the model holds."""
        return (find(self.scene.status(name).get("conditions", ()), type_) or {}).get("status")


@contextlib.asynccontextmanager
async def stage(cluster: DevCluster) -> AsyncIterator[Stage]:
    async with model_corner(cluster) as scene, contextlib.AsyncExitStack() as stack:
        mirror = await stack.enter_async_context(mirror_of(scene).running())
        actor = await stack.enter_async_context(KubeAiActor(scene.world.client).running())
        await publish(scene)
        await scene.world.activate("gpu")
        await stack.enter_async_context(operator(scene.world))
        yield Stage(scene, mirror, actor)
        scene.assert_sound()


async def gone(stage: Stage, name: str) -> None:
    await stage.scene.delete(name)
    await stage.scene.mirror.until("it is gone", lambda: stage.scene.get(name) is None)
    assert parts(stage.mirror, name) == []
    await stage.mirror.until("its Pods are gone", lambda: not pods_of(stage.mirror, name))


@pytest.mark.req("MS-045", "MS-047", "MS-053", "MS-056")
async def test_a_model_goes_all_the_way_to_ready_and_then_rests(cluster: DevCluster) -> None:
    async with stage(cluster) as here:
        scene = here.scene
        await scene.activate("talks", local=omni())
        status = await scene.until("talks", "Reconciling", "WaitingForCatalog")
        assert status["runtimeEndpoint"] == "http://talks-realtime.ai.svc.cluster.local:8000/v1"
        assert here.condition("talks", "RuntimeReady") == "True"
        pod = await here.until_pod("talks")
        assert (pod["spec"]["nodeName"], pod["spec"]["runtimeClassName"]) == (NODE, "nvidia")
        assert set(here.server_of(pod).calls) == {"GET /health"}

        await publish(scene, "talks")
        status = await scene.until("talks", "Ready", "RealtimeRuntimeReady")
        assert status["message"].startswith("1/1 replicas of vLLM-Omni on NVIDIA GPU are ready.")
        assert (status["vramRequiredMi"], status["gpuSharing"]["wholeGpuCount"]) == (22118, 1)
        await scene.rest()
        mark = cluster.audit_mark()
        await scene.rest()
        assert told(scene.world.operator_requests(mark)) == []
        await gone(here, "talks")


@pytest.mark.req("MS-053", "MS-081")
async def test_a_runtime_that_fails_says_how_and_comes_back(cluster: DevCluster) -> None:
    async with stage(cluster) as here:
        scene = here.scene
        await publish(scene, "fails")
        await scene.activate("fails", local=omni())
        await scene.until("fails", "Ready")
        pod = await here.until_pod("fails")

        await here.direct(pod, omni="unwell")
        status = await scene.until("fails", "Starting", "WaitingForRealtimeHealth")
        assert "HTTP 503" in status["message"]
        assert (here.condition("fails", "RuntimeReady"), status["runtimeEndpoint"]) == ("False", "")
        await here.direct(pod, omni=None)
        await scene.until("fails", "Ready")

        await here.direct(pod, pods="out-of-memory")
        status = await scene.until("fails", "Degraded", "RealtimePodFailed")
        assert "OOMKilled" in status["message"]
        await here.direct(pod, pods="pull-error")
        await scene.mirror.until(
            "the other failure is told",
            lambda: "ImagePullBackOff" in scene.status("fails").get("message", ""),
        )
        await here.direct(pod, pods=None)
        await scene.until("fails", "Ready")
        await gone(here, "fails")


@pytest.mark.req("MS-050", "MS-052", "MS-084")
async def test_a_restart_waits_until_the_old_pod_is_gone_and_is_ready_again(cluster: DevCluster) -> None:
    async with stage(cluster) as here:
        scene = here.scene
        await publish(scene, "restarts")
        await scene.activate("restarts", local=omni(gpuCount=2))
        await scene.until("restarts", "Ready")
        first = (await here.until_pod("restarts"))["metadata"]["name"]
        await scene.activate("restarts", local=omni(gpuCount=2, restartNonce="again"))
        second = await here.until_pod("restarts", beside=first)
        await scene.until("restarts", "Ready")
        assert second["spec"]["containers"][0]["resources"]["limits"][GPU] == "2"
        # Two Pods with two GPUs each would not fit on the node, so the second one's place was free.
        assert pods_of(here.mirror, "restarts").keys() == {second["metadata"]["name"]}

        await scene.activate("restarts", local=omni(gpuCount=2), enabled=False)
        await scene.until("restarts", "Disabled")
        await here.mirror.until("its Pod is gone", lambda: not pods_of(here.mirror, "restarts"))
        await scene.activate("restarts", local=omni(gpuCount=2))
        await scene.until("restarts", "Ready")
        await gone(here, "restarts")


@pytest.mark.req("MS-075")
async def test_a_runtime_that_nobody_can_schedule_holds_up_no_other(cluster: DevCluster) -> None:
    async with stage(cluster) as here:
        scene = here.scene
        await publish(scene, "greedy", "modest")
        await scene.activate("greedy", local=omni(gpuCount=2))
        await scene.until("greedy", "Ready")
        await scene.activate("modest", local=omni())
        await scene.until("modest", "Starting", "WaitingForRealtimePod")
        await scene.mirror.until(
            "it is told why",
            lambda: "Insufficient nvidia.com/gpu" in scene.status("modest").get("message", ""),
        )
        await gone(here, "greedy")
        await scene.until("modest", "Ready")
        await gone(here, "modest")
