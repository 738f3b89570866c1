"""The environment of an engine: the caller's, overlaid by ours (spec: models §7.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from magicstick.models.vision import VisionChoice

WRAPPER_PATH: Final = "/opt/magicstick/vllm-wrapper"
VRAM_LIMIT: Final = "MAGICSTICK_VLLM_VRAM_LIMIT"
_WRAPPER: Final = "MAGICSTICK_VLLM_WRAPPER_ENABLED"
_CPU_CACHE_SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"
_FIT: Final = "LLAMA_ARG_FIT"
_LAYERS: Final = "LLAMA_ARG_N_GPU_LAYERS"
_NEVER: Final = frozenset(
    {
        "MAGICSTICK_VLLM_ACTIVE_THREAD_PERCENTAGE",
        "MAGICSTICK_MPS_DEVICE",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_PIPE_DIRECTORY",
        "MAGICSTICK_DRA_CLAIM",
    }
)
"""What callers may not set: how a GPU is shared is decided by the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the environment of either engine depends on."""

    target: str
    on_gpu: bool
    cpu_offloading: bool | None
    unified_memory: bool


def vllm_environment(
    caller: Mapping[str, str],
    around: Surroundings,
    *,
    vram_limit: str,
    cpu_offload_mi: int,
    vision: VisionChoice | None,
) -> dict[str, str]:
    """The whole environment of vLLM. `vram_limit` holds on GPUs alone."""
    inherited = caller.get("PYTHONPATH")
    removed = {_CPU_CACHE_SPACE, VRAM_LIMIT, *(vision.owned_env if vision is not None else ())}
    env = _kept(caller, removed) | _common(around, "VLLM")
    env["PYTHONPATH"] = f"{WRAPPER_PATH}:{inherited}" if inherited else WRAPPER_PATH
    env[_WRAPPER] = "true"
    if around.on_gpu:
        env[VRAM_LIMIT] = vram_limit
    if around.cpu_offloading is not None:
        env["MAGICSTICK_CPU_OFFLOAD_MI"] = str(cpu_offload_mi if around.cpu_offloading else 0)
    return env | dict(vision.env if vision is not None else {})


def ollama_environment(
    caller: Mapping[str, str],
    around: Surroundings,
    *,
    kv_cache_type: str,
    context_window: int | None,
    max_num_seqs: int | None,
) -> dict[str, str]:
    """The whole environment of Ollama. Flash Attention is what quantised caches need, so it is always on."""
    removed = {_WRAPPER, VRAM_LIMIT, _CPU_CACHE_SPACE} | ({_FIT, _LAYERS} if _decides_fit(around) else set())
    env = _kept(caller, removed) | _common(around, "OLlama")
    env |= {
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_SCHED_SPREAD": "false",
        "OLLAMA_KV_CACHE_TYPE": kv_cache_type,
        "OLLAMA_FLASH_ATTENTION": "1",
    }
    if context_window is not None:
        env["OLLAMA_CONTEXT_LENGTH"] = str(context_window)
    if max_num_seqs is not None:
        env["OLLAMA_NUM_PARALLEL"] = str(max_num_seqs)
    if around.unified_memory:
        env["OLLAMA_VULKAN"] = "false"
    return env | _fit(around)


def _decides_fit(around: Surroundings) -> bool:
    return around.on_gpu and around.cpu_offloading is not None


def _fit(around: Surroundings) -> dict[str, str]:
    """How layers are divided: by what fits, GPU first, or all of them on the GPU."""
    if not _decides_fit(around):
        return {}
    return {_FIT: "on"} if around.cpu_offloading else {_FIT: "off", _LAYERS: "999"}


def _kept(caller: Mapping[str, str], removed: set[str]) -> dict[str, str]:
    return {name: value for name, value in caller.items() if name not in _NEVER | removed}


def _common(around: Surroundings, engine: Literal["VLLM", "OLlama"]) -> dict[str, str]:
    env = {"MAGICSTICK_COMPUTE_TARGET": around.target, "MAGICSTICK_ENGINE": engine}
    return env | ({"MAGICSTICK_MEMORY_ARCHITECTURE": "unified"} if around.unified_memory else {})
