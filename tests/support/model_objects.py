"""Small objects for tests of models: activations, KubeAI Models, Pods, and observations made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from magicstick.api import labels
from magicstick.api.kinds import KUBEAI_MODEL
from magicstick.api.model_activation import ModelActivationSpec
from magicstick.api.model_activation_status import ModelActivationStatus
from magicstick.api.parse import parse, read_status
from magicstick.catalogs.compute_targets import CpuPolicy
from magicstick.kube.kinds import CONFIG_MAP, Kind
from magicstick.kube.objects import Resource
from magicstick.models.freetoken_runtime import CONFIG_MAP as FREETOKEN_RUNTIME
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import ModelObservation, RequiredModule, Runtime
from magicstick.models.places import freetoken_name
from magicstick.models.pods import PodView
from magicstick.models.resolved import (
    DerivedProfile,
    ProfileChoice,
    ResolvedExternal,
    ResolvedFreeToken,
    ResolvedKubeAi,
    Target,
)
from magicstick.modules.facts import READY, Readiness
from tests.support.objects import resource

HOME = "ai-system"
SPACE = "ai"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MODEL_UID = "uid-model"
PROFILE = "magicstick-cpu-0123456789abcdef0123"
DIGEST = f"sha256:{'a' * 64}"

CPU = Target(name="cpu", display_name="CPU", kind="cpu", resource_names=(), resource=None, allocatable=0)
NVIDIA = Target(
    name="nvidia-gpu",
    display_name="NVIDIA GPU",
    kind="gpu",
    resource_names=("nvidia.com/gpu",),
    resource="nvidia.com/gpu",
    allocatable=1,
)
INTEL = Target(
    name="intel-gpu",
    display_name="Intel GPU (XPU)",
    kind="gpu",
    resource_names=("gpu.intel.com/xe", "gpu.intel.com/i915"),
    resource=None,
    allocatable=0,
)


def activation(
    name: str = "demo",
    *,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    generation: int = 1,
    dying: bool = False,
    finalizers: Sequence[str] = (labels.MODEL_FINALIZER,),
    **fields: Any,
) -> Resource:
    """A ModelActivation; `fields` are those of its spec beside an unremarkable local model."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": HOME,
        "uid": f"uid-{name}",
        "generation": generation,
        "finalizers": list(finalizers),
        "resourceVersion": "1",
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    usual = {"type": "local", "local": {"computeTarget": "cpu", "url": "hf://example/model"}}
    body = {
        "metadata": metadata,
        "spec": {**usual, **fields} if spec is None else spec,
        "status": status or {},
    }
    return resource({"apiVersion": "appliance.magicstick.dev/v1alpha1", "kind": "ModelActivation", **body})


def kubeai(name: str = "demo", **changes: Any) -> ResolvedKubeAi:
    """A resolved model for vLLM on CPU, but for `changes`."""
    model = ResolvedKubeAi(
        name=name,
        namespace=SPACE,
        modules=("kubeai", "litellm", "model-catalog"),
        requested_modules=("kubeai", "litellm", "model-catalog"),
        target=CPU,
        engine_title="vLLM",
        url="hf://example/model",
        memory_mi=4096,
        cpu=CpuPolicy(requestMillicores=2000, limitMillicores=8000),
        context_window=4096,
        engine="VLLM",
        features=("TextGeneration",),
        args=("--max-model-len=4096", "--kv-cache-dtype=auto"),
        env={"MAGICSTICK_COMPUTE_TARGET": "cpu", "MAGICSTICK_ENGINE": "VLLM"},
        annotations={labels.CONTEXT_WINDOW: "4096"},
        min_replicas=1,
        max_replicas=1,
        base_profile="magicstick-vllm-cpu-memory:256",
    )
    return replace(model, **changes)


def ollama(name: str = "demo", **changes: Any) -> ResolvedKubeAi:
    """A resolved model for Ollama."""
    own: dict[str, Any] = {
        "engine": "OLlama",
        "engine_title": "Ollama",
        "url": "ollama://qwen:1b",
        "args": (),
        "requested_kv_cache_type": "f16",
    }
    return kubeai(name, **{**own, **changes})


def freetoken(name: str = "demo", **changes: Any) -> ResolvedFreeToken:
    """A resolved model for FreeToken on two GPUs."""
    model = ResolvedFreeToken(
        name=name,
        namespace=SPACE,
        modules=("gpu", "freetoken", "litellm", "model-catalog"),
        requested_modules=("freetoken", "litellm", "model-catalog"),
        target=NVIDIA,
        engine_title="FreeToken",
        url="hf://example/moe",
        vram_mi=40000,
        memory_mi=65536,
        cpu=CpuPolicy(requestMillicores=4000, limitMillicores=8000),
        context_window=32768,
        node="node-1",
        gpu_count=2,
        gpu_memory_mi=40000,
        vram_per_gpu_mi=20000,
        node_selector={"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
        memory_strategy="auto",
    )
    return replace(model, **changes)


def external(name: str = "demo") -> ResolvedExternal:
    """A resolved model of a provider."""
    spec = parse(
        ModelActivationSpec, activation(spec={"type": "external", "external": {"model": "openai/x"}})
    )
    assert isinstance(spec, ModelActivationSpec)
    return ResolvedExternal(
        name=name,
        namespace=SPACE,
        modules=("litellm", "model-catalog"),
        requested_modules=("litellm", "model-catalog"),
        external=spec.external,
    )


def choice(name: str = PROFILE) -> ProfileChoice:
    """A profile that KubeAI has taken."""
    return ProfileChoice((DerivedProfile(name, {"requests": {"cpu": "2000m"}}),))


def live_object(
    kind: Kind,
    name: str,
    *,
    namespace: str = SPACE,
    serves: str | None = "demo",
    uid: str = "",
    dying: bool = False,
    generation: int = 1,
    **content: Any,
) -> Resource:
    """An object as it is in the cluster; without `serves` it is somebody else's."""
    own = {labels.MANAGED_BY: labels.OPERATOR, labels.MODEL: serves} if serves else {}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{kind.plural}-{name}",
        "generation": generation,
        "labels": own,
        "resourceVersion": "10",
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return resource({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content})


def live_model(name: str = "demo", *, ready: int | None = None, spec: Any = None, **more: Any) -> Resource:
    """A KubeAI Model; without `ready` KubeAI has not said anything of it."""
    status = {} if ready is None else {"replicas": {"all": max(1, ready), "ready": ready}}
    usual = {"engine": "VLLM", "minReplicas": 1, "replicas": 1}
    more = {"uid": MODEL_UID, **more}
    return live_object(KUBEAI_MODEL, name, spec=usual if spec is None else spec, status=status, **more)


def live_deployment(name: str = "demo", *, ready: int = 0, **content: Any) -> Resource:
    """The Deployment of a FreeToken model, rolled out with so many ready replicas."""
    status = {
        "observedGeneration": 1,
        "updatedReplicas": 1,
        "readyReplicas": ready,
        "availableReplicas": ready,
        **content.pop("status", {}),
    }
    return live_object(DEPLOYMENT, freetoken_name(name), serves=name, status=status, **content)


def live_service(name: str = "demo") -> Resource:
    """The Service of a FreeToken model."""
    return live_object(SERVICE, freetoken_name(name), serves=name)


def runtime(live: Resource) -> Runtime:
    """An object as what serves a model."""
    kinds = {each.kind: each for each in (KUBEAI_MODEL, DEPLOYMENT, SERVICE, CONFIG_MAP)}
    return Runtime(kinds[live.kind], live)


def descriptor(**changes: str) -> Resource:
    """The description of a FreeToken runtime that may be run, but for `changes`."""
    data = {
        "image": "registry.example.com/freetoken:v1",
        "imageDigest": DIGEST,
        "imageRevision": "b" * 40,
        "promotionState": "verified",
        "version": "0.1.3",
        "port": "1919",
        **changes,
    }
    metadata = {"name": FREETOKEN_RUNTIME, "namespace": HOME}
    return resource({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def pod(
    name: str = "model-demo-1",
    *,
    phase: str = "Running",
    ready: bool = False,
    owner: str | None = MODEL_UID,
    dying: bool = False,
    owner_changes: Mapping[str, Any] | None = None,
    created: str = "2026-01-01T00:00:00Z",
    version: str = "7",
    conditions: Sequence[Mapping[str, Any]] = (),
    containers: Sequence[Mapping[str, Any]] = (),
    **status: Any,
) -> PodView:
    """A Pod that KubeAI made for the Model with the uid `owner`; None for one that nobody owns."""
    reference = {
        "apiVersion": "kubeai.org/v1",
        "kind": "Model",
        "name": "demo",
        "uid": owner,
        "controller": True,
        **(owner_changes or {}),
    }
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": SPACE,
        "uid": f"uid-{name}",
        "resourceVersion": version,
        "creationTimestamp": created,
        "labels": {"app": "model", "model": "demo"},
        "ownerReferences": [reference] if owner is not None else [],
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    said = [*conditions, {"type": "Ready", "status": "True" if ready else "False"}]
    body = {"phase": phase, "conditions": said, "containerStatuses": list(containers), **status}
    return msgspec.convert({"metadata": metadata, "status": body}, PodView)


READY_MODULES = tuple(RequiredModule(each, READY) for each in ("kubeai", "litellm", "model-catalog"))


def module(name: str, readiness: Readiness) -> RequiredModule:
    """A required module in this state."""
    return RequiredModule(name, readiness)


def observation(of: Resource | None = None, *serving: Resource, **seen: Any) -> ModelObservation:
    """What is seen of an activation that `serving` objects serve; a usual local model, but for `seen`."""
    found = of if of is not None else activation()
    name = found.metadata.name
    models = [each for each in serving if each.kind == KUBEAI_MODEL.kind]
    usual: dict[str, Any] = {
        "resolved": kubeai(name),
        "modules": READY_MODULES,
        "runtimes": tuple(map(runtime, serving)),
        "occupant": models[0] if models else None,
        "profile": choice(),
    }
    return ModelObservation(
        found,
        parse(ModelActivationSpec, found),
        read_status(ModelActivationStatus, found),
        **{**usual, **seen},
    )
