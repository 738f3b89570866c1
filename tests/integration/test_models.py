"""Models on a real API server: from an activation to what serves it, and back (spec: models §9, §12)."""

from collections.abc import Iterator
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from tests.support.kubeai import MODELS, PODS
from tests.support.model_scene import CPU, ModelScene, install_kinds, make_node, model_corner, model_scene
from tests.support.operator import operator
from tests.support.world import AGENT

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GPU = {"computeTarget": "nvidia-gpu", "engine": "VLLM", "url": "hf://example/model", "vram": "12Gi"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since KubeAI's kind and namespace are there once for all corners."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


async def served(scene: ModelScene, name: str, **local: Any) -> None:
    """A CPU model that KubeAI serves and the catalog lists."""
    await scene.activate(name, local={**CPU, **local})
    await scene.until(name, "Starting", "WaitingForCpuProfile")
    await scene.kubeai.take()
    await scene.until(name, "WaitingForPod")
    await scene.kubeai.serve(name)
    await scene.until(name, "Reconciling", "WaitingForCatalog")
    scene.catalog.publish(name)
    await scene.until(name, "Ready")


@pytest.mark.req("MS-221", "MS-366", "MS-112")
async def test_an_external_model_needs_two_modules_and_is_ready_once_published(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await scene.activate("outside", kind="external", external={"model": "openai/x"})
        await scene.until("outside", "Reconciling", "WaitingForCatalog")
        assert set(scene.world.mirror.all(scene.world.activations)) == {"litellm", "model-catalog"}
        scene.catalog.publish("outside")
        status = await scene.until("outside", "Ready", "CatalogReady")
        assert (status["modelRef"], status["engine"]) == ("litellm/outside", "external")
        scene.catalog.publish()
        await scene.until("outside", "Reconciling", "WaitingForCatalog")
        assert not scene.kubeai.mirror.all(MODELS)
        await scene.delete("outside")
        await scene.mirror.until("it is gone", lambda: scene.get("outside") is None)


@pytest.mark.req("MS-018", "MS-099", "MS-155", "MS-222", "MS-332", "MS-360", "MS-361")
async def test_a_cpu_model_goes_all_the_way_to_ready_and_then_rests(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await scene.activate("cpu-way", local=CPU)
        await scene.until("cpu-way", "Starting", "WaitingForCpuProfile")
        assert {"kubeai", "litellm", "model-catalog"} == set(scene.world.mirror.all(scene.world.activations))
        assert scene.kubeai.model("cpu-way") is None

        profiles = await scene.kubeai.take()
        model = await scene.kubeai.until_model("cpu-way")
        named, _, count = model["spec"]["resourceProfile"].rpartition(":")
        assert (named in profiles, count) == (True, "1")
        status = await scene.until("cpu-way", "WaitingForPod", "WaitingForModelPod")
        assert status["podCreation"]["revision"].startswith(model["metadata"]["uid"])

        pod = await scene.kubeai.make_pod("cpu-way")
        status = await scene.until("cpu-way", "Starting", "WaitingForReadyReplica")
        assert "podCreation" not in status
        await scene.kubeai.set_pod(pod, "Running", ready=True)
        await scene.kubeai.count("cpu-way", 1)
        await scene.until("cpu-way", "Reconciling", "WaitingForCatalog")
        scene.catalog.publish("cpu-way")
        status = await scene.until("cpu-way", "Ready", "CatalogReady")
        assert status["message"].startswith("1/1 replicas of vLLM on CPU are ready.")


@pytest.mark.req("MS-125", "MS-362")
async def test_an_edit_changes_the_model_in_place_and_a_lost_replica_is_seen(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await served(scene, "edited")
        before = await scene.kubeai.until_model("edited")
        await scene.activate("edited", local={**CPU, "contextWindow": 2048})
        await scene.kubeai.mirror.until(
            "the Model has the new argument",
            lambda: "--max-model-len=2048" in (scene.kubeai.model("edited") or {})["spec"]["args"],
        )
        assert (await scene.kubeai.until_model("edited"))["metadata"]["uid"] == before["metadata"]["uid"]
        await scene.until("edited", "Ready")
        await scene.kubeai.set_pod("model-edited-1", "Running", ready=False)
        await scene.until("edited", "Starting", "WaitingForReadyReplica")


@pytest.mark.req("MS-112", "MS-099")
async def test_a_model_is_switched_off_and_on_and_deleted(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await served(scene, "switched")
        first = await scene.kubeai.until_model("switched")
        await scene.activate("switched", local=CPU, enabled=False)
        status = await scene.until("switched", "Disabled")
        assert scene.kubeai.model("switched") is None
        assert status["message"] == "Model switched is switched off."
        assert (scene.get("switched") or {})["metadata"]["finalizers"]

        await scene.world.delete(PODS, "model-switched-1")
        await scene.activate("switched", local=CPU)
        await scene.until("switched", "WaitingForPod")
        again = await scene.kubeai.until_model("switched")
        assert again["metadata"]["uid"] != first["metadata"]["uid"]

        await scene.delete("switched")
        await scene.mirror.until("it is gone", lambda: scene.get("switched") is None)
        assert scene.kubeai.model("switched") is None


@pytest.mark.req("MS-225", "MS-316", "MS-317", "MS-319")
async def test_a_gpu_model_waits_for_its_vendors_module_and_then_for_a_device(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await make_node(scene, "gpu-node", {"cpu": "8"})
        await scene.activate("on-gpu", local=GPU)
        status = await scene.until("on-gpu", "WaitingForModules")
        assert "gpu has no activation" in status["message"]
        assert "gpu" not in scene.world.mirror.all(scene.world.activations)

        await scene.world.activate("gpu")
        status = await scene.until("on-gpu", "WaitingForGPU", "WaitingForGPU")
        assert "nvidia.com/gpu" in status["message"]
        assert scene.kubeai.model("on-gpu") is None

        await make_node(scene, "gpu-node", {"cpu": "8", "nvidia.com/gpu": "1"})
        await scene.until("on-gpu", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        model = await scene.kubeai.until_model("on-gpu")
        assert model["spec"]["env"]["MAGICSTICK_VLLM_VRAM_LIMIT"] == "12Gi"
        await scene.world.delete("/api/v1/nodes", "gpu-node")
        await scene.until("on-gpu", "WaitingForGPU")
        assert scene.kubeai.model("on-gpu") is not None


async def test_a_model_of_the_name_that_is_somebody_elses_is_left_alone(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        foreign = {
            "apiVersion": "kubeai.org/v1",
            "kind": "Model",
            "metadata": {"name": "taken", "namespace": "ai"},
            "spec": {"engine": "VLLM", "features": [], "url": "hf://example/theirs", "minReplicas": 0},
        }
        await scene.world.client.apply(f"{MODELS}/taken", foreign, manager="somebody")
        before = await scene.kubeai.until_model("taken")
        await scene.activate("other", local=CPU)
        await scene.until("other", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        await scene.activate("taken", local=CPU)
        status = await scene.until("taken", "Degraded", "NameConflict")
        assert "ai/taken" in status["message"]
        assert (await scene.kubeai.until_model("taken"))["metadata"] == before["metadata"]

        await scene.world.delete(MODELS, "taken")
        await scene.until("taken", "WaitingForPod")
        ours = await scene.kubeai.until_model("taken")
        assert ours["spec"]["url"] == CPU["url"]
        await scene.activate("taken", local=CPU, enabled=False)
        await scene.until("taken", "Disabled")


@pytest.mark.req("MS-341", "MS-342", "MS-343", "MS-346")
async def test_an_ended_pod_is_written_down_and_then_deleted_as_it_was_seen(cluster: DevCluster) -> None:
    mark = cluster.audit_mark()
    async with model_scene(cluster) as scene:
        await scene.activate("ended", local=CPU)
        await scene.until("ended", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        await scene.kubeai.until_model("ended")
        running = await scene.kubeai.make_pod("ended", pod="model-ended-0", phase="Running")
        failed = await scene.kubeai.make_pod("ended", phase="Failed", reason="Evicted", message="no memory")
        gone = lambda: scene.kubeai.mirror.get(PODS, failed) is None  # noqa: E731 - read twice below
        await scene.kubeai.mirror.until("the ended Pod is gone", gone)
        assert scene.kubeai.mirror.get(PODS, running) is not None
        recovery = (await scene.until("ended", "Starting", "WaitingForReadyReplica"))["podRecovery"]
        assert (recovery["attempts"], recovery["lastFailure"]) == (1, f"{failed}: Evicted: no memory")

    (deletion,) = [
        each for each in cluster.audit(AGENT, mark) if (each.resource, each.verb) == ("pods", "delete")
    ]
    written = [
        each
        for each in cluster.audit(AGENT, mark)
        if each.subresource == "status" and "podRecovery" in str(each.request_object)
    ]
    assert set((deletion.request_object or {})["preconditions"]) == {"uid", "resourceVersion"}
    assert written[0].answered <= deletion.received


@pytest.mark.req("MS-334", "MS-345")
async def test_timers_survive_the_operator(cluster: DevCluster) -> None:
    async with model_corner(cluster) as scene:
        async with operator(scene.world, seams=scene.seams):
            await scene.activate("patient", local=CPU)
            await scene.until("patient", "Starting", "WaitingForCpuProfile")
            await scene.kubeai.take()
            first = (await scene.until("patient", "WaitingForPod"))["podCreation"]
        mark = cluster.audit_mark()
        async with operator(scene.world, seams=scene.seams):
            await scene.activate("marker", kind="external", external={"model": "openai/x"})
            await scene.until("marker", "Reconciling")
            assert scene.status("patient")["podCreation"] == first
        writes = [each for each in scene.world.operator_writes(mark) if each.name == "patient"]
        assert writes == []


@pytest.mark.req("MS-089", "MS-090", "MS-091", "MS-092", "MS-093")
async def test_while_a_cache_is_cleared_no_runtime_is_made_and_removal_goes_on(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await served(scene, "leaving")
        await scene.host_operation("clean", "Preparing")
        await scene.activate("waiting", local=CPU)
        await scene.activate("beyond", kind="external", external={"model": "openai/x"})
        await scene.until("waiting", "Starting", "ModelCacheMaintenance")
        await scene.until("beyond", "Reconciling", "WaitingForCatalog")
        await scene.activate("leaving", local=CPU, enabled=False)
        await scene.until("leaving", "Disabled")
        assert scene.kubeai.model("waiting") is None

        await scene.host_operation("clean", "Succeeded")
        await scene.kubeai.until_model("waiting")
        await scene.until("waiting", "WaitingForPod")


@pytest.mark.req("MS-124")
async def test_without_kubeais_kind_a_model_waits_for_it_and_can_go(cluster: DevCluster) -> None:
    async with model_scene(cluster) as scene:
        await served(scene, "kindless")
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await scene.world.delete(definitions, "models.kubeai.org")
        status = await scene.until("kindless", "WaitingForCRD", "WaitingForCRD")
        assert "models.kubeai.org" in status["message"]
        await scene.delete("kindless")
        await scene.mirror.until("it is gone", lambda: scene.get("kindless") is None)
