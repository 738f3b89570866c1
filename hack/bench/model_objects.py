"""The synthetic models that are measured, and the cluster that they need.

Five sorts take turns: a model of a provider, Ollama and vLLM on the processor, vLLM on an NVIDIA GPU, and
the same with weights offloaded to the host's memory.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from hack.bench.objects import AI_NAMESPACE, GROUP, OPERATOR_NAMESPACE

ACTIVATIONS: Final = f"/apis/{GROUP}/namespaces/{OPERATOR_NAMESPACE}/modelactivations"
MODELS: Final = f"/apis/kubeai.org/v1/namespaces/{AI_NAMESPACE}/models"
PODS: Final = f"/api/v1/namespaces/{AI_NAMESPACE}/pods"
CATALOG: Final = f"/api/v1/namespaces/{AI_NAMESPACE}/configmaps/ai-model-catalog"
NODES: Final = "/api/v1/nodes"
NVIDIA_NODE, PLAIN_NODE = "nvidia-0", "plain-0"
NVIDIA, AMD = "nvidia.com/gpu", "amd.com/gpu"
PORT: Final = "model-pod-port"
SIZES: Final = 8
"""So many sizes of memory are asked for, as by people who choose among a few."""


class Sort(IntEnum):
    """Which of the five a model is."""

    EXTERNAL = 0
    CPU_OLLAMA = 1
    CPU_VLLM = 2
    NVIDIA_VLLM = 3
    OFFLOADING = 4

    @property
    def on_nvidia(self) -> bool:
        """Whether it needs a GPU."""
        return self in {Sort.NVIDIA_VLLM, Sort.OFFLOADING}


def model_name(number: int) -> str:
    """Of the n-th model."""
    return f"model-{number:05d}"


def sort_of(number: int) -> Sort:
    """Of the n-th model."""
    return Sort(number % len(Sort))


def count_of(count: int, *sorts: Sort) -> int:
    """How many of the first `count` models are of these sorts."""
    return sum(sort_of(number) in sorts for number in range(count))


def activation(number: int, *, replicas: int = 1) -> dict[str, Any]:
    """The ModelActivation of the n-th model; offloading models have one replica in any case."""
    sort = sort_of(number)
    kind = "external" if sort is Sort.EXTERNAL else "local"
    content = _external() if sort is Sort.EXTERNAL else _local(number, sort, replicas)
    return {
        "apiVersion": GROUP,
        "kind": "ModelActivation",
        "metadata": {"name": model_name(number), "namespace": OPERATOR_NAMESPACE},
        "spec": {"type": kind, "enabled": True, kind: content},
    }


def _external() -> dict[str, Any]:
    return {"model": "openai/CHANGEME", "apiBase": "https://models.example.com/v1"}


def _local(number: int, sort: Sort, replicas: int) -> dict[str, Any]:
    memory = {"memoryRequiredMi": 8192 + 512 * (number // len(Sort) % SIZES)}
    own: Mapping[Sort, dict[str, Any]] = {
        Sort.CPU_OLLAMA: {"computeTarget": "cpu", "engine": "OLlama", "url": f"ollama://example:{number}b"},
        Sort.CPU_VLLM: {"computeTarget": "cpu"},
        Sort.NVIDIA_VLLM: {"computeTarget": "nvidia-gpu", "vram": "12Gi"},
        Sort.OFFLOADING: {"computeTarget": "nvidia-gpu", "vram": "12Gi", "cpuOffloading": True},
    }
    if sort is not Sort.OFFLOADING:
        own[sort].update(minReplicas=replicas, maxReplicas=replicas)
    host = {} if sort is Sort.NVIDIA_VLLM else memory
    return {"engine": "VLLM", "url": f"hf://example/model-{number}", **own[sort], **host}


def pod(model: Mapping[str, Any], place: int) -> dict[str, Any]:
    """One of the Pods that KubeAI makes of a Model."""
    name = model["metadata"]["name"]
    owner = {
        "apiVersion": "kubeai.org/v1",
        "kind": "Model",
        "name": name,
        "uid": model["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"model-{name}-{place}",
            "labels": {"app": "model", "model": name, "app.kubernetes.io/managed-by": "kubeai"},
            "ownerReferences": [owner],
        },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"name": "server", "image": "registry.example.com/server:1"}],
        },
    }


def pod_status(address: str) -> dict[str, Any]:
    """What the kubelet says of a Pod that serves."""
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": kind, "status": "True"} for kind in kinds],
    }


def node(name: str) -> dict[str, Any]:
    """A Linux node."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def node_status(**allocatable: int) -> dict[str, Any]:
    """Of a Ready node that offers this."""
    amounts = {name: str(amount) for name, amount in allocatable.items()}
    return {
        "allocatable": amounts,
        "capacity": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
    }


def catalog(names: list[str]) -> dict[str, Any]:
    """The ConfigMap in which the model catalog lists what it has published."""
    entries = ",".join(f'{{"id":"{name}","name":"{name}","type":"chat"}}' for name in names)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "ai-model-catalog", "namespace": AI_NAMESPACE},
        "data": {"catalog.json": f'{{"hash":"","models":[{entries}]}}'},
    }
