"""Palena's reconcilers over stores that a test fills, and plans carried out on these stores.

    world = PalenaWorld()
    world.put(PALENA_GATEWAY, gateway())
    plan = await world.settle(reconciler, "ai-gateway", "gw")

What is carried out here is simpler than at a server: an apply replaces what the body names, and merges
nothing by ownership. That what is sent is right, is shown on the real API server.
"""

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from magicstick.kube.errors import ApiError
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import DELETED, MODIFIED
from magicstick.palena.common.facts import PalenaFacts
from magicstick.palena.common.schemas import SchemaView
from magicstick.palena.common.storage_classes import STORAGE_CLASS, StorageClassView
from magicstick.runtime.plan import Apply, ApplyPart, Create, Delete, Finalizer, Patch, Plan, Step
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration
from magicstick.runtime.status import merge_status
from tests.support import palena_crds
from tests.support.instance_world import Places

Object = dict[str, Any]

NOW: Final = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
MADE: Final = "2026-05-01T11:00:00Z"
ROUNDS: Final = 12


class PlayedDefinitions:
    """Which kinds are served; all of them unless a test says otherwise."""

    def __init__(self) -> None:
        self.missing: set[Kind] = set()
        self.unknown = False

    def served(self, kind: Kind) -> bool | None:
        return None if self.unknown else kind not in self.missing


class PlayedEntropy:
    """Values that can be told apart: each is drawn once."""

    def __init__(self) -> None:
        self._drawn = 0

    def alphanumeric(self, length: int) -> str:
        return self._next(length)

    def hex(self, length: int) -> str:
        return self._next(length)

    def uuid(self) -> str:
        return f"00000000-0000-4000-8000-{self._next(12)}"

    def _next(self, length: int) -> str:
        self._drawn += 1
        return f"{self._drawn:0{length}d}"


class Asked(Protocol):
    """What is asked of a reconciler here."""

    @property
    def declaration(self) -> Declaration: ...

    async def observe(self, key: ObjectKey) -> Any: ...

    def decide(self, observation: Any, now: datetime) -> Plan: ...

    def decide_failure(self, observation: Any, error: ApiError, now: datetime) -> Plan: ...


class PalenaWorld:
    """See the module. `now` is the time of all decisions."""

    def __init__(self) -> None:
        self.places = Places()
        self.reads = Reads(self.places)
        self.definitions = PlayedDefinitions()
        self.entropy = PlayedEntropy()
        self.facts = PalenaFacts(self.reads, self.definitions)
        self.now = NOW
        self.log: list[Step] = []
        """Every step that was carried out."""
        self._uids = 0

    def declare(self, *reconcilers: Asked) -> None:
        """Watch what these declare, with the schemas of foreign kinds at hand."""
        for each in reconcilers:
            self.reads.declare(each.declaration)
        for definition in palena_crds.definitions():
            self.serve(definition)

    def serve(self, definition: Object) -> None:
        """Have a definition's schema served."""
        view = msgspec.convert(copy.deepcopy(definition), SchemaView)
        for (kind, _, name), store in self.places.stores.items():
            if kind == CUSTOM_RESOURCE_DEFINITION and name == view.metadata.name:
                self._event(store, MODIFIED, view)

    # --- objects ---------------------------------------------------------------------------------

    def put(self, kind: Kind, body: Mapping[str, Any]) -> Resource:
        """An object as the server would have it after this."""
        made = copy.deepcopy(dict(body))
        before = self.find(kind, made["metadata"].get("namespace", ""), made["metadata"]["name"])
        metadata = made["metadata"]
        self._uids += 1
        metadata.setdefault("uid", before.metadata.uid if before else f"uid-{self._uids}")
        metadata.setdefault("creationTimestamp", before.metadata.creation_timestamp if before else MADE)
        metadata.setdefault("generation", before.metadata.generation if before else 1)
        if before is not None and "status" not in made:
            made["status"] = dict(before.status)
        obj = msgspec.json.decode(json.dumps(made).encode(), type=Resource)
        for store in self._stores(kind, obj.metadata.key):
            self._event(store, MODIFIED, obj)
        return self.must(kind, *obj.metadata.key)

    def change(self, kind: Kind, namespace: str, name: str, **fields: Any) -> Resource:
        """An object with other top-level fields; `metadata` is merged."""
        body = body_of(self.must(kind, namespace, name))
        metadata = {**body["metadata"], **fields.pop("metadata", {})}
        if "spec" in fields:
            metadata["generation"] = body["metadata"]["generation"] + 1
        return self.put(kind, {**body, **fields, "metadata": metadata})

    def storage_class(self, name: str, *, grows: bool) -> None:
        """A StorageClass whose volumes may grow or not."""
        metadata = {"name": name, "resourceVersion": "2"}
        view = msgspec.convert({"metadata": metadata, "allowVolumeExpansion": grows}, StorageClassView)
        self.reads.store(STORAGE_CLASS).event(MODIFIED, view)

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """It is gone."""
        obj = self.must(kind, namespace, name)
        for store in self._stores(kind, obj.metadata.key):
            self._event(store, DELETED, obj)

    def dying(self, kind: Kind, namespace: str, name: str, *, since: timedelta = timedelta()) -> Resource:
        """Its deletion was accepted `since` ago."""
        moment = (self.now - since).strftime("%Y-%m-%dT%H:%M:%SZ")
        return self.change(kind, namespace, name, metadata={"deletionTimestamp": moment})

    def find(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        for store in self._stores(kind, ObjectKey(namespace, name)):
            found: Resource | None = store.get(ObjectKey(namespace, name))
            return found
        raise AssertionError(f"nobody watches {kind}")

    def must(self, kind: Kind, namespace: str, name: str) -> Resource:
        found = self.find(kind, namespace, name)
        assert found is not None, f"there is no {kind} {namespace}/{name}"
        return found

    def names(self, kind: Kind, namespace: str = "") -> set[str]:
        """Of all objects of a kind, or of those in one namespace."""
        return {
            each.metadata.name
            for (of, _, _), store in self.places.stores.items()
            if of == kind
            for each in store.list()
            if not namespace or each.metadata.namespace == namespace
        }

    def unreadable(self, kind: Kind) -> None:
        """The kind cannot be read from now on."""
        self.places.become(kind, InformerState.FAILING)

    def absent(self, kind: Kind) -> None:
        """The definition of the kind goes, and with it all of its objects."""
        self.definitions.missing.add(kind)
        self.places.become(kind, InformerState.ABSENT)
        for (of, _, _), store in self.places.stores.items():
            if of == kind:
                store.replace([], int(store.resource_version or 0) + 1)

    # --- decisions -------------------------------------------------------------------------------

    async def plan(self, reconciler: Asked, namespace: str, name: str) -> Plan:
        """The decision as it is now."""
        observation = await reconciler.observe(ObjectKey(namespace, name))
        assert observation is not None, f"there is no {namespace}/{name}"
        return reconciler.decide(observation, self.now)

    async def settle(self, reconciler: Asked, namespace: str, name: str) -> Plan:
        """Carry plans out until one has nothing left to write, and store its status."""
        primary, key = reconciler.declaration.primary, ObjectKey(namespace, name)
        for _ in range(ROUNDS):
            plan = await self.plan(reconciler, namespace, name)
            if not self._carried_out(primary, key, plan):
                if plan.status is not None:
                    live = self.must(primary, *key)
                    status = merge_status(live.status, plan.status, self.now)
                    self.change(primary, *key, status=status)
                return plan
        raise AssertionError("the decision does not come to rest")

    def _carried_out(self, primary: Kind, key: ObjectKey, plan: Plan) -> bool:
        live = self.must(primary, *key)
        finalizer = "operator.palena.ai/finalizer"
        if plan.finalizer is Finalizer.ADD and finalizer not in live.metadata.finalizers:
            self.change(primary, *key, metadata={"finalizers": [*live.metadata.finalizers, finalizer]})
            return True
        wrote = [self.carry_out(step) for step in plan.steps]
        if not any(wrote) and plan.finalizer is Finalizer.REMOVE:
            left = [each for each in live.metadata.finalizers if each != finalizer]
            self.change(primary, *key, metadata={"finalizers": left})
        return any(wrote)

    def carry_out(self, step: Step) -> bool:
        """Do one step; whether it changed anything."""
        match step:
            case Apply(kind, body) | Create(kind, body):
                changed = self._apply(kind, body, only_new=isinstance(step, Create))
            case ApplyPart(kind, body):
                changed = self._apply_part(kind, body)
            case Delete(kind, key, uid):
                changed = self._delete(kind, key, uid)
            case Patch(kind, key, uid, body):
                changed = self._patch(kind, key, uid, body)
        if changed:
            self.log.append(step)
        return changed

    def _apply(self, kind: Kind, body: Mapping[str, Any], *, only_new: bool) -> bool:
        live = self.find(kind, body["metadata"]["namespace"], body["metadata"]["name"])
        if live is not None and (only_new or live.metadata.dying or _holds(body, body_of(live))):
            return False
        wanted = copy.deepcopy({name: value for name, value in body.items() if name != "type"})
        if live is not None:
            wanted["metadata"]["generation"] = live.metadata.generation + 1
        self.put(kind, wanted)
        return True

    def _apply_part(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """The fields become true; what was set before and is wanted no more is not given back here."""
        live = self.find(kind, body["metadata"]["namespace"], body["metadata"]["name"])
        if live is None or live.metadata.uid != body["metadata"]["uid"] or live.metadata.dying:
            return False
        fields = {
            name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")
        }
        return self._patch(kind, live.metadata.key, live.metadata.uid, fields)

    def _delete(self, kind: Kind, key: ObjectKey, uid: str) -> bool:
        live = self.find(kind, *key)
        if live is None or live.metadata.uid != uid or live.metadata.dying:
            return False
        if live.metadata.finalizers:
            self.dying(kind, *key)
        else:
            self.remove(kind, *key)
        return True

    def _patch(self, kind: Kind, key: ObjectKey, uid: str, body: Mapping[str, Any]) -> bool:
        live = self.must(kind, *key)
        assert live.metadata.uid == uid
        before = body_of(live)
        after = _merge_patch(before, body)
        if after == before:
            return False
        self.put(kind, after)
        return True

    def _stores(self, kind: Kind, key: ObjectKey) -> list[Any]:
        return [
            store
            for (of, namespace, name), store in self.places.stores.items()
            if of == kind and namespace in ("", key.namespace) and name in (None, key.name)
        ]

    def _event(self, store: Any, type_: str, obj: Any) -> None:
        version = str(int(store.resource_version or 0) + 1)
        metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
        store.event(type_, msgspec.structs.replace(obj, metadata=metadata))


def body_of(live: Resource) -> Object:
    """A view as the object that it was decoded from, as far as it carries it."""
    body: Object = msgspec.to_builtins(live)
    body["metadata"].pop("managedFields", None)
    return {name: value for name, value in body.items() if value or name == "metadata"}


def _holds(want: Any, have: Any) -> bool:
    """Whether everything wanted is there; of ownerReferences what views carry."""
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        return all(
            _holds(value, have.get(name))
            for name, value in want.items()
            if name not in ("blockOwnerDeletion", "type")
        )
    if isinstance(want, list) and isinstance(have, list | tuple):
        return len(want) == len(have) and all(map(_holds, want, have))
    return bool(want == have) or (not want and not have)


def _merge_patch(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge_patch(result.get(name), value)
    return result
