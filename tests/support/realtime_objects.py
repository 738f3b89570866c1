"""Realtime models in tests: specs, nodes, resolved values, and what serves them in the cluster."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from magicstick.api import labels
from magicstick.catalogs.compute_targets import CpuPolicy
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.kube.objects import Resource
from magicstick.models.hardware import NodeFacts
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import CheckState, EngineCheck, Sharing
from magicstick.models.places import realtime_name
from magicstick.models.pods import PodView
from magicstick.models.resolved import Hold, ResolvedRealtime
from tests.support.model_objects import NVIDIA, SPACE, live_object, pod
from tests.support.resolution import node

V = TypeVar("V", Resource, PodView)
NODE: Final = "node-1"
IMAGE: Final = "vllm/vllm-omni@sha256:6132afe16e2d30841ff90e22dc311056d8042cf8b688b51eea3142e3e6dead78"
OWN_IMAGE: Final = "registry.example.com/omni:v1"
ENDPOINT: Final = "http://demo-realtime.ai.svc.cluster.local:8000/v1"
GPU: Final = "nvidia.com/gpu"
AMD_TARGET: Final = replace(
    NVIDIA,
    name="amd-gpu",
    display_name="AMD GPU (ROCm)",
    resource_names=("amd.com/gpu",),
    resource="amd.com/gpu",
)
PROFILES: Final[Mapping[str, str]] = {
    "nvidia-gpu": "qwen3-omni",
    "amd-gpu": "qwen3-omni-rocm",
    "intel-gpu": "qwen3-omni-xpu",
    "cpu": "qwen3-omni-cpu",
}
WELL: Final = EngineCheck(CheckState.PASSED)


def wish(
    target: str = "nvidia-gpu", *, local: Mapping[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """`spec.local` of a realtime model; `changes` are those of its `realtime` block."""
    own = {} if target == "nvidia-gpu" else {"runtimeImage": OWN_IMAGE}
    realtime = {"profile": PROFILES[target], "gpuNode": NODE, **own, **changes}
    model = {"computeTarget": target, "url": "hf://example/omni", "realtime": realtime}
    return {**model, **(local or {})}


def cuda_node(gpus: int = 2, *, name: str = NODE, labelled: Mapping[str, str] | None = None) -> NodeFacts:
    """A node with so many NVIDIA GPUs of 24 GiB."""
    marks = {f"{GPU}.count": str(gpus), f"{GPU}.memory": "24576", **(labelled or {})}
    return node(name, labels=marks, allocatable={GPU: str(gpus), "memory": "128Gi"})


def rocm_node(gpus: int = 1, *, evidence: Mapping[str, Any] | None = None, dra: bool = False) -> NodeFacts:
    """A node with AMD GPUs, without a label of anybody's but, with `dra`, that its GPU is given by claim."""
    marks = {labels.AMD_DRA_READY: "true"} if dra else {}
    given = {"memory": "128Gi"} if dra else {"amd.com/gpu": str(gpus), "memory": "128Gi"}
    return node(NODE, labels=marks, allocatable=given, evidence=evidence or {})


def shared_gtt(capacity_mi: int = 102400) -> dict[str, Any]:
    """What the host of an integrated GPU says that takes its memory from the system's."""
    return {
        "memoryArchitecture": "unified",
        "gpuAllocationMode": "shared-gtt",
        "gpuCapacityMi": capacity_mi,
        "gpuCapacitySource": "kfd-topology",
        "gpuAccessibleMi": capacity_mi,
    }


def amd_sharing(**changes: Any) -> Sharing:
    """The AMD GPU of the node, shared by a claim with four slots, of which the model has one."""
    usual: dict[str, Any] = {"node": NODE, "node_uid": f"uid-{NODE}", "slots": 4}
    usual |= {"claim": "magicstick-amd-shared-0123456789abcdef0123", "device": "0000:c4:00.0"}
    return Sharing(**{"phase": "Ready", "mode": "dra-shared", **usual, **changes})


def nvidia_sharing(**changes: Any) -> Sharing:
    """The NVIDIA GPU of the node in managed time-slicing, of which the model has a slot."""
    usual: dict[str, Any] = {"node": NODE, "node_uid": f"uid-{NODE}", "slots": 4}
    return Sharing(**{"phase": "Ready", "mode": "time-slicing", **usual, **changes})


def realtime(name: str = "demo", **changes: Any) -> ResolvedRealtime:
    """A resolved model on one NVIDIA GPU, but for `changes`."""
    model = ResolvedRealtime(
        name=name,
        namespace=SPACE,
        modules=("gpu", "litellm", "model-catalog"),
        requested_modules=("litellm", "model-catalog"),
        target=NVIDIA,
        engine_title="vLLM-Omni",
        url="hf://example/omni",
        vram_mi=22118,
        memory_mi=16384,
        cpu=CpuPolicy(requestMillicores=1000),
        context_window=8192,
        max_num_seqs=1,
        profile="qwen3-omni",
        accelerator="cuda",
        image=IMAGE,
        pinned=True,
        node=NODE,
        node_uid=f"uid-{NODE}",
        hold=Hold(mode="exclusive", resource=GPU, slots=2, most=2),
        gpu_count=1,
        gpu_memory_fraction=0.9,
        thinker_offload_gib=0,
        deploy_config="qwen3_omni_duplex.yaml",
        source_revision="f" * 40,
    )
    return replace(model, **changes)


def serving(name: str = "demo", *, ready: int | None = 1, **deployment: Any) -> tuple[Resource, ...]:
    """ConfigMap, Service and Deployment as they are in the cluster; `ready` None: nobody has looked yet."""
    found = {
        "observedGeneration": 1,
        "updatedReplicas": 1,
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    status = {**({} if ready is None else found), **deployment.pop("status", {})}
    made = realtime_name(name)
    parts = (
        live_object(CONFIG_MAP, made, serves=name),
        live_object(SERVICE, made, serves=name),
        live_object(DEPLOYMENT, made, serves=name, status=status, **deployment),
    )
    return tuple(map(_of_runtime, parts))


def _of_runtime(live: Resource) -> Resource:
    marks = {**live.metadata.labels, labels.RUNTIME_BACKEND: "vllm-omni"}
    return _labelled(live, marks)


def _labelled(live: V, marks: Mapping[str, str]) -> V:
    return msgspec.structs.replace(live, metadata=msgspec.structs.replace(live.metadata, labels=marks))


def runtime_pod(
    *, state: Mapping[str, Any] | None = None, last: Mapping[str, Any] | None = None, **more: Any
) -> PodView:
    """A Pod of the runtime, whose one container is in this state."""
    container = {"name": "vllm-omni", "state": state or {}, "lastState": last or {}}
    found = pod("demo-realtime-abc-1", owner=None, containers=[container], **more)
    marks = {**found.metadata.labels, labels.RUNTIME_BACKEND: "vllm-omni"}
    return _labelled(found, marks)
