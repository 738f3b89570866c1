"""A corner in which a model catalog runs, with a LiteLLM that can be directed, and all that it reads.

    async with scene(cluster) as world, world.catalog() as running:
        await world.model("demo", ready=1)
        await world.until_published("demo")

The catalog runs with its own account and exactly the rights of the manifests. Its time goes by twenty
times as fast as ours, so that what it does after half a minute can be waited for.
"""

import asyncio
import base64
import contextlib
import copy
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster import DevCluster
from hack.devcluster.actors.litellm import LiteLlmActor
from hack.devcluster.audit import AuditMark, AuditRecord
from magicstick.kube.config import ClusterConfig
from magicstick.model_catalog.program import ModelCatalog
from magicstick.model_catalog.settings import CatalogSettings
from tests.support.faultproxy import Answer, Call, Fault, FaultProxy, Hold
from tests.support.kubeai import DEFINITION as MODELS
from tests.support.manifests import MANIFESTS, objects
from tests.support.mirror import Mirror, Object
from tests.support.operator import ERRORS, Entry, RunningProgram, recorded_logs
from tests.support.polling import until
from tests.support.world import CRDS, GROUP, install_kinds

ACCOUNT: Final = "ai-model-catalog-controller"
FOLDER: Final = MANIFESTS / "modules" / "model-catalog"
MASTER_KEY: Final = "sk-master-CHANGEME"
FAST: Final = 20.0
DEADLINE_S: Final = 20.0
CATALOG: Final = "ai-model-catalog"
EXTERNAL: Final = "ai-external-models"
CONSUMER: Final = {"ai-appliance.io/model-catalog-consumer": "true"}


def template_definition(*, annotations: bool = True) -> dict[str, Any]:
    """AgentTemplates, as far as they matter; an earlier schema had no annotations for Pods."""
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    pod = {"labels": texts, **({"annotations": texts} if annotations else {})}
    spec = {
        "config": {"x-kubernetes-preserve-unknown-fields": True},
        "podSpec": {"type": "object", "properties": pod},
        "workspaceDir": {"type": "string"},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "agenttemplates.kubeopencode.io"},
        "spec": {
            "group": "kubeopencode.io",
            "names": {"kind": "AgentTemplate", "plural": "agenttemplates", "singular": "agenttemplate"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


class FastTime:
    """A `SleepingClock` on which everything takes a twentieth of its time."""

    def monotonic(self) -> float:
        return time.monotonic() * FAST

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / FAST)


class Running(RunningProgram[ModelCatalog]):
    """One catalog in this process."""

    async def passes(self, count: int = 2) -> None:
        """Wait until so many more passes have ended."""
        controller = self.program.controller
        until = controller.passes + count
        async with asyncio.timeout(DEADLINE_S):
            while controller.passes < until:  # noqa: ASYNC110 - a pass that changes nothing tells nobody
                await asyncio.sleep(0.01)

    @contextlib.contextmanager
    def failing(self, path: str, status: int, *, method: str = "GET") -> Iterator[Fault]:
        """Requests of this method to paths that end so are answered with an error; streams break."""

        def concerned(call: Call) -> bool:
            return call.method == method and call.path.endswith(path)

        with self.proxy.fault(Answer(status), when=concerned) as fault:
            if method == "GET":
                self.proxy.reset_all()
            yield fault

    @contextlib.contextmanager
    def overtaken(self, path: str, meddle: Callable[[], Awaitable[None]]) -> Iterator[None]:
        """Somebody else writes between the first write to this path and its arrival."""
        hold = Hold()

        async def overtake() -> None:
            while not hold.held:  # noqa: ASYNC110 - what is held tells nobody
                await asyncio.sleep(0.01)
            await meddle()
            hold.release()

        def concerned(call: Call) -> bool:
            return call.mutating and call.path.endswith(path)

        with self.proxy.fault(hold, when=concerned):
            task = asyncio.create_task(overtake())
            try:
                yield
            finally:
                hold.release()
                task.cancel()


class CatalogWorld:
    """See the module. `mirror` holds ConfigMaps, Pods and AgentTemplates."""

    def __init__(self, cluster: DevCluster, client: BareClient, litellm: LiteLlmActor) -> None:
        suffix = secrets.token_hex(3)
        self.cluster = cluster
        self.client = client
        self.litellm = litellm
        self.namespace, self.home = f"test-{suffix}-ai", f"test-{suffix}-system"
        self.agent = f"catalog-{suffix}"
        self.config_maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.secrets = f"/api/v1/namespaces/{self.namespace}/secrets"
        self.models = f"/apis/kubeai.org/v1/namespaces/{self.namespace}/models"
        self.activations = f"/apis/{GROUP}/namespaces/{self.home}/modelactivations"
        self.templates = f"/apis/kubeopencode.io/v1alpha1/namespaces/{self.namespace}/agenttemplates"
        self.mirror = Mirror(client, self.config_maps, self.pods)
        self.logs: list[Entry] = []
        self.values: set[str] = {MASTER_KEY}
        """What must appear nowhere."""

    # -- furnishing ---------------------------------------------------------------------------------

    async def furnish(self) -> None:
        """Namespaces, the ConfigMaps that are shipped, and the account with its rights."""
        for name in (self.namespace, self.home):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.client.apply(f"/api/v1/namespaces/{name}", body)
        for _, obj in objects(FOLDER):
            if obj["kind"] != "Deployment":
                await asyncio.to_thread(self.cluster.rest.apply, self._adapted(obj))

    def _adapted(self, obj: Object) -> dict[str, Any]:
        places = {"ai": self.namespace, "ai-system": self.home}
        mine = _with_namespaces(copy.deepcopy(obj), places)
        if "namespace" not in mine["metadata"]:
            mine["metadata"]["name"] += f"-{self.namespace}"
            if mine["kind"] == "ClusterRoleBinding":
                mine["roleRef"]["name"] += f"-{self.namespace}"
        if mine["kind"] == "ConfigMap":
            mine["data"] = {key: value.replace("$${", "${") for key, value in mine["data"].items()}
        return dict(mine)

    async def model(self, name: str, *, ready: int = 1, owner: str = "", **spec: Any) -> None:
        """A KubeAI Model with so many ready replicas."""
        body = {
            "apiVersion": "kubeai.org/v1",
            "kind": "Model",
            "metadata": {
                "name": name,
                "labels": {f"{GROUP.partition('/')[0]}/modelactivation": owner} if owner else {},
            },
            "spec": {"engine": "VLLM", "features": ["TextGeneration"], "url": "hf://a/b", **spec},
        }
        await self.client.apply(f"{self.models}/{name}", body)
        status = {"replicas": {"all": 1, "ready": ready}}
        await self.client.merge(f"{self.models}/{name}/status", {"status": status})

    async def activation(
        self, name: str, type_: str = "local", *, enabled: bool = True, **content: Any
    ) -> None:
        """A ModelActivation; `content` is its `local` or `external`."""
        body = {
            "apiVersion": GROUP,
            "kind": "ModelActivation",
            "metadata": {"name": name},
            "spec": {"type": type_, "enabled": enabled, "targetNamespace": self.namespace, type_: content},
        }
        await self.client.apply(f"{self.activations}/{name}", body)

    async def runtime_ready(self, name: str, status: str = "True", *, endpoint: str = "") -> None:
        """What the operator reports of a model's runtime, for its present generation."""
        live = await self.client.get(f"{self.activations}/{name}")
        condition = {
            "type": "RuntimeReady",
            "status": status,
            "reason": "Tested",
            "message": "",
            "observedGeneration": live["metadata"]["generation"],
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        report = {"conditions": [condition], "runtimeEndpoint": endpoint}
        await self.client.merge(f"{self.activations}/{name}/status", {"status": report})

    async def key(self, secret: str, **values: str) -> None:
        """A Secret with these keys."""
        self.values |= set(values.values())
        data = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "data": data}
        await self.client.apply(f"{self.secrets}/{secret}", body)

    async def external(self, *entries: Mapping[str, Any]) -> None:
        """The other providers' models of `ai-external-models`."""
        await self.external_text(json.dumps({"models": entries}))

    async def external_text(self, text: str) -> None:
        await self.client.merge(f"{self.config_maps}/{EXTERNAL}", {"data": {"models.json": text}})

    async def pod(self, name: str, labels: Mapping[str, str] = CONSUMER, **annotations: str) -> None:
        """A Pod that runs nowhere."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}]},
        }
        await self.client.create(self.pods, body)

    async def template(self, name: str, config: Object, **labels: str) -> None:
        body = {
            "apiVersion": "kubeopencode.io/v1alpha1",
            "kind": "AgentTemplate",
            "metadata": {"name": name, "labels": labels},
            "spec": {"config": config, "workspaceDir": "/w"},
        }
        await self.client.apply(f"{self.templates}/{name}", body)

    async def install_models(self) -> None:
        """KubeAI's definition of Models."""
        await asyncio.to_thread(self.cluster.apply, dict(MODELS))

    async def gone(self, path: str) -> None:
        """Wait until the server does not know it any more."""

        async def absent() -> bool:
            return await self.client.find(path) is None

        await until(f"{path} is gone", absent, deadline_s=DEADLINE_S)

    async def delete(self, path: str, name: str) -> None:
        await self.client.send("DELETE", f"{path}/{name}")

    # -- reading ------------------------------------------------------------------------------------

    @property
    def live(self) -> Object:
        """The catalog's ConfigMap."""
        return self.mirror.get(self.config_maps, CATALOG) or {"metadata": {}, "data": {}}

    def annotation(self, name: str) -> str:
        return str(self.live["metadata"].get("annotations", {}).get(f"ai-appliance.io/{name}", ""))

    @property
    def published(self) -> list[str]:
        """The ids in `catalog.json`."""
        text = self.live.get("data", {}).get("catalog.json", '{"models": []}')
        return [str(each["id"]) for each in json.loads(text)["models"]]

    @property
    def default_chat(self) -> str:
        """The default chat model."""
        return str(self.live.get("data", {}).get("AI_APPLIANCE_DEFAULT_CHAT_MODEL", ""))

    @property
    def routes(self) -> list[str]:
        """The names in LiteLLM."""
        return sorted(str(each["model_name"]) for each in self.litellm.models.values())

    async def until(self, what: str, holds: Any, *, deadline_s: float = DEADLINE_S) -> None:
        """Wait for a state of the cluster."""
        await self.mirror.until(what, holds, deadline_s=deadline_s)

    async def until_published(self, *names: str) -> None:
        """Wait until the catalog has exactly these models; LiteLLM has them as well, then."""
        wanted = sorted(names)
        await self.until(f"published: {wanted}", lambda: sorted(self.published) == wanted and self._real)
        assert sorted(set(self.routes)) == wanted

    @property
    def _real(self) -> bool:
        return bool(self.live["data"].get("AI_APPLIANCE_MODEL_CATALOG_READY") == "true")

    def requests(self, since: AuditMark) -> list[AuditRecord]:
        """What the catalog asked the API server for, without leases."""
        records = self.cluster.audit(self.agent, since)
        return [each for each in records if each.resource != "leases"]

    # -- running ------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def catalog(self, *, agent: str = "", **settings: Any) -> AsyncIterator[Running]:
        """A catalog, until the block ends. It must end by itself, and log no error."""
        token = await asyncio.to_thread(self.cluster.service_account_token, self.namespace, ACCOUNT)
        given = {
            "namespace": self.namespace,
            "appliance_namespace": self.home,
            "litellm_base_url": self.litellm.url,
            "litellm_api_base": "http://litellm.example.com/v1",
            "litellm_master_key": MASTER_KEY,
            "health_bind_address": "off",
            "metrics_bind_address": "off",
            "leader_election": False,
            "sync_timeout_seconds": 100.0,
            # A poll of fifteen seconds of its time is less than one of ours.
            "catalog_poll_seconds": 10.0,
            "catalog_watch_seconds": 5.0,
        }
        async with FaultProxy(self.cluster.url, self.cluster.ca_file) as proxy:
            config = ClusterConfig.plain(proxy.url, token=token)
            with recorded_logs() as logs:
                program = ModelCatalog(
                    CatalogSettings.load(**{**given, **settings}),
                    config,
                    clock=FastTime(),
                    user_agent=agent or self.agent,
                )
                running = Running(program, proxy, logs)
                running.start()
                try:
                    yield running
                finally:
                    proxy.release()
                    await running.stop()
                    self.logs += logs
        errors = [entry for entry in logs if entry["log_level"] in ERRORS]
        assert not errors, f"the catalog logged errors: {errors}"

    async def assert_quiet(self, running: Running, *, reads: Sequence[tuple[str, str]] = ()) -> None:
        """Passes without any change write nothing anywhere, and read no more than they have to.

        `reads` are the (verb, resource) that a poll of this world needs.
        """
        await self.until("no restart is owed", lambda: not self.annotation("restart-pending"))
        await running.passes(2)
        mark, calls = self.cluster.audit_mark(), len(self.litellm.calls)
        await running.passes(2)
        asked = {(each.verb, each.resource) for each in self.requests(mark) if each.verb != "watch"}
        needed = {*reads, *([("list", "agenttemplates")] if self.default_chat else [])}
        assert asked == needed, f"{asked} instead of {needed}"
        since = self.litellm.calls[calls:]
        assert {(call.method, call.path) for call in since} == {("GET", "/model/info")}
        assert len(since) <= 3

    async def assert_secrets_kept(self) -> None:
        """No value of a key is in logs, Events, ConfigMaps or statuses."""
        places = [
            *[await self.client.get(path) for path in (self.config_maps, self.activations, self.models)],
            await self.client.get(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"),
            [*self.mirror.history],
            [*map(str, self.logs)],
        ]
        text = json.dumps(places, default=str)
        encoded = {base64.b64encode(each.encode()).decode() for each in self.values}
        assert not [each for each in self.values | encoded if each in text]


@contextlib.asynccontextmanager
async def scene(cluster: DevCluster, *, patches: bool = True) -> AsyncIterator[CatalogWorld]:
    """A furnished corner, and the oracles at its end."""
    await asyncio.to_thread(install_kinds, cluster)
    await asyncio.to_thread(
        cluster.apply, [dict(MODELS), template_definition(), *sorted(CRDS.glob("*.yaml"))]
    )
    async with (
        BareClient(cluster.url, cluster.ca_file, cluster.admin_token, user_agent="test") as client,
        LiteLlmActor(MASTER_KEY, patches=patches).running() as litellm,
    ):
        world = CatalogWorld(cluster, client, litellm)
        await world.furnish()
        async with world.mirror.running():
            yield world
            await world.assert_secrets_kept()


def _with_namespaces(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            name: places.get(each, each)
            if name == "namespace" and isinstance(each, str)
            else _with_namespaces(each, places)
            for name, each in value.items()
        }
    return [_with_namespaces(each, places) for each in value] if isinstance(value, list) else value
