"""The model presets: models that are known to work, with their settings (spec: magicstick-api §3.4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import Field, model_validator

from magicstick.api.base import Model
from magicstick.catalogs.compute_targets import ProfileReference
from magicstick.catalogs.entries import document, optional_member, read_all
from magicstick.catalogs.fields import Engine, Names, PositiveCount, Quantity, Text

_OWN_KEYS: Final = frozenset({"title", "type", "variants"})
_FLAT_VARIANT: Final = {"id": "vllm-nvidia", "engine": "VLLM", "computeTarget": "nvidia-gpu"}
"""What a preset without variants stands for: the only one there was before (spec: magicstick-api §3.4)."""


class Artifact(Model):
    """One file format and precision of a model."""

    id: Text
    """As models name it."""
    title: str = ""
    """Title in forms."""
    precision: Text
    """Precision of the weights: bf16, fp16, fp8, int8 or int4."""
    url: Text
    """Where it is."""
    quantization: str | None = None
    """How it was made small; absent for full precision."""
    bits: PositiveCount
    """Bits of a weight."""
    format: Literal["safetensors", "GGUF"]
    """File format."""
    memory_required_mi: PositiveCount | None = None
    """Memory of the host in MiB, on CPU targets."""
    vram: Quantity | None = None
    """Memory of the device, on GPU targets."""
    vram_mi: PositiveCount | None = None
    """The same in MiB."""
    budget_mi: PositiveCount | None = None
    """Memory in MiB that the variant's settings are made for."""
    compatibility_note: str = ""
    """What the hardware must be able to do."""


class Variant(Model):
    """A preset on one compute target with one engine."""

    id: Text
    """Unique within the preset."""
    engine: Engine
    """Engine that serves it."""
    compute_target: Text
    """Target that it runs on."""
    architectures: Names = ()
    """CPU architectures of nodes; empty for any."""
    url: str = ""
    """Where the model is, unless an artifact says."""
    features: Names = ()
    """What the model can do, as KubeAI names it."""
    resource_profile: ProfileReference | None = None
    """KubeAI resource profile; absent where the published resource decides."""
    memory_required_mi: PositiveCount | None = None
    """Memory of the host in MiB, on CPU targets."""
    vram: Quantity | None = None
    """Memory of the device, on GPU targets."""
    vram_mi: PositiveCount | None = None
    """The same in MiB."""
    kv_cache_memory_bytes: PositiveCount | None = None
    """Size of the KV cache, for vLLM on CPU targets."""
    context_window: PositiveCount | None = None
    """Tokens of context."""
    max_output_tokens: PositiveCount | None = None
    """Most tokens of an answer."""
    max_num_seqs: PositiveCount | None = None
    """Most requests at a time."""
    args: tuple[str, ...] = ()
    """Arguments of the engine, in order."""
    default_artifact: str | None = None
    """Artifact of a model that names none."""
    artifacts: tuple[Artifact, ...] = ()
    """The artifacts that a model may name."""

    @model_validator(mode="after")
    def _artifacts_are_unique(self) -> "Variant":
        ids = [artifact.id for artifact in self.artifacts]
        if len(set(ids)) < len(ids):
            raise ValueError("must not have two artifacts of one id")
        if self.default_artifact is not None and self.default_artifact not in ids:
            raise ValueError("must have its defaultArtifact among its artifacts")
        return self


class Preset(Model):
    """One model that is known to work. Settings beside `variants` hold for every variant."""

    title: str = ""
    """Title; empty for the key."""
    type: Literal["chat", "embedding"] = "chat"
    """What the model is used for."""
    variants: tuple[Variant, ...] = Field(default=())
    """One entry for each engine and target that it runs on."""

    @model_validator(mode="before")
    @classmethod
    def _settings_belong_to_variants(cls, data: object) -> object:
        """Older presets hold the settings themselves: of all variants, or of the only one."""
        if not isinstance(data, Mapping):
            return data
        shared = {key: value for key, value in data.items() if key not in _OWN_KEYS}
        own = {key: value for key, value in data.items() if key in _OWN_KEYS}
        variants = own.get("variants")
        if variants is None:
            return own | {"variants": [_FLAT_VARIANT | shared]}
        if not isinstance(variants, list | tuple):
            return own
        return own | {"variants": [_with(shared, each) for each in variants]}


def _with(shared: Mapping[str, object], variant: object) -> object:
    """`variant` on top of what all variants share; what is no object is left to its own check."""
    return {**shared, **variant} if isinstance(variant, Mapping) else variant


@dataclass(frozen=True)
class PresetCatalog:
    """All presets. Immutable."""

    presets: Mapping[str, Preset] = field(default_factory=dict)
    """The valid entries, in catalog order."""
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Disabled entries: key -> "field: what is allowed"."""

    @classmethod
    def parse(cls, text: str) -> "PresetCatalog":
        """The catalog in the value of `presets.json`.

        Raises:
            CatalogError: the document as a whole is malformed.
        """
        return cls(*read_all(Preset, optional_member(document(text), "presets")))
