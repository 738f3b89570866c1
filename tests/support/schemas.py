"""Walks structural schemas, and sets fields of objects by the paths the walk yields.

A path names fields joined by dots; `*` stands for any key of a map, `[]` for any item of a list.
"""

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

Object = dict[str, Any]
ABSENT: Final = object()
"""As a value: the field is left out."""

MAP_KEY: Final = "example"
CHECKED_KEYWORDS: Final = (
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minLength",
    "minimum",
    "pattern",
    "x-kubernetes-list-type",
)


class Constraint(NamedTuple):
    """One keyword that the API server enforces, with what it says."""

    path: str
    keyword: str
    node: Mapping[str, Any]


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every node of a schema with its path, parents before children."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}.*")


def constraints(schema: Mapping[str, Any]) -> Iterator[Constraint]:
    """Every enforced keyword except types, defaults and CEL rules."""
    for path, node in nodes(schema):
        for keyword in CHECKED_KEYWORDS:
            if keyword in node and node[keyword] != "int64":
                yield Constraint(path, keyword, node)
        for name in node.get("required", []):
            yield Constraint(f"{path}.{name}" if path else name, "required", node)


def violates(constraint: Constraint, value: Any) -> bool:
    """Whether `value` at the constraint's path breaks exactly this keyword."""
    if constraint.keyword == "required" or value is ABSENT:
        return constraint.keyword == "required" and value is ABSENT
    return BREAKS[constraint.keyword](constraint.node, value)


def _has_duplicates(items: list[Any], keys: list[str] | None) -> bool:
    identities = [tuple(item[key] for key in keys) if keys else item for item in items]
    return len(set(identities)) < len(identities)


BREAKS: Final[dict[str, Callable[[Mapping[str, Any], Any], bool]]] = {
    "enum": lambda node, value: value not in node["enum"],
    "pattern": lambda node, value: re.search(node["pattern"].replace("$", r"\Z"), value) is None,
    "format": lambda _, value: re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value) is None,
    "minimum": lambda node, value: (
        value < node["minimum"] or bool(node.get("exclusiveMinimum") and value == node["minimum"])
    ),
    "maximum": lambda node, value: value > node["maximum"],
    "minLength": lambda node, value: len(value) < node["minLength"],
    "maxLength": lambda node, value: len(value) > node["maxLength"],
    "maxItems": lambda node, value: len(value) > node["maxItems"],
    "x-kubernetes-list-type": lambda node, value: _has_duplicates(
        value, node.get("x-kubernetes-list-map-keys")
    ),
}


def is_boundary(constraint: Constraint, value: Any) -> bool:
    """Whether `value` is the last one that the constraint admits; any value for keywords without one."""
    if value is ABSENT:
        return False
    limit = constraint.node.get(constraint.keyword)
    match constraint.keyword:
        case "minimum" if constraint.node.get("exclusiveMinimum"):
            return True
        case "minimum" | "maximum":
            return bool(value == limit)
        case "minLength" | "maxLength" | "maxItems":
            return len(value) == limit
    return True


def put(obj: Object, path: str, value: Any) -> Object:
    """A copy of `obj` with `value` at `path`: `*` is the key `example`, `[]` the first item."""
    result = copy.deepcopy(obj)
    steps: list[str | int] = []
    for name in path.split("."):
        bare = name.removesuffix("[]")
        steps += [MAP_KEY if bare == "*" else bare, *([0] if bare != name else [])]
    parent: Any = result
    for step, following in itertools.pairwise(steps):
        parent = _child(parent, step, following)
    _set(parent, steps[-1], value)
    return result


def _child(parent: Any, step: str | int, following: str | int) -> Any:
    empty: Any = [] if isinstance(following, int) else {}
    if isinstance(step, int):
        if not parent:
            parent.append(empty)
        return parent[step]
    return parent.setdefault(step, empty)


def _set(parent: Any, step: str | int, value: Any) -> None:
    if value is ABSENT:
        parent.pop(step, None)
    elif isinstance(step, int):
        parent[step:] = [value]
    else:
        parent[step] = copy.deepcopy(value)


def complete(node: Mapping[str, Any]) -> Any:
    """A value that sets every field that `node` declares."""
    if "enum" in node:
        return next(value for value in node["enum"] if value != "")
    match node.get("type"):
        case "object":
            return _complete_object(node)
        case "array":
            return [complete(node["items"])]
        case "integer":
            return max(1, node.get("minimum", 1))
        case "boolean":
            return True
    return "2026-01-01T00:00:00Z" if node.get("format") == "date-time" else "text"


def _complete_object(node: Mapping[str, Any]) -> Object:
    if "additionalProperties" in node:
        return {MAP_KEY: complete(node["additionalProperties"])}
    fields = {name: complete(child) for name, child in node.get("properties", {}).items()}
    return fields | {"undeclared": 1} if node.get("x-kubernetes-preserve-unknown-fields") else fields
