"""Chats, tool servers and observabilities in worlds that tests fill, and those who act around them."""

import copy
from collections.abc import Callable
from typing import Any, Final

from magicstick.api.kinds import (
    CNPG_CLUSTER,
    CNPG_DATABASE,
    LANGFUSE_INSTANCE,
    LITELLM_INSTANCE,
    LITELLM_VIRTUAL_KEY,
    PALENA_GATEWAY,
    PALENA_MCP_SERVER,
    PALENA_MODEL,
    PALENA_OBSERVABILITY,
    PALENA_UI,
)
from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common.kinds import DEPLOYMENT, PERSISTENT_VOLUME_CLAIM, STATEFUL_SET
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.mcp_server.reconciler import McpServerReconciler
from magicstick.palena.observability.callbacks import Shape
from magicstick.palena.observability.reconciler import ObservabilityReconciler
from magicstick.palena.ui.reconciler import UiReconciler
from magicstick.runtime.plan import Plan, Step
from tests.support.palena_objects import GATEWAY, HOME, gateway, gateway_status, model, secret
from tests.support.palena_world import Asked, PalenaWorld

Object = dict[str, Any]

CHAT: Final = "chat"
WEBSEARCH: Final = "websearch"
OBSERVABILITY: Final = "obs"
MASTER_KEY: Final = {"name": f"{GATEWAY}-palena-litellm-keys", "key": "master-key"}
BUCKET: Final = {
    "provider": "s3",
    "s3": {
        "bucket": "traces",
        "endpoint": "https://s3.example.com",
        "credentials": {
            "secretRef": {"name": "s3-keys", "keys": {"accessKeyId": "access", "secretAccessKey": "secret"}}
        },
    },
}
ENDPOINT: Final = f"http://{GATEWAY}-palena-litellm.{HOME}.svc:4000"


def named(kind: str, name: str, spec: Object, namespace: str = HOME) -> Object:
    """An object of one of Palena's kinds."""
    return {
        "apiVersion": "palena.ai/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def mcp_server(name: str = WEBSEARCH, *, namespace: str = HOME, **spec: Any) -> Object:
    """A PalenaMCPServer."""
    return named("PalenaMCPServer", name, spec, namespace)


def ui(name: str = CHAT, *, namespace: str = HOME, **spec: Any) -> Object:
    """A PalenaUI on the gateway of these tests."""
    return named("PalenaUI", name, {"gatewayRef": {"name": GATEWAY}, **spec}, namespace)


def observability(name: str = OBSERVABILITY, *, namespace: str = HOME, **spec: Any) -> Object:
    """A PalenaObservability of the gateway of these tests."""
    given = {"gatewayRef": {"name": GATEWAY}, "blobStorage": copy.deepcopy(BUCKET), **spec}
    return named("PalenaObservability", name, given, namespace)


class ConsumerScene:
    """One object, its reconciler, and what is there around it."""

    def __init__(self, make: Callable[[PalenaWorld], Asked], kind: Kind, body: Object) -> None:
        self.world = PalenaWorld()
        self.reconciler = make(self.world)
        self.world.declare(self.reconciler)
        self.kind = kind
        self.namespace: str = body["metadata"]["namespace"]
        self.name: str = body["metadata"]["name"]
        self.world.put(kind, body)

    # --- reading -----------------------------------------------------------------------------------

    @property
    def live(self) -> Resource:
        return self.world.must(self.kind, self.namespace, self.name)

    @property
    def status(self) -> Any:
        return self.live.status

    @property
    def phase(self) -> str:
        return str(self.status["phase"])

    def condition(self, type_: str) -> tuple[str, str]:
        """Status and reason."""
        found = [each for each in self.status["conditions"] if each["type"] == type_]
        assert len(found) == 1, self.status
        return found[0]["status"], found[0]["reason"]

    def message(self, type_: str) -> str:
        return next(str(each["message"]) for each in self.status["conditions"] if each["type"] == type_)

    def must(self, kind: Kind, name: str, namespace: str = "") -> Resource:
        """An object that has to be there."""
        return self.world.must(kind, namespace or self.namespace, name)

    def find(self, kind: Kind, name: str, namespace: str = "") -> Resource | None:
        return self.world.find(kind, namespace or self.namespace, name)

    def written(self) -> list[Step]:
        """The steps since this was asked last."""
        found, self.world.log = self.world.log, []
        return found

    # --- acting ------------------------------------------------------------------------------------

    async def plan(self) -> Plan:
        return await self.world.plan(self.reconciler, self.namespace, self.name)

    async def settle(self) -> Plan:
        return await self.world.settle(self.reconciler, self.namespace, self.name)

    async def refused(self, error: ApiError, kind: Kind, name: str) -> Plan:
        """What is reported after the server refused a write of this object."""
        error.about = (kind, ObjectKey(self.namespace, name))
        observation = await self.reconciler.observe(ObjectKey(self.namespace, self.name))
        return self.reconciler.decide_failure(observation, error, self.world.now)

    def change(self, **spec: Any) -> None:
        """The user changes fields of the spec."""
        self.world.change(self.kind, self.namespace, self.name, spec={**self.live.spec, **spec})

    def annotate(self, **annotations: str) -> None:
        given = {f"operator.palena.ai/{name}": value for name, value in annotations.items()}
        self.world.change(self.kind, self.namespace, self.name, metadata={"annotations": given})

    def delete(self) -> None:
        self.world.dying(self.kind, self.namespace, self.name)

    def collect(self) -> None:
        """The object goes, and the garbage collector takes what it owns."""
        uid = self.live.metadata.uid
        self.world.remove(self.kind, self.namespace, self.name)
        for (kind, _, _), store in list(self.world.places.stores.items()):
            for each in store.list():
                if any(owner.uid == uid for owner in getattr(each.metadata, "owner_references", ())):
                    self.world.remove(kind, *each.metadata.key)

    @property
    def released(self) -> bool:
        """Whether the finalizer is off."""
        return "operator.palena.ai/finalizer" not in self.live.metadata.finalizers

    def report(self, kind: Kind, name: str, *, ready: bool = True) -> None:
        """The controller of a workload reports on what is there."""
        generation = self.must(kind, name).metadata.generation
        status = {"observedGeneration": generation, "readyReplicas": int(ready)}
        self.world.change(kind, self.namespace, name, status=status)

    def report_all(self, *, ready: bool = True, but: tuple[str, ...] = ()) -> None:
        """All workloads are ready, or not, save for some."""
        for kind in (DEPLOYMENT, STATEFUL_SET):
            if any(of == kind for of, _, _ in self.world.places.stores):
                for name in self.world.names(kind, self.namespace):
                    self.report(kind, name, ready=ready and name not in but)

    def gateway(
        self, *, ready: str = "True", namespace: str = HOME, name: str = GATEWAY, **spec: Any
    ) -> None:
        """The gateway is there, and ready or not."""
        self.world.put(PALENA_GATEWAY, gateway(name, namespace=namespace, **spec))
        status = {**gateway_status(name, ready=ready), "masterKeySecretRef": MASTER_KEY}
        status["endpoint"] = f"http://{name}-palena-litellm.{namespace}.svc:4000"
        status["conditions"][0]["observedGeneration"] = self.must(
            PALENA_GATEWAY, name, namespace
        ).metadata.generation
        self.world.change(PALENA_GATEWAY, namespace, name, status=status)


class McpScene(ConsumerScene):
    """An MCP server."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(
            lambda world: McpServerReconciler(world.facts, world.entropy),
            PALENA_MCP_SERVER,
            mcp_server(**spec),
        )

    async def running(self) -> Plan:
        """Everything is made and ready."""
        await self.settle()
        self.report_all()
        await self.settle()
        self.report_all()
        return await self.settle()


class UiScene(ConsumerScene):
    """A chat on a gateway that is there."""

    def __init__(self, *, namespace: str = HOME, with_gateway: bool = True, **spec: Any) -> None:
        super().__init__(
            lambda world: UiReconciler(world.facts, world.reads, world.entropy),
            PALENA_UI,
            ui(namespace=namespace, **spec),
        )
        if with_gateway:
            self.gateway(allowedConsumers={"from": "All"})

    def mint(self, value: str = "sk-minted", *, namespace: str = HOME) -> None:
        """LiteLLM's operator mints the virtual key."""
        self.must(LITELLM_VIRTUAL_KEY, "chat-librechat", namespace)
        self.world.put(SECRET, secret("chat-librechat-gateway-key", {"api-key": value}, namespace=namespace))

    def server(self, name: str = WEBSEARCH, *, namespace: str = HOME, **spec: Any) -> None:
        self.world.put(PALENA_MCP_SERVER, mcp_server(name, namespace=namespace, **spec))

    def model(self, name: str, *refs: str, **spec: Any) -> None:
        self.world.put(PALENA_MODEL, model(name, *refs, **spec))

    def volume(self, name: str = "data-chat-mongodb-0", size: str = "8Gi") -> None:
        """The volume that the StatefulSet's controller makes, with the metadata that it is told."""
        template = self.must(STATEFUL_SET, "chat-mongodb").spec["volumeClaimTemplates"][0]
        metadata = {**template["metadata"], "name": name, "namespace": self.namespace}
        spec = {**template["spec"], "resources": {"requests": {"storage": size}}}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        self.world.put(PERSISTENT_VOLUME_CLAIM, body)

    async def running(self) -> Plan:
        """Everything is made and ready."""
        await self.settle()
        if self.live.spec.get("gatewayKey", {}).get("mode", "virtualKey") == "virtualKey":
            self.mint()
        await self.settle()
        if self.live.spec.get("mongodb", {}).get("mode", "managed") == "managed":
            self.volume()
        self.report_all()
        return await self.settle()


class ObservabilityScene(ConsumerScene):
    """An observability of a gateway that is there with its stores and its LiteLLM."""

    def __init__(
        self, *, namespace: str = HOME, shape: Shape | None = None, bucket_key: bool = True, **spec: Any
    ) -> None:
        super().__init__(
            lambda world: ObservabilityReconciler(world.facts, world.reads, world.entropy, shape=shape),
            PALENA_OBSERVABILITY,
            observability(namespace=namespace, **spec),
        )
        if bucket_key:
            self.world.put(
                SECRET, secret("s3-keys", {"access": "a", "secret": "b"}, namespace=self.namespace)
            )

    def surroundings(self, **spec: Any) -> None:
        """The gateway, ready, with everything that it has."""
        self.gateway(**{"allowedConsumers": {"from": "All"}, **spec})
        self.world.put(
            CNPG_CLUSTER, foreign("postgresql.cnpg.io/v1", "Cluster", f"{GATEWAY}-palena-pg", instances=1)
        )
        self.world.put(
            LITELLM_INSTANCE,
            foreign("litellm.palena.ai/v1alpha1", "LiteLLMInstance", f"{GATEWAY}-palena-litellm"),
        )
        redis = {"host": f"{GATEWAY}-palena-redis.{HOME}.svc", "port": "6379", "password": "swordfish"}
        url = f"redis://:swordfish@{redis['host']}:6379/0"
        self.world.put(SECRET, secret(f"{GATEWAY}-palena-redis", {**redis, "url": url}))

    def database(self, *, applied: bool = True, message: str = "") -> None:
        """CloudNativePG reports on the database."""
        live = self.must(CNPG_DATABASE, "obs-langfuse", HOME)
        status: Object = {"applied": applied, "observedGeneration": live.metadata.generation}
        if message:
            status["message"] = message
        self.world.change(CNPG_DATABASE, HOME, "obs-langfuse", status=status)

    def langfuse(self, phase: str = "Running", *, ready: bool = True, **condition: str) -> None:
        """Langfuse's operator reports."""
        told = {"type": "Ready", "status": str(ready), "reason": "x", "message": "as it is", **condition}
        status = {"phase": phase, "ready": ready, "conditions": [told]}
        self.world.change(LANGFUSE_INSTANCE, self.namespace, "obs-langfuse", status=status)

    @property
    def callbacks(self) -> Any:
        return self.must(LITELLM_INSTANCE, f"{GATEWAY}-palena-litellm", HOME).spec.get("callbacks")

    def litellm(self, callbacks: Any) -> None:
        """Somebody else sets the callbacks."""
        self.world.change(LITELLM_INSTANCE, HOME, f"{GATEWAY}-palena-litellm", spec={"callbacks": callbacks})

    async def running(self, **spec: Any) -> Plan:
        """Everything is made and ready."""
        self.surroundings(**spec)
        await self.settle()
        if self.live.spec.get("database", {}).get("mode", "shared") == "shared":
            self.database()
        await self.settle()
        self.langfuse()
        return await self.settle()


def foreign(version: str, kind: str, name: str, *, namespace: str = HOME, **spec: Any) -> Object:
    """An object of somebody else's kind, as it is after a while."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
