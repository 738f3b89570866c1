"""Whether applying an object would change anything, decided without asking the server.

Server-side apply merges what we send into what others set, so equality is the wrong question. An
apply changes nothing exactly when

- every value that we want is there (others may have set more), and
- the fields that we own are the fields that we want: one that we own and no longer want would be
  removed, one that we want and do not own would be taken.

What we own stands in `metadata.managedFields`, in the entry of our manager with operation `Apply`.
It also tells how the server merges each field, so that no schema is needed: a map with named members
below it merges by member, a list with keys merges by key, a list with values is a set, and what has
nothing below it is one atomic value, which is compared whole.

Quantities and other spellings are not normalised: builders write the canonical one, fill in what the
server would default inside of atomic values, and leave empty maps and lists out. Paths hold no values
of objects but the keys of list items, so they may be logged.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import msgspec

from magicstick.kube.objects import ObjectMeta, OwnerReference, Resource

Body = Mapping[str, Any]
Node = Mapping[str, Any]
"""A node of `fieldsV1`: `f:name`, `k:{…}` or `v:…` to the node below; empty for a leaf."""
Differences = dict[str, object]
"""From the path of a field that an apply would change to the value there is, or to why."""

MISSING = "(missing)"
NOT_OWNED = "(not owned)"
NOT_WANTED = "(owned and no longer wanted)"
NOT_CARRIED = "(not carried by the view)"
OUT_OF_ORDER = "(items in another order)"

SERVER_SIDE = frozenset({"name", "namespace", "uid", "resourceVersion", "generation", "managedFields"})
"""Members of metadata that identify the object or belong to the server; nobody owns them."""
BESIDES = frozenset({"apiVersion", "kind", "metadata", "status"})
"""Fields of an object that are compared elsewhere or not at all."""
CARRIED = frozenset(field.encode_name for field in msgspec.structs.fields(Resource))


def differs(desired: Body, live: Resource, manager: str) -> tuple[str, ...]:
    """The paths that applying `desired` as `manager` would change; empty when it would change nothing.

    `status` is left out on both sides: the main resource ignores it.
    """
    return tuple(differences(desired, live, manager))


def differences(desired: Body, live: Resource, manager: str) -> Differences:
    """Like `differs`, with what there is at each path."""
    found: Differences = {}
    owned = dict(owned_fields(live, manager))
    owned_metadata = owned.pop("f:metadata", {})
    want = {name: value for name, value in desired.items() if name not in BESIDES}
    for name in want.keys() - CARRIED:
        del want[name]
        owned.pop(f"f:{name}", None)
        found[name] = NOT_CARRIED
    metadata = _wanted_metadata(desired["metadata"])
    _members("metadata", metadata, _metadata(live.metadata), owned_metadata, found)
    _members("", want, _content(live), owned, found)
    return found


def owned_fields(live: Resource, manager: str) -> Node:
    """The fields that `manager` owns by server-side apply to the main resource."""
    for entry in live.metadata.managed_fields:
        if (entry.manager, entry.operation, entry.subresource) == (manager, "Apply", ""):
            node: Node = msgspec.json.decode(entry.fields_v1)
            return {name: below for name, below in node.items() if name != "f:status"}
    return {}


def equal(want: object, have: object) -> bool:
    """Whether two JSON values are the same; a tuple is a list, and True is no number."""
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        return want.keys() == have.keys() and all(equal(value, have[name]) for name, value in want.items())
    if _is_list(want) and _is_list(have):
        return len(want) == len(have) and all(map(equal, want, have))
    if isinstance(want, bool) or isinstance(have, bool):
        return want is have
    return want == have


def holds(fields: Body, live: Resource) -> bool:
    """Whether a merge patch with `fields` would change nothing of `live`, as far as views carry it.

    Unlike `differs` it does not ask who owns what: it is for objects of others.
    """
    have = {"metadata": _metadata(live.metadata), **_content(live)}
    want = {name: value for name, value in fields.items() if name not in ("apiVersion", "kind")}
    if isinstance(described := want.get("metadata"), Mapping):
        want["metadata"] = _wanted_metadata(described)
    return _merged_already(want, have)


def _merged_already(want: object, have: object) -> bool:
    """A null removes, a map merges by member, anything else replaces."""
    if not isinstance(want, Mapping):
        return want is None if have is None else equal(want, have)
    return isinstance(have, Mapping) and all(
        _merged_already(value, have.get(name)) for name, value in want.items()
    )


def _content(live: Resource) -> dict[str, object]:
    """What an object says beside its metadata; only Secrets have a type."""
    return {"spec": live.spec, "data": live.data, **({"type": live.type} if live.type else {})}


def _metadata(metadata: ObjectMeta) -> dict[str, object]:
    return {
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "finalizers": metadata.finalizers,
        "ownerReferences": [_owner(reference) for reference in metadata.owner_references],
    }


def _wanted_metadata(metadata: Body) -> dict[str, object]:
    wanted = {name: value for name, value in metadata.items() if name not in SERVER_SIDE}
    if references := wanted.get("ownerReferences"):
        wanted["ownerReferences"] = [
            _owner(msgspec.convert(reference, OwnerReference)) for reference in references
        ]
    return wanted


def _owner(reference: OwnerReference) -> dict[str, object]:
    """A reference as far as views carry it; whether it blocks a deletion is not compared."""
    built: dict[str, object] = msgspec.to_builtins(reference)
    return built


def _value(path: str, want: object, have: object, owned: Node | None, found: Differences) -> None:
    """Compare one field. `owned` is its node in what we own, None when we do not own it."""
    if want is None or (not want and _is_container(want)):
        if have and have != MISSING:
            found[path] = have
    elif isinstance(want, Mapping) and isinstance(have, Mapping) and owned:
        _members(path, want, have, owned, found)
    elif _is_list(want) and _is_list(have) and owned:
        _items(path, want, have, owned, found)
    elif not equal(want, have):
        found[path] = have
    elif owned is None:
        found[path] = NOT_OWNED


def _members(path: str, want: Body, have: Body, owned: Node, found: Differences) -> None:
    """Compare a map that merges by member."""
    for name, value in want.items():
        _value(_join(path, name), value, have.get(name, MISSING), owned.get(f"f:{name}"), found)
    for child in owned:
        if child.startswith("f:") and child[2:] not in want:
            found[_join(path, child[2:])] = NOT_WANTED


def _items(path: str, want: Sequence[Any], have: Sequence[Any], owned: Node, found: Differences) -> None:
    """Compare a list that merges: by the keys of its items, or as a set of values."""
    keyed = {child[2:]: node for child, node in owned.items() if child.startswith("k:")}
    if keyed:
        _keyed_items(path, want, have, keyed, found)
        return
    values = [msgspec.json.decode(child[2:]) for child in owned if child.startswith("v:")]
    for item in want:
        if item not in have:
            found[f"{path}[{item}]"] = MISSING
        elif item not in values:
            found[f"{path}[{item}]"] = NOT_OWNED
    for value in values:
        if value not in want:
            found[f"{path}[{value}]"] = NOT_WANTED


def _keyed_items(
    path: str, want: Sequence[Body], have: Sequence[Body], owned: Mapping[str, Node], found: Differences
) -> None:
    keys = {text: msgspec.json.decode(text, type=dict[str, Any]) for text in owned}
    positions = []
    for item in sorted(want, key=lambda item: -_explicit(item, keys)):
        text = next((text for text, key in keys.items() if _may_be(item, key)), None)
        if text is None:
            found[f"{path}[{want.index(item)}]"] = NOT_OWNED
            continue
        key = keys.pop(text)
        place = f"{path}[{','.join(f'{name}={value}' for name, value in key.items())}]"
        position = next((at for at, candidate in enumerate(have) if _has(candidate, key)), None)
        if position is None:
            found[place] = MISSING
            continue
        positions.append((want.index(item), position))
        _value(place, item, have[position], owned[text], found)
    for text in keys:
        found[f"{path}[{text}]"] = NOT_WANTED
    order = [position for _, position in sorted(positions)]
    if order != sorted(order):
        found[path] = OUT_OF_ORDER


def _may_be(item: Body, key: Body) -> bool:
    """Whether the item can have this key; a member that it leaves out has the server's default."""
    return all(name not in item or equal(item[name], value) for name, value in key.items())


def _explicit(item: Body, keys: Mapping[str, Body]) -> int:
    """How many members of its key the item states itself: those that state more choose first."""
    return len(item.keys() & {name for key in keys.values() for name in key})


def _has(item: Body, key: Body) -> bool:
    return all(name in item and equal(item[name], value) for name, value in key.items())


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _is_container(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple)
