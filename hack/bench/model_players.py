"""Whoever acts on models besides the operator, played as fast as this process can.

The actors of the development cluster (`hack.devcluster.actors`) keep to the contracts of the real programs in
every detail; with a thousand models they, and not the operator, would be measured. So here are:

- KubeAI and the kubelets: each new Model gets its Pods, Ready at once, and its replicas counted;
- Helm and KubeAI's rollout: a release that is asked to takes the profiles of the store;
- Ollama: every Pod of such a model has a port of its own and lists the source and the alias of its model;
- the model catalog: publishes what serves, and withdraws what does not, several at a time.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from hack.bare import BareClient
from hack.bench import model_objects as objects
from hack.bench.objects import FLUX_NAMESPACE
from hack.devcluster.actors.following import Collection, Object
from hack.devcluster.layout import LOOPBACK
from tests.support.kubeai import KubeAiPlayer

RELEASES: Final = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{FLUX_NAMESPACE}/helmreleases"
REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
TOGETHER_S: Final = 0.2
"""Models that begin to serve within so long are published together."""
AT_ONCE: Final = 16
"""Models that KubeAI works on at a time."""
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


class ModelPlayers:
    """See the module.

    Attributes:
        ollama: the servers of all Ollama Pods.
        published: the names in the catalog.
        ready: the activations that are Ready at their present generation.
    """

    def __init__(self, client: BareClient) -> None:
        self.ollama = OllamaServers()
        self.published: frozenset[str] = frozenset()
        self.ready: set[str] = set()
        self._client = client
        self._kubeai = KubeAiPlayer(client, FLUX_NAMESPACE)
        self._serving: set[str] = set()
        self._news, self._changed = asyncio.Event(), asyncio.Condition()
        self._models: asyncio.Queue[Object] = asyncio.Queue()
        self._made: set[str] = set()
        self._handled = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["ModelPlayers"]:
        """Play within the block; a fault of a player ends it."""
        workers = [self._make_pods() for _ in range(AT_ONCE)]
        followers = [
            Collection(self._client, path, changed).follow()
            for path, changed in (
                (objects.MODELS, self._see_model),
                (RELEASES, self._see_release),
                (objects.ACTIVATIONS, self._see_activation),
            )
        ]
        async with self.ollama.running(), asyncio.TaskGroup() as group:
            playing = [group.create_task(each) for each in (*followers, *workers, self._publish())]
            yield self
            for each in playing:
                each.cancel()

    async def install(self) -> None:
        """KubeAI, before any model."""
        await self._kubeai.install()

    async def until_ready(self, count: int, deadline_s: float) -> None:
        """Wait until so many models are Ready."""
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(lambda: len(self.ready) >= count), deadline_s)
            except TimeoutError:
                raise TimeoutError(f"only {len(self.ready)} of {count} models became Ready") from None

    # -- KubeAI and the kubelets ----------------------------------------------------------------------

    def _see_model(self, type_: str, model: Object) -> None:
        uid = model["metadata"]["uid"]
        if type_ != "DELETED" and uid not in self._made:
            self._made.add(uid)
            self._models.put_nowait(model)

    async def _make_pods(self) -> None:
        while True:
            model = await self._models.get()
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
        name, status = activation["metadata"]["name"], activation.get("status", {})
        current = status.get("observedGeneration") == activation["metadata"]["generation"]
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        told = conditions if current and type_ != "DELETED" else {}
        serves = told.get("RuntimeReady") == "True" or _external(activation, told)
        _put(self._serving, name, belongs=serves)
        if self._serving != self.published:
            self._news.set()
        async with self._changed:
            _put(self.ready, name, belongs=told.get("Ready") == "True")
            self._changed.notify_all()

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


def _put(names: set[str], name: str, *, belongs: bool) -> None:
    if belongs:
        names.add(name)
    else:
        names.discard(name)
