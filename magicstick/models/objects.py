"""Builder of the KubeAI Model of a local model, and what identifies objects of ours. Values in, dicts out."""

from typing import Any

from magicstick.api import labels
from magicstick.api.kinds import KUBEAI_MODEL
from magicstick.api.names import label_value
from magicstick.kube.objects import Resource
from magicstick.models.resolved import ResolvedKubeAi, ResolvedLocal

Object = dict[str, Any]


def activation_label(name: str) -> str:
    """The value of `labels.MODEL` on all that serves the activation of this name."""
    return label_value(name)


def is_ours(resource: Resource) -> bool:
    """Whether the operator generated the object."""
    return resource.metadata.labels.get(labels.MANAGED_BY) == labels.OPERATOR


def serves(resource: Resource, name: str) -> bool:
    """Whether the operator generated the object for the activation of this name.

    A name too long for a label has a label that may be the whole name of another; then the annotation tells.
    """
    metadata = resource.metadata
    labelled = is_ours(resource) and metadata.labels.get(labels.MODEL) == activation_label(name)
    return labelled and metadata.annotations.get(labels.FULL_NAME, name) == name


def own_labels(model: ResolvedLocal) -> dict[str, str]:
    """The labels by which all that serves the model is found again."""
    return {
        labels.MANAGED_BY: labels.OPERATOR,
        labels.MODEL: activation_label(model.name),
        labels.COMPUTE_TARGET: model.target.name,
    }


def kubeai_model(model: ResolvedKubeAi, profile: str) -> Object:
    """The Model that KubeAI serves (spec: models §7).

    `profile` is its resource profile with its count. There is no owner reference, since the activation
    lives in another namespace, and no `replicas`, which is KubeAI's own.
    """
    metadata: Object = {
        "name": model.name,
        "namespace": model.namespace,
        "labels": {**own_labels(model), labels.ENGINE: model.engine.lower()},
    }
    if model.annotations:
        metadata["annotations"] = dict(model.annotations)
    return {
        "apiVersion": KUBEAI_MODEL.api_version,
        "kind": KUBEAI_MODEL.kind,
        "metadata": metadata,
        "spec": {
            "features": list(model.features),
            "url": model.url,
            "engine": model.engine,
            "resourceProfile": profile,
            "minReplicas": model.min_replicas,
            "maxReplicas": model.max_replicas,
            "env": dict(model.env),
            "args": list(model.args),
        },
    }
