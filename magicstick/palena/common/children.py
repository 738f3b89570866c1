"""What the status of a child says: workloads, and the objects of foreign operators."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import conditions_of, find


@dataclass(frozen=True, slots=True)
class Replicas:
    """How much of a Deployment or StatefulSet is there."""

    wanted: int = 0
    ready: int = 0
    current: bool = False
    """Whether its controller has seen the present generation, and it is not going."""

    @property
    def available(self) -> bool:
        """At least one replica of what is wanted now is ready."""
        return self.current and self.ready >= 1


def replicas(live: Resource | None) -> Replicas:
    """The replicas of a Deployment or StatefulSet; none of one that does not exist."""
    if live is None:
        return Replicas()
    status = live.status
    observed = number(status, "observedGeneration") or 0
    wanted = number(live.spec, "replicas")
    return Replicas(
        wanted=1 if wanted is None else wanted,
        ready=number(status, "readyReplicas") or 0,
        current=observed >= live.metadata.generation and not live.metadata.dying,
    )


def condition_of(live: Resource | None, type_: str) -> Mapping[str, Any]:
    """A condition of a foreign object; {} where it has none, or one of an earlier generation."""
    if live is None:
        return {}
    found = find(conditions_of(live.status), type_) or {}
    observed = found.get("observedGeneration", live.metadata.generation)
    return found if observed == live.metadata.generation else {}


def condition_holds(live: Resource | None, type_: str) -> bool:
    """Whether that condition is True."""
    return condition_of(live, type_).get("status") == "True"


def text(fields: Mapping[str, Any], *path: str) -> str:
    """The text at a path below `fields`; "" for anything else."""
    found = _at(fields, path)
    return found if isinstance(found, str) else ""


def number(fields: Mapping[str, Any], *path: str) -> int | None:
    """The whole number at a path below `fields`; None for anything else."""
    found = _at(fields, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _at(fields: object, path: tuple[str, ...]) -> object:
    found = fields
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
