"""The one writer of the profile store: derives it whole, and has KubeAI's release made anew with it.

A profile is followed to its end: it is in the store, the release is asked to take the store, KubeAI runs
with it (`profiles.in_force`), and only then a Model names it. The store and the release belong to Git, so
of both only single fields are set, and neither is ever made (spec: models §8.2, decision 15).

Nothing is dropped because something could not be read: while activations, Models, nodes, the release or a
catalog are not known, the store stays as it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import structlog

from magicstick.api.kinds import GROUP, HELM_RELEASE, KUBEAI_MODEL, MODEL_ACTIVATION
from magicstick.kube.errors import ApiError
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, NODE, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.models.claims import Claims
from magicstick.models.facts import ModelFacts, node_changed
from magicstick.models.kubeai_release import STORE_KEY, Profiles
from magicstick.models.ports import Catalogs, ModelSettings, WakeUp
from magicstick.models.profiles import content_hash
from magicstick.models.release_facts import ReleaseFacts, Wakes
from magicstick.models.resolve import ModelCatalogs
from magicstick.models.store_document import KEEP_UNUSED_S, Claim, StoreDocument, derive, is_generated
from magicstick.models.wakes import ModelWakes
from magicstick.modules.ports import Reads, on_new_state
from magicstick.modules.wakes import identity_changed
from magicstick.runtime.clock import Clock, microtime
from magicstick.runtime.plan import Patch, Plan, Step
from magicstick.runtime.reconciler import Declaration, Edge

NAME: Final = "profiles"
REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
REQUESTED_FOR: Final = f"{GROUP}/profile-store"
"""On KubeAI's release: the digest of the store that a reconcile was last requested for."""
COALESCE_S: Final = 1.0
"""Each change of the store restarts KubeAI, so changes that come together make one."""
_DIGEST_LENGTH: Final = 16
_LISTED: Final = 5

log = structlog.get_logger(__name__)


class StoreOutcome(StrEnum):
    """How a pass over a ConfigMap ended."""

    HELD = "Held"
    """Something that it is derived from cannot be read; nothing is changed."""
    SETTLED = "Settled"
    """It holds what is wanted, and KubeAI's release has been asked to take it."""
    FULL = "Full"
    """The same, save that some activations' profiles have no room."""
    FAILED = "Failed"
    """The API server refused a step."""


@dataclass(frozen=True, slots=True)
class StoreObservation:
    """The store, and everything that it is derived from."""

    store: Resource
    blind: str = ""
    """Why it cannot be derived now; "" when it can."""
    claims: tuple[Claim, ...] = ()
    referenced: frozenset[str] = frozenset()
    """The profiles that KubeAI Models name."""
    unused_since: Mapping[str, datetime] = field(default_factory=dict)
    """Of generated profiles that nobody claims and no Model names: since when that is known."""
    current: Profiles = field(default_factory=dict)
    readable: bool = True
    """False while it holds something else than profiles: Helm cannot read that either."""
    release: Resource | None = None


class ProfileStoreReconciler:
    """See the module. Its primary is the store; it writes no status, since a ConfigMap has none."""

    def __init__(
        self,
        facts: ModelFacts,
        release: ReleaseFacts,
        reads: Reads,
        catalogs: Catalogs,
        settings: ModelSettings,
        clock: Clock,
    ) -> None:
        self._facts = facts
        self._release = release
        self._reads = reads
        self._catalogs = catalogs
        self._clock = clock
        self._claims = Claims(facts.site)
        self._unused: dict[str, datetime] = {}
        self._models = ModelWakes(facts, lambda: catalogs.compute_targets)
        self._declaration = _declare(
            facts, release, self._wakes, self._wakes_by_node, settings.requeue_seconds
        )

    @property
    def declaration(self) -> Declaration:
        """See `runtime.reconciler.Reconciler`."""
        return self._declaration

    def follow(self, wake: WakeUp) -> None:
        """Have `wake` called for what no watched object tells: another catalog, a kind that can be read."""
        self._catalogs.subscribe(lambda _name, _old, _new: wake(self._wakes()))
        kinds = (MODEL_ACTIVATION, KUBEAI_MODEL, NODE, HELM_RELEASE, CONFIG_MAP)
        on_new_state(self._reads, kinds, lambda: wake(self._wakes()))

    async def observe(self, key: ObjectKey) -> StoreObservation | None:
        """See `runtime.reconciler.Reconciler`."""
        store = self._release.store if key == self._release.store_key else None
        if store is None:
            return None
        catalogs = self._known_catalogs()
        if (blind := self._blind()) or catalogs is None:
            return StoreObservation(store, blind=blind or "There is no usable copy of a catalog yet")
        return self._observed(store, catalogs)

    def decide(self, observation: StoreObservation, now: datetime) -> Plan:
        """See `decide`."""
        return decide(observation, now)

    def decide_failure(
        self,
        observation: StoreObservation,
        error: ApiError,
        now: datetime,  # noqa: ARG002 - no clock here
    ) -> Plan:
        """There is no status of ours to report in: it is logged, and tried again slowly."""
        key = str(observation.store.metadata.key)
        log.warning("the profile store cannot be written", key=key, error=error.message)
        return Plan(StoreOutcome.FAILED)

    def _observed(self, store: Resource, catalogs: ModelCatalogs) -> StoreObservation:
        hardware = self._facts.hardware()
        kubeai = self._release.kubeai()
        activations = self._facts.activations.list()
        claims = self._claims.of(activations, catalogs, hardware, kubeai) if hardware is not None else ()
        referenced = frozenset(self._referenced())
        current = kubeai.store or {}
        wanted = {each.name for claim in claims for each in claim.profiles}
        self._note_unused(current.keys() - wanted - referenced)
        return StoreObservation(
            store,
            claims=claims,
            referenced=referenced,
            unused_since=dict(self._unused),
            current=current,
            readable=kubeai.store is not None,
            release=self._release.release,
        )

    def _note_unused(self, names: Iterable[str]) -> None:
        """Remember since when; a restart begins anew, which only keeps them longer."""
        now = self._clock.now()
        self._unused = {name: self._unused.get(name, now) for name in names if is_generated(name)}

    def _referenced(self) -> Iterator[str]:
        for model in self._reads.store(KUBEAI_MODEL).list():
            reference = model.spec.get("resourceProfile")
            if isinstance(reference, str):
                yield reference.rpartition(":")[0] or reference

    def _blind(self) -> str:
        for kind in (MODEL_ACTIVATION, NODE, KUBEAI_MODEL):
            namespace = self._facts.site.appliance_namespace if kind == MODEL_ACTIVATION else ""
            state = self._reads.state(kind, namespace)
            if state is not InformerState.SYNCED and not _without_models(kind, state):
                return f"{kind.kind}s cannot be read now ({state})"
        return self._release.blind()

    def _known_catalogs(self) -> ModelCatalogs | None:
        catalogs = self._catalogs
        targets, presets, modules = catalogs.compute_targets, catalogs.presets, catalogs.modules
        if targets is None or presets is None or modules is None:
            return None
        return ModelCatalogs(targets, presets, modules)

    def _wakes(self, _old: View | None = None, _new: View | None = None) -> tuple[ObjectKey, ...]:
        return (self._release.store_key,)

    def _wakes_by_node(self, old: View | None, new: View | None) -> tuple[ObjectKey, ...]:
        """As long as there is a model whose profile follows from nodes."""
        return self._wakes() if any(self._models.by_node(old, new)) else ()


def decide(o: StoreObservation, now: datetime) -> Plan:
    """What has to be written: the store, then the request to take it; nothing where both are done."""
    if o.blind:
        return Plan(StoreOutcome.HELD, log={"why": o.blind})
    document = derive(o.claims, o.current, o.referenced, _lately(o, now))
    steps = (*_store_step(o, document), *_release_step(o, document, now))
    if document.left_out:
        return Plan(StoreOutcome.FULL, steps, log={"left_out": len(document.left_out), **_some(document)})
    return Plan(StoreOutcome.SETTLED, steps)


def _lately(o: StoreObservation, now: datetime) -> frozenset[str]:
    """What somebody has used within the last ten minutes."""
    return frozenset(
        name for name, since in o.unused_since.items() if (now - since).total_seconds() < KEEP_UNUSED_S
    )


def _store_step(o: StoreObservation, document: StoreDocument) -> tuple[Step, ...]:
    """Text that means the same is left as it is spelled."""
    metadata = o.store.metadata
    if document.profiles == o.current and o.readable:
        return ()
    return (Patch(CONFIG_MAP, metadata.key, metadata.uid, {"data": {STORE_KEY: document.text}}),)


def _release_step(o: StoreObservation, document: StoreDocument, now: datetime) -> tuple[Step, ...]:
    """Asks Flux to take the store now. Whoever asks for something else meanwhile is not disturbed.

    A store without profiles is what the release has been installed with. Flux heeds no request that looks
    like the one before, so two within a second must differ.
    """
    if o.release is None:
        return ()
    metadata = o.release.metadata
    digest = content_hash(document.profiles, _DIGEST_LENGTH)
    asked = metadata.annotations.get(REQUESTED_FOR)
    if asked == digest or (asked is None and not document.profiles):
        return ()
    annotations = {REQUESTED_FOR: digest, REQUESTED_AT: microtime(now)}
    return (Patch(HELM_RELEASE, metadata.key, metadata.uid, {"metadata": {"annotations": annotations}}),)


def _some(document: StoreDocument) -> Mapping[str, Any]:
    return {"activations": [str(key) for key in document.left_out[:_LISTED]]}


def _without_models(kind: Kind, state: InformerState) -> bool:
    """KubeAI's kind may be absent: then there are no Models."""
    return kind == KUBEAI_MODEL and state is InformerState.ABSENT


def _profile_changed(old: View | None, new: View | None) -> bool:
    """Whether a KubeAI Model names another profile."""
    before, after = (
        each.spec.get("resourceProfile") if isinstance(each, Resource) else None for each in (old, new)
    )
    return before != after


def _declare(
    facts: ModelFacts,
    release: ReleaseFacts,
    wakes: Wakes,
    by_node: Callable[[View | None, View | None], Iterable[ObjectKey]],
    resync_s: float,
) -> Declaration:
    return Declaration(
        name=NAME,
        primary=CONFIG_MAP,
        namespace=release.store_key.namespace,
        object_name=release.store_key.name,
        owns_status=False,
        writes=frozenset({CONFIG_MAP, HELM_RELEASE}),
        coalesce_s=COALESCE_S,
        edges=(
            Edge(
                MODEL_ACTIVATION,
                wakes,
                "which profiles are wanted",
                identity_changed,
                namespace=facts.site.appliance_namespace,
            ),
            Edge(KUBEAI_MODEL, wakes, "which profiles are in use", _profile_changed),
            Edge(NODE, by_node, "which resource nodes publish", node_changed),
            *release.base_edges(wakes),
        ),
        requeue_s=dict.fromkeys(StoreOutcome, resync_s),
    )
