"""What keeps the Pod of a realtime runtime from serving, in words that say what to do (spec: realtime §9)."""

from collections.abc import Iterable
from typing import Final

from magicstick.api import labels
from magicstick.models.pods import ContainerStatus, PodView
from magicstick.models.realtime.objects import BACKEND
from magicstick.models.resolved import ResolvedRealtime

OUT_OF_MEMORY: Final = "OOMKilled"
FAILURES: Final = frozenset(
    {OUT_OF_MEMORY, "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"}
)
"""Reasons of a container that do not pass by waiting."""


def pods_of_runtime(pods: Iterable[PodView]) -> tuple[PodView, ...]:
    """Those of a realtime runtime that nobody has asked to end."""
    return tuple(
        each for each in pods if each.live and each.metadata.labels.get(labels.RUNTIME_BACKEND) == BACKEND
    )


def pod_failure(pods: Iterable[PodView], model: ResolvedRealtime) -> str | None:
    """Why a Pod fails, as a sentence; None while it only needs time."""
    for pod in pods:
        for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            reason = _failure(container)
            if reason == OUT_OF_MEMORY:
                return f"Pod {pod.metadata.name} ran out of memory ({reason}). {_memory_advice(model)}"
            if reason:
                name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                return f"Container {container.name} of Pod {name} fails ({reason}). Its log says why."
    return None


def _failure(container: ContainerStatus) -> str:
    """That it ran out of memory counts more than that it is about to be started again."""
    waiting = container.state.waiting
    ends = (container.state.terminated, container.last_state.terminated)
    ended = [each.reason for each in ends if each is not None]
    if OUT_OF_MEMORY in ended:
        return OUT_OF_MEMORY
    reasons = [waiting.reason] if waiting is not None else ended
    return next((each for each in reasons if each in FAILURES), "")


def _memory_advice(model: ResolvedRealtime) -> str:
    """Where host and GPU share their memory, moving weights from one to the other frees none."""
    shared = model.unified_memory
    if shared is not None and shared.mode == "shared-gtt":
        return "The memory that the system and the GPU share does not suffice."
    return "Raise systemMemoryMi, or keep less of the Thinker in host memory (thinkerCpuOffloadGiB)."
