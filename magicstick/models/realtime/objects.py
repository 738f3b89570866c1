"""Builders of the ConfigMap, the Service and the Deployment of a realtime model (spec: realtime §6)."""

from collections.abc import Mapping
from typing import Final

from magicstick.api import labels
from magicstick.kube.kinds import CONFIG_MAP
from magicstick.models.direct_objects import (
    HOSTNAME,
    DirectRuntime,
    container_port,
    endpoint,
    environment,
    resources,
)
from magicstick.models.objects import Object
from magicstick.models.places import realtime_name
from magicstick.models.realtime.stages import BOOTSTRAP, files_hash, files_of
from magicstick.models.resolved import Backend, ResolvedRealtime

BACKEND: Final = Backend.REALTIME.value
PORT: Final = 8000
HEALTH: Final = "/health"
CONFIG_FOLDER: Final = "/etc/magicstick-realtime"
CACHE: Final = "/root/.cache"
SHARED_MEMORY: Final = "2Gi"
STARTUP_FAILURES: Final = 1080
STARTUP_PERIOD_S: Final = 10
PROGRESS_DEADLINE_S: Final = 11100
"""More than the three hours that the startup probe gives: a download must not count as a failed rollout."""
CLAIM: Final = "gpu"
"""What Pod and container call the claim of a shared device."""
LINUX: Final = {"kubernetes.io/os": "linux"}


def endpoint_of(model: ResolvedRealtime) -> str:
    """Address of the runtime's API within the cluster."""
    return endpoint(realtime_name(model.name), model.namespace, PORT)


def runtime_objects(model: ResolvedRealtime) -> tuple[Object, Object, Object]:
    """ConfigMap, Service and Deployment, in the order in which they are made.

    The Deployment carries the hash of the ConfigMap, so it must come after it.
    """
    content = files_of(model)
    direct = _direct(model, content)
    return (
        direct.of_kind(CONFIG_MAP, data=content),
        direct.service(),
        direct.deployment(_pod(model, direct.name), progressDeadlineSeconds=PROGRESS_DEADLINE_S),
    )


def _direct(model: ResolvedRealtime, content: Mapping[str, str]) -> DirectRuntime:
    return DirectRuntime(
        model=model,
        backend=BACKEND,
        name=realtime_name(model.name),
        port=PORT,
        labels={labels.GPU_SHARING_MODE: model.hold.mode} if model.hold.shared else {},
        annotations={
            labels.REALTIME_SOURCE: model.source_revision,
            labels.REALTIME_CONFIG_HASH: files_hash(content),
            labels.RESTART_NONCE: model.restart_nonce,
        },
    )


def _pod(model: ResolvedRealtime, name: str) -> Object:
    pod: Object = {
        "automountServiceAccountToken": False,
        "nodeSelector": {HOSTNAME: model.node, **LINUX},
        "containers": [_container(model)],
        "volumes": [
            {"name": "config", "configMap": {"name": name}},
            {"name": "model-cache", "hostPath": {"path": CACHE, "type": "DirectoryOrCreate"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
        ],
    }
    if model.accelerator == "cuda":
        pod["runtimeClassName"] = "nvidia"
    if model.hold.resource:
        pod["tolerations"] = [{"key": model.hold.resource, "operator": "Exists", "effect": "NoSchedule"}]
    if model.hold.claim:
        pod["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": model.hold.claim}]
    return pod


def _container(model: ResolvedRealtime) -> Object:
    return {
        "name": BACKEND,
        "image": model.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", f"{CONFIG_FOLDER}/{BOOTSTRAP}"],
        "ports": [container_port(PORT)],
        "env": environment(_environment(model)),
        "resources": _resources(model),
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": "model-cache", "mountPath": CACHE},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - where the runtime looks for it
        ],
        "startupProbe": _probe(periodSeconds=STARTUP_PERIOD_S, failureThreshold=STARTUP_FAILURES),
        "readinessProbe": _probe(periodSeconds=5),
        "livenessProbe": _probe(periodSeconds=30, failureThreshold=6),
    }


def _probe(**timing: int) -> Object:
    return {"httpGet": {"path": HEALTH, "port": "http"}, **timing}


def _environment(model: ResolvedRealtime) -> dict[str, str]:
    """What the bootstrap and the runtime are told. NVIDIA's hook must not bring its devices to others."""
    own = {
        "MODEL_ID": model.url.removeprefix("hf://"),
        "SERVED_MODEL_NAME": model.name,
        "HF_HOME": f"{CACHE}/huggingface",
        "MAGICSTICK_PINNED_OFFLOAD_PATCH": "true" if model.pinned else "false",
    }
    return own if model.accelerator == "cuda" else {**own, "NVIDIA_VISIBLE_DEVICES": "void"}


def _resources(model: ResolvedRealtime) -> Object:
    """A shared device is bound by its claim, any other by as many units of its resource."""
    if model.hold.claim:
        return {**resources(model, {}), "claims": [{"name": CLAIM}]}
    resource = model.hold.resource
    return resources(model, {resource: model.gpu_count} if resource else {})
