"""The schemas that foreign kinds are served with, and objects cut to fit them (spec: palena §2, §3.6).

A structural schema refuses an apply with a field that it does not have, and other writes would lose the
field silently. So what a served schema lacks is never sent, and the caller is told what that was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

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
        node: SchemaNode | None = self
        for name in path:
            node = node.properties.get(name) if node is not None else None
        return node

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

    def schema_of(self, kind: Kind) -> SchemaNode | None:
        """The schema of the kind's version; None when it is not served."""
        for version in self.spec.versions or ():
            if version.name == kind.version and version.served and version.schema is not None:
                return version.schema.open_api_v3_schema
        return None


UNKNOWN_FIELD_IGNORED: Final = "UnknownFieldIgnored"
"""The reason of a notice that tells of fields that were left out."""


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
    if schema is None:
        return Fitted(dict(value))
    whole = msgspec.structs.replace(schema, embedded=True) if not path else schema
    dropped: list[str] = []
    return Fitted(_fit_object(value, whole, path, dropped), tuple(dropped))


def _fit_object(
    value: Mapping[str, Any], schema: SchemaNode, path: str, dropped: list[str]
) -> dict[str, Any]:
    fitted: dict[str, Any] = {}
    for name, below in value.items():
        place = f"{path}.{name}" if path else name
        if schema.embedded and name in _OF_EVERY_OBJECT:
            fitted[name] = below
            continue
        node = _member(schema, name)
        if node is None:
            dropped.append(place)
        else:
            fitted[name] = _fit(below, node, place, dropped)
    return fitted


def _member(schema: SchemaNode, name: str) -> SchemaNode | None:
    """The schema of a member: its own, or that of any member; None where there is to be none."""
    known = schema.properties.get(name)
    if known is not None:
        return known
    if isinstance(schema.additional_properties, SchemaNode):
        return schema.additional_properties
    return _ANYTHING if schema.open else None


def _fit(value: Any, schema: SchemaNode, path: str, dropped: list[str]) -> Any:
    if isinstance(value, Mapping):
        return _fit_object(value, schema, path, dropped)
    if isinstance(value, list | tuple) and schema.items is not None:
        return [_fit(each, schema.items, f"{path}[{index}]", dropped) for index, each in enumerate(value)]
    return value


_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})
_ANYTHING: Final = SchemaNode(preserves=True)
