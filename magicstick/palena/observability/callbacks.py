"""How LiteLLM is told to trace to Langfuse, in the shape that its served definition has (spec: palena §3.6).

The block belongs to several writers: ours is one entry of it, and entries that somebody else made stay as
they are, when ours comes and when it goes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from magicstick.palena.common.schemas import SchemaNode

Node = Mapping[str, Any]
Block = dict[str, Any]

PUBLIC_KEY: Final = "LANGFUSE_PUBLIC_KEY"
SECRET_KEY: Final = "LANGFUSE_SECRET_KEY"  # noqa: S105 - the name of a key
HOST: Final = "LANGFUSE_HOST"
OTEL_HOST: Final = "LANGFUSE_OTEL_HOST"
KEYS: Final = (PUBLIC_KEY, SECRET_KEY, HOST)
"""Of the Secret, and of the environment of LiteLLM alike."""

LANGFUSE: Final = "langfuse"
LANGFUSE_OTEL: Final = "langfuse_otel"
TYPES: Final = (LANGFUSE, LANGFUSE_OTEL)


class Shape(StrEnum):
    """What the block looks like."""

    SEED = "seed"
    """`langfuse: {enabled, secretRef}`."""
    LISTS = "types"
    """`types` and `envVars`."""


@dataclass(frozen=True, slots=True)
class Callback:
    """The entry that we want: which integration, with the keys of which Secret beside the instance."""

    secret: str
    type: str = LANGFUSE


def shape_of(callbacks: SchemaNode | None) -> Shape | None:
    """The shape that a schema of `spec.callbacks` has; None for one that is neither, or is not there."""
    if callbacks is None:
        return None
    if LANGFUSE in callbacks.properties or callbacks.open:
        return Shape.SEED
    return Shape.LISTS if {"types", "envVars"} <= callbacks.properties.keys() else None


def with_entry(shape: Shape, live: object, wanted: Callback) -> Block:
    """The fields of the block that have to be set so that it holds our entry, next to those of others."""
    if shape is Shape.SEED:
        return {LANGFUSE: _seed(wanted)}
    block = live if isinstance(live, Mapping) else {}
    variables = _variables(wanted)
    ours = [each["name"] for each in variables]  # a foreign name may be anything, also unhashable
    types = [each for each in _list(block, "types") if each not in TYPES]
    others = [each for each in _list(block, "envVars") if _name(each) not in ours]
    return {"types": [*types, wanted.type], "envVars": [*others, *variables]}


def without_entry(live: object, secret: str) -> Block | None:
    """What has to be set so that our entry is gone; None where there is none of ours.

    In a merge patch None removes a field; a block that would be left empty goes whole, as `{}` says.
    Ours is what names our Secret, and the integration that nobody else gives a key.
    """
    if not isinstance(live, Mapping):
        return None
    changes: Block = {}
    if _refers_seed(live, secret):
        changes[LANGFUSE] = None
    variables = _list(live, "envVars")
    others = [each for each in variables if not _refers(each, secret)]
    if len(others) < len(variables):
        changes["envVars"] = others or None
    types = [each for each in _list(live, "types") if each not in TYPES]
    if len(types) < len(_list(live, "types")) and PUBLIC_KEY not in map(_name, others):
        changes["types"] = types or None
    if not changes:
        return None
    return {} if all(changes.get(name, value) is None for name, value in live.items()) else changes


def refers(live: object, secret: str) -> bool:
    """Whether the block names this Secret anywhere, so that LiteLLM's Pods would miss it."""
    return without_entry(live, secret) is not None


def _seed(wanted: Callback) -> Block:
    keys = {"publicKey": PUBLIC_KEY, "secretKey": SECRET_KEY, "host": HOST}
    return {"enabled": True, "secretRef": {"name": wanted.secret, "keys": keys}}


def _variables(wanted: Callback) -> list[Block]:
    """LiteLLM's environment; what speaks OpenTelemetry reads the host under another name besides."""
    names = {name: name for name in KEYS}
    if wanted.type == LANGFUSE_OTEL:
        names[OTEL_HOST] = HOST
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": wanted.secret, "key": key}}}
        for name, key in names.items()
    ]


def _refers_seed(block: Node, secret: str) -> bool:
    entry = block.get(LANGFUSE)
    reference = entry.get("secretRef") if isinstance(entry, Mapping) else None
    return isinstance(reference, Mapping) and reference.get("name") == secret


def _refers(variable: object, secret: str) -> bool:
    if not isinstance(variable, Mapping):
        return False
    source = variable.get("valueFrom")
    reference = source.get("secretKeyRef") if isinstance(source, Mapping) else None
    return isinstance(reference, Mapping) and reference.get("name") == secret


def _list(block: Node, field: str) -> Sequence[Any]:
    found = block.get(field)
    return found if isinstance(found, list | tuple) else ()


def _name(variable: object) -> object:
    return variable.get("name") if isinstance(variable, Mapping) else None
