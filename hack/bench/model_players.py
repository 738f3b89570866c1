"""Whoever acts on models besides the operator, played as fast as this process can.

- KubeAI and the kubelets: each new Model gets its Pods, Ready at once, and its replicas counted;
- Helm and KubeAI's rollout: a release that is asked to takes the profiles of the store;
- Ollama: every Pod of such a model has a port of its own and lists the source and the alias of its model;
- the model catalog: publishes what serves, and withdraws what does not, several at a time.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import Any, Final, Self

from aiohttp import web

from hack.bare import BareClient
from hack.bench import model_objects as objects
from hack.bench.objects import FLUX_NAMESPACE, HELM
from hack.bench.players import Changed, Players, is_current, put
from hack.devcluster.actors.following import Object, conditions
from hack.devcluster.layout import LOOPBACK
from tests.support.kubeai import KubeAiPlayer

RELEASES: Final = f"/apis/{HELM}/namespaces/{FLUX_NAMESPACE}/helmreleases"
REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
TOGETHER_S: Final = 0.2
"""Models that begin to serve within so long are published together."""
NO_SERVER: Final = "192.0.2.10"
"""The address of Pods that nobody asks anything (documentation, RFC 5737)."""


class OllamaServers:
    """One HTTP server; each Pod has a port of its own on loopback, by which it knows what it serves.

    Attributes:
        polls: how often each Pod was asked for its models, by port.
        others: all other requests, as `method path`.
    """

    def __init__(self) -> None:
        self.polls: Counter[int] = Counter()
        self.others: list[str] = []
        self._names: dict[int, tuple[str, str]] = {}
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["OllamaServers"]:
        """Serve within the block."""
        await self._runner.setup()
        try:
            yield self
        finally:
            await self._runner.cleanup()

    def forget(self) -> None:
        """Count from now."""
        self.polls.clear()
        self.others.clear()

    async def listen(self, source: str, alias: str) -> int:
        """A Pod more; its port."""
        listener = socket.create_server((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        self._names[port] = (source, alias)
        await web.SockSite(self._runner, listener).start()
        return port

    async def _answer(self, request: web.Request) -> web.Response:
        port = request.url.port or 0
        if (request.method, request.path) != ("GET", "/api/tags"):
            self.others.append(f"{request.method} {request.path}")
            return web.Response(status=404)
        self.polls[port] += 1
        return web.json_response({"models": [{"name": name, "model": name} for name in self._names[port]]})


class ModelPlayers(Players):
    """See the module. Activations are counted; their goal is to be Ready.

    Attributes:
        ollama: the servers of all Ollama Pods.
        published: the names in the catalog.
    """

    def __init__(self, client: BareClient) -> None:
        super().__init__(client)
        self.ollama = OllamaServers()
        self.published: frozenset[str] = frozenset()
        self._kubeai = KubeAiPlayer(client, FLUX_NAMESPACE)
        self._serving: set[str] = set()
        self._news = asyncio.Event()
        self._made: set[str] = set()
        self._handled = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Play within the block; a fault of a player ends it."""
        async with self.ollama.running(), super().running():
            yield self

    def _followed(self) -> Mapping[str, Changed]:
        return {
            objects.MODELS: self._see_model,
            RELEASES: self._see_release,
            objects.ACTIVATIONS: self._see_activation,
        }

    def _loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._publish(),)

    async def install(self) -> None:
        """KubeAI, before any model."""
        await self._kubeai.install()

    # -- KubeAI and the kubelets ----------------------------------------------------------------------

    def _see_model(self, type_: str, model: Object) -> None:
        uid = model["metadata"]["uid"]
        if type_ != "DELETED" and uid not in self._made:
            self._made.add(uid)
            self._soon(self._make_pods, model)

    async def _make_pods(self, model: Object) -> None:
        name, replicas = model["metadata"]["name"], int(model["spec"].get("minReplicas", 1))
        for place in range(replicas):
            await self._make_pod(model, place)
        counts = {"status": {"replicas": {"all": replicas, "ready": replicas}}}
        await self._client.merge(f"{objects.MODELS}/{name}/status", counts)

    async def _make_pod(self, model: Object, place: int) -> None:
        body, address = objects.pod(model, place), NO_SERVER
        if model["spec"]["engine"] == "OLlama":
            source = model["spec"]["url"].removeprefix("ollama://")
            port = await self.ollama.listen(source, f"{model['metadata']['name']}:latest")
            body["metadata"]["annotations"] = {objects.PORT: str(port)}
            address = LOOPBACK
        await self._client.create(objects.PODS, body)
        path = f"{objects.PODS}/{body['metadata']['name']}/status"
        await self._client.merge(path, {"status": objects.pod_status(address)})

    # -- Helm -----------------------------------------------------------------------------------------

    async def _see_release(self, _: str, release: Object) -> None:
        asked = release["metadata"].get("annotations", {}).get(REQUESTED_AT, "")
        if asked != self._handled:
            await self._kubeai.take_now()
            self._handled = asked

    # -- the model catalog ----------------------------------------------------------------------------

    async def _see_activation(self, type_: str, activation: Object) -> None:
        current = is_current(activation) and type_ != "DELETED"
        told = {each["type"]: each["status"] for each in conditions(activation)} if current else {}
        serves = told.get("RuntimeReady") == "True" or _external(activation, told)
        put(self._serving, activation["metadata"]["name"], belongs=serves)
        if self._serving != self.published:
            self._news.set()
        await self._count(type_, activation, ready=told.get("Ready") == "True")

    async def _publish(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(TOGETHER_S)  # as the model catalog does, so that one write tells of many
            self._news.clear()
            names = frozenset(self._serving)
            if names != self.published:
                self.published = names
                await self._client.apply(
                    objects.CATALOG, objects.catalog(sorted(names)), manager="model-catalog"
                )


def _external(activation: Object, told: Object) -> bool:
    return bool(told) and activation["spec"]["type"] == "external"
