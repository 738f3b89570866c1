"""What a kubelet says of the Pods of models: values only.

A Pod's state is directed; by default it runs and is ready at once. One that has ended for good stays so.
"""

import shlex
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from hack.devcluster.actors.following import Object, condition
from hack.devcluster.actors.writing import stamp

NODE_ADDRESS: Final = "192.0.2.1"
NO_SERVER: Final = "192.0.2.10"
"""Of Pods whose server nobody plays (documentation, RFC 5737)."""
RESTARTS: Final = 4

States: TypeAlias = Mapping[str, Any]


class PodState(StrEnum):
    """What has become of a Pod; the values are those of the annotation `devcluster.magicstick.dev/pods`."""

    RUNNING = "running"
    STARTING = "starting"
    """It runs and is not ready: a download, or weights being loaded."""
    PULLING = "pulling"
    """Its image is being pulled."""
    PULL_ERROR = "pull-error"
    OUT_OF_MEMORY = "out-of-memory"
    CRASH_LOOP = "crash-loop"
    EVICTED = "evicted"
    """It ended for good: phase Failed."""
    COMPLETED = "completed"
    """It ended for good: phase Succeeded."""
    UNSCHEDULABLE = "unschedulable"
    """No node is found for it; the scheduler says so, and no kubelet anything."""
    MISSING = "missing"
    """KubeAI does not make it."""


ENDED: Final = {PodState.EVICTED: "Failed", PodState.COMPLETED: "Succeeded"}
HAS_PROCESS: Final = frozenset({PodState.RUNNING, PodState.STARTING})
"""In these states the server of a Pod can be asked."""


def _crashed(reason: str, exit_code: int) -> States:
    return {
        "state": {
            "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
        },
        "lastState": {"terminated": {"reason": reason, "exitCode": exit_code}},
        "restartCount": RESTARTS,
    }


_CONTAINERS: Final[Mapping[PodState, States]] = {
    PodState.RUNNING: {"state": {"running": {}}, "ready": True, "started": True},
    PodState.STARTING: {"state": {"running": {}}},
    PodState.PULLING: {"state": {"waiting": {"reason": "ContainerCreating"}}},
    PodState.PULL_ERROR: {
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}}
    },
    PodState.OUT_OF_MEMORY: _crashed("OOMKilled", 137),
    PodState.CRASH_LOOP: _crashed("Error", 1),
    PodState.EVICTED: {"state": {"terminated": {"reason": "Error", "exitCode": 137}}},
    PodState.COMPLETED: {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}},
}
_PENDING: Final = frozenset({PodState.PULLING, PodState.PULL_ERROR})


def has_ended(pod: Object) -> bool:
    """Whether nothing brings it back."""
    return pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}


def ollama_of(pod: Object) -> tuple[str, str] | None:
    """(source, alias) of the model that a Pod's Ollama pulls and copies when it starts.

    None where its server is another.
    """
    probe = pod["spec"]["containers"][0].get("startupProbe", {}).get("exec", {}).get("command", [])
    words = shlex.split(probe[-1]) if probe else []
    if "cp" not in words:
        return None
    at = words.index("cp")
    return words[at + 1], words[at + 2]


def uses_gpu(pod: Object) -> bool:
    """Whether it asks for a device."""
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return any(name.endswith("/gpu") or name.startswith("gpu.intel.com/") for name in limits)


def status_of(pod: Object, state: PodState, now: datetime, address: str = NO_SERVER) -> dict[str, Any]:
    """The part of a Pod's status that its kubelet writes. `address`: of its server, if one is played."""
    phase = ENDED.get(state) or ("Pending" if state in _PENDING else "Running")
    ready = "True" if state is PodState.RUNNING else "False"
    status = {
        "phase": phase,
        "startTime": pod.get("status", {}).get("startTime") or stamp(now),
        "hostIP": NODE_ADDRESS,
        "hostIPs": [{"ip": NODE_ADDRESS}],
        "conditions": [
            _condition(pod, "Initialized", "True", now),
            _condition(pod, "Ready", ready, now),
            _condition(pod, "ContainersReady", ready, now),
        ],
        "containerStatuses": [_container(each, state) for each in pod["spec"]["containers"]],
    }
    if phase == "Running":
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if state is PodState.EVICTED:
        status |= {"reason": "Evicted", "message": "The node was low on resource: memory."}
    return status


def _container(container: Object, state: PodState) -> dict[str, Any]:
    common = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
    }
    return {**common, **_CONTAINERS[state]}


def _condition(pod: Object, type_: str, status: str, now: datetime) -> dict[str, Any]:
    before = condition(pod, type_)
    moment = before.get("lastTransitionTime") if before.get("status") == status else None
    return {"type": type_, "status": status, "lastTransitionTime": moment or stamp(now)}
