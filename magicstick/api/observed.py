"""Whether the status of an object speaks of what is wanted now."""

from collections.abc import Mapping
from typing import Any

from magicstick.kube.objects import Resource


def observed_status(resource: Resource) -> Mapping[str, Any] | None:
    """The status that somebody wrote for the present generation, with a phase; None without one.

    A status of an earlier generation says nothing of what is wanted now (fault F07).
    """
    status = resource.status
    current = status.get("observedGeneration") == resource.metadata.generation
    return status if current and text_of(status, "phase") else None


def text_of(fields: Mapping[str, Any], name: str) -> str:
    """The text of a field; "" for anything else, since what is stored may be older than the schema."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""
