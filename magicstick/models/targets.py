"""Engine and compute target of a local model, and what the nodes of that target publish.

Devices count by `allocatable` of Ready nodes alone (decision 25); what is no quantity counts as none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.api.model_activation import LocalModel
from magicstick.api.quantity import QuantityError, parse
from magicstick.catalogs.compute_targets import ComputeTarget, ComputeTargetCatalog, EngineProfile
from magicstick.models.hardware import Hardware, NodeFacts
from magicstick.models.validation import refuse

NVIDIA: Final = "nvidia-gpu"
ARCHITECTURE: Final = "kubernetes.io/arch"
_FIELD: Final = "spec.local.computeTarget"
_WITH_OWN_PROFILE: Final = "OLlama"
"""The engine that older catalogs' target-wide profiles do not stand for."""


@dataclass(frozen=True, slots=True)
class Place:
    """An engine on a compute target: the catalog's entries, and the nodes that fit."""

    definition: ComputeTarget
    profile: EngineProfile
    nodes: tuple[NodeFacts, ...]
    """The nodes that a model may run on now."""
    resource: str | None
    """The extended resource that decides, as long as nodes publish one."""
    allocatable: int
    """How many of it there are."""

    @property
    def node_selector(self) -> Mapping[str, str]:
        """Labels of the nodes, of target and engine together."""
        return {**self.definition.node_selector, **self.profile.node_selector}

    @property
    def resource_profile(self) -> str:
        """The KubeAI profile that the published resource decides, else the engine's default."""
        by_resource = self.profile.resource_profiles_by_resource
        return by_resource.get(self.resource or "", self.profile.default_resource_profile)


def find_place(catalog: ComputeTargetCatalog, local: LocalModel, hardware: Hardware) -> Place:
    """Where the model runs.

    Raises:
        RefusedError: the catalog has no such target, or not with this engine, or no profile for it.
    """
    name = local.compute_target
    definition = find_target(catalog, name)
    if local.engine not in definition.engines:
        offered = ", ".join(definition.engines)
        refuse(
            "spec.local.engine", f"must be one of {offered} on {name}, which does not offer {local.engine}"
        )
    profile = _engine_profile(definition, local.engine)
    if profile is None:
        refuse("spec.local.engine", f"has no resource profile on {name} in the compute-target catalog")
    selector = {**definition.node_selector, **profile.node_selector}
    nodes = tuple(each for each in hardware.nodes if _selectable(each, definition, selector))
    counted = [each for each in hardware.nodes if each.ready] if name == NVIDIA else nodes
    resource, allocatable = _published(definition.resource_names, counted)
    return Place(definition, profile, nodes, resource, allocatable)


def find_target(catalog: ComputeTargetCatalog, name: str) -> ComputeTarget:
    """The catalog's entry of a compute target.

    Raises:
        RefusedError: it has none, or one that is wrong.
    """
    definition = catalog.targets.get(name)
    if definition is None:
        problem = catalog.invalid.get(f"targets.{name}")
        if problem:
            refuse(_FIELD, f"has an invalid entry in the compute-target catalog ({problem})")
        offered = ", ".join(catalog.targets)
        known = f"one of {offered}, as the catalog has them" if offered else "in the catalog, which has none"
        refuse(_FIELD, f"must be {known}")
    return definition


def amount(quantities: Mapping[str, str], name: str) -> int:
    """Whole units of a resource; 0 where there are none, or the text is no quantity."""
    try:
        return max(0, int(parse(quantities.get(name, "0")).value))
    except QuantityError:
        return 0


def architecture(node: NodeFacts) -> str:
    """As the kubelet reports it, or else as the node's label says."""
    return node.architecture or node.labels.get(ARCHITECTURE, "")


def _engine_profile(definition: ComputeTarget, engine: str) -> EngineProfile | None:
    own = definition.engine_profiles.get(engine)
    if own is not None or engine == _WITH_OWN_PROFILE or definition.default_resource_profile is None:
        return own
    return EngineProfile(
        defaultResourceProfile=definition.default_resource_profile,
        resourceProfilesByResource=dict(definition.resource_profiles_by_resource),
    )


def _selectable(node: NodeFacts, definition: ComputeTarget, selector: Mapping[str, str]) -> bool:
    return (
        node.ready
        and node.schedulable
        and architecture(node) in definition.architectures
        and all(node.labels.get(label) == value for label, value in selector.items())
    )


def _published(resources: tuple[str, ...], nodes: Iterable[NodeFacts]) -> tuple[str | None, int]:
    """The first resource, in the order of preference, that is allocatable at all, and how much of it."""
    for name in resources:
        total = sum(amount(node.allocatable, name) for node in nodes)
        if total > 0:
            return name, total
    return None, 0
