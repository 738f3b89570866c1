"""The CloudNativePG Cluster of a gateway (spec: palena §3.1, §4.4).

`spec.managed` belongs to the observability that adds its database, and is never named here.
"""

from collections.abc import Mapping
from typing import Any, Final

from magicstick.api.palena.gateway import ManagedDatabase
from magicstick.kube.objects import Resource
from magicstick.palena.common.children import text
from magicstick.palena.common.growth import Volume, grown

Object = dict[str, Any]

DATABASE: Final = "litellm"
"""The name of LiteLLM's database, and of its owner."""

DEFAULT_SIZE: Final = "10Gi"

HEALTHY: Final = "Cluster in healthy state"
TERMINAL: Final = frozenset(
    {
        "Cluster is unrecoverable and needs manual intervention",
        "Invalid cluster definition",
        "Unable to create required cluster objects",
        "Cluster has incomplete or invalid image catalog",
        "Cluster cannot proceed to reconciliation due to an unknown plugin being required",
        "Cluster cannot proceed to reconciliation due to an error while interacting with plugins",
        "Cluster cannot execute instance online upgrade due to missing architecture binary",
    }
)
"""Phases that CloudNativePG does not leave by itself."""


def cluster(
    managed: ManagedDatabase, volume: Volume, metadata: Object, inherited: Mapping[str, str]
) -> Object:
    """The Cluster, on a volume that was decided on; `inherited` are labels of all its Pods."""
    spec: Object = {
        "instances": managed.instances,
        "storage": volume.storage("storageClass"),
        "bootstrap": {"initdb": {"database": DATABASE}},
        "inheritedMetadata": {"labels": dict(inherited)},
    }
    if managed.image_name:
        spec["imageName"] = managed.image_name
    if managed.resources:
        spec["resources"] = managed.resources
    if managed.parameters:
        spec["postgresql"] = {"parameters": dict(managed.parameters)}
    return {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "metadata": metadata, "spec": spec}


def cluster_volume(managed: ManagedDatabase, live: Resource | None) -> Volume:
    """The volume that the Cluster is to have: as it is asked for, but never smaller than it is."""
    wanted = Volume(managed.storage.size or DEFAULT_SIZE, managed.storage.storage_class_name)
    if live is None:
        return wanted
    there = Volume(text(live.spec, "storage", "size"), text(live.spec, "storage", "storageClass"))
    return grown(there, wanted)
