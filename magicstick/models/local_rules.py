"""What the resolution of every local model begins with, whatever serves it."""

from dataclasses import dataclass
from typing import Final

from magicstick.api.model_activation import LocalModel, ModelActivationSpec
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.models.hardware import Hardware
from magicstick.models.resolved import Target
from magicstick.models.targets import Place
from magicstick.models.validation import refuse

_SCHEMES: Final = {"VLLM": "hf://", "OLlama": "ollama://", "FreeToken": "hf://"}
"""Where the catalog has no entry of the engine; the shipped one says the same (spec: models §4.1)."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a local model is resolved from, beside the modules."""

    name: str
    spec: ModelActivationSpec
    targets: ComputeTargetCatalog
    presets: PresetCatalog
    hardware: Hardware

    @property
    def local(self) -> LocalModel:
        """The model."""
        return self.spec.local

    @property
    def engine_title(self) -> str:
        """The engine's name for people."""
        definition = self.targets.engines.get(self.local.engine)
        return (definition.display_name if definition is not None else "") or self.local.engine


def target_of(ground: Ground, place: Place) -> Target:
    """The compute target as the rest of the operator knows it."""
    definition = place.definition
    return Target(
        name=ground.local.compute_target,
        display_name=definition.display_name or ground.local.compute_target,
        kind=definition.kind,
        resource_names=definition.resource_names,
        resource=place.resource,
        allocatable=place.allocatable,
    )


def check_url(ground: Ground, url: str) -> None:
    """There must be one, of the engine's own scheme.

    Raises:
        RefusedError: there is none, or the engine cannot load from it.
    """
    engine = ground.local.engine
    definition = ground.targets.engines.get(engine)
    scheme = definition.url_scheme if definition is not None else _SCHEMES[engine]
    if not url:
        refuse("spec.local.url", "is required, unless a preset has it")
    reference = url.removeprefix(scheme)
    if reference == url or not reference.strip("/") or any(each.isspace() for each in url):
        refuse("spec.local.url", f"must be {scheme} and a reference without blanks for {engine}")


def check_profile(ground: Ground, *resolved: str) -> None:
    """The profile that a model names may only be what is resolved anyway.

    Raises:
        RefusedError: it is another.
    """
    wanted = ground.local.resource_profile
    if wanted and wanted not in resolved:
        refuse("spec.local.resourceProfile", f"must be left out, or {resolved[-1]}")
