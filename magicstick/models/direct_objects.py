"""What the objects of all runtimes have in common that the operator runs itself, without KubeAI.

One Pod of one Deployment behind one Service. Values in, plain dicts out (spec: models §13, realtime §6).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from magicstick.api import labels
from magicstick.api.names import label_value
from magicstick.api.quantity import parse
from magicstick.kube.kinds import Kind
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.objects import Object, own_labels
from magicstick.models.pods import MODEL_LABEL
from magicstick.models.resolved import ResolvedLocal
from magicstick.runtime.rollout import RECREATE

HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectRuntime:
    """One model's direct runtime, as far as it is like any other."""

    model: ResolvedLocal
    backend: str
    """Value of the label by which runtimes of one kind are known."""
    name: str
    """Of all its objects."""
    port: int
    labels: Mapping[str, str] = field(default_factory=dict)
    """Its own ones, besides those that all have."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Its own ones; a new value rolls the Pod."""

    @property
    def selector(self) -> dict[str, str]:
        """What selects its Pod. A selector can never change, so nothing is in it that may."""
        return {
            "app": "model",
            MODEL_LABEL: label_value(self.model.name),
            labels.RUNTIME_BACKEND: self.backend,
        }

    @property
    def endpoint(self) -> str:
        """Address of its API within the cluster."""
        return endpoint(self.name, self.model.namespace, self.port)

    @property
    def all_labels(self) -> dict[str, str]:
        """Of all its objects and its Pod."""
        return {**self.selector, labels.NAME: self.backend, **own_labels(self.model), **self.labels}

    @property
    def full_name(self) -> dict[str, str]:
        """The annotation of all its objects where a label cannot hold the name of the activation."""
        whole = self.model.name
        return {} if label_value(whole) == whole else {labels.FULL_NAME: whole}

    @property
    def all_annotations(self) -> dict[str, str]:
        """Of its Deployment and its Pod."""
        return {labels.RUNTIME_ENDPOINT: self.endpoint, **self.annotations, **self.full_name}

    def of_kind(self, kind: Kind, annotations: Mapping[str, str] | None = None, **content: object) -> Object:
        """An object with its name and its labels; without annotations, only that of the full name."""
        metadata: Object = {"name": self.name, "namespace": self.model.namespace, "labels": self.all_labels}
        if noted := dict(self.full_name if annotations is None else annotations):
            metadata["annotations"] = noted
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}

    def service(self, annotations: Mapping[str, str] | None = None) -> Object:
        """The Service in front of the one Pod."""
        port = {"name": "http", "protocol": "TCP", "port": self.port, "targetPort": "http"}
        spec = {"type": "ClusterIP", "selector": self.selector, "ports": [port]}
        return self.of_kind(SERVICE, annotations, spec=spec)

    def deployment(self, pod: Object, **spec: object) -> Object:
        """One Pod, never two at a time: the devices of the old one are free before the new one starts."""
        template = {"metadata": {"labels": self.all_labels, "annotations": self.all_annotations}, "spec": pod}
        fixed = {
            "replicas": 1,
            "strategy": {**RECREATE},
            "selector": {"matchLabels": self.selector},
            "template": template,
        }
        return self.of_kind(DEPLOYMENT, self.all_annotations, spec={**fixed, **spec})


def endpoint(name: str, namespace: str, port: int) -> str:
    """Address within the cluster of the API behind a Service."""
    return f"http://{name}.{namespace}.svc.cluster.local:{port}/v1"


def container_port(port: int) -> Object:
    """The port that the Service leads to."""
    return {"name": "http", "protocol": "TCP", "containerPort": port}


def environment(variables: Mapping[str, str]) -> list[Object]:
    """Environment of a container, in an order of its own."""
    return [{"name": name, "value": value} for name, value in sorted(variables.items())]


def resources(model: ResolvedLocal, devices: Mapping[str, int]) -> Object:
    """CPU policy, host memory and devices, without a profile of KubeAI's (spec: models §8.6).

    Quantities are spelled as the API server stores them, so that nothing differs from what stands there.
    """
    cpu = model.cpu
    whole = {"memory": _canonical(f"{model.memory_mi}Mi")} | {
        name: str(count) for name, count in devices.items()
    }
    limits = {"cpu": _canonical(f"{cpu.limit_millicores}m")} if cpu.limit_millicores > 0 else {}
    return {
        "requests": {"cpu": _canonical(f"{cpu.request_millicores}m"), **whole},
        "limits": {**limits, **whole},
    }


def _canonical(quantity: str) -> str:
    return str(parse(quantity))
