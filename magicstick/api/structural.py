"""Structural schemas, as a CustomResourceDefinition needs them, from pydantic models.

A structural schema has no references, no unions and no titles, and states nothing twice. What this
module cannot express raises, so that no constraint of a model is lost on the way.
"""

from collections.abc import Mapping
from typing import Final, cast

from pydantic import BaseModel, JsonValue
from pydantic.config import JsonDict
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from magicstick.api.schema import PRESERVE_UNKNOWN, REQUIRED_KEYWORD

Node = Mapping[str, JsonValue]

_KEPT: Final = frozenset(
    {
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "type",
    }
)
_HANDLED: Final = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "const",
        "default",
        "description",
        "exclusiveMinimum",
        "items",
        "properties",
        "required",
        "title",
        REQUIRED_KEYWORD,
    }
)
_ABSENCE: Final[tuple[JsonValue, ...]] = (None, "", [], {})
"""Defaults that only say what absence means to a reader (`base`)."""


def structural(model: type[BaseModel], *, defaults: bool) -> JsonDict:
    """The structural schema of `model`.

    `defaults` keeps the models' defaults; a status has none, since what nobody wrote is not known.

    Raises:
        TypeError: a model uses something that this module does not know how to express.
    """
    schema = model.model_json_schema(schema_generator=_Generator)
    return _Converter(cast("Mapping[str, Node]", schema.get("$defs", {})), defaults).node(schema)


class _Generator(GenerateJsonSchema):
    """Optional fields may be absent; only those marked `NULLABLE` may be null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


class _Converter:
    def __init__(self, definitions: Mapping[str, Node], defaults: bool) -> None:  # noqa: FBT001 private
        self._definitions = definitions
        self._defaults = defaults

    def node(self, source: Node) -> JsonDict:
        source = self._resolved(source)
        unknown = [key for key in source if not (key in _KEPT | _HANDLED or key.startswith("x-"))]
        if unknown:
            raise TypeError(f"no structural schema can express {', '.join(unknown)}")
        target: JsonDict = {
            key: value for key, value in source.items() if key in _KEPT or key.startswith("x-")
        }
        if "description" in source:
            target["description"] = " ".join(str(source["description"]).split())
        target |= self._scalar_keywords(source)
        target |= self._object_keywords(source)
        if "items" in source:
            target["items"] = self.node(cast("Node", source["items"]))
        return target

    def _resolved(self, source: Node) -> Node:
        """The definition that `source` refers to; what stands beside the reference wins."""
        reference = source.get("$ref")
        if not isinstance(reference, str):
            return source
        definition = self._definitions[reference.rpartition("/")[2]]
        return {**self._resolved(definition), **{k: v for k, v in source.items() if k != "$ref"}}

    def _scalar_keywords(self, source: Node) -> JsonDict:
        target: JsonDict = {}
        if source.get("type") == "integer":
            target["format"] = "int64"
        if "const" in source:
            target["enum"] = [source["const"]]
        if "exclusiveMinimum" in source:
            target |= {"minimum": source["exclusiveMinimum"], "exclusiveMinimum": True}
        kept = self._defaults and REQUIRED_KEYWORD not in source
        if kept and "default" in source and source["default"] not in _ABSENCE:
            target["default"] = source["default"]
        return target

    def _object_keywords(self, source: Node) -> JsonDict:
        target: JsonDict = {}
        properties = cast("Mapping[str, Node]", source.get("properties", {}))
        required = {*cast("list[str]", source.get("required", []))}
        required |= {name for name, field in properties.items() if REQUIRED_KEYWORD in field}
        if properties:
            target["properties"] = {name: self.node(field) for name, field in properties.items()}
        if required:
            target["required"] = [*sorted(required)]
        return target | self._unknown_fields(source)

    def _unknown_fields(self, source: Node) -> JsonDict:
        """A map of anything, or an object open to anything, keeps what it is given."""
        rest = source.get("additionalProperties", False)
        if rest is False:
            return {}
        values = self._resolved(rest) if isinstance(rest, Mapping) else {}
        return {"additionalProperties": self.node(values)} if values else {PRESERVE_UNKNOWN: True}
