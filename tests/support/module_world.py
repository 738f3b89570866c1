"""A small world for modules: stores, an API server that follows the rules, a Flux, and the real skeleton.

What is real: stores, catalogs' model, the reconcilers, `runtime.skeleton`. What is played: the server's
rules for generations, finalizers, preconditions and applied fields, and Flux, as kustomize-controller
keeps its contract. Nothing runs by itself: a test says who acts next.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from magicstick.api import labels
from magicstick.api.kinds import APP_INSTANCE, APPLIANCE, KUSTOMIZATION, MODEL_ACTIVATION, MODULE_ACTIVATION
from magicstick.appliance.reconciler import ApplianceReconciler
from magicstick.catalogs.loader import Problem
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.gpu.facts import HardwareFacts, NodeView
from magicstick.gpu.reconciler import HardwareReconciler
from magicstick.kube.discovery import CrdCondition, CrdStatus, CrdView
from magicstick.kube.errors import Conflict, NameConflict, NotFound
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, Kind, ObjectKey
from magicstick.kube.objects import ObjectMeta, Resource
from magicstick.kube.store import DELETED, MODIFIED, Store
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.orphans import OrphanReconciler
from magicstick.modules.reconciler import ModuleReconciler
from magicstick.runtime.skeleton import Result, Skeleton
from tests.support.module_objects import FLUX, HOME, condition

FLUX_FINALIZER = "finalizers.fluxcd.io"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NAMESPACES = {
    MODULE_ACTIVATION: HOME,
    APPLIANCE: HOME,
    APP_INSTANCE: HOME,
    MODEL_ACTIVATION: HOME,
    KUSTOMIZATION: FLUX,
    CUSTOM_RESOURCE_DEFINITION: "",
    NODE: "",
}


@dataclass(frozen=True)
class Settings:
    """The settings that modules read."""

    appliance_namespace: str = HOME
    appliance_name: str = "local"
    flux_namespace: str = FLUX
    settings_configmap_name: str = "ai-appliance-settings"
    requeue_seconds: float = 20.0


class FixedClock:
    """A clock that stands still unless a test moves it."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def monotonic(self) -> float:
        return self.passed_s

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.passed_s)


@dataclass
class FakeCatalogs:
    """Catalogs that a test sets."""

    modules: ModuleCatalog | None = None
    problems: Mapping[str, Problem] = field(default_factory=dict)
    known: bool = True
    usable: bool = True
    handlers: list[Callable[[str, Any, Any], None]] = field(default_factory=list)

    def subscribe(self, handler: Callable[[str, Any, Any], None]) -> None:
        self.handlers.append(handler)

    def put(self, modules: ModuleCatalog) -> None:
        """Bring another module catalog into force."""
        old, self.modules = self.modules, modules
        for handler in self.handlers:
            handler("modules", old, modules)


class FakeReads:
    """One store a kind, in a state that a test may set."""

    def __init__(self) -> None:
        self.stores: dict[Kind, Store[Any]] = {kind: Store(kind.plural) for kind in NAMESPACES}
        self.states = dict.fromkeys(NAMESPACES, InformerState.SYNCED)
        self.handlers: list[Callable[[Kind, InformerState], None]] = []
        for store in self.stores.values():
            store.replace([], 1)

    def store(
        self,
        kind: Kind,
        namespace: str = "",
        name: str | None = None,
        label_selector: str | None = None,  # noqa: ARG002 - as the protocol says
    ) -> Store[Any]:
        assert (namespace, name) == (NAMESPACES[kind], None)
        return self.stores[kind]

    def state(
        self,
        kind: Kind,
        namespace: str = "",
        name: str | None = None,
        label_selector: str | None = None,  # noqa: ARG002 - as the protocol says
    ) -> InformerState:
        assert (namespace, name) == (NAMESPACES[kind], None)
        return self.states[kind]

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        self.handlers.append(handler)

    def enter(self, kind: Kind, state: InformerState) -> None:
        """Set the state of a kind, and tell; an absent kind's store is emptied quietly."""
        self.states[kind] = state
        for handler in self.handlers:
            handler(kind, state)
        if state is InformerState.ABSENT:
            self.stores[kind].withdraw()


class FakeDefinitions:
    """Which CustomResourceDefinitions are established; `unknown` while none can be read."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.unknown = False

    def established(self, crd_name: str) -> bool | None:
        return None if self.unknown else crd_name in self.names


class World:
    """See the module. `writes` are our requests that changed something: (verb, kind, name)."""

    def __init__(self, modules: ModuleCatalog | None, *objects: Resource) -> None:
        self.reads = FakeReads()
        self.catalogs = FakeCatalogs(modules)
        self.definitions = FakeDefinitions()
        self.versions = itertools.count(100)
        self.writes: list[tuple[str, str, str]] = []
        self.bodies: list[Mapping[str, Any]] = []
        """What was applied, in order."""
        self.refuse: Callable[[Kind, Mapping[str, Any]], Exception | None] = lambda _kind, _body: None
        self.flux = Flux(self)
        self._applied: dict[ObjectKey, Mapping[str, Any]] = {}
        for each in objects:
            self.put(each)
        reads, catalogs, settings = self.reads, self.catalogs, Settings()
        self.modules = ModuleReconciler(reads, catalogs, settings, self.definitions)
        self.facts: ModuleFacts = self.modules.facts
        self.orphans = OrphanReconciler(self.facts, reads, catalogs, settings.requeue_seconds)
        self.clock = clock = FixedClock()
        self.hardware_facts = HardwareFacts(self.facts, reads, clock)
        self.hardware = HardwareReconciler(self.hardware_facts, catalogs, settings.requeue_seconds)
        self.appliance = ApplianceReconciler(self.hardware_facts, reads, catalogs, settings.requeue_seconds)
        stores = self.reads.stores
        self._modules = Skeleton(self.modules, stores[MODULE_ACTIVATION], self, clock=clock)
        self._orphans = Skeleton(self.orphans, stores[KUSTOMIZATION], self, clock=clock)
        self._appliance = Skeleton(self.appliance, stores[APPLIANCE], self, clock=clock)
        self._hardware = Skeleton(self.hardware, stores[APPLIANCE], self, clock=clock)

    # --- what tests do and see -------------------------------------------------------------------

    def put(self, obj: Resource) -> None:
        """Make an object exist as given, but for its version."""
        self._store_of(obj).event(MODIFIED, self._next(obj))

    def put_node(self, node: NodeView) -> None:
        """Make a Node exist as given, but for its version."""
        self.reads.stores[NODE].event(MODIFIED, self._newer(node))

    def drop_node(self, node: NodeView) -> None:
        """Delete a Node."""
        self.reads.stores[NODE].event(DELETED, self._newer(node))

    def drop(self, obj: Resource) -> None:
        """Make an object vanish, whatever its finalizers say."""
        self._store_of(obj).event(DELETED, self._next(obj))

    def activation(self, name: str) -> Resource | None:
        return self._find(MODULE_ACTIVATION, name)

    def kustomization(self, name: str) -> Resource | None:
        return self._find(KUSTOMIZATION, name)

    def local(self) -> Resource:
        found = self._find(APPLIANCE, "local")
        assert found is not None
        return found

    def edit(self, name: str, **spec: Any) -> None:
        """A user changes fields of an activation's spec."""
        found = self.activation(name)
        assert found is not None
        self.put(self._with_spec(found, {**found.spec, **spec}))

    def user_deletes(self, name: str) -> None:
        """A user deletes an activation."""
        found = self.activation(name)
        assert found is not None
        self._delete(found)

    async def look_at(self, name: str) -> Result:
        """One pass over an activation."""
        return await self._modules.reconcile(ObjectKey(HOME, name))

    async def look_for_orphan(self, name: str) -> Result:
        """One pass over a Kustomization."""
        return await self._orphans.reconcile(ObjectKey(FLUX, name))

    async def look_at_appliance(self) -> Result:
        """One pass over the Appliance."""
        return await self._appliance.reconcile(ObjectKey(HOME, "local"))

    async def look_at_hardware(self) -> Result:
        """One pass over the hardware."""
        return await self._hardware.reconcile(ObjectKey(HOME, "local"))

    async def settle(self, order: Callable[[list[str]], list[str]] = sorted, rounds: int = 40) -> int:
        """Let everyone act in rounds until nothing changes any more; how many rounds that took."""
        for count in range(rounds):
            before = self.state()
            await self.round(order)
            if self.state() == before:
                return count
        raise AssertionError(f"not settled after {rounds} rounds; last writes {self.writes[-10:]}")

    async def round(self, order: Callable[[list[str]], list[str]] = sorted) -> None:
        """Everyone acts once: the reconcilers in the given order, Flux in between."""
        names = [f"m/{each.metadata.name}" for each in self.reads.stores[MODULE_ACTIVATION].list()]
        names += [f"k/{each.metadata.name}" for each in self.reads.stores[KUSTOMIZATION].list()]
        for turn in order([*names, "appliance", "flux"]):
            kind, _, name = turn.partition("/")
            if kind == "m":
                await self.look_at(name)
            elif kind == "k":
                await self.look_for_orphan(name)
            elif kind == "appliance":
                await self.look_at_appliance()
            else:
                self.flux.act()

    def state(self) -> Mapping[str, Any]:
        """Everything that a user can see, without versions, generations and uids."""
        return {
            f"{kind.kind}/{each.metadata.name}": (
                each.spec,
                _meaning(each.status),
                each.metadata.dying,
                tuple(sorted(each.metadata.finalizers)),
                dict(sorted(each.metadata.labels.items())),
            )
            for kind in (MODULE_ACTIVATION, KUSTOMIZATION, APPLIANCE)
            for each in sorted(self.reads.stores[kind].list(), key=lambda each: each.metadata.name)
        }

    def end(self) -> Mapping[str, Any]:
        """`state`, without Flux's last words on what it leaves alone now: those are history."""
        return {
            name: (spec, {} if name.startswith("Kustomization/") and spec.get("suspend") else status, *rest)
            for name, (spec, status, *rest) in self.state().items()
        }

    # --- the API server --------------------------------------------------------------------------

    async def apply(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        self._maybe_refuse(kind, body)
        key = _key(body)
        live = self._find(kind, key.name)
        if live is None:
            self._applied[key] = body["spec"]
            self.put(_born(body, f"uid-{next(self.versions)}"))
            return self._wrote("apply", kind, key.name, body)
        if live.metadata.labels.get(labels.MANAGED_BY) != labels.OPERATOR:
            raise NameConflict(f"{kind} {key} exists and is not managed by {labels.OPERATOR}")
        kept = {name: value for name, value in live.spec.items() if name not in self._applied.get(key, {})}
        spec, merged = {**kept, **body["spec"]}, {**live.metadata.labels, **body["metadata"]["labels"]}
        if live.metadata.dying or (spec == live.spec and merged == live.metadata.labels):
            return False
        self._applied[key] = body["spec"]
        metadata = msgspec.structs.replace(live.metadata, labels=merged)
        self.put(self._with_spec(msgspec.structs.replace(live, metadata=metadata), spec))
        return self._wrote("apply", kind, key.name, body)

    async def apply_part(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        raise AssertionError(f"modules share no object with others, and {kind} {body['metadata']} is none")

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        self._maybe_refuse(kind, body)
        if self._find(kind, _key(body).name) is not None:
            return False
        self.put(_born(body, f"uid-{next(self.versions)}"))
        return self._wrote("create", kind, _key(body).name)

    async def delete(self, kind: Kind, key: ObjectKey, uid: str, resource_version: str | None = None) -> bool:
        live = self._find(kind, key.name)
        if live is None or live.metadata.uid != uid or live.metadata.dying:
            return False
        if resource_version not in (None, live.metadata.resource_version):
            raise Conflict("the object is in another version")
        self._delete(live)
        return self._wrote("delete", kind, key.name)

    async def patch(self, kind: Kind, key: ObjectKey, uid: str, body: Mapping[str, Any]) -> bool:
        """Modules set no fields of objects of others."""
        raise AssertionError(f"nobody patches {kind} {key} of {uid} with {body}")

    async def add_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        if live.metadata.dying or finalizer in live.metadata.finalizers:
            return False
        self._finalizers(live, (*live.metadata.finalizers, finalizer))
        return self._wrote("add-finalizer", kind, live.metadata.name)

    async def remove_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        if finalizer not in live.metadata.finalizers:
            return False
        self._finalizers(live, tuple(each for each in live.metadata.finalizers if each != finalizer))
        return self._wrote("remove-finalizer", kind, live.metadata.name)

    async def apply_status(self, kind: Kind, live: Resource, status: Mapping[str, Any]) -> bool:
        present = self._find(kind, live.metadata.name)
        if present is None:
            raise NotFound("it is gone")
        self.put(msgspec.structs.replace(present, status=status))
        return self._wrote("status", kind, live.metadata.name)

    async def refresh(self, kind: Kind, key: ObjectKey) -> None:
        """The stores are never behind here."""

    def set_status(self, live: Resource, status: Mapping[str, Any]) -> None:
        """Somebody else writes a status."""
        self.put(msgspec.structs.replace(live, status=status))

    def set_finalizers(self, live: Resource, finalizers: Iterable[str]) -> None:
        """Somebody else sets the finalizers; a dying object without any is gone."""
        self._finalizers(live, tuple(finalizers))

    def _finalizers(self, live: Resource, finalizers: tuple[str, ...]) -> None:
        if live.metadata.dying and not finalizers:
            self.drop(live)
            return
        metadata = msgspec.structs.replace(live.metadata, finalizers=finalizers)
        self.put(msgspec.structs.replace(live, metadata=metadata))

    def _delete(self, live: Resource) -> None:
        if not live.metadata.finalizers:
            self.drop(live)
            return
        metadata = msgspec.structs.replace(
            live.metadata, deletion_timestamp="2026-01-01T12:00:00Z", generation=live.metadata.generation + 1
        )
        self.put(msgspec.structs.replace(live, metadata=metadata))

    def _maybe_refuse(self, kind: Kind, body: Mapping[str, Any]) -> None:
        error = self.refuse(kind, body)
        if error is not None:
            raise error

    def _wrote(self, verb: str, kind: Kind, name: str, body: Mapping[str, Any] | None = None) -> bool:
        self.writes.append((verb, kind.kind, name))
        if body is not None:
            self.bodies.append(body)
        return True

    def _with_spec(self, live: Resource, spec: Mapping[str, Any]) -> Resource:
        changed = spec != live.spec
        metadata = msgspec.structs.replace(live.metadata, generation=live.metadata.generation + changed)
        return msgspec.structs.replace(live, metadata=metadata, spec=spec)

    def _newer(self, node: NodeView) -> NodeView:
        metadata = msgspec.structs.replace(node.metadata, resource_version=str(next(self.versions)))
        return msgspec.structs.replace(node, metadata=metadata)

    def _next(self, obj: Resource) -> Resource:
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(next(self.versions)))
        return msgspec.structs.replace(obj, metadata=metadata)

    def _store_of(self, obj: Resource) -> Store[Any]:
        kind = next(kind for kind in NAMESPACES if kind.kind == obj.kind)
        return self.reads.stores[kind]

    def _find(self, kind: Kind, name: str) -> Resource | None:
        found: Resource | None = self.reads.stores[kind].get(ObjectKey(NAMESPACES[kind], name))
        return found


class Flux:
    """Kustomize-controller by its contract. `verdicts` say how applies end: True unless set."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.verdicts: dict[str, str] = {}
        self.installed: set[str] = set()
        self.pruned: list[str] = []
        self.leaked: list[str] = []
        """Kustomizations that were deleted while suspended: their content stays behind."""

    def act(self) -> None:
        """Look at every Kustomization once."""
        for each in self._world.reads.stores[KUSTOMIZATION].list():
            self._look_at(each)

    def look_again(self, name: str) -> None:
        """Begin the periodic reconcile of one: Ready is Unknown until `act`."""
        live = self._world.kustomization(name)
        assert live is not None
        told = condition("Unknown", "Progressing", "Reconciliation in progress", live.metadata.generation)
        self._world.set_status(live, {**live.status, "conditions": [told]})

    def _look_at(self, live: Resource) -> None:
        name = live.metadata.name
        if live.metadata.dying:
            if live.spec.get("suspend"):
                self.leaked.append(name)
            else:
                self.pruned.append(name)
            self.installed.discard(name)
            others = [each for each in live.metadata.finalizers if each != FLUX_FINALIZER]
            self._world.set_finalizers(live, others)
        elif FLUX_FINALIZER not in live.metadata.finalizers:
            self._world.set_finalizers(live, [*live.metadata.finalizers, FLUX_FINALIZER])
        elif not live.spec.get("suspend"):
            self._apply(live)

    def _apply(self, live: Resource) -> None:
        name, generation = live.metadata.name, live.metadata.generation
        verdict, reason, message = self.verdicts.get(name, "True"), "ReconciliationSucceeded", "Applied"
        missing = [each["name"] for each in live.spec.get("dependsOn", []) if not self._ready(each["name"])]
        if missing:
            verdict, reason, message = "False", "DependencyNotReady", f"dependency {missing[0]} is not ready"
        elif verdict == "False":
            reason, message = "BuildFailed", "kustomize build failed"
        observed = live.status.get("observedGeneration", -1)
        if verdict == "True":
            observed = generation
            self.installed.add(name)
        told = condition(verdict, reason, message, generation)
        status = {"observedGeneration": observed, "conditions": [told]}
        if status != live.status:
            self._world.set_status(live, status)

    def _ready(self, name: str) -> bool:
        live = self._world.kustomization(name)
        return live is not None and any(
            each["status"] == "True" and each["observedGeneration"] == live.metadata.generation
            for each in live.status.get("conditions", [])
        )


def crd(name: str, *, established: bool = False) -> CrdView:
    """A CustomResourceDefinition of this name."""
    conditions = (CrdCondition("Established", "True"),) if established else None
    return CrdView(ObjectMeta(name=name), status=CrdStatus(conditions))


def _key(body: Mapping[str, Any]) -> ObjectKey:
    return ObjectKey(body["metadata"]["namespace"], body["metadata"]["name"])


def _born(body: Mapping[str, Any], uid: str) -> Resource:
    metadata = {**body["metadata"], "uid": uid, "generation": 1, "creationTimestamp": "2026-01-01T12:00:00Z"}
    encoded = msgspec.json.encode({**body, "metadata": metadata})
    return msgspec.json.decode(encoded, type=Resource)


def _meaning(status: Mapping[str, Any]) -> Any:
    """A status without what only counts: generations and times."""
    if isinstance(status, Mapping):
        dropped = {"lastTransitionTime", "observedGeneration"}
        return {name: _meaning(value) for name, value in status.items() if name not in dropped}
    if isinstance(status, list | tuple):
        return [_meaning(value) for value in status]
    return status
