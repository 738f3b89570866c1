"""What KubeAI's chart (0.23.2) installs, and the configuration that KubeAI reads: values only.

The chart calls its objects `kubeai` whatever the release is called, and its Deployment's template carries a
checksum of the configuration, so that a changed one rolls the Deployment out (spec: platform §2.11). The
definition of Models has the fields that are written and read here, with the rules of the real one; strict
validation refuses unknown fields as there. It is a template of the chart: it goes with the release.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from hack.devcluster.actors.following import Object

NAME: Final = "kubeai"
CONFIG_NAME: Final = "kubeai-config"
CONFIG_KEY: Final = "system.yaml"
SELECTOR: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}
KEPT_VALUES: Final = ("resourceProfiles", "modelServers", "modelRollouts", "modelServerPods")
DEFAULT_SURGE: Final = 1
GROUP: Final = "kubeai.org"
VERSION: Final = "v1"
LONGEST_NAME: Final = 40

SCHEMES: Final = ("hf", "pvc", "ollama", "s3", "gs", "oss")
_TEXT: Final = {"type": "string"}
_INT32: Final = {"type": "integer", "format": "int32"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _one_of(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _rule(rule: str, message: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


_SPEC: Final = {
    **_object(
        features={
            "type": "array",
            "items": _one_of("TextGeneration", "TextEmbedding", "Reranking", "SpeechToText"),
        },
        url={
            **_TEXT,
            **_rule(
                " || ".join(f"self.startsWith('{scheme}://')" for scheme in SCHEMES),
                f"url must start with one of {', '.join(f'{scheme}://' for scheme in SCHEMES)}",
            ),
        },
        engine=_one_of("OLlama", "VLLM", "FasterWhisper", "Infinity"),
        resourceProfile=_TEXT,
        minReplicas={**_INT32, "minimum": 0},
        maxReplicas={**_INT32, "minimum": 1},
        replicas=_INT32,
        autoscalingDisabled={"type": "boolean"},
        env={"type": "object", "additionalProperties": _TEXT},
        args={"type": "array", "items": _TEXT},
        image=_TEXT,
        scaleDownDelaySeconds={"type": "integer", "format": "int64", "default": 30},
        targetRequests={**_INT32, "minimum": 1, "default": 100},
    ),
    "required": ["engine", "features", "scaleDownDelaySeconds", "targetRequests", "url"],
    **_rule(
        "!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "minReplicas should be less than or equal to maxReplicas.",
    ),
}
MODEL_VERSION: Final[Mapping[str, Any]] = {
    "subresources": {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas.all"},
    },
    "schema": {
        "openAPIV3Schema": {
            **_object(
                apiVersion=_TEXT,
                kind=_TEXT,
                metadata={"type": "object"},
                spec=_SPEC,
                status=_object(replicas={**_object(all=_INT32, ready=_INT32), "required": ["all", "ready"]}),
            ),
            **_rule(
                f"size(self.metadata.name) <= {LONGEST_NAME}",
                f"name must not exceed {LONGEST_NAME} characters.",
            ),
        }
    },
}
"""The schema and the subresources of a version of `models.kubeai.org`."""


def configuration(values: Object) -> str:
    """The file that KubeAI reads when it starts."""
    return yaml.safe_dump({key: values[key] for key in KEPT_VALUES if key in values})


def installed(values: Object, namespace: str) -> list[Object]:
    """The objects of the chart in the order in which Helm applies them."""
    config = configuration(values)
    meta = {"name": NAME, "namespace": namespace, "labels": dict(SELECTOR)}
    selector = dict(SELECTOR)
    port = {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**meta, "name": CONFIG_NAME},
            "data": {CONFIG_KEY: config},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": selector, "ports": [port]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": selector},
                "template": _template(values, config),
            },
        },
    ]


def _template(values: Object, config: str) -> Object:
    annotations = {
        **values.get("podAnnotations", {}),
        "checksum/config": hashlib.sha256(config.encode()).hexdigest(),
    }
    container = {
        "name": NAME,
        "image": "registry.example.com/kubeai:v0.23.2",
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "volumeMounts": [{"name": "config", "mountPath": "/app/config"}],
    }
    return {
        "metadata": {"labels": dict(SELECTOR), "annotations": annotations},
        "spec": {
            "serviceAccountName": NAME,
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": CONFIG_NAME}}],
        },
    }


@dataclass(frozen=True, slots=True)
class Config:
    """What one start of KubeAI has read.

    Attributes:
        profiles: resource profiles by name.
        images: of model servers, by engine and then by name.
        surge: how many Pods more there may be while a Model's Pods are replaced.
        patches: JSON patches for every Pod of a Model.
    """

    profiles: Mapping[str, Object] = field(default_factory=dict)
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    surge: int = DEFAULT_SURGE
    patches: tuple[Object, ...] = ()

    @classmethod
    def of(cls, text: str) -> "Config":
        """From the file.

        Raises:
            ValueError: it is no such file; KubeAI ends in a crash loop.
        """
        try:
            read = yaml.safe_load(text) or {}
            servers = read.get("modelServers") or {}
            return cls(
                profiles=dict(read.get("resourceProfiles") or {}),
                images={engine: dict(each.get("images") or {}) for engine, each in servers.items()},
                surge=int((read.get("modelRollouts") or {}).get("surge", DEFAULT_SURGE)),
                patches=tuple((read.get("modelServerPods") or {}).get("jsonPatches") or ()),
            )
        except (yaml.YAMLError, AttributeError, TypeError) as error:
            raise ValueError(f"no configuration of KubeAI: {error}") from error
