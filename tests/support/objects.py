"""Small objects for tests of the Kubernetes layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource

WIDGET = Kind("example.com", "v1", "Widget", "widgets")
GADGET = Kind("example.com", "v1", "Gadget", "gadgets")


def widget_body(
    name: str,
    version: int | str,
    *,
    uid: str = "",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    dying: bool = False,
    managed_fields: Sequence[Mapping[str, Any]] = (),
    **content: Any,
) -> dict[str, Any]:
    """A Widget as the server would send it; `content` are its top-level fields (spec, status, data)."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "finalizers": list(finalizers),
        "managedFields": list(managed_fields),
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, **content}


def widget(name: str, version: int | str, **fields: Any) -> Resource:
    """The same in the view of whole objects; `fields` as for `widget_body`."""
    return resource(widget_body(name, version, **fields))


def resource(body: Mapping[str, Any]) -> Resource:
    """A body in the view of whole objects, decoded as an answer would be."""
    return msgspec.json.decode(msgspec.json.encode(body), type=Resource)
