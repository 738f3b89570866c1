"""Memory of a model's device and of its host, in MiB (spec: models §5, §8.1, §8.4; gpu §7)."""

import math
import re
from collections.abc import Mapping
from typing import Final

from magicstick.api.model_activation import LocalModel
from magicstick.api.quantity import MAX_MI, QuantityError, vram_mi
from magicstick.models.hardware import NodeFacts
from magicstick.models.presets import Settings
from magicstick.models.resolved import AllocationMode, UnifiedMemory
from magicstick.models.validation import refuse

UNIT_MI: Final = 16
"""What one count of a CPU profile stands for."""

CPU_DEFAULT_MI: Final = {"VLLM": 4096, "OLlama": 2048}
"""Host memory of a CPU model that reserves none."""

UNIFIED_FLOOR_MI: Final = {"VLLM": 8192, "OLlama": 4096}
"""Host memory that a model on unified memory has at least."""

UNKNOWN: Final[AllocationMode] = "unknown"
_BOUNDS: Final[Mapping[AllocationMode, str]] = {
    "firmware-reserved": "firmwareReservedMi",
    "shared-gtt": "gpuAccessibleMi",
}
"""The measured amount that the capacity of each mode cannot exceed."""
_PLAIN: Final = re.compile(r"[1-9][0-9]*(Mi|Gi)?")


def check_amounts(local: LocalModel) -> None:
    """Amounts in whole MiB have the same sane limit as quantities: beyond it, they are mistakes.

    Raises:
        RefusedError: one is above it.
    """
    freetoken = local.freetoken
    amounts = {
        "vramMi": local.vram_mi,
        "memoryRequiredMi": local.memory_required_mi,
        "cpuOffloadMi": local.cpu_offload_mi,
        "freetoken.gpuMemoryMi": None if freetoken is None else freetoken.gpu_memory_mi,
        "freetoken.systemMemoryMi": None if freetoken is None else freetoken.system_memory_mi,
    }
    for name, amount in amounts.items():
        if amount is not None and amount > MAX_MI:
            refuse(f"spec.local.{name}", f"must be at most {MAX_MI}")


def vram(settings: Settings) -> int:
    """GPU memory to plan with; 0 where nobody says.

    Raises:
        RefusedError: what is said is no quantity, or none of a sane size.
    """
    if settings.vram is None:
        return settings.vram_mi or 0
    try:
        return vram_mi(settings.vram)
    except QuantityError as error:
        refuse("spec.local.vram", str(error))


def vram_limit(settings: Settings, resolved_mi: int) -> str:
    """The same for the program in the Pod: as it was written where that has one meaning, else in MiB.

    That program takes `M` for MiB and knows no exponents (spec: companions §6.2).
    """
    written = settings.vram
    return written if written is not None and _PLAIN.fullmatch(written) else str(resolved_mi)


def units(memory_mi: int) -> int:
    """The whole units that hold so much: at least one."""
    return max(1, math.ceil(memory_mi / UNIT_MI))


def cpu_memory(settings: Settings, engine: str) -> int:
    """Host memory that a CPU model reserves: whole units, at least what is asked for."""
    return units(settings.memory_required_mi or CPU_DEFAULT_MI[engine]) * UNIT_MI


def sized(profile: str, memory_mi: int) -> str:
    """The CPU profile `name:count` with the count that gives so much memory.

    Raises:
        RefusedError: the profile has no name, or no count.
    """
    name, colon, _ = profile.rpartition(":")
    if not colon or not name:
        refuse("spec.local.computeTarget", "has a resource profile without a name and a count in the catalog")
    return f"{name}:{units(memory_mi)}"


def is_unified(node: NodeFacts) -> bool:
    """Whether the host says that its GPU has no memory of its own."""
    return node.evidence.get("memoryArchitecture") == "unified"


def allocation(evidence: Mapping[str, object]) -> tuple[AllocationMode, int | None]:
    """Where an integrated GPU's memory comes from, and how much it is; ("unknown", None) where not certain.

    Only the kernel's own topology counts, and only as far as other measurements do not contradict it: a
    shared amount below the firmware's carve-out is no contradiction (spec: gpu §7).
    """
    mode, capacity = evidence.get("gpuAllocationMode"), _positive(evidence, "gpuCapacityMi")
    known = next((each for each in _BOUNDS if each == mode), None)
    if known is None or capacity is None or evidence.get("gpuCapacitySource") != "kfd-topology":
        return UNKNOWN, None
    bound = _positive(evidence, _BOUNDS[known])
    if bound is None or capacity > bound:
        return UNKNOWN, None
    if known == "firmware-reserved" and (_positive(evidence, "gpuAccessibleMi") or 0) > capacity:
        return UNKNOWN, None
    return known, capacity


def unified_memory(node: NodeFacts, engine: str, host_mi: int | None, device_mi: int) -> UnifiedMemory:
    """What a model takes of a node's one memory.

    Unless the firmware has set the GPU's part aside, that part is host memory as well.
    """
    mode, _ = allocation(node.evidence)
    shared_mi = 0 if mode == "firmware-reserved" else device_mi
    memory_mi = max(UNIFIED_FLOOR_MI[engine], host_mi or 0, shared_mi)
    return UnifiedMemory(node=node.name, pool_id=node.uid or node.name, mode=mode, memory_mi=memory_mi)


def _positive(evidence: Mapping[str, object], name: str) -> int | None:
    value = evidence.get(name)
    return value if type(value) is int and value > 0 else None
