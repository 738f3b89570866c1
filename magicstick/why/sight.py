"""Everything that explanations are made of: the caches at one moment, as the reconcilers see them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from magicstick.api.kinds import GIT_REPOSITORY, KUSTOMIZATION, OWN_KINDS
from magicstick.appliance.decide import ApplianceObservation
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.catalogs.compute_targets import ComputeTargetCatalog
from magicstick.catalogs.loader import Problem
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.gpu.facts import ProviderState
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.modules.facts import ModuleFacts
from magicstick.runtime.settings import Settings
from magicstick.why.causes import Cause, Explanation, Hint, Subject, kubectl, unhealthy
from magicstick.why.edges import Graph

FLUX_KINDS: Final = (KUSTOMIZATION, GIT_REPOSITORY)


class Stores(Protocol):
    """What was read; `runtime.reads.Reads` is the real one."""

    def store(self, kind: Kind, namespace: str | None = None, name: str | None = None) -> Store[Any]:
        """The store of a kind that is read in one scope."""
        ...

    def state(self, kind: Kind, namespace: str | None = None, name: str | None = None) -> InformerState:
        """Whether that store can be believed."""
        ...


class Copies(Protocol):
    """The catalogs; `catalogs.loader.Catalogs` is the real one."""

    @property
    def modules(self) -> ModuleCatalog | None:
        """None without a good copy."""
        ...

    @property
    def applications(self) -> ApplicationCatalog | None:
        """None without a good copy."""
        ...

    @property
    def compute_targets(self) -> ComputeTargetCatalog | None:
        """None without a good copy."""
        ...

    @property
    def problems(self) -> Mapping[str, Problem]:
        """What is wrong, by catalog."""
        ...


@dataclass(frozen=True, slots=True)
class Sight:
    """See the module.

    Attributes:
        stores: what was read.
        reason: why a kind cannot be read; "" when it can.
        appliance: what the reconciler sees of the Appliance; None where there is none.
        hardware: how each vendor's support stands, by its module.
        graph: where causes may lead.
        now: when all this was looked at.
    """

    stores: Stores
    reason: Callable[[Kind], str]
    settings: Settings
    facts: ModuleFacts
    catalogs: Copies
    appliance: ApplianceObservation | None
    hardware: Mapping[str, ProviderState]
    graph: Graph
    now: datetime

    def find(self, subject: Subject) -> Resource | None:
        """The object, where there is one; ask `obstacle` before absence is believed."""
        found: Resource | None = self.stores.store(subject.kind).get(subject.key)
        return found

    def known(self, kind: Kind) -> bool:
        """Whether absence from the store is absence from the cluster."""
        return self.stores.state(kind) is InformerState.SYNCED

    def obstacle(self, subject: Subject) -> Explanation | None:
        """Why nothing can be said of the subject: its kind is not served, or cannot be read."""
        kind, state = subject.kind, self.stores.state(subject.kind)
        if state is InformerState.SYNCED:
            return None
        if state is InformerState.ABSENT:
            definition = Subject(CUSTOM_RESOURCE_DEFINITION, kind.crd_name)
            return unhealthy(
                Cause(subject, f"cannot exist: the server serves no {kind.plural}", (definition,))
            )
        why = self.reason(kind) or "no answer in time"
        may = kubectl("auth", "can-i", "list", str(kind), namespace=subject.namespace)
        hint = Hint("Ask with an account that may list and watch them, or for that right.", may)
        return unhealthy(Cause(subject, f"cannot be seen with your account ({why})", hint=hint))

    def place(self, kind: Kind, name: str) -> Subject:
        """An object of a kind where ours, or Flux's, are."""
        site = self.facts.site
        if kind in FLUX_KINDS:
            return Subject(kind, name, site.flux_namespace)
        return Subject(kind, name, site.appliance_namespace if kind in OWN_KINDS else "")

    def key(self, name: str) -> ObjectKey:
        """Where an object of ours is."""
        return ObjectKey(self.facts.site.appliance_namespace, name)
