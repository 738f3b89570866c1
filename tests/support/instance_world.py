"""Instances over stores that a test fills: the real reconcilers, and reads that know what is declared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from magicstick.apps.facts import InstanceFacts
from magicstick.apps.observation import InstanceObservation
from magicstick.apps.ports import GatewaySite
from magicstick.apps.reconciler import InstanceReconciler
from magicstick.apps.release_schema import HELM_RELEASE_DEFINITION, ReleaseDefinition
from magicstick.apps.tenants import TenantReconciler
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.scope import Scope
from magicstick.kube.store import MODIFIED, Store
from magicstick.modules.reconciler import ModuleReconciler
from magicstick.runtime.plan import Plan
from magicstick.runtime.reads import Reads
from magicstick.runtime.settings import Settings
from tests.support.instance_objects import APPLICATIONS
from tests.support.module_objects import catalog
from tests.support.objects import resource

Place = tuple[Kind, str, str | None]

MODULES: Final = catalog(litellm={}, model_catalog={}, kubeopencode={}, odysseus={}, other={})


class Places:
    """A store for each scope that is declared, synced and empty at first."""

    def __init__(self) -> None:
        self.stores: dict[Place, Store[Any]] = {}
        self.states: dict[Kind, InformerState] = {}
        self.handlers: list[Callable[[Kind, InformerState], None]] = []
        self._version = 100

    def watch(self, scope: Scope, view: type[View]) -> object:  # noqa: ARG002 - as the protocol says
        place = (scope.kind, scope.namespace, scope.name)
        if place not in self.stores:
            store: Store[Any] = Store(scope.kind.plural)
            store.replace([], 1)
            self.stores[place] = store
        return None

    def store_of(self, scope: Scope) -> Store[Any]:
        return self.store(scope.kind, scope.namespace, scope.name)

    def state_of(self, scope: Scope) -> InformerState:
        return self.state(scope.kind, scope.namespace, scope.name)

    def store(
        self,
        kind: Kind,
        namespace: str = "",
        name: str | None = None,
    ) -> Store[Any]:
        return self.stores[kind, namespace, name]

    def state(
        self,
        kind: Kind,
        namespace: str = "",
        name: str | None = None,
    ) -> InformerState:
        if (kind, namespace, name) not in self.stores:
            raise KeyError(kind)
        return self.states.get(kind, InformerState.SYNCED)

    def subscribe_state(self, handler: Callable[[Kind, InformerState], None]) -> None:
        self.handlers.append(handler)

    def become(self, kind: Kind, state: InformerState) -> None:
        """Let the state of a kind change."""
        self.states[kind] = state
        for handler in self.handlers:
            handler(kind, state)

    def put(self, kind: Kind, obj: Any) -> None:
        """An object as the server sends it, into every store whose scope it is in."""
        self._version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self._version))
        for (of, namespace, name), store in self.stores.items():
            inside = namespace in ("", metadata.namespace) and name in (None, metadata.name)
            special = type(obj) is ReleaseDefinition or kind == CUSTOM_RESOURCE_DEFINITION
            if of == kind and inside and (not special or (name is None) != (type(obj) is ReleaseDefinition)):
                store.event(MODIFIED, msgspec.structs.replace(obj, metadata=metadata))


@dataclass
class PlayedCatalogs:
    """Catalogs that a test sets."""

    modules: ModuleCatalog | None = MODULES
    applications: ApplicationCatalog | None = APPLICATIONS
    handlers: list[Callable[[str, Any, Any], None]] = field(default_factory=list)

    def subscribe(self, handler: Callable[[str, Any, Any], None]) -> None:
        self.handlers.append(handler)

    def bring(self, name: str, new: Any) -> None:
        """Bring another catalog into force."""
        old = getattr(self, name)
        setattr(self, name, new)
        for handler in self.handlers:
            handler(name, old, new)


class PlayedDefinitions:
    """Definitions of which a test says whether they are established; by default all are."""

    def __init__(self) -> None:
        self.answers: dict[str, bool | None] = {}

    def established(self, crd_name: str) -> bool | None:
        return self.answers.get(crd_name, True)


class InstanceWorld:
    """See the module. `woken` gathers what the reconciler of instances was told without an object."""

    def __init__(self) -> None:
        self.places, self.catalogs, self.definitions = Places(), PlayedCatalogs(), PlayedDefinitions()
        settings = Settings.load()
        reads = Reads(self.places)
        modules = ModuleReconciler(reads, self.catalogs, settings, self.definitions)
        defaults = (settings.default_mdns_domain, settings.default_public_domain)
        self.facts = InstanceFacts(modules.facts, reads, GatewaySite.of(settings), defaults)
        self.instances = InstanceReconciler(self.facts, reads, self.catalogs, self.definitions, 20.0)
        self.tenants = TenantReconciler(self.facts, reads, settings.litellm_namespace, 20.0)
        reads.declare(modules.declaration)
        reads.declare(self.instances.declaration)
        reads.declare(self.tenants.declaration)
        self.woken: list[str] = []
        self.instances.follow(lambda keys: self.woken.extend(key.name for key in keys))
        self.put(NAMESPACE, namespace("ai"))
        self.put(CUSTOM_RESOURCE_DEFINITION, release_definition(retries=True))

    def put(self, kind: Kind, *objects: Any) -> None:
        """Objects as the server sends them."""
        for each in objects:
            self.places.put(kind, each)

    def observed(self, instance: Resource) -> InstanceObservation:
        """What is seen of an instance that is in its store."""
        return self.instances.observation(instance)

    def wakes(self, kind: Kind, old: Any, new: Any, *, tenants: bool = False) -> list[str]:
        """The keys that a change wakes through the declared edges, by name."""
        declaration = (self.tenants if tenants else self.instances).declaration
        found: set[ObjectKey] = set()
        for edge in declaration.edges:
            if edge.kind == kind and edge.name is None and edge.changed(old, new):
                found |= set(edge.wakes(old, new))
        return sorted(key.name for key in found)

    async def bound(self, name: str) -> Plan:
        """The plan for a namespace of Paperclip."""
        observation = await self.tenants.observe(ObjectKey("", name))
        assert observation is not None
        return self.tenants.decide(observation, datetime(2026, 1, 1, tzinfo=UTC))


def namespace(name: str, *, dying: bool = False, labels: Mapping[str, str] | None = None) -> Resource:
    """A Namespace as the server holds it."""
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    metadata["labels"] = dict(labels or {})
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return resource({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def release_definition(*, retries: bool) -> ReleaseDefinition:
    """The definition of HelmReleases, as a Flux that knows retries, or one that does not, has it."""
    install: dict[str, Any] = {"createNamespace": {"type": "boolean"}}
    if retries:
        install["strategy"] = {"type": "object"}
    schema = {"properties": {"spec": {"properties": {"install": {"properties": install}}}}}
    body = {
        "metadata": {"name": HELM_RELEASE_DEFINITION, "uid": "uid-definition", "resourceVersion": "1"},
        "spec": {"versions": [{"name": "v2", "schema": {"openAPIV3Schema": schema}}]},
    }
    return msgspec.convert(body, ReleaseDefinition)
