"""What would be different: for each object, what happens to it and which of its fields change."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from magicstick.kube.differ import (
    MISSING,
    NOT_CARRIED,
    NOT_OWNED,
    NOT_WANTED,
    OUT_OF_ORDER,
    differences,
    equal,
)
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import OwnerReference, Resource
from magicstick.plan.fields import patched
from magicstick.plan.given import Given
from magicstick.plan.hands import Note, Verb
from magicstick.plan.paths import at

Body = Mapping[str, Any]


class Action(StrEnum):
    """What happens to an object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNCHANGED = "unchanged"


class _Absent:
    """No value; None is one."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that changes. `note` says what changes besides, or in place of, its value."""

    path: str
    before: object
    after: object
    note: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One object and what happens to it."""

    action: Action
    kind: Kind
    key: ObjectKey
    body: Body
    """As it would be sent; of an object that somebody else keeps, only what is set of it."""
    fields: tuple[FieldChange, ...] = ()
    """Of an update."""

    @property
    def changes(self) -> bool:
        """Whether anything happens."""
        return self.action is not Action.UNCHANGED


def of_notes(notes: Sequence[Note]) -> Change | None:
    """What the steps of all managers about one object amount to; None where they amount to nothing at all."""
    changes = [each for each in map(of_note, notes) if each is not None]
    if not changes:
        return None
    first, *others = changes
    for each in others:
        first = _together(first, each)
    return first


def of_note(note: Note) -> Change | None:
    """What the steps of one manager about an object amount to; None where they amount to nothing at all."""
    before, body = note.before, note.body
    if note.verb is Verb.DELETE:
        if before is None:
            return None
        body = {"apiVersion": note.kind.api_version, "kind": note.kind.kind, "metadata": _place(note.key)}
        return Change(Action.DELETE, note.kind, note.key, body)
    if note.verb in (Verb.PATCH, Verb.PART):
        body = _identified(note.kind, note.key, body)
    if before is None:
        return Change(Action.CREATE, note.kind, note.key, body)
    if before.metadata.dying:
        return Change(Action.UNCHANGED, note.kind, note.key, body)
    fields = _set(note.body, before) if note.verb is Verb.PATCH else _applied(body, before, note.manager)
    return _update(note.kind, note.key, body, fields)


def of_given(given: Given, before: Resource | None) -> Change:
    """What applying one of the given objects changes of that very object."""
    if before is None:
        return Change(Action.CREATE, given.kind, given.key, given.body)
    metadata = given.body["metadata"]
    fields: list[FieldChange] = []
    for name in ("labels", "annotations"):
        wanted, have = metadata.get(name) or {}, getattr(before.metadata, name)
        fields += _compare(f"metadata.{name}", wanted, {key: have[key] for key in wanted if key in have})
    for name in ("spec", "data"):
        fields += _compare(name, given.body.get(name) or {}, getattr(before, name))
    return _update(given.kind, given.key, given.body, fields)


def _update(kind: Kind, key: ObjectKey, body: Body, fields: Iterable[FieldChange]) -> Change:
    found = tuple(fields)
    return Change(Action.UPDATE if found else Action.UNCHANGED, kind, key, body, found)


def _together(one: Change, other: Change) -> Change:
    """What two managers do to one object: whoever makes it comes first, and each sets fields of its own."""
    body: Body = patched(one.body, other.body)
    fields = (*one.fields, *(each for each in other.fields if each not in one.fields))
    if Action.CREATE in (one.action, other.action):
        return Change(Action.CREATE, one.kind, one.key, body)
    return _update(one.kind, one.key, body, fields)


def _applied(body: Body, before: Resource, manager: str) -> Iterator[FieldChange]:
    """By the rules with which the operator decides whether to send an apply at all."""
    wanted, there = _carried(body), _plain(before)
    for path, found in differences(body, before, manager).items():
        want, have = at(path, wanted, ABSENT), at(path, there, ABSENT)
        if found == MISSING:
            yield FieldChange(path, ABSENT, want)
        elif found == NOT_WANTED:
            yield FieldChange(path, have, ABSENT)
        elif found == NOT_OWNED:
            yield FieldChange(path, have, want, "taken over" if equal(want, have) else "")
        elif found in (OUT_OF_ORDER, NOT_CARRIED):
            yield FieldChange(path, have, want, str(found).strip("()"))
        else:
            yield FieldChange(path, found, want)


def _set(patch: Body, before: Resource) -> Iterator[FieldChange]:
    """The leaves of a merge patch that are not so already."""
    have = _plain(before)
    for path, value in _leaves("", patch):
        old = at(path, have, ABSENT)
        if value is None:
            if old is not ABSENT:
                yield FieldChange(path, old, ABSENT)
        elif not equal(value, old):
            yield FieldChange(path, old, value)


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, below)
    else:
        yield path, value


def _compare(path: str, want: object, have: object) -> Iterator[FieldChange]:
    if not (isinstance(want, Mapping) and isinstance(have, Mapping)):
        if not equal(want, have):
            yield FieldChange(path, have, want)
        return
    for name in dict.fromkeys((*want, *have)):
        place = f"{path}.{name}"
        if name not in have or name not in want:
            yield FieldChange(place, have.get(name, ABSENT), want.get(name, ABSENT))
        else:
            yield from _compare(place, want[name], have[name])


def _carried(body: Body) -> Body:
    """A body whose owners are told as views carry them."""
    metadata = body["metadata"]
    if "ownerReferences" not in metadata:
        return body
    owners = msgspec.convert(metadata["ownerReferences"], tuple[OwnerReference, ...])
    return {**body, "metadata": {**metadata, "ownerReferences": msgspec.to_builtins(owners)}}


def _plain(resource: Resource) -> Body:
    metadata = resource.metadata
    return {
        "metadata": {
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "ownerReferences": msgspec.to_builtins(metadata.owner_references),
        },
        "spec": resource.spec,
        "data": resource.data,
    }


def _place(key: ObjectKey) -> Body:
    return {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}


def _identified(kind: Kind, key: ObjectKey, body: Body) -> Body:
    metadata = {**_place(key), **body.get("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}
