"""KubeAI for tests: the definition of its Models, and a player that does what a test tells it.

The definition has the fields that the operator writes and reads, with the rules of the real one; unknown
fields are refused by strict validation as there. The player stands in for Helm, for KubeAI's Deployment,
which takes resource profiles only when it restarts, and for the Pods that it makes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from hack.bare import BareClient
from magicstick.models.kubeai_release import CONFIG_KEY, CONFIG_NAME, DEPLOYMENT_NAME, STORE_KEY, STORE_NAME
from tests.support.mirror import Mirror, Object

SPACE: Final = "ai"
MODELS: Final = f"/apis/kubeai.org/v1/namespaces/{SPACE}/models"
PODS: Final = f"/api/v1/namespaces/{SPACE}/pods"
STAMP: Final = "2026-01-01T00:00:00Z"

INLINE: Final[Mapping[str, Any]] = {
    "magicstick-vllm-cpu-memory": {
        "requests": {"memory": "16Mi"},
        "limits": {"memory": "24Mi"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
    },
    "magicstick-ollama-cpu-memory": {"requests": {"memory": "16Mi"}, "limits": {"memory": "48Mi"}},
    "magicstick-nvidia-gpu": {
        "requests": {"cpu": "1", "memory": "6Gi", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    },
}
"""What KubeAI is installed with (spec: models §4.3)."""


def _schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "format": "int32"}
_URL_RULE = " || ".join(
    f"self.startsWith('{scheme}://')" for scheme in ("hf", "pvc", "ollama", "s3", "gs", "oss")
)

DEFINITION: Final[Mapping[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "models.kubeai.org"},
    "spec": {
        "group": "kubeai.org",
        "names": {"kind": "Model", "listKind": "ModelList", "plural": "models", "singular": "model"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        **_schema(
                            metadata={"type": "object"},
                            spec={
                                **_schema(
                                    features={
                                        "type": "array",
                                        "items": {
                                            "type": "string",
                                            "enum": [
                                                "TextGeneration",
                                                "TextEmbedding",
                                                "Reranking",
                                                "SpeechToText",
                                            ],
                                        },
                                    },
                                    url={**_TEXT, "x-kubernetes-validations": [{"rule": _URL_RULE}]},
                                    engine={
                                        "type": "string",
                                        "enum": ["OLlama", "VLLM", "FasterWhisper", "Infinity"],
                                    },
                                    resourceProfile=_TEXT,
                                    minReplicas={**_NUMBER, "minimum": 0},
                                    maxReplicas={**_NUMBER, "minimum": 1},
                                    replicas=_NUMBER,
                                    env={"type": "object", "additionalProperties": _TEXT},
                                    args={"type": "array", "items": _TEXT},
                                    scaleDownDelaySeconds={"type": "integer", "default": 30},
                                    targetRequests={**_NUMBER, "minimum": 1, "default": 100},
                                ),
                                "required": ["engine", "features", "url"],
                                "x-kubernetes-validations": [
                                    {"rule": "!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas"}
                                ],
                            },
                            status=_schema(replicas=_schema(all=_NUMBER, ready=_NUMBER)),
                        ),
                        "x-kubernetes-validations": [{"rule": "size(self.metadata.name) <= 40"}],
                    }
                },
            }
        ],
    },
}


class KubeAiPlayer:
    """See the module. `mirror` has Models and Pods in it, and the objects of its own installation."""

    def __init__(self, client: BareClient, flux_namespace: str) -> None:
        self._client = client
        self._release = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{flux_namespace}/helmreleases"
        self._store = f"/api/v1/namespaces/{flux_namespace}/configmaps"
        self._flux_namespace = flux_namespace
        self.mirror = Mirror(client, MODELS, PODS, self._release, self._store)

    # -- its installation ---------------------------------------------------------------------------

    async def install(self) -> None:
        """KubeAI as it is before any model: the release, an empty store, and its Deployment rolled out."""
        await self._apply("/api/v1/namespaces/ai", {"apiVersion": "v1", "kind": "Namespace"}, SPACE, "")
        store = {"apiVersion": "v1", "kind": "ConfigMap", "data": {STORE_KEY: '{"resourceProfiles":{}}'}}
        await self._apply(f"{self._store}/{STORE_NAME}", store, STORE_NAME, self._flux_namespace)
        values_from = [{"kind": "ConfigMap", "name": STORE_NAME, "valuesKey": STORE_KEY, "optional": True}]
        spec = {
            "interval": "10m",
            "chart": {"spec": {"chart": "kubeai", "sourceRef": {"kind": "HelmRepository", "name": "kubeai"}}},
            "values": {"resourceProfiles": INLINE},
            "valuesFrom": values_from,
        }
        release = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "spec": spec}
        await self._apply(f"{self._release}/kubeai", release, "kubeai", self._flux_namespace)
        await self._roll_out({})

    async def take(self) -> Mapping[str, Any]:
        """Once it is asked to: take the profiles of the store, and restart with them; what they are."""
        await self.mirror.until("the release is asked to take the store", self._asked)
        found = self.mirror.get(self._store, STORE_NAME) or {}
        profiles: Mapping[str, Any] = json.loads(found["data"][STORE_KEY])["resourceProfiles"]
        await self._roll_out(profiles)
        return profiles

    def _asked(self) -> bool:
        release = self.mirror.get(self._release, "kubeai") or {"metadata": {}}
        return "reconcile.fluxcd.io/requestedAt" in release["metadata"].get("annotations", {})

    async def _roll_out(self, profiles: Mapping[str, Any]) -> None:
        text = yaml.safe_dump({"resourceProfiles": {**INLINE, **profiles}})
        config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {CONFIG_KEY: text}}
        await self._apply(f"/api/v1/namespaces/{SPACE}/configmaps/{CONFIG_NAME}", config, CONFIG_NAME, SPACE)
        await self._apply(_deployment_path(), _deployment(), DEPLOYMENT_NAME, SPACE)
        live = await self._client.get(_deployment_path())
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {"observedGeneration": live["metadata"]["generation"], **dict.fromkeys(counts, 1)}
        await self._client.merge(f"{_deployment_path()}/status", {"status": status})
        release = await self._client.get(f"{self._release}/kubeai")
        generation = release["metadata"]["generation"]
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "UpgradeSucceeded",
            "message": "Helm upgrade succeeded",
            "observedGeneration": generation,
            "lastTransitionTime": STAMP,
        }
        said = {"status": {"observedGeneration": generation, "conditions": [ready]}}
        requested = release["metadata"].get("annotations", {}).get("reconcile.fluxcd.io/requestedAt")
        if requested is not None:
            said["status"]["lastHandledReconcileAt"] = requested
        await self._client.merge(f"{self._release}/kubeai/status", said)

    async def _apply(self, path: str, body: Mapping[str, Any], name: str, namespace: str) -> None:
        place = {"name": name, **({"namespace": namespace} if namespace else {})}
        await self._client.apply(path, {**body, "metadata": place}, manager="git")

    # -- its Models and Pods ------------------------------------------------------------------------

    def model(self, name: str) -> Object | None:
        """A KubeAI Model."""
        return self.mirror.get(MODELS, name)

    async def until_model(self, name: str) -> Object:
        """Wait for a Model, and give it."""
        await self.mirror.until(f"there is a Model {name}", lambda: self.model(name) is not None)
        found = self.model(name)
        assert found is not None
        return found

    async def make_pod(self, name: str, *, pod: str = "", phase: str = "Pending", **status: Any) -> str:
        """A Pod of a Model, in this phase; its name."""
        model = await self.until_model(name)
        pod = pod or f"model-{name}-1"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod,
                "namespace": SPACE,
                "labels": {**model["metadata"]["labels"], "app": "model", "model": name}
                | {"app.kubernetes.io/managed-by": "kubeai"},
                "ownerReferences": [
                    {
                        "apiVersion": "kubeai.org/v1",
                        "kind": "Model",
                        "name": name,
                        "uid": model["metadata"]["uid"],
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "containers": [{"name": "server", "image": "registry.example.com/server:v1"}],
            },
        }
        await self._client.create(PODS, body)
        await self.set_pod(pod, phase, **status)
        return pod

    async def set_pod(
        self,
        pod: str,
        phase: str,
        *,
        ready: bool = False,
        conditions: Sequence[Mapping[str, Any]] = (),
        **more: Any,
    ) -> None:
        """What a kubelet says of a Pod."""
        said = [*conditions, {"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": phase, "conditions": said, **more}
        await self._client.merge(f"{PODS}/{pod}/status", {"status": status})

    async def count(self, name: str, ready: int) -> None:
        """What KubeAI says of a Model's replicas."""
        status = {"replicas": {"all": max(1, ready), "ready": ready}}
        await self._client.merge(f"{MODELS}/{name}/status", {"status": status})

    async def serve(self, name: str) -> None:
        """One replica that is ready."""
        pod = await self.make_pod(name)
        await self.set_pod(pod, "Running", ready=True)
        await self.count(name, 1)


def _deployment_path() -> str:
    return f"/apis/apps/v1/namespaces/{SPACE}/deployments/{DEPLOYMENT_NAME}"


def _deployment() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "kubeai"}
    pod = {
        "containers": [{"name": "kubeai", "image": "registry.example.com/kubeai:v1"}],
        "volumes": [{"name": "config", "configMap": {"name": CONFIG_NAME}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
