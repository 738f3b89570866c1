"""The arguments of vLLM: the caller's, without the flags that we manage, then ours (spec: models §7.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from magicstick.models import vision
from magicstick.models.flags import without
from magicstick.models.vision import VisionChoice

_LIMITS: Final = frozenset({"max-model-len", "max-num-seqs", "kv-cache-dtype"})
_CPU_CACHE: Final = "kv-cache-memory-bytes"
_SWITCHES: Final = frozenset({"calculate-kv-scales", "no-calculate-kv-scales"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmArguments:
    """What we say to vLLM. A limit that is None is not given, and the caller's is removed all the same."""

    context_window: int | None
    max_num_seqs: int | None
    kv_cache_type: str
    kv_cache_bytes: int | None
    """Size of the KV cache on CPU targets; None on others."""
    vision: VisionChoice | None
    """None leaves the caller's choice of the vision encoder's backend alone."""

    def after(self, args: Sequence[str]) -> tuple[str, ...]:
        """The whole command line: `args` of the caller, as far as they stay, and ours."""
        return (*without(args, self._managed, _SWITCHES), *self._own())

    @property
    def _managed(self) -> frozenset[str]:
        on_cpu = {_CPU_CACHE} if self.kv_cache_bytes is not None else set[str]()
        chosen = {vision.FLAG} if self.vision is not None else set[str]()
        return _LIMITS | on_cpu | chosen

    def _own(self) -> list[str]:
        own = [
            ("max-model-len", self.context_window),
            ("max-num-seqs", self.max_num_seqs),
            ("kv-cache-dtype", self.kv_cache_type),
        ]
        args = [f"--{name}={value}" for name, value in own if value is not None]
        if self.kv_cache_type == "fp8":
            args.append("--calculate-kv-scales")
        if self.vision is not None and self.vision.backend is not None:
            args.append(f"--{vision.FLAG}={self.vision.backend}")
        if self.kv_cache_bytes is not None:
            args.append(f"--{_CPU_CACHE}={self.kv_cache_bytes}")
        return args
