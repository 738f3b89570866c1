"""The modules that a model needs before anything of it is created (spec: models §6)."""

from collections.abc import Iterable
from typing import Final

from magicstick.catalogs.modules import ModuleCatalog
from magicstick.models.resolved import Reason
from magicstick.models.validation import refuse

ROUTING: Final = ("litellm", "model-catalog")
"""What every model needs to be reached by its name."""
KUBEAI: Final = ("kubeai", *ROUTING)
FREETOKEN: Final = ("freetoken", *ROUTING)
_HARDWARE: Final = "hardware-detected"


def required(
    catalog: ModuleCatalog, capabilities: Iterable[str], serving: tuple[str, ...]
) -> tuple[str, ...]:
    """One provider for each capability, then what serves the model; canonical, in order, each once.

    Raises:
        RefusedError: with `InvalidComputeTarget`, when no module provides a capability.
    """
    providers = [_provider(catalog, each) for each in capabilities]
    return tuple(dict.fromkeys([*providers, *map(catalog.canonical, serving)]))


def requested(catalog: ModuleCatalog, modules: Iterable[str]) -> tuple[str, ...]:
    """Those that the model asks for itself: hardware modules come with the hardware alone."""
    return tuple(each for each in modules if not _comes_with_hardware(catalog, each))


def _provider(catalog: ModuleCatalog, capability: str) -> str:
    found = [key for key, each in catalog.modules.items() if capability in each.provides_capabilities]
    if not found:
        refuse(
            "spec.local.computeTarget",
            f"needs a module that provides {capability}, and the module catalog has none",
            Reason.INVALID_TARGET,
        )
    return min(found)


def _comes_with_hardware(catalog: ModuleCatalog, module: str) -> bool:
    definition = catalog.modules.get(module)
    return definition is not None and definition.activation_policy == _HARDWARE
