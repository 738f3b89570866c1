"""Number formats of the KV cache, by engine and target (spec: models §5, magicstick-api §3.3)."""

from collections.abc import Mapping
from typing import Final, Literal

from magicstick.api.model_activation import DEFAULT_ENGINE, KvCacheType

DEFAULT_KV_CACHE_BYTES: Final = 512 * 2**20
"""KV cache of vLLM on CPU where a model says nothing, in bytes."""

AUTO: Final[KvCacheType] = "auto"
_TYPES: Final[Mapping[str, tuple[KvCacheType, ...]]] = {
    "VLLM": (AUTO, "fp8"),
    "OLlama": ("f16", "q8_0", "q4_0"),
}
"""By engine; the first is the engine's usual one. FreeToken has no choice."""
_ALIASES: Final[Mapping[str, str | None]] = {"standard": None, "": None, "q8": "q8_0", "q4": "q4_0"}
_FP8_TARGETS: Final = ("nvidia-gpu", "amd-gpu")
"""Only CUDA and ROCm compute with it."""


def canonical(text: str) -> str | None:
    """The type as the schema spells it; None where the engine's usual one is meant."""
    spelled = text.strip().lower().replace("-", "_")
    return _ALIASES.get(spelled, spelled)


def usual(engine: str) -> KvCacheType:
    """What the engine uses where a model says nothing."""
    return _TYPES.get(engine, (AUTO,))[0]


def problem(wanted: KvCacheType | None, engine: Literal["VLLM", "OLlama"], target: str) -> str | None:
    """Why the engine cannot use this type on this target; None when it can."""
    if wanted is None:
        return None
    offered = _TYPES[engine]
    if wanted not in offered:
        return f"must be {_either(offered)} for {engine}"
    if wanted == "fp8" and target not in _FP8_TARGETS:
        return f"must not be fp8 on {target}: only {_either(_FP8_TARGETS)} compute with it"
    return None


def requested(spec: Mapping[str, object]) -> KvCacheType:
    """What a local model asks for, also where it cannot be resolved: its own word, or the usual one.

    For FreeToken and realtime, which have no choice, `auto` (decision 28). Total.
    """
    local = spec.get("local")
    fields = local if isinstance(local, Mapping) else {}
    engine = fields.get("engine") or DEFAULT_ENGINE
    name = next((each for each in _TYPES if each.upper() == str(engine).strip().upper()), None)
    if name is None or fields.get("realtime") is not None:
        return AUTO
    raw = fields.get("kvCacheType")
    spelled = canonical(raw) if isinstance(raw, str) else None
    known = (each for offered in _TYPES.values() for each in offered)
    return next((each for each in known if each == spelled), usual(name))


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
