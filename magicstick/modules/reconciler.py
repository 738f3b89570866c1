"""The reconciler of modules: what it watches, and what it sees of one activation."""

from datetime import datetime
from typing import Any, Final

from magicstick.api import labels
from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.api.module_activation import ModuleActivationSpec
from magicstick.api.parse import parse
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.modules.activations import belongs_to
from magicstick.modules.decide import decide, decide_failure
from magicstick.modules.facts import ModuleFacts, is_ours, label_of
from magicstick.modules.needs import missing_modules
from magicstick.modules.objects import Site
from magicstick.modules.observation import CatalogEntry, Dependency, ModuleObservation
from magicstick.modules.ports import (
    Definitions,
    Modules,
    ModuleSettings,
    Reads,
    WakeUp,
    on_new_catalog,
    on_new_state,
)
from magicstick.modules.status import ModulePhase, Outcome
from magicstick.modules.wakes import Wakes, establishment_changed, identity_changed
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration, Edge

_KINDS: Final = (MODULE_ACTIVATION, KUSTOMIZATION, APPLIANCE, CUSTOM_RESOURCE_DEFINITION)


class ModuleReconciler:
    """Keeps one Flux Kustomization per enabled module, and the status of each activation.

    The watch needs: ModuleActivations and Appliances in the Appliance's namespace, Kustomizations in
    Flux's, and CustomResourceDefinitions.
    """

    def __init__(
        self,
        reads: Reads,
        catalogs: Modules,
        settings: ModuleSettings,
        definitions: Definitions,
    ) -> None:
        self.facts = ModuleFacts(reads, catalogs, Site.of(settings), definitions)
        self._reads = reads
        self._catalogs = catalogs
        self._wakes = Wakes(self.facts)
        self._declaration = _declare(self.facts.site, self._wakes, settings.requeue_seconds)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells: another catalog, a kind that can be read."""
        on_new_catalog(self._catalogs, lambda old, new: wake(self._wakes.by_catalog(old, new)))
        on_new_state(self._reads, _KINDS, lambda: wake(self.facts.activations.keys()))

    async def observe(self, key: ObjectKey) -> ModuleObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        activation = self.facts.activations.get(key)
        return None if activation is None else observe(activation, self.facts)

    def decide(self, observation: ModuleObservation, now: datetime) -> Plan:  # noqa: ARG002 - no clock here
        """See `decide.decide`."""
        return decide(observation)

    def decide_failure(
        self,
        observation: ModuleObservation,
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error)


def observe(activation: Resource, facts: ModuleFacts) -> ModuleObservation:
    """What there is to know about one activation."""
    module, catalog = facts.module_of(activation), facts.catalog
    spec = parse(ModuleActivationSpec, activation)
    if catalog is None or not belongs_to(activation, facts.site):
        ours = belongs_to(activation, facts.site)
        return ModuleObservation(activation, module, spec, facts.site, ours=ours)
    definition, speaker = catalog.modules.get(module), facts.activation(module)
    return ModuleObservation(
        activation,
        module,
        spec,
        facts.site,
        entry=CatalogEntry(definition, catalog.invalid.get(module, ""), catalog.cycle_of(module)),
        blind=facts.blind(),
        speaker="" if speaker is None or speaker is activation else speaker.metadata.name,
        flux_served=facts.flux_served,
        live=None if definition is None else facts.kustomization(definition.kustomization_name),
        generated=_generated(activation, module, facts),
        dependencies=tuple(_dependency(each, facts) for each in catalog.requires(module)),
        needs=missing_modules(catalog.requires(module), facts),
        source=facts.source(),
        missing_crds=() if definition is None else facts.missing_crds(definition),
    )


def _dependency(module: str, facts: ModuleFacts) -> Dependency:
    flux_name = facts.flux_name(module)
    exists = flux_name is not None and facts.kustomization(flux_name) is not None
    return Dependency(module, flux_name, exists, facts.readiness(module))


def _generated(activation: Resource, module: str, facts: ModuleFacts) -> tuple[Resource, ...]:
    """Ours by label; by name, though the label is gone; by the last status, once the catalog forgot both."""
    found = {each.metadata.name: each for each in facts.generated(module)}
    definition = facts.catalog.modules.get(module) if facts.catalog is not None else None
    name = definition.kustomization_name if definition is not None else activation.status.get("kustomization")
    live = facts.kustomization(name) if isinstance(name, str) and name else None
    if live is not None and is_ours(live) and not facts.activations_of(facts.canonical(label_of(live))):
        found[live.metadata.name] = live
    return tuple(found.values())


def _declare(site: Site, wakes: Wakes, resync_s: float) -> Declaration:
    return Declaration(
        name="modules",
        primary=MODULE_ACTIVATION,
        namespace=site.appliance_namespace,
        finalizer=labels.MODULE_FINALIZER,
        writes=frozenset({KUSTOMIZATION, MODULE_ACTIVATION}),
        edges=_edges(site, wakes),
        requeue_s={
            **dict.fromkeys(ModulePhase, resync_s),
            Outcome.HELD: resync_s,
            Outcome.NOT_OURS: None,
            Outcome.RELEASED: None,
        },
    )


def _edges(site: Site, wakes: Wakes) -> tuple[Edge[Any], ...]:
    return (
        Edge(
            MODULE_ACTIVATION,
            wakes.by_activation,
            "whether required modules are wanted, and which activation speaks for a module",
            identity_changed,
            namespace=site.appliance_namespace,
        ),
        Edge(
            KUSTOMIZATION,
            wakes.by_kustomization,
            "what Flux says of the module, and of those it requires",
            namespace=site.flux_namespace,
        ),
        Edge(
            APPLIANCE,
            wakes.by_appliance,
            "where Flux takes the module from",
            wakes.source_changed,
            namespace=site.appliance_namespace,
        ),
        Edge(
            CUSTOM_RESOURCE_DEFINITION,
            wakes.by_definition,
            "whether a module that promises definitions has brought them",
            establishment_changed,
        ),
    )
