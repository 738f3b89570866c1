"""The schemas that foreign kinds are served with, and objects cut to fit them (spec: palena §2, §3.6).

A structural schema refuses an apply with a field that it does not have, and other writes would lose the
field silently. So what a served schema lacks is never sent, and the caller is told what that was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import ObjectMeta


class SchemaNode(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A node of a structural schema, reduced to which fields there may be."""

    type: str = ""
    properties: dict[str, "SchemaNode"] = {}
    items: "SchemaNode | None" = None
    additional_properties: "SchemaNode | bool | None" = None
    preserves: bool | None = msgspec.field(name="x-kubernetes-preserve-unknown-fields", default=None)
    embedded: bool | None = msgspec.field(name="x-kubernetes-embedded-resource", default=None)

    def at(self, *path: str) -> "SchemaNode | None":
        """The node below, by names of properties; None where the schema has none."""
        raise NotImplementedError

    @property
    def open(self) -> bool:
        """Whether any field is kept."""
        return bool(self.preserves) or self.additional_properties is True


class SchemaHolder(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`schema` of a served version."""

    open_api_v3_schema: SchemaNode | None = msgspec.field(name="openAPIV3Schema", default=None)


class SchemaVersion(msgspec.Struct, frozen=True, gc=False):
    """`spec.versions[]` of a definition, with its schema."""

    name: str
    served: bool = False
    schema: SchemaHolder | None = None


class SchemaSpec(msgspec.Struct, frozen=True, gc=False):
    """`spec` of a definition, with schemas."""

    versions: tuple[SchemaVersion, ...] | None = ()


class SchemaView(msgspec.Struct, frozen=True, gc=False):
    """A CustomResourceDefinition as far as it says which fields there are: the view of the edges below."""

    metadata: ObjectMeta
    spec: SchemaSpec = SchemaSpec()


class Schemas(Protocol):
    """Where schemas come from; `facts.ServedSchemas` is the real one."""

    def schema(self, kind: Kind) -> SchemaNode | None:
        """The schema of the kind's version as it is served now; None while it cannot be read."""
        ...


@dataclass(frozen=True, slots=True)
class Fitted:
    """An object without the fields that its schema lacks."""

    value: dict[str, Any]
    dropped: tuple[str, ...] = ()
    """Paths that were left out, as `spec.a.b[0].c`, in order."""


def fit(value: Mapping[str, Any], schema: SchemaNode | None, path: str = "") -> Fitted:
    """`value` cut to the fields of `schema`; unchanged while the schema is not known.

    apiVersion, kind and metadata of a whole object always stay.
    """
    raise NotImplementedError
