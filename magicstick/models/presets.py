"""The settings of a local model: what its preset says, overlaid by its own words (spec: models §5).

Later wins: preset, variant, artifact, the model's own fields. A key that is present replaces the inherited
value whole; arguments are replaced, not appended. About GPU memory each level speaks as a whole: a model
that gives only `vramMi` is not overruled by the `vram` of its preset, and where one level gives both,
`vram` wins.
"""

from dataclasses import dataclass, replace
from typing import Final

from magicstick.api.model_activation import LocalModel
from magicstick.catalogs.presets import Artifact, Preset, PresetCatalog, Variant
from magicstick.models.hardware import Hardware
from magicstick.models.targets import architecture
from magicstick.models.validation import refuse

EMBEDDING: Final = "embedding"
_PRESET: Final = "spec.local.preset"
_ARTIFACT: Final = "spec.local.artifact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings with a preset behind them, merged. None, "" and () where nobody says anything."""

    model_type: str = ""
    url: str = ""
    features: tuple[str, ...] = ()
    artifact: str = ""
    precision: str = ""
    quantization: str = ""
    vram: str | None = None
    vram_mi: int | None = None
    memory_required_mi: int | None = None
    kv_cache_memory_bytes: int | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    max_num_seqs: int | None = None
    args: tuple[str, ...] = ()
    resource_profile: str | None = None
    """What the preset asks for; None where the compute target decides."""

    @property
    def kubeai_features(self) -> tuple[str, ...]:
        """What the model can do, in KubeAI's words."""
        return self.features or (("TextEmbedding",) if self.model_type == EMBEDDING else ("TextGeneration",))


_OVERRIDES: Final = (
    "model_type",
    "features",
    "memory_required_mi",
    "kv_cache_memory_bytes",
    "context_window",
    "max_output_tokens",
    "max_num_seqs",
    "args",
)
"""What a model may say itself, beside its URL and its GPU memory, for which there are rules."""
_OF_VARIANT: Final = (*_OVERRIDES[1:], "url", "vram", "vram_mi", "resource_profile")


def settings_of(name: str, local: LocalModel, presets: PresetCatalog, hardware: Hardware) -> Settings:
    """The merged settings of the local model of the activation `name`.

    Raises:
        RefusedError: the preset is not known, has not exactly one variant for this engine, target and
            these nodes, or lacks the artifact.
    """
    preset = _preset(name, local, presets)
    if preset is None:
        if local.artifact is not None:
            refuse(_ARTIFACT, "must be left out: the model has no preset whose artifact it could be")
        return _overlaid(Settings(), local, artifact=None)
    variant = _variant(preset, local, hardware)
    artifact = _artifact(variant, local)
    return _overlaid(_inherited(preset, variant, artifact), local, artifact)


def _preset(name: str, local: LocalModel, presets: PresetCatalog) -> Preset | None:
    """The preset that is named, or else that of the activation's own name (spec: models §5)."""
    wanted = local.preset or name
    if wanted in presets.invalid:
        problem = presets.invalid[wanted]
        refuse(_PRESET, f"has an invalid entry in the preset catalog ({problem})")
    if local.preset and wanted not in presets.presets:
        refuse(_PRESET, "must be a preset of the catalog, or left out")
    return presets.presets.get(wanted)


def _variant(preset: Preset, local: LocalModel, hardware: Hardware) -> Variant:
    fitting = [
        each
        for each in preset.variants
        if (each.compute_target, each.engine) == (local.compute_target, local.engine)
    ]
    known = {architecture(node) for node in hardware.nodes} - {""}
    runnable = [each for each in fitting if _runs(each, known)]
    if len(runnable) != 1:
        pair = f"{local.engine} on {local.compute_target}"
        nodes = f" on nodes of the architecture {' or '.join(sorted(known))}" if fitting and known else ""
        field, must = (
            (_PRESET, "must") if local.preset else ("metadata.name", "is that of a preset, which must")
        )
        refuse(field, f"{must} have exactly one variant for {pair}{nodes}, and has {len(runnable) or 'none'}")
    return runnable[0]


def _runs(variant: Variant, architectures: set[str]) -> bool:
    return not variant.architectures or not architectures or bool(architectures & {*variant.architectures})


def _artifact(variant: Variant, local: LocalModel) -> Artifact | None:
    wanted = local.artifact or variant.default_artifact
    if wanted is None:
        return None
    offered = {each.id: each for each in variant.artifacts}
    if wanted not in offered:
        allowed = f"one of {', '.join(offered)}" if offered else "left out: the preset's variant has none"
        refuse(_ARTIFACT, f"must be {allowed}")
    return offered[wanted]


def _inherited(preset: Preset, variant: Variant, artifact: Artifact | None) -> Settings:
    settings = Settings(model_type=preset.type, **{name: getattr(variant, name) for name in _OF_VARIANT})
    if artifact is None:
        return settings
    vram, vram_mi = _memory_of_device(artifact, settings)
    return replace(
        settings,
        url=artifact.url,
        artifact=artifact.id,
        precision=artifact.precision,
        quantization=artifact.quantization or "",
        memory_required_mi=artifact.memory_required_mi or settings.memory_required_mi,
        vram=vram,
        vram_mi=vram_mi,
    )


def _overlaid(settings: Settings, local: LocalModel, artifact: Artifact | None) -> Settings:
    """The model's own words on top. An artifact makes the catalog own the URL."""
    given = local.model_fields_set
    own = {name: getattr(local, name) for name in _OVERRIDES if name in given}
    vram, vram_mi = _memory_of_device(local, settings)
    url = local.url if artifact is None and "url" in given else settings.url
    return replace(settings, url=url, vram=vram, vram_mi=vram_mi, **own)


def _memory_of_device(level: Artifact | LocalModel, below: Settings) -> tuple[str | None, int | None]:
    """What this level says of GPU memory, or else what is inherited."""
    if level.vram is None and level.vram_mi is None:
        return below.vram, below.vram_mi
    return level.vram, level.vram_mi
