"""The five catalogs: source, ConfigMap, data key, model (spec: magicstick-api §3)."""

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field

from magicstick.api.base import Model
from magicstick.catalogs.applications import ApplicationDefinition
from magicstick.catalogs.compute_targets import ComputeTarget, EngineDefinition
from magicstick.catalogs.gpu_compatibility import Diagnostics, GpuProfile
from magicstick.catalogs.modules import Group, ModuleDefinition
from magicstick.catalogs.presets import Preset


class ModuleDocument(Model):
    """What can be installed on the appliance."""

    groups: dict[str, Group] = Field(default_factory=dict)
    """Headings in user interfaces, by key."""
    modules: dict[str, ModuleDefinition]
    """The modules, by canonical key."""


class ApplicationDocument(Model):
    """Which applications instances can be made of."""

    applications: dict[str, ApplicationDefinition]
    """The applications, by key."""


class ComputeTargetDocument(Model):
    """On what models run, and with which engine."""

    schema_version: Literal[3]
    """Version of this format."""
    engines: dict[str, EngineDefinition] = Field(default_factory=dict)
    """The engines, by key."""
    targets: dict[str, ComputeTarget]
    """The compute targets, by key."""


class PresetDocument(Model):
    """Models that are known to work."""

    schema_version: Literal[3]
    """Version of this format."""
    presets: dict[str, Preset]
    """The presets, by key."""


class GpuCompatibilityDocument(Model):
    """GPUs beyond vendor support, and images to try GPUs with."""

    schema_version: Literal[1]
    """Version of this format."""
    diagnostics: dict[str, Diagnostics] = Field(default_factory=dict)
    """Tests for vendors without profiles, by vendor."""
    profiles: tuple[GpuProfile, ...] = ()
    """The profiles."""


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """One catalog as it is written, and as it reaches the cluster."""

    source: str
    """File below `catalogs/`, without its ending."""
    config_map: str
    """Name of the ConfigMap."""
    key: str
    """Data key that holds the JSON document."""
    component: str
    """Value of the component label, and name of the rendered file."""
    document: type[Model]
    """Model of the whole document."""


MODULES: Final = CatalogFile(
    "modules", "magicstick-module-catalog", "modules.json", "module-catalog", ModuleDocument
)
APPLICATIONS: Final = CatalogFile(
    "applications", "magicstick-app-catalog", "applications.json", "app-catalog", ApplicationDocument
)
COMPUTE_TARGETS: Final = CatalogFile(
    "compute-targets",
    "magicstick-compute-target-catalog",
    "targets.json",
    "compute-target-catalog",
    ComputeTargetDocument,
)
MODEL_PRESETS: Final = CatalogFile(
    "model-presets", "magicstick-model-presets", "presets.json", "model-presets", PresetDocument
)
GPU_COMPATIBILITY: Final = CatalogFile(
    "gpu-compatibility",
    "magicstick-gpu-compatibility-catalog",
    "profiles.json",
    "gpu-compatibility-catalog",
    GpuCompatibilityDocument,
)

CATALOG_FILES: Final = (MODULES, COMPUTE_TARGETS, GPU_COMPATIBILITY, APPLICATIONS, MODEL_PRESETS)
"""In the order in which they are installed (spec: magicstick-api §7)."""
