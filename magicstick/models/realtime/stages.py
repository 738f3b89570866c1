"""The stage plan of a realtime model: how its three stages share the devices (spec: realtime §7)."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from magicstick.models.resolved import ResolvedRealtime

Stage = dict[str, Any]

PROFILE: Final = "profile.json"
BOOTSTRAP: Final = "bootstrap.py"
DECIMALS: Final = 6
MOST_BATCHED_TOKENS: Final = 8192
SHARES: Final[Mapping[int, tuple[float, float, float]]] = {1: (0.75, 0.20, 0.05), 2: (1.0, 0.80, 0.20)}
"""Of the memory that a runtime may take of a device, what Thinker, Talker and Codec take, by the number of
devices. The shares of one device never come to more than one."""
DEVICES: Final[Mapping[int, tuple[str, str, str]]] = {1: ("0", "0", "0"), 2: ("0", "1", "1")}
_THINKER: Final = 0
_LANGUAGE: Final = (0, 1)
"""Thinker and Talker, which have a context."""
_ROCM_ATTENTION: Final = "TRITON_ATTN"


def stage_plan(model: ResolvedRealtime) -> dict[str, Any]:
    """What the bootstrap completes and the runtime deploys."""
    return {
        "base_config": model.deploy_config,
        "session_mode": "duplex",
        "duplex_session": {"max_sessions": model.max_num_seqs},
        "stages": [_stage(model, number) for number in range(len(SHARES[1]))],
    }


def files_of(model: ResolvedRealtime) -> dict[str, str]:
    """What the runtime's ConfigMap holds, by file name. Equal models have equal texts, byte for byte."""
    return {
        PROFILE: json.dumps(stage_plan(model), indent=2, sort_keys=True),
        BOOTSTRAP: bootstrap_text(),
    }


@cache
def bootstrap_text() -> str:
    """The program that starts the runtime in its container. It ships with the operator, and is read once."""
    return files(__package__).joinpath(BOOTSTRAP).read_text(encoding="utf-8")


def files_hash(content: Mapping[str, str]) -> str:
    """What changes on the Pod template whenever one of the files does (SHA-256, hex)."""
    return hashlib.sha256(f"{content[PROFILE]}\n{content[BOOTSTRAP]}".encode()).hexdigest()


def _stage(model: ResolvedRealtime, number: int) -> Stage:
    stage: Stage = {"stage_id": number, "max_num_seqs": model.max_num_seqs}
    extras: dict[str, object] = {}
    if model.accelerator != "cpu":
        share = SHARES[model.gpu_count][number]
        stage["devices"] = DEVICES[model.gpu_count][number]
        stage["gpu_memory_utilization"] = round(model.gpu_memory_fraction * share, DECIMALS)
    if number in _LANGUAGE:
        stage["max_model_len"] = model.context_window
    if number == _THINKER and model.thinker_offload_gib > 0:
        extras["cpu_offload_gb"] = model.thinker_offload_gib
    if model.accelerator == "rocm":
        stage["enforce_eager"] = True
        if number in _LANGUAGE:
            stage["max_num_batched_tokens"] = max(
                model.max_num_seqs, min(model.context_window, MOST_BATCHED_TOKENS)
            )
            extras["attention_backend"] = _ROCM_ATTENTION
    return {**stage, "engine_extras": extras} if extras else stage
