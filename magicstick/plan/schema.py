"""The part of the API server that reads an object by its schema: unknown fields, and defaults."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue

Schema = Mapping[str, Any]

NAMED: Final = ("apiVersion", "kind", "metadata")
"""Fields of every object that no schema of a definition lists in full."""


def unknown_fields(schema: Schema, value: object, path: str = "") -> Iterator[str]:
    """The paths of fields that the server would drop, or refuse when it checks strictly."""
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from unknown_fields(schema.get("items", {}), item, f"{path}[{number}]")
    if not isinstance(value, Mapping) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, below in value.items():
        place = f"{path}.{name}" if path else name
        if name in fields:
            yield from unknown_fields(fields[name], below, place)
        elif isinstance(others, Mapping):
            yield from unknown_fields(others, below, place)
        elif fields and not others:
            yield place


def known_fields(schema: Schema, path: str) -> tuple[str, ...]:
    """The fields that may stand where `path` ends, sorted; () where the schema does not say."""
    for step in path.split(".")[:-1]:
        name, *numbers = step.split("[")
        schema = schema.get("properties", {}).get(name) or schema.get("additionalProperties") or {}
        for _ in numbers:
            schema = schema.get("items", {})
    return tuple(sorted(schema.get("properties", {})))


def with_defaults(schema: Schema, value: JsonValue) -> JsonValue:
    """The value as the server stores it: null members dropped, defaults filled in."""
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    below = others if isinstance(others, Mapping) else {}
    given = {name: each for name, each in value.items() if each is not None}
    missing = {name: each["default"] for name, each in fields.items() if "default" in each}
    return {name: with_defaults(fields.get(name, below), each) for name, each in {**missing, **given}.items()}
