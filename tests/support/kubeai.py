"""KubeAI by hand: each step of the actor (`hack.devcluster.actors.kubeai`) when a test says so.

What it installs and makes is the actor's; only when it happens, and what a kubelet says then, is the test's.
So a control plane without controllers is enough. It stands in for Helm, for KubeAI's Deployment, which takes
resource profiles only when it restarts, and for the Pods that it makes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster.actors.charts import KUBEAI_MODEL
from hack.devcluster.actors.kubeai_chart import CONFIG_NAME, NAME, Config, configuration, installed
from hack.devcluster.actors.kubeai_pods import pod_for
from magicstick.models.kubeai_release import STORE_KEY, STORE_NAME
from tests.support.mirror import Mirror, Object

SPACE: Final = "ai"
MODELS: Final = f"/apis/kubeai.org/v1/namespaces/{SPACE}/models"
PODS: Final = f"/api/v1/namespaces/{SPACE}/pods"
_CONFIG_MAPS: Final = f"/api/v1/namespaces/{SPACE}/configmaps"
_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
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


DEFINITION: Final[Mapping[str, Any]] = KUBEAI_MODEL.manifest("ai-kubeai")


class KubeAiPlayer:
    """See the module. `mirror` has Models and Pods in it, and the objects of its own installation."""

    def __init__(self, client: BareClient, flux_namespace: str) -> None:
        self._client = client
        self._release = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{flux_namespace}/helmreleases"
        self._store = f"/api/v1/namespaces/{flux_namespace}/configmaps"
        self._flux_namespace = flux_namespace
        self._config = Config()
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
        return await self._take(found)

    async def take_now(self) -> Mapping[str, Any]:
        """Take the profiles that the store holds at this moment, and restart with them; what they are."""
        return await self._take(await self._client.get(f"{self._store}/{STORE_NAME}"))

    async def _take(self, store: Object) -> Mapping[str, Any]:
        profiles: Mapping[str, Any] = json.loads(store["data"][STORE_KEY])["resourceProfiles"]
        await self._roll_out(profiles)
        return profiles

    def _asked(self) -> bool:
        release = self.mirror.get(self._release, "kubeai") or {"metadata": {}}
        return "reconcile.fluxcd.io/requestedAt" in release["metadata"].get("annotations", {})

    async def _roll_out(self, profiles: Mapping[str, Any]) -> None:
        values = {"resourceProfiles": {**INLINE, **profiles}}
        self._config = Config.of(configuration(values))
        objects = {obj["kind"]: obj for obj in installed(values, SPACE)}
        await self._client.apply(f"{_CONFIG_MAPS}/{CONFIG_NAME}", objects["ConfigMap"], manager="git")
        await self._client.apply(f"{_DEPLOYMENTS}/{NAME}", objects["Deployment"], manager="git")
        live = await self._client.get(f"{_DEPLOYMENTS}/{NAME}")
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {"observedGeneration": live["metadata"]["generation"], **dict.fromkeys(counts, 1)}
        await self._client.merge(f"{_DEPLOYMENTS}/{NAME}/status", {"status": status})
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
        body = pod_for(model, self._config)
        metadata = {**body["metadata"], "name": pod}
        del metadata["generateName"]
        grace = {"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
        body |= {"metadata": metadata, "spec": {**body["spec"], **grace}}
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
