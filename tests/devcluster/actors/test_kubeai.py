"""KubeAI as others see it, on a control plane with real controllers, a real scheduler and kwok's nodes."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import aiohttp
import pytest

from hack import yamls
from hack.bare import BareClient, RefusedError
from hack.devcluster import WITH_CONTROLLERS, DevCluster
from hack.devcluster.actors.following import Object, condition
from hack.devcluster.actors.helm import HelmActor
from hack.devcluster.actors.kubeai import NAMESPACE, KubeAiActor
from tests.support.manifests import MANIFESTS
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
PODS, CONFIG_MAPS = f"{CORE}/pods", f"{CORE}/configmaps"
MODELS: Final = f"/apis/kubeai.org/v1/namespaces/{NAMESPACE}/models"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
FLUX: Final = "flux-system"
RELEASES: Final = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{FLUX}/helmreleases"
STORE: Final = f"/api/v1/namespaces/{FLUX}/configmaps/magicstick-offloading-profiles"
CPU, OLLAMA_CPU = "magicstick-vllm-cpu-memory:64", "magicstick-ollama-cpu-memory:64"
NEW_PROFILE: Final = {"imageName": "magicstick-vllm-cpu", "requests": {"cpu": "250m", "memory": "1Gi"}}

COLLECTED_S: Final = 90.0
"""The garbage collector looks for new kinds every 30 s."""


class House:
    """KubeAI installed from the release that we ship, and an actor that plays it."""

    def __init__(self, client: BareClient) -> None:
        self.client = client
        self.mirror = Mirror(client, MODELS, PODS, DEPLOYMENTS, RELEASES)
        self.actor = KubeAiActor(client)

    async def model(self, name: str, profile: str = CPU, engine: str = "VLLM", **spec: object) -> None:
        """Apply a Model as the operator would."""
        url = "ollama://qwen:0.5b" if engine == "OLlama" else "hf://example/model"
        body = {
            "apiVersion": "kubeai.org/v1",
            "kind": "Model",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "somebody", "who": "me"}},
            "spec": {
                "features": ["TextGeneration"],
                "url": url,
                "engine": engine,
                "resourceProfile": profile,
                "minReplicas": 1,
                "maxReplicas": 1,
                **spec,
            },
        }
        await self.client.apply(f"{MODELS}/{name}", body, manager="operator")

    async def direct(self, name: str, **annotations: str | None) -> None:
        """Directions for the actor; None takes one away."""
        named = {f"devcluster.magicstick.dev/{key}": value for key, value in annotations.items()}
        await self.client.merge(f"{MODELS}/{name}", {"metadata": {"annotations": named}})

    async def store(self, **profiles: object) -> None:
        """Write the store as the operator would."""
        text = json.dumps({"resourceProfiles": profiles})
        await self.client.merge(STORE, {"data": {"values.json": text}})

    async def ask(self, token: str) -> None:
        """Request a reconcile of the release."""
        body = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": token}}}
        await self.client.merge(f"{RELEASES}/kubeai", body)

    def pods(self, model: str) -> list[Object]:
        """The Pods of a Model that nobody has asked to go."""
        return [
            pod
            for pod in self.mirror.all(PODS).values()
            if pod["metadata"]["labels"].get("model") == model and "deletionTimestamp" not in pod["metadata"]
        ]

    def pod(self, model: str) -> Object:
        """The one Pod of a Model; empty while there is none."""
        found = self.pods(model)
        return found[0] if len(found) == 1 else {"metadata": {}, "spec": {}, "status": {}}

    def counts(self, model: str) -> tuple[int, int]:
        """(all, ready) as KubeAI has counted."""
        status = (self.mirror.get(MODELS, model) or {}).get("status", {})
        replicas = status.get("replicas", {"all": -1, "ready": -1})
        return replicas["all"], replicas["ready"]

    async def until_counts(self, model: str, everything: int, ready: int) -> None:
        """Wait until KubeAI has counted so many."""
        await self.until(
            f"{model} to have {everything}/{ready}", lambda: self.counts(model) == (everything, ready)
        )

    async def until(self, what: str, holds: Any) -> None:
        """Wait for a state."""
        await self.mirror.until(what, holds)

    def kubeai_pods(self) -> list[Object]:
        """KubeAI's own, which have not been asked to go."""
        return [
            pod
            for pod in self.mirror.all(PODS).values()
            if pod["metadata"]["labels"].get("app.kubernetes.io/name") == "kubeai"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def rolled_out(self) -> bool:
        """Whether the newest configuration is the one that KubeAI runs with."""
        found = self.mirror.get(DEPLOYMENTS, "kubeai") or {"metadata": {}, "status": {}}
        status = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"].get("generation")
        numbers = ("replicas", "updatedReplicas", "readyReplicas")
        return current and all(status.get(number) == 1 for number in numbers) and len(self.kubeai_pods()) == 1

    async def close(self) -> None:
        """Leave no Model behind, and no Pod of one: garbage is collected late at first."""
        for name in list(self.mirror.all(MODELS)):
            await self.client.send("DELETE", f"{MODELS}/{name}")
        await self.until("all Models to go", lambda: not self.mirror.all(MODELS))
        await self.client.send("DELETE", f"{PODS}?labelSelector=app=model")
        await self.until("all Pods to go", lambda: not [p for p in self.mirror.all(PODS) if "model-" in p])


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """Nodes and namespaces, and KubeAI's release as we ship it, with its stores."""
    with DevCluster.start(WITH_CONTROLLERS) as cluster:
        cluster.apply([*cluster.crd_files("flux"), *cluster.crd_files("helm")])
        for name in (NAMESPACE, FLUX):
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for file in ("stores.yaml", "release.yaml"):
            for document in yamls.load_all((MANIFESTS / "modules" / "kubeai" / file).read_text()):
                if document["kind"] == "HelmRepository":
                    document["spec"] |= {"type": "oci", "url": "oci://example.com/charts"}
                cluster.apply(document)
        cluster.add_node("node-0")
        cluster.add_node("gpu-0", allocatable={"nvidia.com/gpu": "2"})
        yield cluster


@pytest.fixture
async def house(cluster: DevCluster) -> AsyncIterator[House]:
    """KubeAI, installed and at work."""
    client = BareClient(cluster.url, cluster.ca_file, cluster.admin_token, user_agent="test")
    async with client:
        house = House(client)
        async with HelmActor(client).running(), house.actor.running(), house.mirror.running():
            await house.until("KubeAI to run", house.rolled_out)
            yield house
            await house.close()


async def test_a_model_gets_a_pod_of_its_own_that_is_scheduled_and_counted(house: House) -> None:
    await house.model("plain", args=["--max-model-len=4096"], env={"WHO": "me"})
    await house.until_counts("plain", 1, 1)
    pod, model = house.pod("plain"), house.mirror.get(MODELS, "plain") or {}
    labels = pod["metadata"]["labels"]
    assert (labels["app"], labels["model"], labels["who"]) == ("model", "plain", "me")
    assert labels["app.kubernetes.io/managed-by"] == "kubeai"
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Model", model["metadata"]["uid"], True)
    assert pod["metadata"]["name"].startswith("model-plain-")
    assert model["spec"]["replicas"] == 1
    assert model["metadata"]["labels"]["features.kubeai.org/TextGeneration"] == "true"
    container = pod["spec"]["containers"][0]
    assert container["resources"] == {"requests": {"memory": "1Gi"}, "limits": {"memory": "1536Mi"}}
    assert container["args"] == ["--model=example/model", "--served-model-name=plain", "--max-model-len=4096"]
    assert {"name": "WHO", "value": "me"} in container["env"]
    assert container["image"] == "vllm/vllm-openai-cpu:v0.23.0"
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/dev/shm", "/root/.cache", "/root/.ollama"} <= mounts, "the patches of the release"  # noqa: S108 - of a container
    assert pod["spec"]["nodeName"], "by the real scheduler"


async def test_a_model_of_an_unknown_profile_is_left_alone_until_kubeai_was_restarted_with_it(
    house: House,
) -> None:
    await house.store()
    await house.model("early", "late-profile:2")
    await house.model("other")
    await house.until_counts("other", 1, 1)
    assert house.pods("early") == []
    assert "status" not in (house.mirror.get(MODELS, "early") or {})

    before = house.kubeai_pods()[0]["metadata"]["uid"]
    await house.store(**{"late-profile": NEW_PROFILE})
    await house.model("other", args=["--enforce-eager"])
    await house.until("a Pod with the argument", lambda: "enforce" in str(house.pod("other")["spec"]))
    assert house.pods("early") == [], "Flux was not asked to look at the store"

    await house.ask("now")
    await house.until_counts("early", 1, 1)
    assert house.kubeai_pods()[0]["metadata"]["uid"] != before
    resources = house.pod("early")["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "500m", "memory": "2Gi"}
    assert house.pods("other"), "a restart keeps the Pods that are there"


async def test_values_of_the_release_and_of_config_maps_reach_kubeai(house: House) -> None:
    found = await house.client.get(f"{CONFIG_MAPS}/kubeai-config")
    config = yamls.load(found["data"]["system.yaml"])
    images = config["modelServers"]["VLLM"]["images"]
    assert images["magicstick-vllm-amd"] == "vllm/vllm-openai-rocm:v0.26.0", "of a target path"
    assert images["magicstick-vllm-cpu"] == "vllm/vllm-openai-cpu:v0.23.0", "of the release itself"
    template = (house.mirror.get(DEPLOYMENTS, "kubeai") or {})["spec"]["template"]
    assert {"checksum/config", "magicstick-gpu-runtime-images"} <= template["metadata"]["annotations"].keys()


async def test_a_configuration_that_changed_without_a_rollout_means_nothing(house: House) -> None:
    found = await house.client.get(f"{CONFIG_MAPS}/kubeai-config")
    config = yamls.load(found["data"]["system.yaml"])
    config["resourceProfiles"]["by-hand"] = NEW_PROFILE
    text = {"data": {"system.yaml": yamls.dump(config)}}
    await house.client.merge(f"{CONFIG_MAPS}/kubeai-config", text)
    await house.model("by-hand", "by-hand:1")
    await house.model("other")
    await house.until_counts("other", 1, 1)
    assert house.pods("by-hand") == []
    for pod in house.kubeai_pods():
        await house.client.send("DELETE", f"{PODS}/{pod['metadata']['name']}")
    await house.until_counts("by-hand", 1, 1)


async def test_while_kubeai_is_away_nothing_is_made_and_kubelets_go_on(house: House) -> None:
    await house.model("before")
    await house.until_counts("before", 1, 1)
    await house.client.merge(f"{DEPLOYMENTS}/kubeai", {"spec": {"replicas": 0}})
    await house.until("KubeAI to go", lambda: not house.kubeai_pods())
    await house.until("nobody to lead", lambda: house.actor.config is None)
    await house.model("after")
    name = house.pod("before")["metadata"]["name"]
    await house.client.send("DELETE", f"{PODS}/{name}")
    await house.until("its Pod to go", lambda: not house.pods("before"))
    assert house.counts("before") == (1, 1), "nobody is there to count"
    assert house.pods("after") == []
    await house.client.merge(f"{DEPLOYMENTS}/kubeai", {"spec": {"replicas": 1}})
    await house.until_counts("before", 1, 1)
    await house.until_counts("after", 1, 1)


async def test_a_shut_gate_holds_kubeai_up(house: House) -> None:
    house.actor.gate.shut()
    await house.model("slow")
    await house.until("the Model", lambda: house.mirror.get(MODELS, "slow"))
    assert house.pods("slow") == []
    house.actor.gate.open()
    await house.until_counts("slow", 1, 1)


async def test_replicas_stay_within_their_bounds(house: House) -> None:
    await house.model("scaled", minReplicas=0, maxReplicas=3)
    await house.until_counts("scaled", 0, 0)
    await house.client.merge(f"{MODELS}/scaled/scale", {"spec": {"replicas": 2}})
    await house.until_counts("scaled", 2, 2)
    await house.client.merge(f"{MODELS}/scaled/scale", {"spec": {"replicas": 9}})
    await house.until_counts("scaled", 3, 3)
    await house.model("scaled", minReplicas=0, maxReplicas=1)
    await house.until_counts("scaled", 1, 1)
    assert len(house.pods("scaled")) == 1


async def test_the_pods_of_a_deleted_model_go_with_it(house: House) -> None:
    await house.model("gone", OLLAMA_CPU, "OLlama")
    await house.until_counts("gone", 1, 1)
    await house.client.send("DELETE", f"{MODELS}/gone")
    await house.mirror.until("its Pods to go", lambda: not house.pods("gone"), deadline_s=COLLECTED_S)
    await house.model("other")
    await house.until_counts("other", 1, 1)
    assert house.actor.node.servers == {}


async def test_a_name_over_40_characters_is_refused_by_the_server(house: House) -> None:
    await house.model("m" * 40, minReplicas=0)
    with pytest.raises(RefusedError, match="must not exceed 40 characters"):
        await house.model("m" * 41, minReplicas=0)


@pytest.mark.parametrize(
    ("told", "phase", "reason"),
    [
        ("pulling", "Pending", "ContainerCreating"),
        ("pull-error", "Pending", "ImagePullBackOff"),
        ("out-of-memory", "Running", "OOMKilled"),
        ("crash-loop", "Running", "CrashLoopBackOff"),
        ("starting", "Running", ""),
    ],
)
async def test_a_pod_is_in_the_state_that_it_is_told_and_comes_back(
    house: House, told: str, phase: str, reason: str
) -> None:
    await house.model("troubled")
    await house.until_counts("troubled", 1, 1)
    uid = house.pod("troubled")["metadata"]["uid"]
    await house.direct("troubled", pods=told)
    await house.until_counts("troubled", 1, 0)
    status = house.pod("troubled")["status"]
    assert status["phase"] == phase
    assert reason in str(status["containerStatuses"])
    await house.direct("troubled", pods=None)
    await house.until_counts("troubled", 1, 1)
    assert house.pod("troubled")["metadata"]["uid"] == uid


async def test_a_pod_that_ended_for_good_counts_and_is_not_replaced(house: House) -> None:
    await house.model("ended")
    await house.until_counts("ended", 1, 1)
    await house.direct("ended", pods="evicted")
    await house.until_counts("ended", 1, 0)
    pod = house.pod("ended")
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
    await house.direct("ended", pods=None)
    assert house.pod("ended")["status"]["phase"] == "Failed"
    await house.client.send("DELETE", f"{PODS}/{pod['metadata']['name']}")
    await house.until_counts("ended", 1, 1)


async def test_the_scheduler_says_why_a_pod_finds_no_node(house: House) -> None:
    await house.model("nowhere", "magicstick-nvidia-gpu:4")
    await house.until(
        "the scheduler's word",
        lambda: condition(house.pod("nowhere"), "PodScheduled").get("reason") == "Unschedulable",
    )
    assert "Insufficient nvidia.com/gpu" in condition(house.pod("nowhere"), "PodScheduled")["message"]
    await house.model("nowhere", "magicstick-nvidia-gpu:2")
    await house.until_counts("nowhere", 1, 1)
    assert house.pod("nowhere")["spec"]["nodeName"] == "gpu-0"


async def test_counts_can_be_left_stale_and_pods_unmade(house: House) -> None:
    await house.model("stale")
    await house.until_counts("stale", 1, 1)
    await house.direct("stale", replicas="stale", pods="missing")
    await house.client.send("DELETE", f"{PODS}/{house.pod('stale')['metadata']['name']}")
    await house.until("the Pod to go", lambda: not house.pods("stale"))
    await house.model("other")
    await house.until_counts("other", 1, 1)
    assert (house.counts("stale"), house.pods("stale")) == ((1, 1), [])
    await house.direct("stale", replicas=None)
    await house.until_counts("stale", 0, 0)
    await house.direct("stale", pods=None)
    await house.until_counts("stale", 1, 1)


async def test_a_delay_is_told_as_a_pod_that_starts(house: House) -> None:
    await house.model("late")
    await house.until_counts("late", 1, 1)
    await house.direct("late", delay="3600")
    await house.client.send("DELETE", f"{PODS}/{house.pod('late')['metadata']['name']}")
    await house.until(
        "a Pod that starts", lambda: house.pod("late").get("status", {}).get("phase") == "Running"
    )
    await house.until_counts("late", 1, 0)
    await house.direct("late", delay="soon, I hope")
    await house.until_counts("late", 1, 1)


async def test_an_ollama_is_found_where_its_pod_says(house: House) -> None:
    await house.model("talks", OLLAMA_CPU, "OLlama")
    await house.until_counts("talks", 1, 1)
    url = address(house.pod("talks"))
    async with aiohttp.ClientSession() as session:
        assert await names(session, url) == {"qwen:0.5b", "talks:latest"}
        await house.direct("talks", ollama="without-alias")
        (server,) = house.actor.node.servers.values()
        await house.model("other")
        await house.until_counts("other", 1, 1)
        assert await names(session, url) == {"qwen:0.5b"}
        await session.post(f"{url}/api/copy", json={"source": "qwen:0.5b", "destination": "talks"})
        assert await names(session, url) == {"qwen:0.5b", "talks:latest"}
        await house.direct("talks", pods="crash-loop")
        await house.until_counts("talks", 1, 0)
        with pytest.raises(aiohttp.ClientConnectionError):
            await names(session, url)
    assert server.port


async def test_a_pod_whose_server_was_lost_says_where_the_next_one_is(house: House) -> None:
    await house.model("kept", OLLAMA_CPU, "OLlama")
    await house.until_counts("kept", 1, 1)
    before = address(house.pod("kept"))
    servers = house.actor.node.servers
    (uid, server) = servers.popitem()
    house.actor.node.wake((NAMESPACE, house.pod("kept")["metadata"]["name"]))
    await house.until("another port", lambda: address(house.pod("kept")) != before)
    await server.stop()
    async with aiohttp.ClientSession() as session:
        assert await names(session, address(house.pod("kept"))) == {"qwen:0.5b", "kept:latest"}
    assert (house.pod("kept")["metadata"]["uid"], list(servers)) == (uid, [uid])


def address(pod: Object) -> str:
    return f"http://{pod['status']['podIP']}:{pod['metadata']['annotations']['model-pod-port']}"


async def names(session: aiohttp.ClientSession, url: str) -> set[str]:
    async with session.get(f"{url}/api/tags") as response:
        return {each["name"] for each in (await response.json())["models"]}
