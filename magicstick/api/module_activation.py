"""ModuleActivation: one platform capability, switched on or off (spec: magicstick-api §2.3)."""

from typing import Annotated

from pydantic import Field, StrictBool

from magicstick.api.base import ApplianceRef, Conditions, FreeObject, Model, ObservedGeneration
from magicstick.api.schema import NOT_EMPTY, REQUIRED


class ModuleActivationSpec(Model):
    """The module that is wanted, and its parameters."""

    module: Annotated[str, NOT_EMPTY, REQUIRED] = ""
    """Key or alias of a module in the module catalog."""
    enabled: StrictBool = True
    """False removes the module; data goes as the module's uninstall policy says."""
    appliance_ref: ApplianceRef = Field(default_factory=ApplianceRef)
    """The Appliance that this activation belongs to."""
    parameters: FreeObject = Field(default_factory=dict)
    """Settings of the module, by the names that the module catalog lists: text, a number, or an \
    object with `size`."""

    def module_or(self, object_name: str) -> str:
        """The module asked for; objects older than the schema may leave it to their own name."""
        return self.module.strip() or object_name


class ModuleActivationStatus(Model):
    """What became of the module."""

    observed_generation: ObservedGeneration = None
    """The generation of the spec that this status speaks of."""
    phase: str = ""
    """Summary: Ready, Reconciling, Degraded, WaitingForModules, Removing, Disabled or Suspended."""
    kustomization: str = ""
    """Name of the generated Flux Kustomization; empty when there is none."""
    message: str = ""
    """The state in a sentence."""
    conditions: Conditions = ()
    """The state by aspects; `Ready` is always among them."""
