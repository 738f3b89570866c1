"""The vendors, as the `hardware` blocks of the module catalog describe them (spec: gpu §2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.catalogs.modules import Hardware, ModuleCatalog, ModuleDefinition

VENDOR_MODULES: Final = ("gpu", "amd-gpu", "intel-gpu")
"""NVIDIA, AMD, Intel: the modules that the Appliance's status always speaks of (spec: gpu §5)."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One vendor's GPU support: the module that brings it, and its `hardware` block."""

    module: str
    definition: ModuleDefinition
    hardware: Hardware

    @property
    def title(self) -> str:
        """As people read it."""
        return self.definition.display_name or self.module

    @property
    def rule_decides(self) -> bool:
        """Whether the vendor's own rule says by a second label which of its devices are supported."""
        return self.hardware.supported_label != self.hardware.detection_label

    @property
    def labels(self) -> frozenset[str]:
        """The node labels that matter to it."""
        return frozenset({self.hardware.detection_label, self.hardware.supported_label})

    def identity(self) -> dict[str, object]:
        """The fields of its entry that the catalog gives."""
        hardware = self.hardware
        return {
            "displayName": self.title,
            "vendor": hardware.vendor,
            "operatorVersion": hardware.operator_version,
            "driverMode": hardware.driver_mode,
            "detectionLabel": hardware.detection_label,
            "supportedLabel": hardware.supported_label,
            "resourceNames": list(hardware.resource_names),
        }


def providers_of(catalog: ModuleCatalog) -> Mapping[str, Provider]:
    """The vendors of a catalog by module: those that are always told of first, then any others."""
    found = {
        key: Provider(key, definition, definition.hardware)
        for key, definition in catalog.modules.items()
        if definition.hardware is not None
    }
    order = (*VENDOR_MODULES, *(key for key in found if key not in VENDOR_MODULES))
    return {key: found[key] for key in order if key in found}


def without_provider(module: str, catalog: ModuleCatalog | None) -> str:
    """Why there is no provider of a module, as a sentence."""
    if catalog is None:
        return "There is no module catalog."
    if reason := catalog.invalid.get(module):
        return f"The entry of {module} in the module catalog is invalid: {reason}."
    if module in catalog.modules:
        return f"The entry of {module} in the module catalog describes no hardware."
    return f"The module catalog has no entry {module}."
