"""Objects around gateways and models, as users and foreign operators make them."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from magicstick.api.kinds import CNPG_CLUSTER, LITELLM_INSTANCE
from magicstick.palena.common.kinds import PERSISTENT_VOLUME_CLAIM, STATEFUL_SET
from magicstick.palena.common.secrets import SECRET
from tests.support.palena_world import PalenaWorld

Object = dict[str, Any]

HOME: Final = "ai-gateway"
GATEWAY: Final = "gw"
HEALTHY: Final = "Cluster in healthy state"


def gateway(name: str = GATEWAY, *, namespace: str = HOME, **spec: Any) -> Object:
    """A PalenaGateway."""
    return {
        "apiVersion": "palena.ai/v1alpha1",
        "kind": "PalenaGateway",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def model(name: str = "chat-large", *refs: str | Object, namespace: str = HOME, **spec: Any) -> Object:
    """A PalenaModel on the gateways `refs`, by default on the one of these tests."""
    named = [{"name": each} if isinstance(each, str) else each for each in refs or (GATEWAY,)]
    return {
        "apiVersion": "palena.ai/v1alpha1",
        "kind": "PalenaModel",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"gatewayRefs": named, "provider": {"model": "openai/gpt-4o"}, **spec},
    }


def secret(name: str, values: Mapping[str, str], *, namespace: str = HOME) -> Object:
    """A Secret that somebody made."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def values(live: Any) -> dict[str, str]:
    """What a Secret holds."""
    return {key: base64.b64decode(value).decode() for key, value in live.data.items()}


def claim(gateway_name: str = GATEWAY, *, size: str = "1Gi", storage_class: str = "fast") -> Object:
    """The volume of Redis, as the StatefulSet's controller makes it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": f"data-{gateway_name}-palena-redis-0",
            "namespace": HOME,
            "labels": {
                "app.kubernetes.io/managed-by": "palena-operator",
                "app.kubernetes.io/name": "redis",
                "palena.ai/gateway": gateway_name,
            },
        },
        "spec": {"resources": {"requests": {"storage": size}}, "storageClassName": storage_class},
    }


class Operators:
    """What foreign operators and kubelets do for one gateway, when a test says so."""

    def __init__(self, world: PalenaWorld, name: str = GATEWAY) -> None:
        self._world = world
        self._name = name

    def database(self, phase: str = HEALTHY, *, secret_there: bool = True) -> None:
        """CloudNativePG reports a phase, and says how to connect once it is healthy."""
        cluster = f"{self._name}-palena-pg"
        self._world.change(
            CNPG_CLUSTER, HOME, cluster, status={"phase": phase, "readyInstances": 1, "instances": 1}
        )
        if secret_there and phase == HEALTHY:
            uri = f"postgresql://litellm:pw@{cluster}-rw.{HOME}:5432/litellm"
            self._world.put(SECRET, secret(f"{cluster}-app", {"uri": uri}))

    def redis(self, *, ready: bool = True) -> None:
        """The Pod of Redis becomes ready or not; its volume is there from then on."""
        name = f"{self._name}-palena-redis"
        live = self._world.must(STATEFUL_SET, HOME, name)
        status = {"observedGeneration": live.metadata.generation, "replicas": 1}
        self._world.change(STATEFUL_SET, HOME, name, status={**status, "readyReplicas": int(ready)})
        if self._world.find(PERSISTENT_VOLUME_CLAIM, HOME, f"data-{name}-0") is None:
            self._world.put(PERSISTENT_VOLUME_CLAIM, claim(self._name))

    def litellm(self, **status: Any) -> None:
        """The LiteLLM operator reports."""
        name = f"{self._name}-palena-litellm"
        ready = status.get("ready", True)
        told = {"type": "Ready", "status": str(ready), "reason": "AllResourcesReady", "message": "as it is"}
        base: Object = {
            "ready": ready,
            "replicas": 1,
            "readyReplicas": int(ready is True),
            "endpoint": f"http://{name}.{HOME}.svc:4000",
            "version": "1.80.0",
            "conditions": [told],
        }
        self._world.change(LITELLM_INSTANCE, HOME, name, status={**base, **status})


def litellm_status(*, synced: str = "True", reason: str = "Synced", **fields: Any) -> Object:
    """The status of a LiteLLMModel."""
    told = {"type": "Synced", "status": synced, "reason": reason, "message": "as its operator says"}
    return {"synced": True, "litellmModelId": "id-1", "health": "healthy", "conditions": [told], **fields}


def gateway_status(name: str = GATEWAY, *, ready: str = "True", instance: bool = True) -> Object:
    """The status of a gateway as its own reconciler writes it."""
    fields: Object = {"endpoint": f"http://{name}-palena-litellm.{HOME}.svc:4000"} if instance else {}
    if instance:
        fields["litellmInstanceRef"] = {"name": f"{name}-palena-litellm"}
    told = {"type": "Ready", "status": ready, "reason": "x", "message": "x", "observedGeneration": 1}
    return {**fields, "conditions": [told]}
