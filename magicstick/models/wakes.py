"""Which models have to be looked at again after a change of something that they depend on.

The cost of a change is that of what it concerns: a Pod or a Model wakes its own activation, a node only
those that may run on it, a module only when its readiness really changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from magicstick.api import labels
from magicstick.api.model_activation import DEFAULT_COMPUTE_TARGET
from magicstick.catalogs.compute_targets import ComputeTarget, ComputeTargetCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.gpu.facts import NodeView
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.models.catalog_facts import CatalogView, news
from magicstick.models.facts import ModelFacts, platform_changed
from magicstick.models.objects import activation_label
from magicstick.models.pods import MODEL_LABEL, PodView
from magicstick.models.requirements import FREETOKEN, KUBEAI
from magicstick.models.status import HEALTHY
from magicstick.modules.readiness_memory import ReadinessMemory

WELL_KNOWN: Final = "kubernetes.io/"
"""Prefix of the labels by which every node tells its platform and its name."""


def pod_changed(old: View | None, new: View | None) -> bool:
    """Whether a Pod says something else than before."""
    return _said(old) != _said(new)


def _said(pod: View | None) -> tuple[object, ...] | None:
    if not isinstance(pod, PodView):
        return None
    metadata = pod.metadata
    return (
        metadata.uid,
        metadata.dying,
        metadata.labels.get(MODEL_LABEL),
        metadata.owner_references,
        pod.status,
    )


class ModelWakes:
    """From changes to the keys of activations. Remembers the last certain readiness of each module."""

    def __init__(self, facts: ModelFacts, targets: Callable[[], ComputeTargetCatalog | None]) -> None:
        """`targets`: the compute targets now. Without them no model is resolved, whatever nodes do."""
        self._facts = facts
        self._targets = targets
        self._memory = ReadinessMemory(facts.modules)
        self._catalog: ModuleCatalog | None = None
        self._serving: frozenset[str] = frozenset()

    def by_runtime(self, old: Resource | None, new: Resource | None) -> Iterator[ObjectKey]:
        """Whom the object serves, and whoever has its name: it may be in that one's way."""
        for each in (old, new):
            if each is not None:
                yield from self._facts.labelled(activation_label(each.metadata.name))
                yield from self._facts.labelled(each.metadata.labels.get(labels.MODEL, ""))

    def by_pod(self, old: PodView | None, new: PodView | None) -> Iterator[ObjectKey]:
        """The model that the Pod serves."""
        for each in (old, new):
            if each is not None:
                yield from self._facts.labelled(each.metadata.labels.get(MODEL_LABEL, ""))

    def by_node(self, old: View | None, new: View | None) -> Iterator[ObjectKey]:
        """Models on accelerators that the node has, and those that name the node themselves.

        All local ones where the platform of a node is news.
        """
        for name in {each.metadata.name for each in (old, new) if each is not None}:
            yield from self._facts.naming(name)
        everyone = platform_changed(old, new)
        concerned = frozenset(self._on_targets(old, new))
        if not (everyone or concerned):
            return
        for each in self._facts.activations.list():
            if _runs_here(each) and (everyone or target_of(each) in concerned):
                yield each.metadata.key

    def _on_targets(self, old: View | None, new: View | None) -> Iterator[str]:
        """The targets that the node was of before the change, or is of after it."""
        catalog = self._targets()
        for name, target in () if catalog is None else catalog.targets.items():
            if any(isinstance(each, NodeView) and is_of_target(each, target) for each in (old, new)):
                yield name

    def by_kustomization(self, old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
        """All, when a module that models may need becomes ready, or is it no more."""
        changed = new or old
        if changed is None or not self._flipped(changed.metadata.name, new):
            return ()
        return self.everyone()

    def by_module(self, old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
        """All, when an activation of such a module is."""
        modules = {self._facts.modules.module_of(each) for each in (old, new) if each is not None}
        return self.everyone() if modules & self._needed() else ()

    def by_definition(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """All, when such a module waits for the definition."""
        latest, names = new or old, self._facts.modules.names
        if latest is None or names is None:
            return ()
        waiting = set(names.modules_with_crd(latest.metadata.name))
        return self.everyone() if waiting & self._needed() else ()

    def by_cleanup(self, _old: Resource | None, _new: Resource | None) -> Iterator[ObjectKey]:
        """Those that run here."""
        return (each.metadata.key for each in self._facts.activations.list() if _runs_here(each))

    def by_release(self, _old: Resource | None, _new: Resource | None) -> Iterator[ObjectKey]:
        """Those whose profile follows from what KubeAI is installed with."""
        return (each.metadata.key for each in self._facts.activations.list() if _runs_here(each))

    def by_profile(self, _old: Resource | None, _new: Resource | None) -> Iterator[ObjectKey]:
        """Those that may wait for a profile: all that are not there yet."""
        return (each.metadata.key for each in self._facts.activations.list() if _on_its_way(each))

    def by_catalog(self, old: CatalogView | None, new: CatalogView | None) -> Iterable[ObjectKey]:
        """The models that the catalog lists from now on, or no longer."""
        names, store = news(old, new), self._facts.activations
        if names is None:
            return self.everyone()
        home = self._facts.site.appliance_namespace
        return [key for name in names if store.get(key := ObjectKey(home, name)) is not None]

    def everyone(self, *_change: object) -> Iterable[ObjectKey]:
        """All activations."""
        return self._facts.activations.keys()

    def _needed(self) -> frozenset[str]:
        """The modules that a model may need, by canonical key. Asked at every event, and so remembered."""
        catalog = self._facts.modules.catalog
        if catalog is None:
            return frozenset()
        if catalog is not self._catalog:
            self._catalog, self._serving = catalog, _serving_modules(catalog)
        return self._serving

    def _flipped(self, name: str, new: Resource | None) -> bool:
        names = self._facts.modules.names
        module = names.module_of(name) if names is not None else None
        return module is not None and module in self._needed() and self._memory.flipped(name, module, new)


def is_of_target(node: NodeView, target: ComputeTarget) -> bool:
    """Whether a node has, or is marked to have, what makes an accelerator of this target.

    Labels that nodes of any kind carry mark nothing.
    """
    marks = {
        (label, value)
        for selector in (
            target.node_selector,
            *(each.node_selector for each in target.engine_profiles.values()),
        )
        for label, value in selector.items()
        if not label.startswith(WELL_KNOWN)
    }
    offered = node.status.allocatable or {}
    return any(name in offered for name in target.resource_names) or not marks.isdisjoint(
        node.metadata.labels.items()
    )


def _serving_modules(catalog: ModuleCatalog) -> frozenset[str]:
    providers = frozenset(key for key, each in catalog.modules.items() if each.provides_capabilities)
    return providers | {catalog.canonical(name) for name in (*KUBEAI, *FREETOKEN)}


def _runs_here(activation: Resource) -> bool:
    return bool(activation.spec.get("type", "local") != "external")


def _on_its_way(activation: Resource) -> bool:
    """A status of another form says nothing, and must not keep the others from being woken."""
    phase = activation.status.get("phase")
    return _runs_here(activation) and not (isinstance(phase, str) and phase in HEALTHY)


def target_of(activation: Resource) -> str:
    """The compute target, as far as a spec of any form says; what says nothing means NVIDIA's."""
    local = activation.spec.get("local")
    fields: Mapping[str, object] = local if isinstance(local, Mapping) else {}
    return str(fields.get("computeTarget") or DEFAULT_COMPUTE_TARGET).strip().casefold()
