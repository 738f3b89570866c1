"""Tensor and pipeline parallelism: a replica cannot spread over more GPUs than its profile gives it."""

from collections.abc import Sequence
from typing import Final

from magicstick.models.flags import read_flags
from magicstick.models.validation import refuse

TENSOR: Final = "tensor-parallel-size"
PIPELINE: Final = "pipeline-parallel-size"
_SPELLINGS: Final = {TENSOR: TENSOR, "-tp": TENSOR, PIPELINE: PIPELINE, "-pp": PIPELINE}


def gpus_used(args: Sequence[str]) -> int | None:
    """The GPUs that vLLM's arguments spread one replica over; None where a size is no positive number.

    The last of several equal flags counts, as for vLLM.
    """
    sizes = {TENSOR: "1", PIPELINE: "1"}
    for flag in read_flags(args, frozenset(_SPELLINGS)):
        if flag.name in _SPELLINGS:
            sizes[_SPELLINGS[flag.name]] = flag.value or ""
    numbers = [int(text) if text.isascii() and text.isdigit() else 0 for text in sizes.values()]
    return None if 0 in numbers else numbers[0] * numbers[1]


def check_parallelism(args: Sequence[str], profile: str) -> None:
    """Refuse what the engine would refuse at its start, after minutes of download.

    Raises:
        RefusedError: the sizes are no numbers, or take more GPUs than `profile`, `name:count`, has.
    """
    used, given = gpus_used(args), int(profile.rpartition(":")[2])
    if used is None:
        refuse("spec.local.args", f"must give --{TENSOR} and --{PIPELINE} a whole number of at least 1")
    if used > given:
        refuse(
            "spec.local.args",
            f"must spread over at most {given} GPUs, which is what {profile} has: "
            f"--{TENSOR} times --{PIPELINE} is {used}",
        )
