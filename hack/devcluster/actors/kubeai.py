"""Stands in for KubeAI (0.23.2): makes the Pods of Models, and plays their kubelet and their servers.

It follows the contract by which the real one is observed (spec: models §4.3, §8.2, §10):

- KubeAI runs while a Pod of its Deployment does, and reads its configuration once, when that Pod starts.
  A profile that comes later does not exist for it until the Deployment is rolled out. Of two Pods the one
  that led goes on until it ends.
- A Model whose profile it does not know, or that it cannot read, is left alone: no Pod, no status.
- It keeps `spec.replicas` within the Model's bounds, and labels a Model with its features.
- The Pods belong to the Model (owner reference, labels `app=model,model=<name>`), and are replaced when what
  they are made of changes, as `kubeai_pods` says.
- It counts Pods in `status.replicas`. One that ended for good counts, and is not replaced.

The kubelets of these Pods are played here and not by kwok, which may know them by an annotation. Where a
Pod's server is Ollama, one listens on loopback (`ollama`). There is no autoscaler, no cache and no proxy.

So are those of realtime runtimes, which are nobody's but the operator's, since one node plays all Pods of
models.

Directions, as annotations of a Model, or of a realtime Pod itself; they hold as long as they stand there:

- `devcluster.magicstick.dev/pods`: a `kubelet.PodState`, `out-of-memory` for example;
- `devcluster.magicstick.dev/delay: seconds` from a Pod's start until it is ready;
- `devcluster.magicstick.dev/replicas: stale` leaves `status.replicas` as it is;
- `devcluster.magicstick.dev/ollama`: an `ollama.Mood`, `without-alias` for example;
- `devcluster.magicstick.dev/omni`: an `omni.OmniMood`, `unwell` for example (of a realtime Pod).
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster.actors.following import (
    Collection,
    Gate,
    Key,
    Object,
    Workers,
    direction,
    in_background,
    key_of,
)
from hack.devcluster.actors.kubeai_chart import CONFIG_KEY, CONFIG_NAME, GROUP, SELECTOR, VERSION, Config
from hack.devcluster.actors.kubeai_pods import (
    MODEL_LABEL,
    PodPlan,
    UnknownProfileError,
    bounded,
    is_ready,
    pod_for,
    pod_plan,
)
from hack.devcluster.actors.kubelet import PodState
from hack.devcluster.actors.model_node import ModelNode
from hack.devcluster.actors.writing import present

NAMESPACE: Final = "ai"
FEATURES: Final = "features.kubeai.org"

log = logging.getLogger(__name__)


class KubeAiActor:
    """Acts on all Models of a namespace until cancelled.

    Attributes:
        gate: shut, nothing is done for Models (KubeAI is slow, or hangs). Kubelets go on.
        config: what the KubeAI that leads has read; None while none runs.
        node: the kubelets and the servers of its Pods.
    """

    def __init__(
        self, client: BareClient, namespace: str = NAMESPACE, *, clock: Callable[[], datetime] = present
    ) -> None:
        self.gate = Gate()
        self.config: Config | None = None
        self._client = client
        self._core = f"/api/v1/namespaces/{namespace}"
        self._models_path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/models"
        self._configs: dict[Key, Config] = {}
        self._leader: Key | None = None
        self._elected = asyncio.Event()
        self._processes = Workers(self._look_at_process)
        self._control = Workers(self._reconcile)
        self._pods = Collection(client, f"{self._core}/pods", self._see_pod)
        self._models = Collection(client, self._models_path, self._see_model)
        self.node = ModelNode(client, self._pods, self._model_of, clock)

    async def run(self) -> None:
        """Follow Pods, and Models while KubeAI runs. Never returns."""
        node = self.node.run(self._pods.follow(), self._terms())
        await self._processes.run(self._control.run(node))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["KubeAiActor"]:
        """Run in the background within the block."""
        async with in_background(self.run()):
            yield self

    # --- KubeAI's own process -------------------------------------------------------------------------

    async def _terms(self) -> None:
        """Follow Models as whoever leads; from the beginning when another one does."""
        while True:
            self._elected.clear()
            following = asyncio.create_task(self._models.follow() if self.config else asyncio.sleep(0))
            try:
                await self._elected.wait()
            finally:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following

    async def _look_at_process(self, key: Key) -> None:
        pod = self._pods.items.get(key)
        runs = pod is not None and is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
        if not runs:
            self._configs.pop(key, None)
        elif key not in self._configs:
            found = await self._client.find(f"{self._core}/configmaps/{CONFIG_NAME}")
            if found is None:
                return  # its Pod would wait for the volume; what waits for it looks at the Deployment
            try:
                self._configs[key] = Config.of(found.get("data", {}).get(CONFIG_KEY, ""))
            except ValueError as wrong:
                log.warning("%s: %s", "/".join(key), wrong)
                return
        self._elect()

    def _elect(self) -> None:
        if self._leader in self._configs:
            return
        self._leader = next(iter(self._configs), None)
        self.config = None if self._leader is None else self._configs[self._leader]
        self._elected.set()

    # --- Models ---------------------------------------------------------------------------------------

    def _see_pod(self, _: str, pod: Object) -> None:
        labels, key = pod["metadata"].get("labels", {}), key_of(pod)
        if MODEL_LABEL in labels:
            self.node.wake(key)
            self._control.wake((key[0], labels[MODEL_LABEL]))
        if labels.items() >= SELECTOR.items():
            self._processes.wake(key)

    def _see_model(self, _: str, model: Object) -> None:
        self._control.wake(key_of(model))
        for key, pod in self._pods.items.items():
            if pod["metadata"].get("labels", {}).get(MODEL_LABEL) == model["metadata"]["name"]:
                self.node.wake(key)

    def _model_of(self, pod: Object) -> Object:
        name = pod["metadata"]["labels"].get(MODEL_LABEL, "")
        return self._models.items.get((pod["metadata"]["namespace"], name)) or {"metadata": {}}

    async def _reconcile(self, key: Key) -> None:
        await self.gate.passed()
        await self._pods.listed.wait()
        model, config = self._models.items.get(key), self.config
        if model is None or config is None or "deletionTimestamp" in model["metadata"]:
            return
        told = direction(model, "pods")
        try:
            wanted = pod_for(model, config, nowhere=told == PodState.UNSCHEDULABLE)
        except UnknownProfileError as refused:
            log.warning("%s: %s", "/".join(key), refused)
            return
        model = await self._settle(model)
        plan = pod_plan(model, wanted, self._living(key), config.surge)
        await self._carry_out(plan, wanted, create=told != PodState.MISSING)
        if direction(model, "replicas") != "stale":
            await self._count(model, self._living(key))

    def _living(self, key: Key) -> list[Object]:
        namespace, name = key
        return [
            pod
            for (place, _), pod in self._pods.items.items()
            if place == namespace
            and pod["metadata"].get("labels", {}).get(MODEL_LABEL) == name
            and "deletionTimestamp" not in pod["metadata"]
        ]

    async def _settle(self, model: Object) -> Object:
        """Bring replicas within their bounds, and show features as labels."""
        labels = {f"{FEATURES}/{each}": "true" for each in model["spec"]["features"]}
        replicas = bounded(model)
        settled = replicas == model["spec"].get("replicas")
        if settled and model["metadata"].get("labels", {}).items() >= labels.items():
            return model
        spec = {} if replicas is None else {"replicas": replicas}
        body = {"metadata": {"uid": model["metadata"]["uid"], "labels": labels}, "spec": spec}
        return self._put(self._models, await self._client.merge(self._path(model), body))

    async def _carry_out(self, plan: PodPlan, wanted: Object, *, create: bool) -> None:
        for pod in plan.delete:
            body = {"preconditions": {"uid": pod["metadata"]["uid"]}}
            answer = await self._client.send("DELETE", f"{self._core}/pods/{pod['metadata']['name']}", body)
            deleted = json.loads(answer)
            if deleted.get("kind") == "Pod" and "deletionTimestamp" in deleted["metadata"]:
                self._pods.put(deleted)
        for _ in range(plan.create if create else 0):
            self._put(self._pods, await self._client.create(f"{self._core}/pods", wanted))

    async def _count(self, model: Object, pods: list[Object]) -> None:
        counts = {"all": len(pods), "ready": sum(map(is_ready, pods))}
        if model.get("status", {}).get("replicas") != counts:
            body = {"metadata": {"uid": model["metadata"]["uid"]}, "status": {"replicas": counts}}
            self._put(self._models, await self._client.merge(f"{self._path(model)}/status", body))

    def _put(self, collection: Collection, answer: bytes) -> Object:
        """What a write returned is known at once, so that nothing is done twice."""
        written: dict[str, Any] = json.loads(answer)
        collection.put(written)
        return written

    def _path(self, model: Object) -> str:
        return f"{self._models_path}/{model['metadata']['name']}"
