"""How many replicas serve a model now, by what its runtime and its Pods say together."""

from collections.abc import Iterable, Mapping

from magicstick.kube.objects import Resource
from magicstick.models.pods import PodView, pods_of


def replicas(model: Resource, pods: Iterable[PodView]) -> tuple[int, int]:
    """(ready, expected) replicas of a KubeAI Model.

    A replica is ready when KubeAI counts it and a live Pod says so too: what KubeAI counts may lag
    behind its Pods, in either direction. Expected are those that there are or must be, at least one.
    """
    counted = _counts(model.status)
    ready_pods = sum(each.ready for each in pods_of(pods, model))
    ready = min(_count(counted, "ready"), ready_pods)
    return ready, max(1, ready, _count(counted, "all"), _count(model.spec, "minReplicas"))


def wants_none(model: Resource) -> bool:
    """Whether KubeAI has scaled the Model to zero, which is only allowed with `minReplicas: 0`."""
    return _count(model.spec, "minReplicas", 1) == 0 and _count(model.spec, "replicas") == 0


def direct_replicas(deployment: Resource) -> int:
    """Replicas of a direct runtime that are ready and of its newest generation."""
    status = deployment.status
    if _count(status, "observedGeneration") < deployment.metadata.generation:
        return 0
    return min(_count(status, field) for field in ("updatedReplicas", "readyReplicas", "availableReplicas"))


def _counts(status: Mapping[str, object]) -> Mapping[str, object]:
    counted = status.get("replicas")
    return counted if isinstance(counted, Mapping) else {}


def _count(fields: Mapping[str, object], name: str, absent: int = 0) -> int:
    value = fields.get(name)
    return value if type(value) is int and value >= 0 else absent
