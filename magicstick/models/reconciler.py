"""The reconciler of models: what it watches, and what it sees of one activation."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from magicstick.api import labels
from magicstick.api.kinds import KUBEAI_MODEL, MODEL_ACTIVATION, MODULE_ACTIVATION
from magicstick.api.model_activation import ModelActivationSpec
from magicstick.api.model_activation_status import ModelActivationStatus
from magicstick.api.parse import parse, read_status
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.hostops.facts import edge as cleanup_edge
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import CONFIG_MAP, NODE, POD, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.models.asking import question_of
from magicstick.models.catalog_facts import NAME as MODEL_CATALOG
from magicstick.models.catalog_facts import CatalogView
from magicstick.models.catalog_facts import changed as catalog_changed
from magicstick.models.decide import decide, decide_failure
from magicstick.models.facts import ModelFacts, node_changed
from magicstick.models.freetoken_runtime import CONFIG_MAP as FREETOKEN_RUNTIME
from magicstick.models.hardware import Hardware
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.observation import EngineCheck, ModelObservation, RequiredModule, namespace_of
from magicstick.models.pods import SELECTOR, PodView
from magicstick.models.ports import CacheGate, Catalogs, ModelSettings, Seams, WakeUp
from magicstick.models.release_facts import ReleaseFacts
from magicstick.models.resolve import ModelCatalogs, resolve
from magicstick.models.resolved import Backend, Refusal, ResolvedKubeAi, ResolvedLocal
from magicstick.models.samples import settled
from magicstick.models.status import DUE_S, ModelPhase, Outcome
from magicstick.models.wakes import ModelWakes, pod_changed, target_of
from magicstick.modules.activations import belongs_to
from magicstick.modules.dependence import need_edges
from magicstick.modules.needs import request_modules
from magicstick.modules.objects import Site
from magicstick.runtime.clock import Clock
from magicstick.runtime.plan import Plan
from magicstick.runtime.reconciler import Declaration, Edge

NAME: Final = "models"
REMOVAL_S: Final = 5.0
"""A removal is looked at so often, whatever happens (spec: models §9)."""
RECORDED_S: Final = 0.1
"""So soon an attempt is carried out after it was written down; a status that does not stick must not spin."""


class ModelReconciler:
    """Keeps what serves each enabled model, and the status of each activation.

    The watch needs: ModelActivations, ModuleActivations and HostOperations in the Appliance's namespace,
    Kustomizations in Flux's, CustomResourceDefinitions, Nodes, KubeAI Models, model Pods, and the
    Deployments, Services and ConfigMaps of ours; KubeAI's HelmRelease, Deployment and configuration; the
    profile store; the catalog that the model catalog publishes.
    """

    def __init__(
        self,
        facts: ModelFacts,
        catalogs: Catalogs,
        settings: ModelSettings,
        *,
        gate: CacheGate,
        release: ReleaseFacts,
        clock: Clock,
        seams: Seams,
    ) -> None:
        self.facts = facts
        self._catalogs = catalogs
        self._gate = gate
        self._release = release
        self._clock = clock
        self._seams = seams
        self._resync_s = settings.requeue_seconds
        self._wakes = ModelWakes(facts, lambda: catalogs.compute_targets)
        self._declaration = _declare(facts.site, self._wakes, release, self._resync_s)

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells."""

        def changed(_name: str, old: object, new: object) -> None:
            if new is not old and not isinstance(new, ApplicationCatalog):
                wake(self._wakes.everyone())

        self._catalogs.subscribe(changed)
        for seam in (self._seams.publication, self._seams.checks, self._seams.sharing):
            seam.follow(wake)

    async def observe(self, key: ObjectKey) -> ModelObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        await self._release.prepare()
        activation = self.facts.activations.get(key)
        if activation is None:
            self._seams.checks.check(key, None)
            return None
        return self.observation(activation)

    def decide(self, observation: ModelObservation, now: datetime) -> Plan:
        """See `decide.decide`."""
        return decide(observation, now)

    def decide_failure(
        self,
        observation: ModelObservation,
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """See `decide.decide_failure`."""
        return decide_failure(observation, error)

    # --- observing -------------------------------------------------------------------------------

    def observation(self, activation: Resource) -> ModelObservation:
        """What there is to know about one activation now; of one that nobody wants, only what is left."""
        facts, name = self.facts, activation.metadata.name
        spec = parse(ModelActivationSpec, activation)
        standing = ModelObservation(
            activation,
            spec,
            read_status(ModelActivationStatus, activation),
            resync_s=self._resync_s,
            ours=belongs_to(activation, facts.site),
            blind=facts.blind(),
            runtimes=facts.runtimes(name),
            pods=facts.pods(name, namespace_of(activation, spec)),
        )
        if not (standing.ours and standing.enabled) or standing.dying:
            self._seams.checks.check(activation.metadata.key, None)
            return standing
        if standing.blind:
            return standing
        return self._resolved(self._surrounded(standing))

    def _surrounded(self, o: ModelObservation) -> ModelObservation:
        """With what matters to a model that is wanted, whether it can be resolved or not."""
        facts, namespace = self.facts, o.namespace
        descriptor, descriptor_known = facts.freetoken_runtime()
        return replace(
            o,
            cleanup=self._gate.cache_cleanup(self._clock.now()).message,
            sharing=self._seams.sharing.sharing(target_of(o.activation), o.name, namespace),
            kubeai_served=facts.kubeai_served,
            occupant=facts.model(o.name, namespace),
            descriptor=descriptor,
            descriptor_known=descriptor_known,
            published=self._seams.publication.published(o.name, namespace),
        )

    def _resolved(self, o: ModelObservation) -> ModelObservation:
        catalogs, hardware = self._known_catalogs(), self.facts.hardware()
        if catalogs is None:
            return replace(o, unknown="There is no usable copy of a catalog yet", without_catalog=True)
        if hardware is None and o.activation.spec.get("type") != "external":
            return replace(o, unknown="Nodes cannot be read now")
        resolved = resolve(o.activation, catalogs, hardware or Hardware(), o.sharing)
        if isinstance(resolved, Refusal):
            return replace(o, resolved=resolved)
        modules = self.facts.modules
        complete = replace(
            o,
            resolved=resolved,
            modules=tuple(RequiredModule(each, modules.readiness(each)) for each in resolved.modules),
            requests=request_modules(resolved.requested_modules, modules),
        )
        return self._running(complete, resolved) if isinstance(resolved, ResolvedLocal) else complete

    def _running(self, o: ModelObservation, model: ResolvedLocal) -> ModelObservation:
        check = self._checked(o, model)
        if not isinstance(model, ResolvedKubeAi):
            return replace(o, check=check)
        named = o.occupant.spec.get("resourceProfile") if o.occupant is not None else None
        profile = self._release.profile_for(model, named if isinstance(named, str) else None)
        return replace(o, check=check, profile=profile)

    def _checked(self, o: ModelObservation, model: ResolvedLocal) -> EngineCheck:
        """What the runtime says. While the model cache is cleared it is left alone; what it said holds."""
        now = self._clock.now()
        if o.cleanup:
            return settled(EngineCheck(), o.status, now, o.resync_s)
        question = question_of(o, model)
        check = self._seams.checks.check(o.activation.metadata.key, question)
        return check if question is None else settled(check, o.status, now, o.resync_s)

    def _known_catalogs(self) -> ModelCatalogs | None:
        catalogs = self._catalogs
        targets, presets, modules = catalogs.compute_targets, catalogs.presets, catalogs.modules
        if targets is None or presets is None or modules is None:
            return None
        return ModelCatalogs(targets, presets, modules)


def _declare(site: Site, wakes: ModelWakes, release: ReleaseFacts, resync_s: float) -> Declaration:
    return Declaration(
        name=NAME,
        primary=MODEL_ACTIVATION,
        namespace=site.appliance_namespace,
        finalizer=labels.MODEL_FINALIZER,
        tells_failures=True,
        writes=frozenset({MODULE_ACTIVATION, KUBEAI_MODEL, DEPLOYMENT, SERVICE, CONFIG_MAP, POD}),
        edges=(
            *_runtime_edges(site, wakes),
            *_surrounding_edges(site, wakes),
            *release.base_edges(wakes.by_release),
            *release.progress_edges(wakes.by_profile),
        ),
        requeue_s={
            **dict.fromkeys(ModelPhase, resync_s),
            ModelPhase.REMOVING: min(REMOVAL_S, resync_s),
            Outcome.HELD: resync_s,
            Outcome.NOT_OURS: None,
            Outcome.RELEASED: None,
            Outcome.RECORDED: RECORDED_S,
            **{outcome: min(delay_s, resync_s) for outcome, delay_s in DUE_S.items()},
        },
    )


def _runtime_edges(site: Site, wakes: ModelWakes) -> tuple[Edge[Any], ...]:
    ours = f"{labels.MANAGED_BY}={labels.OPERATOR}"
    return (
        Edge(KUBEAI_MODEL, wakes.by_runtime, "how many replicas serve the model, and whose Model it is"),
        Edge(
            POD,
            wakes.by_pod,
            "whether the model's Pods exist, are ready, or what keeps them from it",
            pod_changed,
            label_selector=SELECTOR,
            view=PodView,
        ),
        Edge(DEPLOYMENT, wakes.by_runtime, "whether a direct runtime is rolled out", label_selector=ours),
        Edge(SERVICE, wakes.by_runtime, "whether a direct runtime can be reached"),
        Edge(
            CONFIG_MAP,
            wakes.by_runtime,
            "with which stages a realtime runtime starts",
            label_selector=f"{ours},{labels.RUNTIME_BACKEND}={Backend.REALTIME}",
        ),
        Edge(
            CONFIG_MAP,
            wakes.everyone,
            "which FreeToken runtime may be run",
            namespace=site.appliance_namespace,
            name=FREETOKEN_RUNTIME,
        ),
        cleanup_edge(site.appliance_namespace, wakes.by_cleanup),
    )


def _surrounding_edges(site: Site, wakes: ModelWakes) -> tuple[Edge[Any], ...]:
    return (
        Edge(
            CONFIG_MAP,
            wakes.by_catalog,
            "whether the model catalog lists the model",
            catalog_changed,
            name=MODEL_CATALOG,
            view=CatalogView,
        ),
        Edge(NODE, wakes.by_node, "which devices can be allocated, and on what platform", node_changed),
        *need_edges(site, wakes),
    )
