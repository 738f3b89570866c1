"""The synthetic gateways and models that are measured, and what others report of what is made for them."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from hack.bench.objects import STAMP
from hack.devcluster.actors.following import Object

SPACE: Final = "gateways"
API: Final = f"/apis/palena.ai/v1alpha1/namespaces/{SPACE}"
GATEWAYS: Final = f"{API}/palenagateways"
MODELS: Final = f"{API}/palenamodels"
CLUSTERS: Final = f"/apis/postgresql.cnpg.io/v1/namespaces/{SPACE}/clusters"
LITELLM: Final = f"/apis/litellm.palena.ai/v1alpha1/namespaces/{SPACE}"
INSTANCES: Final = f"{LITELLM}/litellminstances"
CHILDREN: Final = f"{LITELLM}/litellmmodels"
STATEFUL_SETS: Final = f"/apis/apps/v1/namespaces/{SPACE}/statefulsets"
SECRETS: Final = f"/api/v1/namespaces/{SPACE}/secrets"
PROVIDER_KEYS: Final = "provider-keys"
MODELS_EACH: Final = 2


def gateway_name(number: int) -> str:
    """Of the n-th gateway."""
    return f"gw-{number:05d}"


def gateway(number: int) -> dict[str, Any]:
    """The n-th gateway."""
    return _ours("PalenaGateway", gateway_name(number), {})


def model(number: int, place: int) -> dict[str, Any]:
    """One of the models of the n-th gateway."""
    provider = {"model": "openai/CHANGEME", "apiKeySecretRef": {"name": PROVIDER_KEYS, "key": "key"}}
    spec = {"gatewayRefs": [{"name": gateway_name(number)}], "provider": provider}
    return _ours("PalenaModel", f"model-{number:05d}-{place}", spec)


def secret(name: str, values: Mapping[str, str]) -> dict[str, Any]:
    """A Secret."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def connection(cluster: Object) -> dict[str, Any]:
    """The Secret that CloudNativePG makes for a Cluster."""
    name = cluster["metadata"]["name"]
    uri = f"postgresql://litellm:CHANGEME@{name}-rw.{SPACE}:5432/litellm"
    return secret(f"{name}-app", {"uri": uri})


def healthy(_: Object) -> dict[str, Any]:
    """A Cluster that serves."""
    return {"status": {"phase": "Cluster in healthy state", "instances": 1, "readyInstances": 1}}


def running(workload: Object) -> dict[str, Any]:
    """A StatefulSet whose Pod is Ready."""
    generation = workload["metadata"]["generation"]
    return {"status": {"observedGeneration": generation, "replicas": 1, "readyReplicas": 1}}


def serving(instance: Object) -> dict[str, Any]:
    """A LiteLLMInstance that serves."""
    endpoint = f"http://{instance['metadata']['name']}.{SPACE}.svc:4000"
    told = _true("Ready", "AllResourcesReady")
    return {
        "status": {
            "ready": True,
            "replicas": 1,
            "readyReplicas": 1,
            "endpoint": endpoint,
            "conditions": [told],
        }
    }


def synced(_: Object) -> dict[str, Any]:
    """A LiteLLMModel that the proxy knows."""
    told = _true("Synced", "Synced")
    return {"status": {"synced": True, "litellmModelId": "1", "health": "healthy", "conditions": [told]}}


def _ours(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": SPACE}
    return {"apiVersion": "palena.ai/v1alpha1", "kind": kind, "metadata": metadata, "spec": dict(spec)}


def _true(type_: str, reason: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": STAMP}
