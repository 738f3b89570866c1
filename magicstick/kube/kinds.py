"""What a kind of object is called in the API, and the paths that lead to it."""

from dataclasses import dataclass
from typing import NamedTuple


class ObjectKey(NamedTuple):
    """Where an object lives. `namespace` is "" for cluster-scoped objects."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Kind:
    """One served kind: group ("" for core), version, kind and plural, as the API spells them."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of this kind, for example `apps/v1` or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition that would serve this kind."""
        return f"{self.plural}.{self.group}"

    @property
    def built_in(self) -> bool:
        """True for kinds that every API server serves without a CustomResourceDefinition."""
        return "." not in self.group or self.group in BUILT_IN_GROUPS

    def path(self, namespace: str = "", name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of its subresource.

        A namespaced kind without `namespace` gives the collection over all namespaces.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


BUILT_IN_GROUPS = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "coordination.k8s.io",
        "events.k8s.io",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "storage.k8s.io",
    }
)

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
POD = Kind("", "v1", "Pod", "pods")
EVENT = Kind("events.k8s.io", "v1", "Event", "events")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
CUSTOM_RESOURCE_DEFINITION = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
