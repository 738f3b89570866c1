"""What a validated and fully resolved model is: the values that everything else is built from.

Two steps lead from a ModelActivation to what is written into the cluster, both pure:

1. `resolve.resolve(activation, catalogs, hardware)` gives a `Resolved` or the first `Refusal`.
2. For a model that KubeAI serves, `profiles.choose(resolved, kubeai)` gives the `ProfileChoice` that its
   Model names, or the `ProfileWait` that says what it waits for.

Whether KubeAI has taken a chosen profile already tells `profiles.in_force`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal

from magicstick.api.model_activation import ComputeTargetName, ExternalModel, FreeTokenAdvanced, KvCacheType
from magicstick.catalogs.compute_targets import CpuPolicy

Profile = Mapping[str, object]
"""A resource profile of KubeAI's: imageName, requests, limits, nodeSelector, tolerations, …"""

AllocationMode = Literal["unknown", "firmware-reserved", "shared-gtt"]
"""Where the memory of an integrated GPU comes from."""

Accelerator = Literal["cuda", "rocm", "xpu", "cpu"]
"""What a realtime runtime computes with."""

HoldMode = Literal["cpu", "exclusive", "time-slicing", "dra-shared"]
"""How a realtime runtime holds its devices: not at all, alone, or one slot of a shared one."""


class Backend(StrEnum):
    """What serves a model; the beginning of `status.modelRef` (spec: models §1)."""

    KUBEAI = "kubeai"
    FREETOKEN = "freetoken"
    REALTIME = "vllm-omni"
    EXTERNAL = "litellm"


class Reason(StrEnum):
    """Why a model is refused before anything is created; reason of its condition."""

    UNSUPPORTED_TYPE = "UnsupportedType"
    INVALID_SPEC = "InvalidModelSpec"
    INVALID_NAME = "InvalidName"
    INVALID_TARGET = "InvalidComputeTarget"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first thing that is wrong with a model, in the order of the specification (models §15).

    A refused model is Degraded; whatever runs for it already is left as it is.
    """

    reason: Reason
    field: str
    """Path of the field to change, `spec.local.vram`."""
    problem: str
    """Completes the sentence that begins with the field, and never holds its value: `must be …`."""

    @property
    def message(self) -> str:
        """The whole sentence, for the status."""
        return f"{self.field} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """What every model has."""

    name: str
    """Of the activation, and of all that serves it."""
    namespace: str
    """Where it is served."""
    modules: tuple[str, ...]
    """Canonical keys of the required modules, in order, without duplicates (spec: models §6)."""
    requested_modules: tuple[str, ...]
    """Those of `modules` that the model itself asks for; hardware modules are only waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedExternal(ResolvedModel):
    """A model that a provider serves."""

    external: ExternalModel
    backend: ClassVar[Backend] = Backend.EXTERNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The compute target of a local model."""

    name: ComputeTargetName
    display_name: str
    kind: Literal["cpu", "gpu"]
    resource_names: tuple[str, ...]
    """The extended resources, one of which must be allocatable; () for none."""
    resource: str | None
    """The one that nodes publish and the profile stands for; None while none does, or none is needed."""
    allocatable: int
    """How many of `resource` the Ready nodes of this target have together; 0 holds it in WaitingForGPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnifiedMemory:
    """The memory that a model's GPU shares with its host (spec: gpu §7)."""

    node: str
    pool_id: str
    """UID of the node, or else its name."""
    mode: AllocationMode
    memory_mi: int
    """Host memory to request, in MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedLocal(ResolvedModel):
    """A local model, whatever serves it. All quantities are for one replica."""

    target: Target
    engine_title: str
    """The engine's name for people."""
    url: str
    artifact: str = ""
    precision: str = ""
    quantization: str = ""
    vram_mi: int = 0
    """GPU memory to plan with, in MiB; 0 on CPU targets."""
    memory_mi: int = 0
    """Host memory in MiB, rounded up to whole units on CPU targets; 0 where the profile decides."""
    cpu: CpuPolicy
    """CPU request and limit; a limit of 0 is none."""
    context_window: int | None = None
    max_output_tokens: int | None = None
    max_num_seqs: int | None = None
    requested_kv_cache_type: KvCacheType = "auto"
    """`auto` where the runtime has no choice (decision 28)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedKubeAi(ResolvedLocal):
    """A local model that KubeAI serves. `args`, `env` and `annotations` are final (spec: models §7)."""

    engine: Literal["VLLM", "OLlama"]
    features: tuple[str, ...]
    args: tuple[str, ...]
    """All arguments of the engine, in order."""
    env: Mapping[str, str]
    """The whole environment of the engine."""
    annotations: Mapping[str, str]
    """What the Model's annotations say of its settings."""
    min_replicas: int
    max_replicas: int
    base_profile: str
    """KubeAI profile and count before anything is derived from it, `magicstick-nvidia-gpu:1`; on CPU
    targets the count is that of the memory units."""
    cpu_offloading: bool | None = None
    """None where the model does not say, which differs from False."""
    unified_memory: UnifiedMemory | None = None
    unified_problem: str = ""
    """Why it cannot be said which node's unified memory is used; "" when it can, or none is."""
    backend: ClassVar[Backend] = Backend.KUBEAI


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFreeToken(ResolvedLocal):
    """A local model that FreeToken serves (spec: models §13)."""

    node: str
    """Node of the GPUs; "" while no GPU is allocatable, so that none can be chosen."""
    gpu_count: int
    """GPUs; also the tensor-parallel size."""
    gpu_memory_mi: int
    """Over all GPUs, in MiB."""
    vram_per_gpu_mi: int
    node_selector: Mapping[str, str]
    """Labels of the target and the engine, without the host name."""
    memory_strategy: str
    restart_nonce: str = ""
    advanced: FreeTokenAdvanced = field(default_factory=FreeTokenAdvanced)
    engine: ClassVar[Literal["FreeToken"]] = "FreeToken"
    backend: ClassVar[Backend] = Backend.FREETOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """How a node's devices are held by one realtime runtime (spec: realtime §4)."""

    mode: HoldMode
    resource: str | None = None
    """The extended resource: its taint is tolerated, and it is requested unless a claim is. None on CPU."""
    slots: int = 0
    """What can be given out at all; 0 while no device is there."""
    most: int = 1
    """Devices that one runtime can have."""
    claim: str = ""
    """The ResourceClaim of a shared device."""
    device: str = ""
    """That device, as the status names it."""

    @property
    def shared(self) -> bool:
        """Whether others may compute on the same device."""
        return self.mode in ("time-slicing", "dra-shared")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRealtime(ResolvedLocal):
    """A local model that vLLM-Omni serves directly (spec: realtime)."""

    profile: str
    """Key of the catalog's profile."""
    accelerator: Accelerator
    context_window: int
    max_num_seqs: int
    image: str
    pinned: bool
    """Whether the image is the catalog's, whose source was reviewed; a user's own is taken as it is."""
    node: str
    node_uid: str
    hold: Hold
    missing: str = ""
    """Why no device can be given out now, as a sentence; "" when one can, or none is needed."""
    gpu_count: int
    gpu_memory_fraction: float
    thinker_offload_gib: int
    """Part of the Thinker's weights that is kept in host memory."""
    deploy_config: str
    """Name of the runtime's own configuration that the stages are based on."""
    source_revision: str
    restart_nonce: str = ""
    unified_memory: UnifiedMemory | None = None
    engine: ClassVar[Literal["VLLM"]] = "VLLM"
    backend: ClassVar[Backend] = Backend.REALTIME


Resolved = ResolvedExternal | ResolvedKubeAi | ResolvedFreeToken | ResolvedRealtime


@dataclass(frozen=True, slots=True)
class DerivedProfile:
    """A profile that the store must hold, under the name that follows from its content."""

    name: str
    content: Profile


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """The profile that a Model names, and the derived ones on the way to it, in order of derivation."""

    derived: tuple[DerivedProfile, ...]

    @property
    def reference(self) -> str:
        """`spec.resourceProfile` of the Model: the last derived profile, once."""
        return f"{self.derived[-1].name}:1"


class WaitReason(StrEnum):
    """Reasons of the phase Starting while a profile is not in force (spec: models §9, rows 19, 21, 23)."""

    OFFLOADING = "WaitingForOffloadingProfile"
    UNIFIED_MEMORY = "WaitingForUnifiedMemoryProfile"
    CPU = "WaitingForCpuProfile"


@dataclass(frozen=True, slots=True)
class ProfileWait:
    """Why the Model cannot be created yet. An existing one is left alone."""

    reason: WaitReason
    message: str
