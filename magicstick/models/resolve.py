"""From a ModelActivation to a fully resolved model, or to the first thing that is wrong with it."""

from dataclasses import dataclass

from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.kube.objects import Resource
from magicstick.models.hardware import Hardware
from magicstick.models.resolved import Refusal, Resolved


@dataclass(frozen=True, slots=True)
class ModelCatalogs:
    """The catalogs that models are resolved with."""

    targets: ComputeTargetCatalog
    presets: PresetCatalog
    modules: ModuleCatalog


def resolve(activation: Resource, catalogs: ModelCatalogs, hardware: Hardware) -> Resolved | Refusal:
    """The model that `activation` asks for. Total: bad input is a `Refusal`, never an exception."""
    raise NotImplementedError
