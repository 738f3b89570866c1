"""ModelActivation: one local or external model (spec: magicstick-api §2.5, models §3.1).

Checks that need the catalogs, other objects or the cluster are not made here.
"""

from typing import Annotated, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from magicstick.api.base import (
    DEFAULT_TARGET_NAMESPACE,
    ApplianceRef,
    Count,
    Model,
    PositiveCount,
)
from magicstick.api.quantity import vram_mi
from magicstick.api.schema import REQUIRED, Keywords, Rule, rules

EngineName = Literal["VLLM", "OLlama", "FreeToken"]
ComputeTargetName = Literal["cpu", "nvidia-gpu", "amd-gpu", "intel-gpu"]
KvCacheType = Literal["auto", "fp8", "f16", "q8_0", "q4_0"]
VisionAttention = Literal["auto", "aotriton", "triton", "flash-attn-triton"]
MemoryStrategy = Literal["auto", "fused", "offload", "cpu", "hybrid"]

DEFAULT_ENGINE: Final = "VLLM"
DEFAULT_COMPUTE_TARGET: Final = "nvidia-gpu"
_ENGINES: Final = {"": DEFAULT_ENGINE, "VLLM": "VLLM", "OLLAMA": "OLlama", "FREETOKEN": "FreeToken"}

LIMIT_BELOW_REQUEST: Final = "limitMillicores must be 0 (no limit) or at least requestMillicores"
VLLM_NEEDS_ITS_ENGINE: Final = "vllm settings need the engine VLLM: remove vllm, or set engine to VLLM"


def _engine(value: object) -> object:
    """Objects older than the schema spell engines in any case (spec: magicstick-api §4.4)."""
    return _ENGINES.get(value.strip().upper(), value) if isinstance(value, str) else value


def _compute_target(value: object) -> object:
    return value.strip().lower() or DEFAULT_COMPUTE_TARGET if isinstance(value, str) else value


def _whole_number(value: object) -> object:
    """A literal would take true for 1."""
    if type(value) is not int:
        raise ValueError("must be a whole number")
    return value


def _vram(value: str) -> str:
    vram_mi(value)
    return value


def _either_spelling(camel: str, snake: str) -> AliasChoices:
    """Objects older than the schema spell some fields in snake_case."""
    return AliasChoices(camel, snake)


Engine = Annotated[EngineName, BeforeValidator(_engine)]
ComputeTarget = Annotated[
    ComputeTargetName,
    BeforeValidator(_compute_target),
    Keywords(
        rules(
            Rule(
                "self == oldSelf",
                "a model stays on its compute target: delete the activation and create it anew to move",
                "FieldValueForbidden",
            )
        )
    ),
]
Vram = Annotated[str, AfterValidator(_vram)]


class CpuResources(Model):
    """CPU of each replica; what is left out comes from the compute-target catalog."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=rules(
            Rule(
                "!has(self.requestMillicores) || !has(self.limitMillicores) || "
                "self.limitMillicores == 0 || self.limitMillicores >= self.requestMillicores",
                LIMIT_BELOW_REQUEST,
                field_path=".limitMillicores",
            )
        ),
    )

    request_millicores: PositiveCount | None = None
    """CPU that is reserved, in thousandths of a core."""
    limit_millicores: Count | None = None
    """CPU that may be used, in thousandths of a core; 0 sets no limit."""

    @model_validator(mode="after")
    def _limit_holds_request(self) -> Self:
        request, limit = self.request_millicores, self.limit_millicores
        if request and limit and limit < request:
            raise ValueError(LIMIT_BELOW_REQUEST)
        return self


class Realtime(Model):
    """The realtime runtime, instead of an engine of KubeAI's."""

    model_config = ConfigDict(extra="forbid")

    profile: Annotated[str, Field(min_length=1)]
    """Key of a realtime profile in the compute-target catalog."""
    gpu_node: Annotated[str, Field(min_length=1)]
    """Node that the runtime runs on."""
    gpu_count: Annotated[Literal[1, 2], BeforeValidator(_whole_number)] = 1
    """GPUs that the runtime takes."""
    system_memory_mi: PositiveCount = 16384
    """Host memory, in MiB."""
    gpu_memory_fraction: Annotated[StrictFloat, Field(gt=0, le=1)] = 0.9
    """Part of the GPU memory that the runtime may take."""
    thinker_cpu_offload_gi_b: Annotated[Count, Field(alias="thinkerCpuOffloadGiB")] = 0
    """Part of the Thinker's weights that is kept in host memory, in GiB."""
    runtime_image: Annotated[str, Field(max_length=1024)] = ""
    """Image to run instead of the catalog's."""
    restart_nonce: Annotated[str, Field(max_length=128)] = ""
    """A new value restarts the runtime."""


class Vllm(Model):
    """Settings of the engine VLLM."""

    model_config = ConfigDict(extra="forbid")

    vision_attention: VisionAttention | None = None
    """Attention backend of the vision encoder; left out, the compute target's default."""


class FreeTokenAdvanced(Model):
    """Tuning of FreeToken; what is left out FreeToken chooses."""

    model_config = ConfigDict(extra="forbid")

    cache_type: Literal["radix", "naive"] | None = None
    """Prefix cache."""
    kv_reserve_tokens: PositiveCount | None = None
    """Tokens that the KV cache keeps free."""
    moe_cache_size: Count | None = None
    """Experts kept in GPU memory."""
    max_prefill_length: PositiveCount | None = None
    """Tokens of one prefill step."""
    cuda_graph_max_batch_size: PositiveCount | None = None
    """Largest batch that is captured as a CUDA graph."""
    cpu_threads: PositiveCount | None = None
    """Threads for experts on the CPU."""
    expert_load: Literal["auto", "serial", "parallel"] | None = None
    """How experts are loaded."""
    dtype: Literal["auto", "float16", "bfloat16", "float32"] | None = None
    """Number format of the weights."""


class FreeToken(Model):
    """Settings of the engine FreeToken."""

    model_config = ConfigDict(extra="forbid")

    gpu_device: str = ""
    """GPUs to use, as `node:<node>`; may be left out while only one node is eligible."""
    gpu_count: PositiveCount = 1
    """GPUs to use; also the tensor-parallel size."""
    gpu_memory_mi: Annotated[StrictInt, Field(ge=256)] | None = None
    """GPU memory over all GPUs, in MiB."""
    system_memory_mi: Annotated[StrictInt, Field(ge=256)] | None = None
    """Host memory, in MiB."""
    memory_strategy: MemoryStrategy = "auto"
    """Where experts are kept and computed."""
    restart_nonce: str = ""
    """A new value restarts the runtime."""
    advanced: FreeTokenAdvanced = Field(default_factory=FreeTokenAdvanced)
    """Tuning."""


class LocalModel(Model):
    """A model that runs in this cluster. Unknown fields are kept in the object and have no effect."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra=rules(
            Rule(
                "!has(self.vllm) || (has(self.engine) && self.engine == 'VLLM')",
                VLLM_NEEDS_ITS_ENGINE,
                field_path=".vllm",
            )
        ),
    )

    preset: str = ""
    """Key of a preset; left out, the activation's own name is tried."""
    artifact: Annotated[str, Field(min_length=1)] | None = None
    """Artifact of the preset; left out, the preset's default."""
    url: str = ""
    """What to serve: hf://organisation/model, or ollama://reference."""
    model_type: str = ""
    """What the model does, for example chat or embedding."""
    features: tuple[str, ...] = ()
    """KubeAI's names for what the model does; left out, derived from modelType."""
    engine: Engine = DEFAULT_ENGINE
    """The runtime that serves the model."""
    compute_target: ComputeTarget = DEFAULT_COMPUTE_TARGET
    """The hardware that the model runs on. Cannot be changed."""
    resource_profile: str = ""
    """Normally left out; if set, it must be what the compute target resolves to."""
    vram: Vram | None = None
    """GPU memory to plan with, as a quantity (12Gi); bare digits are MiB. Wins over vramMi."""
    vram_mi: PositiveCount | None = None
    """GPU memory to plan with, in MiB."""
    memory_required_mi: Annotated[StrictInt, Field(ge=16)] | None = None
    """Host memory, in MiB."""
    cpu_offloading: StrictBool | None = None
    """Whether part of the model may be kept in host memory. Left out differs from false."""
    cpu_resources: CpuResources | None = None
    """CPU of each replica; left out, the compute target's."""
    cpu_offload_mi: Count | None = None
    """Weights that VLLM keeps in host memory, in MiB."""
    allow_memory_risk: StrictBool | None = None
    """Try the model even where its host memory is not known to suffice."""
    ollama_gpu_layers: PositiveCount | None = None
    """Deprecated: has no effect."""
    context_window: PositiveCount | None = Field(
        None, validation_alias=_either_spelling("contextWindow", "context_window")
    )
    """Tokens of context."""
    max_output_tokens: PositiveCount | None = Field(
        None, validation_alias=_either_spelling("maxOutputTokens", "max_output_tokens")
    )
    """Tokens of one answer."""
    max_num_seqs: PositiveCount | None = Field(
        None, validation_alias=_either_spelling("maxNumSeqs", "max_num_seqs")
    )
    """Requests that are worked on at once."""
    kv_cache_type: KvCacheType | None = None
    """Number format of the KV cache; left out, the engine's usual one."""
    kv_cache_memory_bytes: Annotated[StrictInt, Field(ge=67108864)] | None = None
    """KV cache of VLLM on CPU, in bytes."""
    args: tuple[str, ...] = ()
    """Further arguments of the engine."""
    min_replicas: Count | None = None
    """Least replicas; left out, one."""
    max_replicas: Count | None = None
    """Most replicas; left out, one."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment of the engine."""
    realtime: Realtime | None = None
    """Serves the model with the realtime runtime."""
    vllm: Vllm | None = None
    """Settings of the engine VLLM."""
    freetoken: FreeToken | None = None
    """Settings of the engine FreeToken."""

    @model_validator(mode="after")
    def _vllm_needs_its_engine(self) -> Self:
        if self.vllm is not None and self.engine != "VLLM":
            raise ValueError(VLLM_NEEDS_ITS_ENGINE)
        return self


class SecretKeyRef(Model):
    """One key of a Secret in the namespace `ai`."""

    name: str = ""
    """Name of the Secret."""
    key: str = ""
    """Key within the Secret."""


class ExternalModel(Model):
    """A model that a provider serves. Unknown fields are kept in the object and have no effect."""

    model_config = ConfigDict(extra="allow")

    model: str = ""
    """The provider's name of the model, for example openai/name."""
    api_base: str = ""
    """Address of the provider's API."""
    model_type: str = ""
    """What the model does, for example chat or embedding."""
    api_version: str = ""
    """Version of the provider's API."""
    custom_llm_provider: str = ""
    """Protocol of the provider, where the model's name does not tell."""
    api_key_secret_ref: SecretKeyRef | None = None
    """Where the key of the provider's API is kept."""
    tpm: PositiveCount | None = None
    """Tokens per minute."""
    rpm: PositiveCount | None = None
    """Requests per minute."""
    context_window: PositiveCount | None = None
    """Tokens of context."""
    max_output_tokens: PositiveCount | None = None
    """Tokens of one answer."""


class ModelActivationSpec(Model):
    """The model that is wanted, and how it is served."""

    enabled: StrictBool = True
    """False stops the model and keeps this record of it."""
    type: Annotated[Literal["local", "external"], REQUIRED] = "local"
    """`local`: served in this cluster. `external`: served by a provider."""
    target_namespace: str = DEFAULT_TARGET_NAMESPACE
    """Namespace that the model runs in."""
    appliance_ref: ApplianceRef = Field(default_factory=ApplianceRef)
    """The Appliance that this model belongs to."""
    local: LocalModel = Field(default_factory=LocalModel)
    """The model, if it is local."""
    external: ExternalModel = Field(default_factory=ExternalModel)
    """The model, if it is external."""
