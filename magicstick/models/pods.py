"""What the Pods of a model say: do they exist, are they ready, did they end, and what is wrong.

Pods are looked at through a slim view. KubeAI makes those of its Models; the operator patches none, and
deletes only one that has ended and whose controller is exactly our Model (spec: models §1, §10).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from magicstick.api.kinds import KUBEAI_MODEL
from magicstick.kube.objects import ObjectMeta, OwnerReference, Resource
from magicstick.runtime.conditions import cut

SELECTOR: Final = "app=model"
"""Model Pods of every runtime carry it (spec: models §2, §17)."""
MODEL_LABEL: Final = "model"
"""Its value is the name of the Model, or of the activation of a direct runtime."""

CRASH_LOOP_RESTARTS: Final = 3
"""From so many restarts on a container that ends by itself is in a crash loop (spec: models §18)."""
SCHEDULER_LIMIT: Final = 2000
REASON_LIMIT: Final = 120
FAILURE_LIMIT: Final = 500

TERMINAL: Final = frozenset({"Failed", "Succeeded"})
_PULL_ERRORS: Final = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName"})
_STARTUP_ERRORS: Final = _PULL_ERRORS | {
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
}


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """`state.waiting` of a container."""

    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`state.terminated` or `lastState.terminated` of a container."""

    reason: str = ""
    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """The state of a container: one of these, or it runs."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`status.containerStatuses[]`."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """`status.conditions[]`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What a kubelet and the scheduler say of a Pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")


class PodView(msgspec.Struct, frozen=True, gc=False):
    """A Pod, without its spec."""

    metadata: ObjectMeta
    status: PodStatus = PodStatus()

    @property
    def live(self) -> bool:
        """Whether nobody has asked for its end."""
        return not self.metadata.dying

    @property
    def terminal(self) -> bool:
        """Whether it ended for good: its containers are never started again."""
        return self.status.phase in TERMINAL

    @property
    def ready(self) -> bool:
        """Whether it serves, and will be left to."""
        return self.live and any(
            each.type == "Ready" and each.status == "True" for each in self.status.conditions
        )


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a Pod that exists serves nothing. `reason` is one of `ModelReason`."""

    reason: str
    message: str


def pods_of(pods: Iterable[PodView], model: Resource | None) -> tuple[PodView, ...]:
    """The Pods that count as this Model's: live, and not left over from an earlier Model of its name.

    A Pod without an owner of the kind Model counts, one that names another Model does not (spec: models
    §10.1). Without a Model, all that live count. The oldest come first.
    """
    uid = "" if model is None else model.metadata.uid
    counted = [each for each in pods if each.live and _may_be_of(each, uid)]
    return tuple(sorted(counted, key=lambda each: (each.metadata.creation_timestamp, each.metadata.name)))


def ended(pods: Iterable[PodView], model: Resource) -> PodView | None:
    """The first Pod of exactly this Model that ended for good and may be replaced; None when none did.

    Never one that runs, is pending, is being deleted, or has another controller (spec: models §10.2).
    """
    return next((each for each in pods_of(pods, model) if each.terminal and _replaceable(each, model)), None)


def owned_by(pod: PodView, model: Resource) -> bool:
    """Whether the Pod's controller is exactly this Model, by its uid."""
    return any(_controls(each, model) for each in pod.metadata.owner_references)


def failure(pod: PodView) -> str:
    """Why a Pod ended, in one line: its name, reason and message."""
    reason = cut(pod.status.reason or pod.status.phase, REASON_LIMIT)
    text = f"{pod.metadata.name}: {reason}"
    return f"{text}: {cut(pod.status.message, FAILURE_LIMIT)}" if pod.status.message else text


def trouble(pods: Iterable[PodView]) -> Trouble | None:
    """What keeps the first Pod that has a problem from serving; None while they only need time.

    A pull or a download that goes on is no trouble, however long it takes (spec: models §10.1, §18).
    """
    waiting = [each for each in pods if each.live and not each.ready and not each.terminal]
    return next((found for each in waiting if (found := _trouble(each)) is not None), None)


def _may_be_of(pod: PodView, uid: str) -> bool:
    owners = [each for each in pod.metadata.owner_references if each.kind == KUBEAI_MODEL.kind]
    return not uid or not owners or any(each.uid == uid for each in owners)


def _replaceable(pod: PodView, model: Resource) -> bool:
    metadata = pod.metadata
    known = bool(metadata.uid and metadata.name and metadata.resource_version)
    return known and owned_by(pod, model)


def _controls(owner: OwnerReference, model: Resource) -> bool:
    exact = (KUBEAI_MODEL.api_version, KUBEAI_MODEL.kind, model.metadata.name, model.metadata.uid)
    return (
        owner.controller
        and bool(owner.uid)
        and (owner.api_version, owner.kind, owner.name, owner.uid) == exact
    )


def _trouble(pod: PodView) -> Trouble | None:
    return next(_troubles(pod), None)


def _troubles(pod: PodView) -> Iterator[Trouble]:
    """In the order in which a person has to mend them."""
    for each in pod.status.conditions:
        if (each.type, each.status, each.reason) == ("PodScheduled", "False", "Unschedulable"):
            yield Trouble("Unschedulable", cut(each.message, SCHEDULER_LIMIT))
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for container in containers:
        if _killed_for_memory(container):
            text = f"container {container.name} was killed since it ran out of memory (OOMKilled)"
            yield Trouble("ModelRuntimeOOMKilled", f"Pod {pod.metadata.name}: {text}")
    for container in containers:
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in _STARTUP_ERRORS:
            text = f"Pod {pod.metadata.name}: container {container.name} cannot start ({waiting.reason})"
            detail = f": {cut(waiting.message, FAILURE_LIMIT)}" if waiting.message else ""
            yield Trouble("ModelContainerStartupFailed", text + detail)
    for container in containers:
        if _crash_loops(container):
            text = f"container {container.name} ended {container.restart_count} times"
            yield Trouble("ModelRuntimeCrashLoop", f"Pod {pod.metadata.name}: {text}{_exit(container)}")


def _ends(container: ContainerStatus) -> list[Terminated]:
    states = (container.state, container.last_state)
    return [each.terminated for each in states if each.terminated is not None]


def _killed_for_memory(container: ContainerStatus) -> bool:
    return any(each.reason == "OOMKilled" for each in _ends(container))


def _crash_loops(container: ContainerStatus) -> bool:
    if container.restart_count < CRASH_LOOP_RESTARTS:
        return False
    waiting = container.state.waiting
    looping = waiting is not None and waiting.reason == "CrashLoopBackOff"
    return looping or any(each.exit_code != 0 for each in _ends(container))


def _exit(container: ContainerStatus) -> str:
    ends = _ends(container)
    return f" (last exit code {ends[0].exit_code})" if ends else ""
