"""A cluster in miniature for tests of the runtime: real stores, and hands that write into them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from magicstick.kube.differ import holds
from magicstick.kube.errors import ApiError, Conflict, NotFound
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.scope import Scope
from magicstick.kube.store import Store
from magicstick.runtime.conditions import summarise
from magicstick.runtime.plan import Apply, Delete, Finalizer, Plan
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Edge
from tests.support.objects import GADGET, WIDGET

FINALIZER = "example.com/cleanup"
KEY = ObjectKey("default", "one")


def resource(body: Mapping[str, Any]) -> Resource:
    """An object as the server would send it."""
    return msgspec.json.decode(msgspec.json.encode(body), type=Resource)


class FakeStores:
    """Real stores, empty and synced until a test says otherwise."""

    def __init__(self, state: InformerState = InformerState.SYNCED) -> None:
        self._initial = state
        self._stores: dict[Scope, Store[Resource]] = {}
        self._states: dict[Scope, InformerState] = {}
        self._views: dict[Scope, type[View]] = {}
        self._handlers: list[Callable[[Kind, InformerState], None]] = []

    def watch(self, scope: Scope, view: type[View]) -> object:
        if self._views.setdefault(scope, view) is not view:
            raise ValueError(f"{scope} is watched with another view already")
        if scope not in self._stores:
            self._stores[scope] = Store(str(scope.kind))
            self._states[scope] = self._initial
            if self._initial is InformerState.SYNCED:
                self._stores[scope].replace([], 1)
        return self._stores[scope]

    def store_of(self, scope: Scope) -> Store[Any]:
        return self._stores[scope]

    def state_of(self, scope: Scope) -> InformerState:
        return self._states[scope]

    def store(
        self, kind: Kind, namespace: str = "", name: str | None = None, label_selector: str | None = None
    ) -> Store[Any]:
        return self._stores[self._scope(kind, namespace, name, label_selector)]

    def state(
        self, kind: Kind, namespace: str = "", name: str | None = None, label_selector: str | None = None
    ) -> InformerState:
        return self._states[self._scope(kind, namespace, name, label_selector)]

    def _scope(self, kind: Kind, namespace: str, name: str | None, label_selector: str | None) -> Scope:
        found = [
            scope
            for scope in self._stores
            if (scope.kind, scope.namespace, scope.name) == (kind, namespace, name)
            and label_selector in (None, scope.label_selector)
        ]
        if len(found) != 1:
            raise KeyError(kind)
        return found[0]

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        self._handlers.append(handler)

    def enter(self, kind: Kind, state: InformerState, *objects: Resource) -> None:
        """Put a kind into a state; with SYNCED comes its list, with ABSENT its store is withdrawn."""
        for scope, store in self._stores.items():
            if scope.kind == kind:
                if state is InformerState.SYNCED:
                    store.replace(objects, 1)
                self._states[scope] = state
                for handler in self._handlers:
                    handler(kind, state)
                if state is InformerState.ABSENT:
                    store.withdraw()


@dataclass
class Fault:
    """An error that a write meets: how often (None: always)."""

    verb: str
    kind: Kind
    error: ApiError
    times: int | None = 1


class FakeHands:
    """Writes land in the stores at once, as those of the real applier do.

    `history` names what changed the cluster, in order; what changed nothing is not in it. `gate`, while
    it is not set, holds every write back.
    """

    def __init__(self, stores: FakeStores) -> None:
        self.history: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.refreshed: list[tuple[Kind, ObjectKey]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self._stores = stores
        self._version = 100

    async def apply(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        metadata = body["metadata"]
        live = self.live(kind, ObjectKey(metadata["namespace"], metadata["name"]))
        if live is not None and (live.metadata.dying or live.spec == body["spec"]):
            return False
        await self._begin("apply", kind)
        uid = live.metadata.uid if live else f"uid-{self._version}"
        self.put(kind, resource({**body, "metadata": {"generation": 1, "uid": uid, **metadata}}), "apply")
        return True

    async def apply_part(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        metadata = body["metadata"]
        live = self.live(kind, ObjectKey(metadata["namespace"], metadata["name"]))
        spec = body.get("spec", {})
        if live is None or live.metadata.uid != metadata["uid"] or {**live.spec, **spec} == live.spec:
            return False
        await self._begin("apply_part", kind)
        self.put(kind, replace(live, spec={**live.spec, **spec}), "apply_part")
        return True

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        metadata = body["metadata"]
        if self.live(kind, ObjectKey(metadata["namespace"], metadata["name"])) is not None:
            return False
        return await self.apply(kind, body)

    async def delete(self, kind: Kind, key: ObjectKey, uid: str, resource_version: str | None = None) -> bool:
        live = self.live(kind, key)
        if live is None or live.metadata.uid != uid:
            return False
        await self._begin("delete", kind)
        if resource_version not in (None, live.metadata.resource_version):
            raise Conflict("the object is in another version")
        self._stores.store(kind).deleted(key, uid)
        self.history.append(("delete", kind.kind))
        return True

    async def patch(self, kind: Kind, key: ObjectKey, uid: str, body: Mapping[str, Any]) -> bool:
        live = self.live(kind, key)
        if live is None or live.metadata.uid != uid or holds(body, live):
            return False
        await self._begin("patch", kind)
        data, annotations = body.get("data", {}), body.get("metadata", {}).get("annotations", {})
        metadata = replace(live.metadata, annotations={**live.metadata.annotations, **annotations})
        self.put(kind, replace(live, metadata=metadata, data={**live.data, **data}), "patch")
        return True

    async def add_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        if finalizer in live.metadata.finalizers:
            return False
        await self._begin("add_finalizer", kind)
        finalizers = (*live.metadata.finalizers, finalizer)
        self.put(kind, replace(live, metadata=replace(live.metadata, finalizers=finalizers)), "add_finalizer")
        return True

    async def remove_finalizer(self, kind: Kind, live: Resource, finalizer: str) -> bool:
        if finalizer not in live.metadata.finalizers:
            return False
        await self._begin("remove_finalizer", kind)
        left = tuple(name for name in live.metadata.finalizers if name != finalizer)
        if left or not live.metadata.dying:
            self.put(
                kind, replace(live, metadata=replace(live.metadata, finalizers=left)), "remove_finalizer"
            )
        else:
            self._stores.store(kind).deleted(live.metadata.key, live.metadata.uid)
            self.history.append(("remove_finalizer", kind.kind))
        return True

    async def apply_status(self, kind: Kind, live: Resource, status: Mapping[str, Any]) -> bool:
        await self._begin("apply_status", kind)
        if self.live(kind, live.metadata.key) is None:
            return False
        self.put(kind, replace(live, status=status), "apply_status")
        return True

    async def refresh(self, kind: Kind, key: ObjectKey) -> None:
        self.refreshed.append((kind, key))
        if self.live(kind, key) is None:
            raise NotFound(f"{kind} {key}")

    async def _begin(self, verb: str, kind: Kind) -> None:
        self.begun.set()
        await self.gate.wait()
        for fault in self.faults:
            if (fault.verb, fault.kind) == (verb, kind) and fault.times != 0:
                fault.times = None if fault.times is None else fault.times - 1
                raise fault.error

    # --- for tests -------------------------------------------------------------------------------

    def live(self, kind: Kind, key: ObjectKey) -> Resource | None:
        found: Resource | None = self._stores.store(kind).get(key)
        return found

    def put(self, kind: Kind, obj: Resource, verb: str = "") -> Resource:
        """Store a new version of an object; without a verb it is somebody else's write."""
        self._version += 1
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=str(self._version)))
        self._stores.store(kind).written(obj)
        if verb:
            self.history.append((verb, kind.kind))
        return obj

    def edit(
        self, kind: Kind, key: ObjectKey, *, status: Mapping[str, Any] | None = None, **metadata: Any
    ) -> None:
        """Change metadata or status of an object behind the operator's back."""
        live = self.live(kind, key)
        assert live is not None
        changed = replace(live, metadata=replace(live.metadata, **metadata))
        self.put(kind, changed if status is None else replace(changed, status=status))


@dataclass(frozen=True)
class Pair:
    """A widget and its gadget."""

    widget: Resource
    gadget: Resource | None


def gadget_wakes_widget(old: View | None, new: View | None) -> tuple[ObjectKey, ...]:
    known = new or old
    return (known.metadata.key,) if known is not None else ()


DECLARATION = Declaration(
    name="widget",
    primary=WIDGET,
    edges=(Edge(GADGET, gadget_wakes_widget, "whether the gadget exists"),),
    requeue_s={
        "Ready": 20.0,
        "Waiting": None,
        "Removing": 20.0,
        "Rejected": 30.0,
        "NamespaceTerminating": 20.0,
    },
    writes=frozenset({GADGET}),
    finalizer=FINALIZER,
    workers=2,
)


def gadget_body(name: str = "one", size: int = 1) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Gadget",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"size": size},
    }


def widget_body(name: str = "one", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}", "generation": 1, **metadata},
        "spec": {"size": 1},
    }


def status(outcome: str, message: str, generation: int) -> dict[str, Any]:
    conditions = summarise(
        "True" if outcome == "Ready" else "False",
        outcome,
        message,
        generation,
        reconciling=outcome in ("Waiting", "Removing"),
        stalled=outcome == "Rejected",
    )
    return {"phase": outcome, "observedGeneration": generation, "conditions": conditions}


@dataclass
class PairReconciler:
    """Gives each widget a gadget of its size. A test may put another decision in place of `decide`."""

    stores: FakeStores
    declaration: Declaration = DECLARATION
    decide_with: Callable[[Pair], Plan] | None = None
    passes: list[ObjectKey] = field(default_factory=list)
    asked_at: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reads = Reads(self.stores, self.declaration)

    async def observe(self, key: ObjectKey) -> Pair | None:
        self.passes.append(key)
        widget = self.reads.store(WIDGET).get(key)
        return Pair(widget, self.reads.store(GADGET).get(key)) if widget is not None else None

    def decide(self, observation: Pair, now: datetime) -> Plan:
        self.asked_at.append(now)
        return (self.decide_with or usual)(observation)

    def decide_failure(self, observation: Pair, error: ApiError, now: datetime) -> Plan:
        self.asked_at.append(now)
        outcome = type(error).__name__
        return Plan(outcome, status=status(outcome, error.message, observation.widget.metadata.generation))


def usual(pair: Pair) -> Plan:
    widget, gadget = pair.widget, pair.gadget
    name, generation = widget.metadata.name, widget.metadata.generation
    if widget.metadata.dying:
        if gadget is None:
            return Plan("Removing", finalizer=Finalizer.REMOVE)
        deletion = Delete(GADGET, gadget.metadata.key, gadget.metadata.uid)
        return Plan("Removing", (deletion,), status=status("Removing", "gadget goes", generation))
    finalizer = Finalizer.KEEP if FINALIZER in widget.metadata.finalizers else Finalizer.ADD
    steps = (Apply(GADGET, gadget_body(name, int(widget.spec["size"]))),)
    outcome = "Ready" if gadget is not None else "Waiting"
    return Plan(outcome, steps, finalizer, status(outcome, f"gadget of {name}", generation))


def saying(outcome: str, message: str) -> Callable[[Pair], Plan]:
    """A decision without steps."""
    return lambda pair: Plan(outcome, status=status(outcome, message, pair.widget.metadata.generation))


def raising(error: Exception) -> Callable[[Pair], Plan]:
    """A decision with a fault."""

    def decide(pair: Pair) -> Plan:
        raise type(error)(*error.args)  # a new one each time: a traceback grows with each raise

    return decide
