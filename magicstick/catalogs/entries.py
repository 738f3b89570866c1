"""Reads a catalog's JSON: the document as a whole must be sound, entries may fail one by one.

Whoever edits a catalog commands the operator, so every entry is checked against its model; but one
malformed entry costs only that entry (spec: magicstick-api §3).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from pydantic import BaseModel

from magicstick.api.names import dns_label_problem
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.objects import FullObjectMeta, Resource

M = TypeVar("M", bound=BaseModel)
Object = Mapping[str, object]


class CatalogError(ValueError):
    """A catalog that cannot be used at all. The text says why, and holds nothing of its content."""


def document(text: str) -> Object:
    """The JSON object that a catalog's data key holds.

    Raises:
        CatalogError: no JSON, or JSON that is no object.
    """
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise CatalogError(f"is no JSON object: {error}") from error


def member(parent: Object, name: str) -> Object:
    """The object `name` of a document.

    Raises:
        CatalogError: absent, or no object.
    """
    value = parent.get(name)
    if not isinstance(value, Mapping):
        raise CatalogError(f"has no object `{name}`")
    return value


def optional_member(parent: Object, name: str) -> Object:
    """Like `member`, but absent is empty."""
    return member(parent, name) if parent.get(name) is not None else {}


def optional_items(parent: Object, name: str) -> Sequence[object]:
    """The list `name` of a document; absent is empty.

    Raises:
        CatalogError: no list.
    """
    value = parent.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise CatalogError(f"has no list `{name}`")
    return value


def read(model: type[M], entry: object) -> M | str:
    """`entry` as `model`, or "field: what is allowed" for the first field that does not fit."""
    if not isinstance(entry, Mapping):
        return "entry: must be an object"
    outcome = parse(model, Resource(metadata=FullObjectMeta(), spec=entry))
    if isinstance(outcome, InvalidSpec):
        return f"{outcome.field.removeprefix('spec').removeprefix('.') or 'entry'}: {outcome.allowed}"
    return outcome


def read_all(
    model: type[M], entries: Object, *, key_problem: Callable[[str], str | None] = dns_label_problem
) -> tuple[dict[str, M], dict[str, str]]:
    """The good entries by key and, for each other one, what is wrong; both in catalog order.

    `key_problem` judges keys; most become an object's name and a label's value.
    """
    good: dict[str, M] = {}
    invalid: dict[str, str] = {}
    for key, entry in entries.items():
        problem = key_problem(key)
        outcome = f"key: {problem}" if problem else read(model, entry)
        if isinstance(outcome, str):
            invalid[key] = outcome
        else:
            good[key] = outcome
    return good, invalid


def text_items(value: object) -> tuple[str, ...]:
    """The texts of a list, trimmed, blanks dropped; a single text stands for a list of one."""
    items = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    return tuple(item.strip() for item in items if isinstance(item, str) and item.strip())
