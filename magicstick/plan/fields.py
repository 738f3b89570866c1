"""The part of the API server that merges: server-side apply without a schema, and JSON merge patch.

A map merges by member and a list is replaced as a whole, which is what applying means for custom resources
without list types. Of a list that the server merges by keys, the outcome here lacks what others have in it;
what a plan shows is taken from the objects as they are, and never from that outcome.
"""

from collections.abc import Mapping
from typing import Any, Final

Body = Mapping[str, Any]
Node = Mapping[str, Any]
"""See `kube.differ`."""

_OURS: Final = ("labels", "annotations", "finalizers", "ownerReferences")
"""Members of metadata that an apply sets."""


def applied(want: Body, have: Body, owned: Node) -> dict[str, Any]:
    """`have` after an apply of `want` by a manager that owned `owned` of it."""
    dropped = {name for name in have if f"f:{name}" in owned and name not in want}
    result = {name: value for name, value in have.items() if name not in dropped}
    for name in dropped:
        below = {child: node for child, node in owned[f"f:{name}"].items() if child.startswith("f:")}
        if below and isinstance(have[name], Mapping):
            result[name] = applied({}, have[name], below)
    for name, value in want.items():
        before = have.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            result[name] = applied(value, before, owned.get(f"f:{name}", {}))
        else:
            result[name] = value
    return result


def patched(have: object, patch: object) -> Any:
    """`have` after a JSON merge patch: a null removes, a map merges by member, anything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(have) if isinstance(have, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), value)
    return result


def ownership(body: Body) -> Node:
    """`fieldsV1` of whoever applied `body`."""
    metadata = {name: body["metadata"][name] for name in _OURS if name in body["metadata"]}
    content = {name: value for name, value in body.items() if name in ("spec", "data")}
    return {"f:metadata": _node(metadata), **_node(content)}


def _node(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    return {f"f:{name}": _node(below) for name, below in value.items()}
