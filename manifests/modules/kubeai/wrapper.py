"""Turns a model's memory budget into arguments of vLLM.

vLLM takes its share of a GPU as a fraction, so the budget has to be divided by what the GPU really has,
which only the container can tell. What a caller says about these arguments is replaced: the budget is the
operator's. Contract: spec companions §6.2, models §7.3.
"""

# ruff: noqa: INP001 - a file on its own, found through PYTHONPATH

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

TARGET = "MAGICSTICK_COMPUTE_TARGET"
BUDGET = "MAGICSTICK_VLLM_VRAM_LIMIT"
DEVICE = "MAGICSTICK_GPU_DEVICE"
OFFLOAD = "MAGICSTICK_CPU_OFFLOAD_MI"

UTILISATION_LIMIT = 0.98
"""vLLM needs the rest for what it allocates before it measures."""
MIB = 1024 * 1024
UNITS = {**dict.fromkeys(("", "m", "mb", "mi", "mib"), 1), **dict.fromkeys(("g", "gb", "gi", "gib"), 1024)}
MEMORY = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]*)\s*", re.IGNORECASE)

NVIDIA_SMI_TIMEOUT_S = 10
TORCH_TIMEOUT_S = 120  # the first import of torch from a cold disk
TORCH_BACKENDS = {"amd-gpu": "cuda", "intel-gpu": "xpu"}  # torch calls ROCm devices cuda as well

Environment = Mapping[str, str]
Run = Callable[[list[str], float], str]


class Refused(Exception):
    """The model must not start; the message says why."""


def output_of(command: list[str], timeout_s: float) -> str:
    """The output of a program.

    Raises:
        Refused: it is not there, failed, or took too long.
    """
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout_s)  # noqa: S603 - fixed programs
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(f"the memory of the GPU could not be read: {error}") from error
    return done.stdout


def rewritten(arguments: list[str], environment: Environment, run: Run = output_of) -> list[str]:
    """The arguments that vLLM is to have.

    Args:
        arguments: as the caller gave them, without the program's name.
        environment: see the names at the top of the module.
        run: starts a program and returns its output.

    Raises:
        Refused: the target is unknown, or there is no usable budget for a GPU.
    """
    target = environment.get(TARGET, "")
    kept = without(arguments, ("gpu-memory-utilization", "scheduling-policy"))
    if target == "cpu":
        return [*kept, "--scheduling-policy", "priority"]
    if target != "nvidia-gpu" and target not in TORCH_BACKENDS:
        raise Refused(f"{TARGET} is {target!r}; known are cpu, nvidia-gpu, amd-gpu and intel-gpu")
    added: list[str] = []
    if OFFLOAD in environment:
        kept = without(kept, ("cpu-offload-gb", "offload-backend", "offload-group-size"))
        added = offload_flags(environment[OFFLOAD], target)
    share = utilisation(budget_mi(environment.get(BUDGET, "")), physical_mi(target, environment, run))
    return [*kept, f"--gpu-memory-utilization={share:.4f}", *added, "--scheduling-policy", "priority"]


def without(arguments: Iterable[str], flags: Iterable[str]) -> list[str]:
    """Arguments without these flags: with dashes or underscores, `--flag=value` or `--flag value`."""
    dropped = {f"--{flag}" for flag in flags}
    kept: list[str] = []
    value_follows = False
    for argument in arguments:
        is_value = value_follows and not argument.startswith("--")
        value_follows = False
        if is_value:
            continue
        flag, equals, _ = argument.partition("=")
        if flag.replace("_", "-") in dropped:
            value_follows = not equals
        else:
            kept.append(argument)
    return kept


def budget_mi(text: str) -> int:
    """Memory as people write it, in MiB; a bare number is MiB, and fractions are cut off.

    Raises:
        Refused: the text is no amount of memory, or none at all.
    """
    match = MEMORY.fullmatch(text)
    factor = UNITS.get(match["unit"].lower()) if match else None
    if match is None or factor is None:
        raise Refused(f"{BUDGET} is {text!r}; a number is needed, alone or with one of Mi, MiB, Gi, GiB")
    budget = int(Decimal(match["number"]) * factor)
    if budget <= 0:
        raise Refused(f"{BUDGET} is {text!r}; it must be at least 1 MiB")
    return budget


def utilisation(budget: int, physical: int) -> float:
    """The share of a GPU that the budget is, both in MiB.

    Raises:
        Refused: the GPU does not have as much.
    """
    if budget > physical:
        raise Refused(f"{BUDGET} is {budget} MiB, but the GPU has {physical} MiB")
    return min(UTILISATION_LIMIT, budget / physical)


def offload_flags(text: str, target: str) -> list[str]:
    """How much of the model goes to the host's memory; 0 is said too, so that no default takes its place.

    Raises:
        Refused: the text is no number of MiB, or the target cannot offload.
    """
    if not re.fullmatch(r"[0-9]+", text):
        raise Refused(f"{OFFLOAD} is {text!r}; a whole number of MiB is needed")
    if int(text) and target != "nvidia-gpu":
        raise Refused(f"{OFFLOAD} is {text}, but {target} cannot offload to the host's memory")
    return [f"--cpu-offload-gb={int(text) / 1024:.6f}", "--offload-backend=uva", "--offload-group-size=0"]


def physical_mi(target: str, environment: Environment, run: Run) -> int:
    """What the GPU has, in MiB.

    Torch is asked in an interpreter of its own: once it has opened a device here, vLLM's workers could not.

    Raises:
        Refused: it cannot be found out.
    """
    device = environment.get(DEVICE) or "0"
    if target == "nvidia-gpu":
        query = ["--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", device]
        answer, unit = run(["nvidia-smi", *query], NVIDIA_SMI_TIMEOUT_S), 1
    else:
        code = (
            "import sys, torch\n"
            "backend = getattr(torch, sys.argv[1])\n"
            "print(backend.get_device_properties(int(sys.argv[2])).total_memory)"
        )
        backend = TORCH_BACKENDS[target]
        answer, unit = run([sys.executable, "-c", code, backend, device], TORCH_TIMEOUT_S), MIB
    lines = answer.split()
    if not lines or not lines[-1].isdecimal() or int(lines[-1]) < unit:
        raise Refused(f"the memory of GPU {device} could not be read: {answer.strip()[:200]!r}")
    return int(lines[-1]) // unit
