"""From a ModelActivation to a fully resolved model, or to the first thing that is wrong with it.

The rules stand in the order of the specification (models §15): what the activation is, where it runs,
its preset and profile, then its own fields. Modules come last, since a model that can never be needs none.
"""

from dataclasses import dataclass

from magicstick.api.model_activation import ModelActivationSpec
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.kube.objects import Resource
from magicstick.models import requirements
from magicstick.models.freetoken_rules import resolve_freetoken
from magicstick.models.hardware import Hardware
from magicstick.models.kubeai_rules import resolve_kubeai
from magicstick.models.local_rules import Ground
from magicstick.models.memory import check_amounts
from magicstick.models.observation import Sharing, asks_for_realtime
from magicstick.models.realtime.rules import resolve_realtime, without_empty
from magicstick.models.resolved import Refusal, Resolved, ResolvedExternal
from magicstick.models.validation import RefusedError, check_namespace, read_spec


@dataclass(frozen=True, slots=True)
class ModelCatalogs:
    """The catalogs that models are resolved with."""

    targets: ComputeTargetCatalog
    presets: PresetCatalog
    modules: ModuleCatalog


def resolve(
    activation: Resource, catalogs: ModelCatalogs, hardware: Hardware, sharing: Sharing | None = None
) -> Resolved | Refusal:
    """The model that `activation` asks for. Total: bad input is a `Refusal`, never an exception.

    Assumes that `hardware` is complete: a node that is missing there counts as absent. External models do
    not look at it. `sharing` matters to realtime models alone, which bind a shared GPU themselves.
    """
    realtime = asks_for_realtime(activation)
    try:
        spec = read_spec(without_empty(activation) if realtime else activation)
        check_namespace(spec)
        if spec.type == "external":
            return _external(activation.metadata.name, spec, catalogs.modules)
        ground = Ground(activation.metadata.name, spec, catalogs.targets, catalogs.presets, hardware)
        if realtime:
            return resolve_realtime(ground, catalogs.modules, sharing)
        check_amounts(spec.local)
        if spec.local.engine == "FreeToken":
            return resolve_freetoken(ground, catalogs.modules)
        return resolve_kubeai(ground, spec.local.engine, catalogs.modules)
    except RefusedError as refused:
        return refused.refusal


def _external(name: str, spec: ModelActivationSpec, modules: ModuleCatalog) -> ResolvedExternal:
    needed = requirements.required(modules, (), requirements.ROUTING)
    return ResolvedExternal(
        name=name,
        namespace=spec.target_namespace,
        modules=needed,
        requested_modules=requirements.requested(modules, needed),
        external=spec.external,
    )
