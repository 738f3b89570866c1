"""Builders of the workloads that several Palena kinds generate: values in, plain dicts out.

What the server would default inside of a value that it compares whole is written out here, so that an
object that was applied differs in nothing from the one that is wanted. Quantities are spelled as the
server stores them. Selectors use only name, instance and component, which never change (spec: palena §1.1).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from magicstick.api.quantity import QuantityError, parse

Object = dict[str, Any]

SELECTING: Final = ("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component")


ROLLING: Final[Object] = {"type": "RollingUpdate"}
"""New Pods come before old ones go."""
IN_PLACE: Final[Object] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
"""Each old Pod ends before a new one comes, as a volume needs that only one node can mount."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a container and of the Service before it; both are called `name`."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class User:
    """Whom the processes of a Pod run as, and whose group its volumes get."""

    uid: int
    gid: int
    fs_group: int | None = None


def selector(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that select the Pods of a workload, out of all that it has."""
    return {name: labels[name] for name in SELECTING if name in labels}


def deployment(
    metadata: Object,
    pod: Object,
    *,
    replicas: int | None = 1,
    strategy: Mapping[str, Any] = ROLLING,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A Deployment. `annotations`: of the Pod template; `replicas` None leaves them to an autoscaler."""
    spec: Object = {
        "selector": {"matchLabels": selector(metadata["labels"])},
        "strategy": dict(strategy),
        "template": _template(metadata, pod, annotations),
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def stateful_set(
    metadata: Object,
    pod: Object,
    *,
    service: str,
    claims: Sequence[Object],
    retain: bool,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """A StatefulSet of one replica behind the headless `service`.

    `retain`: whether its volumes outlive it; they always outlive a replica that is scaled away.
    """
    spec: Object = {
        "replicas": 1,
        "serviceName": service,
        "selector": {"matchLabels": selector(metadata["labels"])},
        "template": _template(metadata, pod, annotations),
        "volumeClaimTemplates": list(claims),
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": "Retain" if retain else "Delete",
            "whenScaled": "Retain",
        },
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


def _template(metadata: Object, pod: Object, annotations: Mapping[str, str] | None) -> Object:
    described: Object = {"labels": dict(metadata["labels"])}
    if annotations:
        described["annotations"] = dict(annotations)
    return {"metadata": described, "spec": pod}


def service(
    metadata: Object, *ports: Port, headless: bool = False, numbers: Mapping[str, int] | None = None
) -> Object:
    """A Service in front of the Pods with the same name, instance and component.

    `numbers`: under which numbers ports are served, by name, where they are not the container's.
    """
    spec: Object = {
        "type": "ClusterIP",
        "selector": selector(metadata["labels"]),
        "ports": [
            {
                "name": port.name,
                "protocol": "TCP",
                "port": (numbers or {}).get(port.name, port.number),
                "targetPort": port.name,
            }
            for port in ports
        ],
    }
    if headless:
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def config_map(metadata: Object, data: Mapping[str, str]) -> Object:
    """A ConfigMap of texts."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def claim(metadata: Object, size: str, *, storage_class: str = "", mode: str = "ReadWriteOnce") -> Object:
    """A PersistentVolumeClaim."""
    spec = _claim_spec(size, storage_class, mode)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def claim_template(
    name: str,
    size: str,
    *,
    storage_class: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """One of a StatefulSet's claims, as the server completes it: the list of them is compared whole."""
    described: Object = {"name": name}
    if labels:
        described["labels"] = dict(labels)
    if annotations:
        described["annotations"] = dict(annotations)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": described,
        "spec": {**_claim_spec(size, storage_class, "ReadWriteOnce"), "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"},
    }


def _claim_spec(size: str, storage_class: str, mode: str) -> Object:
    spec: Object = {"accessModes": [mode], "resources": {"requests": {"storage": canonical(size)}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    return spec


def restricted(user: User) -> Object:
    """The security context of a Pod that runs as this user, never as root."""
    context: Object = {
        "runAsNonRoot": True,
        "runAsUser": user.uid,
        "runAsGroup": user.gid,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if user.fs_group is not None:
        context |= {"fsGroup": user.fs_group, "fsGroupChangePolicy": "OnRootMismatch"}
    return context


def unprivileged() -> Object:
    """The security context of a container without any capability."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def http_probe(path: str, port: str, *, delay_s: int = 0, period_s: int = 10, failures: int = 3) -> Object:
    """A probe by GET, which is healthy with any status below 400."""
    return {"httpGet": {"path": path, "port": port}, **_timing(delay_s, period_s, failures)}


def tcp_probe(port: str, *, delay_s: int = 0, period_s: int = 10, failures: int = 3) -> Object:
    """A probe that only connects."""
    return {"tcpSocket": {"port": port}, **_timing(delay_s, period_s, failures)}


def exec_probe(command: Sequence[str], *, delay_s: int = 0, period_s: int = 10, failures: int = 3) -> Object:
    """A probe by a command in the container."""
    return {"exec": {"command": list(command)}, **_timing(delay_s, period_s, failures)}


def _timing(delay_s: int, period_s: int, failures: int) -> Object:
    timing: Object = {"periodSeconds": period_s, "timeoutSeconds": 5, "failureThreshold": failures}
    return {"initialDelaySeconds": delay_s, **timing} if delay_s else timing


def plain_env(values: Mapping[str, str]) -> list[Object]:
    """Environment variables with these values."""
    return [{"name": name, "value": value} for name, value in values.items()]


def secret_env(name: str, secret: str, key: str) -> Object:
    """An environment variable from a Secret, without which the container does not start."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def merged_env(generated: Iterable[Object], given: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Both lists by name, each name once; what a user gives wins and keeps the place of what it replaces."""
    by_name = {each["name"]: each for each in generated}
    return [dict(each) for each in (by_name | {each["name"]: each for each in given}).values()]


def resources(
    given: Mapping[str, Any] | None, requests: Mapping[str, str], limits: Mapping[str, str]
) -> Object:
    """Resource requirements: those that are given, whole, or else the defaults.

    A quantity that is none is left as it is: the server refuses it, and says which.
    """
    wanted: Mapping[str, Any] = given or {"requests": requests, "limits": limits}
    return {
        name: {each: canonical(str(amount)) for each, amount in value.items()}
        if name in ("requests", "limits") and isinstance(value, Mapping)
        else value
        for name, value in wanted.items()
    }


def canonical(quantity: str) -> str:
    """A quantity as the server stores it; what is none is left for the server to refuse."""
    try:
        return str(parse(quantity))
    except QuantityError:
        return quantity
