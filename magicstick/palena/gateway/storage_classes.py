"""What has to be known of StorageClasses: whether their volumes may grow."""

from typing import Final

import msgspec

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import ObjectMeta

STORAGE_CLASS: Final = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)


class StorageClassView(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A StorageClass, as far as it says whether its volumes may grow."""

    metadata: ObjectMeta
    allow_volume_expansion: bool = False
