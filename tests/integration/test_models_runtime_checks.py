"""Models whose runtimes are asked over HTTP, on a real API server (spec: models §10.3, §10.4, §13).

Nothing of the operator is played here: Ollama is an actor with its HTTP API, FreeToken a server that
answers what a test says, and the catalog is the ConfigMap that the model catalog publishes.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from hack.devcluster.actors.ollama import Mood, OllamaServer
from hack.devcluster.layout import LOOPBACK
from magicstick.models.freetoken_runtime import CONFIG_MAP as FREETOKEN_RUNTIME
from magicstick.runtime.conditions import find
from tests.support.freetoken_scene import freetoken, gpu_host, make_direct_pod, roll_out
from tests.support.kubeai import PODS
from tests.support.model_objects import descriptor
from tests.support.model_scene import CPU, ModelScene, install_kinds, model_corner, publish, whole_scene
from tests.support.operator import operator
from tests.support.oracles import told
from tests.support.polling import until
from tests.support.runtime_server import Reply, RuntimeServer

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

SOURCE = "qwen2.5:0.5b"
OLLAMA = {"computeTarget": "cpu", "engine": "OLlama", "url": f"ollama://{SOURCE}"}
TAGS, COPY, LOADED = "GET /api/tags", "POST /api/copy", "GET /api/ps"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since KubeAI's kind and namespace are there once for all corners."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_kinds(cluster)
        yield cluster


@contextlib.asynccontextmanager
async def server(alias: str, mood: Mood = Mood.WELL) -> AsyncIterator[OllamaServer]:
    ollama = OllamaServer(SOURCE, alias)
    ollama.turn(mood)
    async with ollama.running():
        yield ollama


def calls(ollama: OllamaServer) -> list[str]:
    return [f"{each.method} {each.path}" for each in ollama.calls]


async def made(scene: ModelScene, first: str, *more: str, **local: Any) -> None:
    """Ollama models, equal but for their names, up to their KubeAI Models: one profile serves all."""
    for name in (first, *more):
        await scene.activate(name, local={**OLLAMA, **local})
    await scene.until(first, "Starting", "WaitingForCpuProfile")
    await scene.kubeai.take()
    for name in (first, *more):
        await scene.kubeai.until_model(name)


async def pod_at(scene: ModelScene, name: str, port: int, *, pod: str = "", ready: bool = True) -> str:
    """A Pod of the model whose server listens at this port."""
    pod = await scene.kubeai.make_pod(name, pod=pod)
    await scene.world.client.merge(
        f"{PODS}/{pod}", {"metadata": {"annotations": {"model-pod-port": str(port)}}}
    )
    await start(scene, pod, ready=ready)
    return pod


async def start(scene: ModelScene, pod: str, *, ready: bool) -> None:
    await scene.kubeai.set_pod(pod, "Running", ready=ready, podIP=LOOPBACK, podIPs=[{"ip": LOOPBACK}])


def runtime_ready(scene: ModelScene, name: str) -> object:
    return (find(scene.status(name).get("conditions", ()), "RuntimeReady") or {}).get("status")


async def asked_again(ollama: OllamaServer) -> None:
    """Wait until the server was asked a few times more."""
    wanted = len(ollama.calls) + 3

    async def enough() -> bool:
        return len(ollama.calls) >= wanted

    await until("the server is asked again", enough)


@pytest.mark.req("MS-355", "MS-356", "MS-357", "MS-358", "MS-359", "MS-363", "MS-361")
async def test_an_ollama_model_gets_its_name_in_its_pod_and_comes_back_when_it_is_lost(
    cluster: DevCluster,
) -> None:
    async with whole_scene(cluster) as scene, server("named", Mood.DOWNLOADING) as ollama:
        await made(scene, "named")
        await pod_at(scene, "named", ollama.port)
        await scene.kubeai.count("named", 1)
        status = await scene.until("named", "Starting", "WaitingForOllamaAlias")
        await scene.mirror.until(
            "it is told why", lambda: "being downloaded" in scene.status("named").get("message", "")
        )
        assert status["effectiveKvCacheType"] == "f16"
        assert set(calls(ollama)) == {TAGS}

        ollama.turn(Mood.WITHOUT_ALIAS)
        await scene.until("named", "Reconciling", "WaitingForCatalog")
        assert calls(ollama).count(COPY) == 1
        assert runtime_ready(scene, "named") == "True"
        await publish(scene, "named")
        await scene.until("named", "Ready", "CatalogReady")
        await asked_again(ollama)
        assert calls(ollama).count(COPY) == 1

        ollama.turn(Mood.REFUSES_COPIES)
        status = await scene.until("named", "Starting", "WaitingForOllamaAlias")
        assert "HTTP 500" in status["message"]
        assert runtime_ready(scene, "named") == "False"
        ollama.turn(Mood.WITHOUT_ALIAS)
        await scene.until("named", "Ready", "CatalogReady")


@pytest.mark.req("MS-355", "MS-359")
async def test_each_ready_pod_has_to_list_the_name(cluster: DevCluster) -> None:
    async with (
        whole_scene(cluster) as scene,
        server("twice") as one,
        server("twice", Mood.DOWNLOADING) as two,
    ):
        await made(scene, "twice", minReplicas=2, maxReplicas=2)
        await pod_at(scene, "twice", one.port, pod="model-twice-1")
        await scene.kubeai.count("twice", 1)
        await scene.until("twice", "Reconciling", "WaitingForCatalog")
        second = await pod_at(scene, "twice", two.port, pod="model-twice-2", ready=False)
        await scene.rest()
        assert two.calls == []
        await start(scene, second, ready=True)
        await scene.kubeai.count("twice", 2)
        await scene.until("twice", "Starting", "WaitingForOllamaAlias")
        two.turn(Mood.WELL)
        await scene.until("twice", "Reconciling", "WaitingForCatalog")
        assert COPY not in calls(one) + calls(two)


async def test_a_pod_that_is_not_the_models_own_is_never_asked(cluster: DevCluster) -> None:
    async with whole_scene(cluster) as scene, server("own") as own, server("own") as foreign:
        await made(scene, "own")
        pod = await pod_at(scene, "own", foreign.port, pod="stranger", ready=False)
        await scene.world.client.merge(f"{PODS}/{pod}", {"metadata": {"ownerReferences": None}})
        await start(scene, pod, ready=True)
        await scene.kubeai.count("own", 1)
        status = await scene.until("own", "Starting", "WaitingForOllamaAlias")
        assert "No Pod of the model can be asked" in status["message"]
        await pod_at(scene, "own", own.port)
        await scene.until("own", "Reconciling", "WaitingForCatalog")
        assert foreign.calls == []


async def test_a_pod_that_does_not_answer_holds_up_its_own_model_alone(cluster: DevCluster) -> None:
    async with (
        whole_scene(cluster) as scene,
        server("slow", Mood.SLOW) as slow,
        server("broken", Mood.BROKEN) as broken,
        server("quick") as quick,
    ):
        await made(scene, "slow", "broken", "quick")
        for name, ollama in (("slow", slow), ("broken", broken), ("quick", quick)):
            await pod_at(scene, name, ollama.port)
            await scene.kubeai.count(name, 1)
        await scene.until("quick", "Reconciling", "WaitingForCatalog")
        await scene.until("slow", "Starting", "WaitingForOllamaAlias")
        await scene.mirror.until(
            "it is told why", lambda: "HTTP 502" in scene.status("broken").get("message", "")
        )
        assert "Bad Gateway" not in str(scene.status("broken"))
        await scene.activate("quick", local=OLLAMA, enabled=False)
        await scene.until("quick", "Disabled")
        for ollama, name in ((slow, "slow"), (broken, "broken")):
            ollama.turn(Mood.WELL)
            await scene.until(name, "Reconciling", "WaitingForCatalog")


@pytest.mark.req("MS-358")
async def test_settled_models_cost_their_polls_alone_and_a_new_operator_writes_nothing(
    cluster: DevCluster,
) -> None:
    async with model_corner(cluster) as scene, server("settled") as ollama:
        await publish(scene, "settled", "outside")
        ollama.size, ollama.size_vram = (3 << 20) + 1, 1 << 20
        async with operator(scene.world):
            await scene.activate("outside", kind="external", external={"model": "openai/x"})
            await made(scene, "settled", cpuOffloading=False)
            await pod_at(scene, "settled", ollama.port)
            await scene.kubeai.count("settled", 1)
            await scene.until("settled", "Ready")
            await scene.until("outside", "Ready")
            usage = scene.status("settled")["memoryUsage"]
            assert (usage["source"], usage["replicas"]) == ("ollama-api-ps", 1)
            assert (usage["totalMi"], usage["vramMi"], usage["ramMi"]) == (4, 1, 3)
            await scene.rest()
            mark = cluster.audit_mark()
            ollama.calls.clear()
            await asked_again(ollama)
            await scene.rest()
            assert told(scene.world.operator_requests(mark)) == []
            assert set(calls(ollama)) == {TAGS, LOADED}

        mark = cluster.audit_mark()
        ollama.calls.clear()
        async with operator(scene.world):
            await asked_again(ollama)
            await scene.rest()
        assert told(scene.world.operator_writes(mark)) == []
        assert scene.status("settled")["memoryUsage"] == usage

        async with operator(scene.world):
            ollama.size += 1 << 20
            await scene.mirror.until(
                "more memory is told", lambda: scene.status("settled")["memoryUsage"]["totalMi"] == 5
            )


@pytest.mark.req("MS-360", "MS-361")
async def test_a_freetoken_model_tells_what_its_runtime_says_before_and_after_it_is_ready(
    cluster: DevCluster,
) -> None:
    async with whole_scene(cluster) as scene, RuntimeServer() as runtime:
        await gpu_host(scene, "freetoken-host")
        await scene.world.activate("gpu")
        data = dict(descriptor(port=str(runtime.port)).data)
        await scene.world.config_map(FREETOKEN_RUNTIME, data)
        await scene.activate("moe", local=freetoken("freetoken-host"))
        await scene.until("moe", "Starting", "WaitingForFreeTokenPod")
        runtime.answers["GET /health"] = Reply(200, {"status": "error", "error": "CUDA out of memory"})
        pod = await make_direct_pod(scene, "moe-freetoken", LOOPBACK)
        status = await scene.until("moe", "Degraded", "FreeTokenHealthFailed")
        assert "GPU memory: CUDA out of memory" in status["message"]

        runtime.answers["GET /health"] = Reply(503, {"status": "loading", "done_bytes": 1, "total_bytes": 4})
        await scene.until("moe", "Starting", "WaitingForFreeTokenPod")
        await scene.kubeai.set_pod(pod, "Running", ready=True)
        await roll_out(scene, "moe-freetoken", 1)
        await scene.until("moe", "Starting", "WaitingForFreeTokenHealth")
        assert "25 %" in scene.status("moe")["message"]

        runtime.answers["GET /v1/stats"] = Reply(200, {"active_requests": 1, "vram_bytes": 1 << 20})
        runtime.answers["GET /health"] = Reply(200, {"status": "ok"})
        status = await scene.until("moe", "Reconciling", "WaitingForCatalog")
        assert status["runtimeEndpoint"] == f"http://moe-freetoken.ai.svc.cluster.local:{runtime.port}/v1"
        await publish(scene, "moe")
        stats = (await scene.until("moe", "Ready", "CatalogReady"))["freeTokenStats"]
        assert (stats["activeRequests"], stats["vramMi"]) == (1, 1)
        await scene.rest()

        runtime.answers["GET /v1/stats"] = Reply(200, {"active_requests": 2})
        await scene.mirror.until(
            "the new number is told", lambda: scene.status("moe")["freeTokenStats"]["activeRequests"] == 2
        )
        await roll_out(scene, "moe-freetoken", 0)
        await scene.until("moe", "Starting", "WaitingForFreeTokenPod")
        await scene.delete("moe")
        await scene.mirror.until("it is gone", lambda: scene.get("moe") is None)
        await scene.world.delete("/api/v1/nodes", "freetoken-host")


async def test_while_the_cache_is_cleared_nobody_is_asked_and_what_was_told_holds(
    cluster: DevCluster,
) -> None:
    async with whole_scene(cluster) as scene, server("cleared") as ollama:
        await made(scene, "cleared", cpuOffloading=False)
        await pod_at(scene, "cleared", ollama.port)
        await scene.kubeai.count("cleared", 1)
        usage = (await scene.until("cleared", "Reconciling", "WaitingForCatalog"))["memoryUsage"]
        await scene.host_operation("clean-up", "Preparing")
        status = await scene.until("cleared", "Starting", "ModelCacheMaintenance")
        assert (status["memoryUsage"], runtime_ready(scene, "cleared")) == (usage, "True")
        await scene.rest()
        ollama.turn(Mood.WITHOUT_ALIAS)
        ollama.calls.clear()
        await scene.rest()
        assert ollama.calls == []
        await scene.host_operation("clean-up", "Succeeded")
        await scene.until("cleared", "Reconciling", "WaitingForCatalog")
        await asked_again(ollama)
        assert COPY in calls(ollama)


async def test_vllm_is_asked_nothing(cluster: DevCluster) -> None:
    async with whole_scene(cluster) as scene, server("unasked") as ollama:
        await scene.activate("unasked", local=CPU)
        await scene.until("unasked", "Starting", "WaitingForCpuProfile")
        await scene.kubeai.take()
        await pod_at(scene, "unasked", ollama.port)
        await scene.kubeai.count("unasked", 1)
        await scene.until("unasked", "Reconciling", "WaitingForCatalog")
        await scene.rest()
        assert ollama.calls == []
