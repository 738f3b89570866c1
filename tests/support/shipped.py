"""The catalogs as they are shipped, parsed by what parses them in the operator."""

from pathlib import Path
from typing import Any, Final

from hack import yamls
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.gpu_compatibility import GpuCompatibilityCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog

ROOT: Final = Path(__file__).resolve().parents[2]


def shipped(component: str) -> dict[str, Any]:
    """The rendered ConfigMap of a catalog."""
    loaded: dict[str, Any] = yamls.load((ROOT / f"manifests/catalogs/{component}.yaml").read_text())
    return loaded


def text_of(component: str) -> str:
    """The JSON document in a catalog's ConfigMap."""
    (text,) = shipped(component)["data"].values()
    return str(text)


MODULES: Final = ModuleCatalog.parse(text_of("module-catalog"))
APPLICATIONS: Final = ApplicationCatalog.parse(text_of("app-catalog"))
TARGETS: Final = ComputeTargetCatalog.parse(text_of("compute-target-catalog"))
PRESETS: Final = PresetCatalog.parse(text_of("model-presets"))
GPUS: Final = GpuCompatibilityCatalog.parse(text_of("gpu-compatibility-catalog"))
