"""How much memory Ollama uses for a model, on the GPU and on the host (spec: models §10.4)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from magicstick.models.questions import Sample
from magicstick.models.samples import SAMPLED_AT
from magicstick.runtime.conditions import timestamp

SOURCE: Final = "ollama-api-ps"
MIB: Final = 1 << 20
MOST: Final = 1 << 53
"""No measurement is more, and no larger number is the same to everyone who reads JSON."""
_FIELDS: Final = ("totalMi", "vramMi", "ramMi")


def sample_of(loaded: Mapping[str, object]) -> Sample | None:
    """What a loaded model takes in one Pod, in MiB rounded up; None where the numbers cannot be."""
    size, on_gpu = loaded.get("size"), loaded.get("size_vram")
    if type(size) is not int or type(on_gpu) is not int or not 0 <= on_gpu <= size or not 0 < size <= MOST:
        return None
    return dict(zip(_FIELDS, map(_mib, (size, on_gpu, size - on_gpu)), strict=True))


def memory_usage(samples: Sequence[Sample], now: datetime) -> dict[str, object] | None:
    """`status.memoryUsage`: the largest of each number over all Pods. None, which is not zero, for none."""
    if not samples:
        return None
    largest = {name: max(each[name] for each in samples) for name in _FIELDS}
    return {"source": SOURCE, SAMPLED_AT: timestamp(now), "replicas": len(samples), **largest}


def _mib(size: int) -> int:
    return -(-size // MIB)
