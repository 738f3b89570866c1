"""What is watched of modules by whoever needs them."""

from collections.abc import Iterable
from typing import Any, Protocol

from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.modules.objects import Site
from magicstick.modules.wakes import establishment_changed, identity_changed
from magicstick.runtime.reconciler import Edge


class NeedWakes(Protocol):
    """From changes to the keys of those who need modules."""

    def by_kustomization(self, old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
        """Whom the readiness of its module concerns."""
        ...

    def by_module(self, old: Resource | None, new: Resource | None) -> Iterable[ObjectKey]:
        """Whom an activation concerns."""
        ...

    def by_definition(self, old: View | None, new: View | None) -> Iterable[ObjectKey]:
        """Whom a definition concerns that modules bring."""
        ...


def need_edges(site: Site, wakes: NeedWakes, *, bringers: str = "required modules") -> tuple[Edge[Any], ...]:
    """What is watched of modules that are needed. `bringers`: who brings definitions, in words."""
    return (
        Edge(
            KUSTOMIZATION,
            wakes.by_kustomization,
            "whether required modules are ready",
            namespace=site.flux_namespace,
        ),
        Edge(
            MODULE_ACTIVATION,
            wakes.by_module,
            "whether required modules are wanted, or have to be requested",
            identity_changed,
            namespace=site.appliance_namespace,
        ),
        Edge(
            CUSTOM_RESOURCE_DEFINITION,
            wakes.by_definition,
            f"whether {bringers} have brought their definitions",
            establishment_changed,
        ),
    )
