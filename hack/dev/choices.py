"""What `make dev` can be asked for beyond the default: GPUs, modules, models, instances, and Palena."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from hack.dev.appliance import FOREIGN, GROUP, NAMESPACE, Expected
from hack.dev.apps import instance_name, instance_of
from hack.dev.catalogs import shipped_catalog
from hack.dev.models import examples, names_of
from hack.dev.palena import ENABLED
from hack.dev.palena import examples as palena_examples
from hack.dev.palena import names_of as palena_names
from hack.devcluster import WITH_ACTORS, WITH_GATEWAY, Component, DevCluster, DevClusterError
from hack.devcluster.actors.following import DIRECTIONS
from hack.devcluster.components import programs_of
from hack.devcluster.programs import BY_NAME
from hack.devcluster.rest import Object

EVERY: Final = "all"


class Gpu(StrEnum):
    """Whose GPUs the nodes have."""

    NONE = "none"
    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Node:
    """A node to play.

    Attributes:
        hardware: the marker of `hack.devcluster.actors.hardware`.
        kubelet: its version; empty for that of the API server.
    """

    name: str
    hardware: str
    architecture: str = "amd64"
    kubelet: str = ""


NODES: Final[Mapping[Gpu, tuple[Node, ...]]] = {
    Gpu.NONE: (),
    Gpu.NVIDIA: (Node("nvidia-0", "nvidia=2"), Node("nvidia-arm-0", "nvidia", "arm64")),
    Gpu.AMD: (Node("amd-0", "amd"),),
    Gpu.INTEL: (Node("intel-0", "intel"), Node("intel-xe-0", "intel-xe=2")),
    Gpu.MIXED: (
        Node("nvidia-0", "nvidia=2"),
        Node("amd-0", "amd"),
        Node("intel-0", "intel,intel-xe"),
        # Hardware that cannot be used, for two reasons.
        Node("old-0", "nvidia", kubelet="v1.30.0"),
        Node("amd-arm-0", "amd", "arm64"),
    ),
}
VENDORS: Final[Mapping[Gpu, frozenset[str]]] = {
    Gpu.NONE: frozenset(),
    Gpu.NVIDIA: frozenset({"nvidia"}),
    Gpu.AMD: frozenset({"amd"}),
    Gpu.INTEL: frozenset({"intel"}),
    Gpu.MIXED: frozenset({"nvidia", "amd", "intel"}),
}


@dataclass(frozen=True, slots=True)
class Choices:
    """What was asked for.

    Attributes:
        modules: to switch on, as the catalog names them.
        plain_nodes: how many nodes without GPUs.
        models: whether the examples of models are wanted.
        apps: applications of which there is to be an instance.
        palena: whether Palena's half runs, with its examples.
    """

    gpu: Gpu = Gpu.NONE
    modules: frozenset[str] = frozenset()
    plain_nodes: int = 1
    models: bool = False
    apps: tuple[str, ...] = ()
    palena: bool = False

    @property
    def components(self) -> tuple[Component, ...]:
        """Of the cluster: the gateway only where something is reached through it."""
        return WITH_GATEWAY if self.apps else WITH_ACTORS

    @property
    def programs(self) -> list[str]:
        """All that is needed, so that the progress of building counts every one."""
        return [*programs_of(self.components), "kubectl", *(f"{group}-crds" for group in FOREIGN)]

    @property
    def expected(self) -> Expected:
        """What has to be Ready in the end."""
        models = names_of(self.model_objects())
        instances = frozenset(map(instance_name, self.apps))
        return Expected(self.modules, self.vendors, models, instances, palena_names(self.palena_objects()))

    def model_objects(self) -> list[Object]:
        """What there is to apply for models."""
        return examples(with_nvidia="nvidia" in self.vendors) if self.models else []

    def palena_objects(self) -> list[Object]:
        """What there is to apply for Palena."""
        return palena_examples() if self.palena else []

    @property
    def environment(self) -> Mapping[str, str]:
        """Of the operator."""
        return ENABLED if self.palena else {}

    @property
    def vendors(self) -> frozenset[str]:
        """Whose GPUs have to be Ready in the end."""
        return VENDORS[self.gpu]

    def add_nodes(self, cluster: DevCluster) -> None:
        """Before anything else: what they hide is discovered later."""
        version = BY_NAME["kube-apiserver"].version
        for number in range(self.plain_nodes):
            cluster.add_node(f"node-{number}", kubelet_version=version)
        for node in NODES[self.gpu]:
            cluster.add_node(
                node.name,
                annotations={f"{DIRECTIONS}/hardware": node.hardware},
                architecture=node.architecture,
                kubelet_version=node.kubelet or version,
            )

    def activate(self, cluster: DevCluster) -> None:
        """Switch the modules on, and make the instances and the examples of Palena, as a user would."""
        cluster.apply([activation(module) for module in sorted(self.modules)])
        cluster.apply([instance_of(app) for app in self.apps])
        cluster.apply(self.palena_objects())


def catalog_of(source: Path) -> Mapping[str, Mapping[str, Any]]:
    """The modules of the catalog that a tree of manifests ships.

    Raises:
        DevClusterError: there is none, or it cannot be read.
    """
    return shipped_catalog(source, "module-catalog", "modules")


def chosen(names: Iterable[str], catalog: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The modules that these names mean: keys of the catalog, aliases, or `all`.

    Raises:
        DevClusterError: the catalog has no such module, or Git alone decides about it.
    """
    optional = {key: each for key, each in catalog.items() if each.get("activationMode") != "static"}
    wanted: set[str] = set()
    for name in names:
        if name == EVERY:
            return frozenset(optional)
        found = [key for key, each in catalog.items() if name in {key, *each.get("aliases", [])}]
        if not found:
            raise DevClusterError(f"there is no module {name!r}; there are: {', '.join(optional)}")
        if found[0] not in optional:
            raise DevClusterError(f"the module {name!r} is static: it is there anyway")
        wanted.add(found[0])
    return frozenset(wanted)


def activation(module: str) -> dict[str, Any]:
    """What a user applies to switch a module on."""
    return {
        "apiVersion": GROUP,
        "kind": "ModuleActivation",
        "metadata": {"name": module, "namespace": NAMESPACE},
        "spec": {"module": module, "enabled": True},
    }
