"""The kubelets of all Pods of models, and the servers in these Pods.

Those of KubeAI's Models carry an annotation and are directed by their Model; those of realtime runtimes are
known by their label, and directed by annotations of their own.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster.actors.following import Collection, Key, Object, Workers, direction
from hack.devcluster.actors.kubeai_pods import PLAYED, PORT_ANNOTATION
from hack.devcluster.actors.kubelet import (
    HAS_PROCESS,
    NO_SERVER,
    PodState,
    has_ended,
    ollama_of,
    status_of,
    uses_gpu,
)
from hack.devcluster.actors.ollama import SIZE, Mood, OllamaServer
from hack.devcluster.actors.omni import OmniMood, OmniServer, is_omni

MANAGER: Final = "kubelet"
Server = OllamaServer | OmniServer

log = logging.getLogger(__name__)


class ModelNode:
    """Acts on the Pods of models that have a node, as they are directed.

    Attributes:
        servers: the server of each Pod that has one, by the Pod's uid.
    """

    def __init__(
        self,
        client: BareClient,
        pods: Collection,
        model_of: Callable[[Object], Object],
        clock: Callable[[], datetime],
    ) -> None:
        self.servers: dict[str, Server] = {}
        self._client = client
        self._pods = pods
        self._model_of = model_of
        self._clock = clock
        self._workers = Workers(self._play)
        self._begun: dict[str, float] = {}
        self._uids: dict[Key, str] = {}

    async def run(self, *others: Coroutine[Any, Any, None]) -> None:
        """Play, with the loops that wake us, until cancelled; no server is left then."""
        try:
            await self._workers.run(*others)
        finally:
            for server in self.servers.values():
                await server.stop()

    def wake(self, key: Key) -> None:
        """Have a Pod looked at."""
        self._workers.wake(key)

    async def _play(self, key: Key) -> None:
        pod = self._pods.items.get(key)
        uid = "" if pod is None else pod["metadata"]["uid"]
        if (before := self._uids.get(key, uid)) != uid:
            await self._forget(before)
        self._uids[key] = uid
        if pod is None:
            del self._uids[key]
            return
        if not _is_played(pod) or not pod["spec"].get("nodeName"):
            return
        if has_ended(pod) or "deletionTimestamp" in pod["metadata"]:
            await self._forget(uid)
            return
        director = pod if is_omni(pod) else self._model_of(pod)
        state = self._state(key, uid, director)
        pod = await self._serve(pod, state, director)
        await self._tell(pod, state)

    def _state(self, key: Key, uid: str, director: Object) -> PodState:
        """As directed; ready only after the delay."""
        told = direction(director, "pods")
        state = PodState(told) if told in set(PodState) else PodState.RUNNING
        if state in {PodState.UNSCHEDULABLE, PodState.MISSING}:
            state = PodState.RUNNING  # about Pods to come, and this one has a node
        if state is not PodState.RUNNING:
            return state
        loop = asyncio.get_running_loop()
        begun = self._begun.setdefault(uid, loop.time())
        left = begun + _seconds(direction(director, "delay")) - loop.time()
        if left <= 0:
            return state
        loop.call_later(left, self.wake, key)
        return PodState.STARTING

    async def _serve(self, pod: Object, state: PodState, director: Object) -> Object:
        """Have the Pod's server listen, or not; returns the Pod, which says where."""
        uid = pod["metadata"]["uid"]
        server = self.servers.get(uid) or _server_for(pod)
        if server is None or state not in HAS_PROCESS:
            await self._forget(uid, for_good=False)
            return pod
        if uid not in self.servers:
            await server.start()
            self.servers[uid] = server
        if isinstance(server, OmniServer):
            told = direction(director, "omni")
            server.turn(OmniMood(told) if told in set(OmniMood) else OmniMood.WELL)
            return pod
        told = direction(director, "ollama")
        server.turn(Mood(told) if told in set(Mood) else Mood.WELL)
        port = {PORT_ANNOTATION: str(server.port)}
        if pod["metadata"]["annotations"].items() >= port.items():
            return pod
        body = {"metadata": {"uid": uid, "annotations": port}}
        return self._put(await self._client.merge(self._path(pod), body))

    async def _tell(self, pod: Object, state: PodState) -> None:
        server = self.servers.get(pod["metadata"]["uid"])
        before = pod.get("status", {}).get("podIP", NO_SERVER)
        status = status_of(pod, state, self._clock(), before if server is None else server.host)
        if _says(pod.get("status", {}), status):
            return
        meta = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status}
        self._put(await self._client.apply(f"{self._path(pod)}/status", body, manager=MANAGER))

    async def _forget(self, uid: str, *, for_good: bool = True) -> None:
        if for_good:
            self._begun.pop(uid, None)
        server = self.servers.pop(uid, None)
        if server is not None:
            await server.stop()

    def _put(self, answer: bytes) -> Object:
        written: Object = json.loads(answer)
        self._pods.put(written)
        return written

    def _path(self, pod: Object) -> str:
        return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _is_played(pod: Object) -> bool:
    return is_omni(pod) or PLAYED in pod["metadata"].get("annotations", {})


def _server_for(pod: Object) -> Server | None:
    """The server that a Pod runs; None for one that nobody plays."""
    if is_omni(pod):
        return OmniServer(pod["metadata"]["uid"])
    names = ollama_of(pod)
    return None if names is None else OllamaServer(*names, size_vram=SIZE if uses_gpu(pod) else 0)


def _says(live: Object, status: Object) -> bool:
    """Whether a status has all of this already; when a condition came about does not matter."""
    present = {each["type"]: each["status"] for each in live.get("conditions", [])}
    wanted = {each["type"]: each["status"] for each in status["conditions"]}
    rest = {name: value for name, value in status.items() if name != "conditions"}
    return present.items() >= wanted.items() and _within(rest, live)


def _within(wanted: object, live: object) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(_within(wanted[key], live.get(key)) for key in wanted)
    if isinstance(wanted, list) and isinstance(live, list):
        return len(live) == len(wanted) and all(map(_within, wanted, live))
    return wanted == live


def _seconds(text: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        log.warning("delay: %r is no number of seconds", text)
        return 0.0
