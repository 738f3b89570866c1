"""What the status of a child says: workloads, and the objects of foreign operators."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magicstick.kube.objects import Resource


@dataclass(frozen=True, slots=True)
class Replicas:
    """How much of a Deployment or StatefulSet is there."""

    wanted: int = 0
    ready: int = 0
    current: bool = False
    """Whether its controller has seen the present generation, and rolled it out."""

    @property
    def available(self) -> bool:
        """At least one replica of what is wanted now is ready."""
        return self.current and self.ready >= 1


def replicas(live: Resource | None) -> Replicas:
    """The replicas of a Deployment or StatefulSet; none of one that does not exist."""
    raise NotImplementedError


def condition_of(live: Resource | None, type_: str) -> Mapping[str, Any]:
    """A condition of a foreign object; {} where it has none, or one of an earlier generation."""
    raise NotImplementedError


def condition_holds(live: Resource | None, type_: str) -> bool:
    """Whether that condition is True."""
    raise NotImplementedError


def text(fields: Mapping[str, Any], *path: str) -> str:
    """The text at a path below `fields`; "" for anything else."""
    raise NotImplementedError
