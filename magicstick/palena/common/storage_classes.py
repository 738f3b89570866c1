"""What has to be known of StorageClasses: whether their volumes may grow."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import ObjectMeta, Resource
from magicstick.palena.common.children import text
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Edge

STORAGE_CLASS: Final = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)


class StorageClassView(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A StorageClass, as far as it says whether its volumes may grow."""

    metadata: ObjectMeta
    allow_volume_expansion: bool = False


def classes(why: str) -> Edge[Any]:
    """The watch that `growing` needs; a class that changes is seen at the next look."""
    return Edge(STORAGE_CLASS, lambda _old, _new: (), why, view=StorageClassView)


def growing(reads: Reads, claims: Iterable[Resource | None]) -> frozenset[str]:
    """The names of those volumes that may grow now: bound, and of a class that allows it.

    What cannot be read does not allow it.
    """
    return frozenset(each.metadata.name for each in claims if each is not None and _grows(reads, each))


def _grows(reads: Reads, claim: Resource) -> bool:
    found: StorageClassView | None = reads.store(STORAGE_CLASS).get(
        ObjectKey("", text(claim.spec, "storageClassName"))
    )
    return found is not None and found.allow_volume_expansion and text(claim.status, "phase") != "Pending"
