"""What models are made of on a real API server: golden objects, FreeToken, switching, and rest."""

from collections.abc import Iterator
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from magicstick.models.freetoken_runtime import CONFIG_MAP as FREETOKEN_RUNTIME
from magicstick.models.ports import Seams
from tests.support import golden
from tests.support.freetoken_scene import DEPLOYMENTS, SERVICES, freetoken, gpu_host
from tests.support.freetoken_scene import WRITES as DIRECT_WRITES
from tests.support.kubeai import PODS
from tests.support.mirror import Mirror
from tests.support.model_objects import descriptor
from tests.support.model_scene import CPU, install_kinds, model_corner, model_scene
from tests.support.operator import operator
from tests.support.oracles import told
from tests.support.rights import grant, grant_where_models_run, user
from tests.support.world import AGENT

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GOLDEN = golden.load("models")
STRICT_DRY_RUN = "fieldManager=magicstick-operator&fieldValidation=Strict&force=true&dryRun=All"
FORBIDDEN = 403


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since KubeAI's kind and namespace are there once for all corners."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_object_is_taken_as_it_is(cluster: DevCluster, name: str) -> None:
    """Defaults are added to what we send; nothing of it is dropped, refused or rewritten."""
    body = GOLDEN[name]
    path = f"{cluster.rest.path_of(body)}?{STRICT_DRY_RUN}"
    taken = cluster.rest.request("PATCH", path, body, content_type="application/apply-patch+yaml")
    content = {name: value for name, value in body.items() if name != "metadata"}
    assert _missing(content, taken) == []
    assert taken["metadata"]["labels"] == body["metadata"]["labels"]


def _missing(sent: Any, taken: Any, path: str = "object") -> list[str]:
    """Paths at which what was taken is not what was sent."""
    if isinstance(sent, dict) and isinstance(taken, dict):
        return [
            each for key, value in sent.items() for each in _missing(value, taken.get(key), f"{path}.{key}")
        ]
    if isinstance(sent, list) and isinstance(taken, list) and len(sent) == len(taken):
        pairs = enumerate(zip(sent, taken, strict=True))
        return [each for number, (a, b) in pairs for each in _missing(a, b, f"{path}[{number}]")]
    return [] if sent == taken else [f"{path}: {sent!r} is {taken!r}"]


@pytest.mark.req("MS-010", "MS-348")
async def test_freetoken_is_served_by_objects_of_ours_and_makes_room_for_kubeai(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=DIRECT_WRITES) as scene:
        mirror = Mirror(scene.world.client, DEPLOYMENTS, SERVICES)
        async with mirror.running():
            await gpu_host(scene, "gpu-host")
            await scene.world.activate("gpu")
            await scene.activate("direct", local=freetoken("gpu-host"))
            await scene.until("direct", "WaitingForRuntime", "WaitingForFreeTokenRuntime")
            assert mirror.get(SERVICES, "direct-freetoken") is None

            await scene.world.config_map(FREETOKEN_RUNTIME, dict(descriptor().data))
            status = await scene.until("direct", "Starting", "WaitingForFreeTokenPod")
            made = mirror.get(DEPLOYMENTS, "direct-freetoken") or {}
            resources = made["spec"]["template"]["spec"]["containers"][0]["resources"]
            assert resources["requests"] == {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "1"}
            assert mirror.get(SERVICES, "direct-freetoken") is not None
            assert (status["modelRef"], status["requestedKvCacheType"]) == ("freetoken/direct", "auto")

            await scene.rest()
            mark = cluster.audit_mark()
            await scene.rest()
            assert told(scene.world.operator_requests(mark)) == []

            switched = {"computeTarget": "nvidia-gpu", "url": "hf://example/model", "vram": "8Gi"}
            await scene.activate("direct", local={**switched, "engine": "VLLM"})
            await scene.until("direct", "Starting", "WaitingForCpuProfile")
            assert mirror.get(DEPLOYMENTS, "direct-freetoken") is None
            assert mirror.get(SERVICES, "direct-freetoken") is None
            await scene.world.delete("/api/v1/nodes", "gpu-host")


async def test_a_freetoken_model_is_removed_with_all_its_objects(cluster: DevCluster) -> None:
    async with model_scene(cluster, writes=DIRECT_WRITES) as scene:
        mirror = Mirror(scene.world.client, DEPLOYMENTS, SERVICES)
        async with mirror.running():
            await gpu_host(scene, "gpu-host-2")
            await scene.world.activate("gpu")
            await scene.world.config_map(FREETOKEN_RUNTIME, dict(descriptor().data))
            await scene.activate("removed", local=freetoken("gpu-host-2"))
            await scene.until("removed", "Starting", "WaitingForFreeTokenPod")
            await scene.delete("removed")
            await scene.mirror.until("it is gone", lambda: scene.get("removed") is None)
            assert mirror.get(DEPLOYMENTS, "removed-freetoken") is None
            assert mirror.get(SERVICES, "removed-freetoken") is None
            await scene.world.delete("/api/v1/nodes", "gpu-host-2")


@pytest.mark.req("MS-339", "MS-340")
async def test_f14_a_pod_walks_through_its_states_and_each_is_told_as_it_is(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await scene.activate("walks", local=CPU)
        await scene.until("walks", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        await scene.kubeai.until_model("walks")
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too big"}
        pod = await scene.kubeai.make_pod("walks", conditions=[refused])
        assert "too big" in (await scene.until("walks", "Starting", "Unschedulable"))["message"]
        await scene.kubeai.set_pod(pod, "Pending", containerStatuses=[_waits("ContainerCreating")])
        await scene.until("walks", "Starting", "WaitingForReadyReplica")
        await scene.kubeai.set_pod(pod, "Pending", containerStatuses=[_waits("ErrImagePull", "denied")])
        assert "denied" in (await scene.until("walks", "Starting", "ModelContainerStartupFailed"))["message"]
        killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
        await scene.kubeai.set_pod(
            pod, "Running", containerStatuses=[_waits("CrashLoopBackOff", last=killed)]
        )
        await scene.until("walks", "Starting", "ModelRuntimeOOMKilled")
        failed = {"terminated": {"reason": "Error", "exitCode": 2}}
        await scene.kubeai.set_pod(
            pod, "Running", containerStatuses=[_waits("CrashLoopBackOff", last=failed, restarts=5)]
        )
        await scene.until("walks", "Starting", "ModelRuntimeCrashLoop")
        await scene.kubeai.set_pod(pod, "Running", ready=True, containerStatuses=[])
        await scene.kubeai.count("walks", 1)
        await scene.until("walks", "Reconciling", "WaitingForCatalog")
        await scene.world.delete(PODS, pod)  # KubeAI still counts it
        await scene.until("walks", "WaitingForPod")


def _waits(
    reason: str, message: str = "", *, last: dict[str, Any] | None = None, restarts: int = 0
) -> dict[str, Any]:
    return {
        "name": "server",
        "image": "registry.example.com/server:v1",
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": last or {},
    }


@pytest.mark.req("MS-337")
async def test_a_ready_model_at_rest_asks_for_nothing(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await scene.activate("rests", local=CPU)
        await scene.until("rests", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        await scene.kubeai.serve("rests")
        scene.catalog.publish("rests")
        await scene.until("rests", "Ready")
        await scene.rest()
        mark = cluster.audit_mark()
        await scene.rest()
        assert told(scene.world.operator_requests(mark)) == []


@pytest.mark.req("MS-011")
async def test_the_operators_own_rights_suffice_for_models(cluster: DevCluster) -> None:
    mark = cluster.audit_mark()
    async with model_corner(cluster) as scene:
        token = await grant(scene.world)
        await grant_where_models_run(scene.world)
        async with operator(scene.world, token=token, seams=scene.seams):
            await scene.activate("granted", local=CPU)
            await scene.until("granted", "Starting", "WaitingForCpuProfile")
            await scene.kubeai.take()
            await scene.kubeai.until_model("granted")
            pod = await scene.kubeai.make_pod("granted", phase="Failed", reason="Evicted")
            await scene.kubeai.mirror.until("it is gone", lambda: scene.kubeai.mirror.get(PODS, pod) is None)
            await scene.kubeai.serve("granted")
            await scene.until("granted", "Reconciling", "WaitingForCatalog")
            await scene.delete("granted")
            await scene.mirror.until("it is gone", lambda: scene.get("granted") is None)
            await scene.rest()
    asked = [each for each in cluster.audit(AGENT, mark) if each.user == user(scene.world)]
    assert {"models", "pods", "helmreleases"} <= {each.resource for each in asked if each.is_write}
    # The namespace of the gateway brings its own rights, and is not here.
    denied = [each for each in asked if each.code == FORBIDDEN and each.namespace != "identity-system"]
    assert told(denied) == []


async def test_without_a_right_where_models_run_a_model_says_so_and_heals(cluster: DevCluster) -> None:
    async with model_corner(cluster) as scene:
        token = await grant(scene.world)
        await grant_where_models_run(scene.world, writing=False)
        async with operator(scene.world, token=token, seams=scene.seams):
            await scene.activate("denied", local=CPU)
            await scene.until("denied", "Starting", "WaitingForCpuProfile")
            await scene.kubeai.take()
            status = await scene.until("denied", "Degraded", "RuntimePermissionDenied")
            assert "system:serviceaccount" not in str(status)
            await grant_where_models_run(scene.world)
            await scene.until("denied", "WaitingForPod")


async def test_one_bad_model_disturbs_no_other(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await scene.activate("bad", local={**CPU, "url": "ftp://example"})
        await scene.activate("a" * 41, local=CPU)
        await scene.activate("elsewhere", targetNamespace="nowhere", local=CPU)
        await scene.activate("good", local=CPU)
        await scene.until("bad", "Degraded", "InvalidModelSpec")
        await scene.until("a" * 41, "Degraded", "InvalidName")
        await scene.until("good", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        await scene.until("good", "WaitingForPod")
        status = await scene.until("elsewhere", "WaitingForNamespace", "WaitingForNamespace")
        assert "nowhere" in status["message"]
        for name in ("bad", "a" * 41):
            assert scene.kubeai.model(name) is None


def test_the_seams_default_to_nobody() -> None:
    """Nothing that nobody has looked at is taken for true."""
    nobody = Seams()
    assert nobody.publication.published("demo", "ai") is None
    assert nobody.sharing.sharing("nvidia-gpu", "demo", "ai") is None
