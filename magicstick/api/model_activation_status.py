"""The status of a ModelActivation (spec: magicstick-api §2.6, models §3.2)."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from magicstick.api.base import (
    Conditions,
    Count,
    FreeObject,
    Model,
    ObservedGeneration,
    PositiveCount,
    Timestamp,
)
from magicstick.api.schema import NULLABLE

GpuAllocationMode = Literal["", "unknown", "firmware-reserved", "shared-gtt"]
GpuSharingMode = Literal["dra-shared", "time-slicing", "exclusive"]


class ResolvedCpuResources(Model):
    """CPU of each replica, after catalog defaults."""

    request_millicores: PositiveCount | None = None
    """CPU that is reserved, in thousandths of a core."""
    limit_millicores: Count | None = None
    """CPU that may be used, in thousandths of a core; 0 means no limit."""


class GpuSharing(Model):
    """How the model holds its GPUs."""

    mode: GpuSharingMode | None = None
    """Whether and how the GPUs are shared."""
    claim_name: str = ""
    """ResourceClaim that the model's Pods are bound to."""
    node: str = ""
    """Node of the GPUs."""
    device: str = ""
    """The shared GPU."""
    slot_count: PositiveCount | None = None
    """Slots that the GPU is divided into."""
    whole_gpu_count: PositiveCount | None = None
    """GPUs that the model has for itself."""
    tensor_parallel_size: PositiveCount | None = None
    """GPUs that the weights are spread over."""
    vram_mi_per_device: Count | None = None
    """GPU memory planned for each GPU, in MiB."""
    memory_isolation: StrictBool = False
    """Whether the hardware keeps models from each other's GPU memory."""


class PodRecovery(Model):
    """Replacement of Pods that ended for good."""

    revision: str = ""
    """The runtime that is being recovered; another one starts from zero."""
    attempts: Annotated[StrictInt, Field(ge=0, le=5)] = 0
    """Pods replaced so far."""
    last_attempt: Timestamp = ""
    """When the last Pod was replaced."""
    last_pod_uid: str = ""
    """UID of the last Pod that was replaced."""
    last_failure: str = ""
    """Why it had ended."""


class PodCreation(Model):
    """Since when a Pod of the runtime is awaited."""

    revision: str = ""
    """The runtime whose Pod is awaited."""
    since: Timestamp = ""
    """When the waiting began."""


class ModelActivationStatus(Model):
    """What became of the model."""

    observed_generation: ObservedGeneration = None
    """The generation of the spec that this status speaks of."""
    phase: str = ""
    """Summary: Reconciling, WaitingForModules, WaitingForGPU, WaitingForCRD, WaitingForRuntime, \
    WaitingForPod, WaitingForNamespace, Starting, Ready, Degraded, Removing or Disabled."""
    model_ref: str = ""
    """What serves the model, as backend/name."""
    catalog_id: str = ""
    """Name of the model in the model catalog; no proof that it is published."""
    compute_target: str = ""
    """The hardware in effect; `external` for external models."""
    engine: str = ""
    """The runtime in effect; `external` for external models."""
    artifact: str = ""
    """The preset's artifact in effect."""
    precision: str = ""
    """Precision of the artifact."""
    quantization: str = ""
    """Quantisation of the artifact."""
    requested_kv_cache_type: str = ""
    """The KV cache format asked for; `auto` where there is no choice."""
    effective_kv_cache_type: str = ""
    """The KV cache format in use; empty until a replica is ready."""
    resolved_resource_profile: str = ""
    """The KubeAI resource profile and its count, or the realtime profile."""
    memory_architecture: str = ""
    """`unified` where host and GPU share one memory."""
    shared_pool_id: str = ""
    """Names the shared memory: the UID of its node."""
    runtime_endpoint: str = ""
    """Address of a runtime that KubeAI does not manage, once it is ready."""
    message: str = ""
    """The state in a sentence."""
    vram_required_mi: Count | None = None
    """GPU memory that the model needs, in MiB; 0 while unknown."""
    memory_required_mi: Count | None = None
    """Host memory that the model needs, in MiB; 0 while unknown."""
    cpu_offloading: StrictBool = False
    """Whether part of the model is kept in host memory."""
    cpu_resources: ResolvedCpuResources | None = None
    """CPU of each replica, after catalog defaults."""
    gpu_allocation_mode: GpuAllocationMode = ""
    """Where the memory of an integrated GPU comes from."""
    memory_usage: Annotated[FreeObject | None, NULLABLE] = None
    """Memory in use, as the runtime reports it."""
    free_token_stats: Annotated[FreeObject | None, NULLABLE] = None
    """Statistics of a FreeToken runtime."""
    gpu_sharing: Annotated[GpuSharing | None, NULLABLE] = None
    """How the model holds its GPUs."""
    pod_recovery: Annotated[PodRecovery | None, NULLABLE] = None
    """Replacement of Pods that ended for good."""
    pod_creation: Annotated[PodCreation | None, NULLABLE] = None
    """Since when a Pod of the runtime is awaited."""
    conditions: Conditions = ()
    """The state by aspects: `Ready`, `RuntimeReady`, `CatalogPublished`."""
