"""Small objects for tests of the Kubernetes layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource

WIDGET = Kind("example.com", "v1", "Widget", "widgets")
GADGET = Kind("example.com", "v1", "Gadget", "gadgets")


def widget(
    name: str,
    version: int,
    *,
    uid: str = "",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    dying: bool = False,
    managed_fields: Sequence[Mapping[str, Any]] = (),
    **content: Any,
) -> Resource:
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
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, **content}
    return msgspec.json.decode(msgspec.json.encode(body), type=Resource)
