"""The life of models with everything that is real: Flux, the scheduler, the operator and the model catalog.

KubeAI, its Pods' kubelets, Ollama and LiteLLM are played (`hack.devcluster.actors`); they are directed by
annotations, as a person would direct them.
"""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from hack.dev.appliance import OURS, Reader
from hack.dev.models import ModelStage, examples, master_key
from hack.dev.view import condition, phase_of
from hack.devcluster import Component
from hack.devcluster.actors.following import DIRECTIONS
from hack.devcluster.programs import BY_NAME
from hack.devcluster.rest import Object
from tests.e2e.stand import Stand, T

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CORE: Final = "/api/v1/namespaces/ai"
KUBEAI_MODELS: Final = "/apis/kubeai.org/v1/namespaces/ai/models"
CATALOG: Final = f"{CORE}/configmaps/ai-model-catalog"
RELEASE: Final = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases/kubeai"
CPU, GPU, EXTERNAL = "qwen-cpu", "qwen-nvidia", "hosted-chat"
KEY: Final = "CHANGEME-a-key-of-the-provider"
SLOW_S: Final = 90.0
TROUBLES: Final = {
    "out-of-memory": "ModelRuntimeOOMKilled",
    "pulling": "WaitingForReadyReplica",
    "pull-error": "ModelContainerStartupFailed",
    "starting": "WaitingForReadyReplica",
    "crash-loop": "ModelRuntimeCrashLoop",
    "unschedulable": "Unschedulable",
}
"""What happens to a Pod, and the reason that its activation gives."""


class Models:
    """Models on a stand: the examples that we ship, and what becomes of them."""

    def __init__(self, stand: Stand, directory: Path) -> None:
        self.stand = stand
        self._reader, self._directory = Reader(stand.cluster), directory
        objects = [_with_key(each) for each in examples(with_nvidia=True)]
        self.stage = ModelStage(stand.cluster, directory, objects, print)

    def until(self, what: str, holds: Callable[[], T | None]) -> T:
        """Wait for a state and return what it held with; meanwhile what waits for modules is done."""

        def looked() -> T | None:
            self.stage.go_on(self._reader.picture())
            return holds()

        try:
            return self.stand.until(what, looked, deadline_s=SLOW_S)
        except AssertionError as error:
            found = self.stand.cluster.rest.get(f"{OURS}/modelactivations")["items"]
            raise AssertionError(f"{error}\n{json.dumps([each.get('status') for each in found])}") from error

    def activation(self, name: str) -> Object:
        """A ModelActivation; empty when it is not there."""
        return self.stand.get(f"{OURS}/modelactivations/{name}") or {"metadata": {"generation": 0}}

    def until_told(self, name: str, phase: str, reason: str = "") -> None:
        """Wait until a model is reported in this phase, for this reason."""

        def told() -> bool:
            found = self.activation(name)
            return phase_of(found) == phase and reason in {"", condition(found, "Ready").get("reason")}

        self.until(f"{name} to be {phase} {reason}", told)

    def change(self, name: str, **spec: object) -> None:
        """Change a model as a user would."""
        self._merge(f"{OURS}/modelactivations/{name}", {"spec": spec})

    def direct(self, name: str, **annotations: str | None) -> None:
        """What happens to the Pods of a KubeAI Model; None takes a direction away."""
        named = {f"{DIRECTIONS}/{key}": value for key, value in annotations.items()}
        self._merge(f"{KUBEAI_MODELS}/{name}", {"metadata": {"annotations": named}})

    def kubeai(self, name: str) -> Object:
        """A KubeAI Model; empty when it is not there."""
        return self.stand.get(f"{KUBEAI_MODELS}/{name}") or {}

    def pods(self, name: str) -> list[Object]:
        """The Pods of a model."""
        listed: list[Object] = self.stand.cluster.rest.get(f"{CORE}/pods?labelSelector=model={name}")["items"]
        return listed

    def serving(self, name: str) -> set[str]:
        """The identities of the Pods of a model that are Ready."""
        return {
            pod["metadata"]["uid"]
            for pod in self.pods(name)
            if condition(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]
        }

    def delete_pods(self, name: str) -> None:
        """As somebody with a broom would."""
        for pod in self.pods(name):
            self.stand.delete(f"{CORE}/pods/{pod['metadata']['name']}")

    def listed(self) -> set[str]:
        """The models in the catalog."""
        found = self.stand.get(CATALOG) or {"data": {}}
        document = json.loads(found["data"].get("catalog.json", '{"models": []}'))
        return {each["id"] for each in document["models"]}

    def routes(self) -> dict[str, Any]:
        """LiteLLM's models by name."""
        cluster = self.stand.cluster
        headers = {"Authorization": f"Bearer {master_key(cluster)}"}
        request = urllib.request.Request(f"{cluster.litellm_url}/model/info", headers=headers)  # noqa: S310 - http
        with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310 - a URL of ours
            return {each["model_name"]: each for each in json.loads(response.read())["data"]}

    def until_published(self, *names: str) -> None:
        """Wait until catalog and LiteLLM have these models and no others."""
        wanted = set(names)
        self.until(
            f"{sorted(wanted)} to be published", lambda: self.listed() == wanted == self.routes().keys()
        )

    def logs(self) -> str:
        """Of everything of ours that logs."""
        return "".join(file.read_text() for file in sorted(self._directory.glob("*.log")))

    def _merge(self, path: str, body: Object) -> None:
        self.stand.cluster.rest.request("PATCH", path, body, content_type="application/merge-patch+json")


def _with_key(example: Object) -> Object:
    """An example with a key that can be looked for."""
    return {**example, "stringData": {"api-key": KEY}} if example["kind"] == "Secret" else example


@contextmanager
def three_models(stand: Stand, directory: Path) -> Iterator[Models]:
    """The examples, Ready."""
    stand.cluster.add_node(
        "nvidia-0",
        annotations={f"{DIRECTIONS}/hardware": "nvidia=2"},
        kubelet_version=BY_NAME["kube-apiserver"].version,
    )
    stand.start_operator()
    models = Models(stand, directory)
    try:
        for name in (EXTERNAL, CPU, GPU):
            models.until_told(name, "Ready", "CatalogReady")
        yield models
    finally:
        models.stage.stop()


@pytest.mark.req("MS-018", "MS-155", "MS-357", "MS-359", "MS-360", "MS-362", "MS-363", "MS-364", "MS-365")
def test_three_models_get_ready_lose_and_regain_their_runtimes_and_end(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUEUE_SECONDS", "4")  # after so long Ollama is asked again
    with three_models(stand, tmp_path) as models:
        _they_are_what_they_should_be(models)
        _every_trouble_of_a_pod_has_its_reason(models)
        _a_pod_that_ended_for_good_is_replaced(models)
        _counts_that_lag_deceive_nobody(models)
        _a_lost_alias_is_made_anew(models)
        _a_model_that_is_switched_off_frees_its_gpu(models)
        stand.until_appliance("Ready")
        assert KEY not in models.logs()
        assert KEY not in json.dumps([models.activation(name) for name in (CPU, GPU, EXTERNAL)])


def _they_are_what_they_should_be(models: Models) -> None:
    models.until_published(CPU, GPU, EXTERNAL)
    (cpu,), (gpu,) = models.pods(CPU), models.pods(GPU)
    assert gpu["spec"]["nodeName"] == "nvidia-0"
    resources = gpu["spec"]["containers"][0]["resources"]
    assert (resources["limits"]["nvidia.com/gpu"], resources["requests"]["nvidia.com/gpu"]) == ("1", "1")
    limits = cpu["spec"]["containers"][0]["resources"]["limits"]
    assert (limits["cpu"], limits["memory"]) == ("4", "9Gi"), "three times 3 GiB, and four cores as asked"
    assert models.kubeai(CPU)["spec"]["resourceProfile"].startswith("magicstick-cpu-")
    routes = models.routes()
    assert routes[EXTERNAL]["litellm_params"]["model"] == "openai/CHANGEME"
    assert routes[CPU]["litellm_params"]["api_base"] == "http://kubeai.ai.svc.cluster.local/openai/v1"
    # Flux looks at the store only when it is asked, and KubeAI reads its profiles only when it starts (F08).
    release = models.stand.get(RELEASE) or {"metadata": {}}
    assert release["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"]
    actors = models.stand.cluster.component_log(Component.ACTORS).read_text()
    assert "resource profile not found" not in actors, "a Model came before its profile"


def _every_trouble_of_a_pod_has_its_reason(models: Models) -> None:
    """Withdrawn at the first, since it serves no more, and back at the end (F14)."""
    for told, reason in TROUBLES.items():
        models.direct(CPU, pods=told)
        models.until_told(CPU, "Starting", reason)
    models.until_published(GPU, EXTERNAL)
    models.direct(CPU, pods=None)
    models.until_told(CPU, "Ready", "CatalogReady")
    models.until_published(CPU, GPU, EXTERNAL)


def _a_pod_that_ended_for_good_is_replaced(models: Models) -> None:
    (before,) = models.pods(CPU)
    models.direct(CPU, pods="evicted")
    models.until("the Pod to end", lambda: before["metadata"]["uid"] not in models.serving(CPU))
    models.direct(CPU, pods=None)
    models.until("another Pod to serve", lambda: models.serving(CPU))
    models.until_told(CPU, "Ready", "CatalogReady")
    assert "podRecovery" not in models.activation(CPU)["status"]


def _counts_that_lag_deceive_nobody(models: Models) -> None:
    models.direct(GPU, replicas="stale", pods="missing")
    models.delete_pods(GPU)
    models.until_told(GPU, "WaitingForPod", "WaitingForModelPod")
    assert models.kubeai(GPU)["status"]["replicas"]["ready"] == 1, "so KubeAI says"
    models.until_published(CPU, EXTERNAL)
    models.direct(GPU, replicas=None, pods=None)
    models.until_told(GPU, "Ready", "CatalogReady")


def _a_lost_alias_is_made_anew(models: Models) -> None:
    def names() -> set[str]:
        (pod,) = models.pods(CPU)
        port = pod["metadata"]["annotations"]["model-pod-port"]
        url = f"http://{pod['status']['podIP']}:{port}/api/tags"
        with urllib.request.urlopen(url, timeout=5) as response:
            return {each["name"] for each in json.loads(response.read())["models"]}

    alias = f"{CPU}:latest"
    assert alias in names()
    models.direct(CPU, ollama="refuses-copies")
    models.until_told(CPU, "Starting", "WaitingForOllamaAlias")
    assert alias not in names()
    models.until_published(GPU, EXTERNAL)
    models.direct(CPU, ollama="without-alias")
    models.until_told(CPU, "Ready", "CatalogReady")
    assert alias in names(), "the operator has made it"


def _a_model_that_is_switched_off_frees_its_gpu(models: Models) -> None:
    models.change(GPU, enabled=False)
    models.until_told(GPU, "Disabled")
    models.until(f"the Pods of {GPU} to go", lambda: not models.pods(GPU))
    models.until_published(CPU, EXTERNAL)
    models.change(GPU, enabled=True)
    models.until_told(GPU, "Ready", "CatalogReady")
    models.stand.delete(f"{OURS}/modelactivations/{GPU}")
    models.stand.until_gone(f"{OURS}/modelactivations/{GPU}")
    assert models.kubeai(GPU) == {}
    models.until_published(CPU, EXTERNAL)
