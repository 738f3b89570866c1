"""Typed views of API objects, decoded straight from the bytes of a response.

A view is a frozen msgspec struct that names the fields its reader needs; everything else in the
object is skipped while decoding and never costs memory. `Resource` is the view for kinds whose
whole content matters. Views are shared by every reader: nobody changes one.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from magicstick.kube.kinds import ObjectKey


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`metadata.ownerReferences[]`."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class ManagedFields(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`metadata.managedFields[]`: who set which fields. `fields_v1` stays undecoded."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The metadata that controllers read, without managed fields."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """Where the object lives."""
        return ObjectKey(self.namespace, self.name)

    @property
    def dying(self) -> bool:
        """True once a deletion was accepted; such an object is only cleaned up, never repaired."""
        return self.deletion_timestamp is not None


class FullObjectMeta(ObjectMeta, frozen=True, rename="camel", gc=False):
    """Metadata with managed fields, for kinds that we apply and therefore compare."""

    managed_fields: tuple[ManagedFields, ...] = ()


class View(Protocol):
    """What every view offers: the metadata of the object."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, version and the rest."""
        ...


class MetadataOnly(msgspec.Struct, frozen=True, gc=False):
    """The slimmest view: an object reduced to its metadata."""

    metadata: ObjectMeta


class Resource(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A whole object: custom resources, ConfigMaps, and whatever else is read in full."""

    metadata: FullObjectMeta
    api_version: str = ""
    kind: str = ""
    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}
    data: Mapping[str, str] = {}
    type: str = ""
    """Of a Secret what it is for, which never changes; no other kind that is read whole has such a field."""
