"""CPU offloading: part of a model on one NVIDIA GPU is kept in host memory (spec: models §8.3).

Left out nothing changes; `false` says explicitly that nothing may be offloaded. More host memory never
takes more GPUs.
"""

import math
from fractions import Fraction
from typing import Final

from magicstick.api.model_activation import LocalModel
from magicstick.models.validation import refuse

TARGET: Final = "nvidia-gpu"
HOST_BASE_MI: Final = {"VLLM": 6144, "OLlama": 4096}
"""Host memory that the engine needs besides the weights that it keeps there."""


def check_offloading(local: LocalModel, memory_mi: int | None, profile: str) -> None:
    """The rules of explicit offloading; accepted risk waives the one about coverage and no other.

    Raises:
        RefusedError: the target, the replicas, the GPUs or the memory do not allow it.
    """
    if local.cpu_offloading is not True:
        return
    if local.compute_target != TARGET:
        refuse("spec.local.cpuOffloading", f"must not be true on {local.compute_target}, only on {TARGET}")
    if memory_mi is None:
        refuse(
            "spec.local.memoryRequiredMi", "is required with cpuOffloading: the host memory to use, in MiB"
        )
    need_mi = HOST_BASE_MI[local.engine] + (local.cpu_offload_mi or 0)
    if local.allow_memory_risk is not True and memory_mi < need_mi:
        refuse(
            "spec.local.memoryRequiredMi",
            f"must be at least {need_mi}, what {local.engine} and the offloaded weights are expected to "
            "need; set allowMemoryRisk to try less",
        )
    if local.max_replicas not in (None, 1) or local.min_replicas not in (None, 0, 1):
        refuse("spec.local.maxReplicas", "must be 1 with cpuOffloading, and minReplicas at most 1")
    if not profile.endswith(":1"):
        refuse("spec.local.cpuOffloading", f"needs a resource profile with one GPU, and {profile} has more")


def offload_deficit_mi(
    weights_mi: Fraction, kv_cache_mi: Fraction, runtime_reserve_mi: Fraction, vram_mi: Fraction
) -> int:
    """The weights that do not fit beside KV cache and runtime, in whole MiB.

    It is what tools propose as `cpuOffloadMi`; at most all weights, since the cache stays on the GPU.
    """
    deficit = max(0, math.ceil(weights_mi + kv_cache_mi + runtime_reserve_mi - vram_mi))
    return min(math.ceil(weights_mi), deficit)
