"""Stands in for Flux's kustomize-controller where its speed, failures and lies have to be chosen.

It applies nothing. It follows the contract by which the real one is observed (fluxcd/kustomize-controller,
`kustomize.toolkit.fluxcd.io/v1`):

- it puts its finalizer on every Kustomization that is not being deleted;
- a suspended one is left alone, its status stays as it is;
- `dependsOn`: not ready before every dependency is Ready for its current generation; a dependency that
  does not exist is an error (`DependencyNotReady`);
- after an apply: Ready with `observedGeneration`;
- on deletion it prunes what it applied, unless suspended, and removes its finalizer.

What it would have applied and pruned is remembered by name, so that tests can see data survive.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import msgspec

from hack.bare import BareClient

FINALIZER = "finalizers.fluxcd.io"
MANAGER = "kustomize-controller"
STAMP = "2026-01-01T00:00:00Z"

Object = Mapping[str, Any]
Verdict = tuple[str, str, str]
"""(status of Ready, reason, message)"""


def applied(_: Object) -> Verdict:
    """The verdict of an apply that worked."""
    return "True", "ReconciliationSucceeded", "Applied revision: main@sha1:0000000"


class FluxActor:
    """Acts on the Kustomizations of one namespace until cancelled.

    Attributes:
        verdict: decides how an apply ends; replace it to make Flux fail or stay silent ("" as status).
        installed: names whose content stands in the cluster.
        pruned: names whose content was removed, in order.
        paused: while set, nothing is done (a Flux that is down or slow).
    """

    def __init__(self, client: BareClient, namespace: str) -> None:
        self._client = client
        self._path = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{namespace}/kustomizations"
        self.verdict: Callable[[Object], Verdict] = applied
        self.installed: set[str] = set()
        self.pruned: list[str] = []
        self._known: dict[str, Object] = {}
        self._working = asyncio.Event()
        self._working.set()

    def pause(self) -> None:
        """Do nothing until `resume`."""
        self._working.clear()

    def resume(self) -> None:
        """Go on, beginning with what was missed."""
        self._working.set()

    async def run(self) -> None:
        """Follow the Kustomizations. Never returns."""
        while True:
            try:
                await self._follow()
            except (RuntimeError, OSError, TimeoutError, aiohttp.ClientError):
                await asyncio.sleep(0.1)  # the API server is away; there is nothing to wait on

    async def _follow(self) -> None:
        listing = await self._client.get(self._path)
        self._known = {item["metadata"]["name"]: item for item in listing["items"]}
        for item in listing["items"]:
            await self._reconcile(item)
        version = listing["metadata"]["resourceVersion"]
        async for line in self._client.stream(f"{self._path}?watch=1&resourceVersion={version}"):
            event = msgspec.json.decode(line)
            if event["type"] == "ERROR":
                return
            await self._see(event["type"], event["object"])

    async def _see(self, type_: str, item: Object) -> None:
        name = item["metadata"]["name"]
        if type_ == "DELETED":
            self._known.pop(name, None)
        else:
            self._known[name] = item
            await self._reconcile(item)
        for other in list(self._known.values()):
            if name in _dependencies(other):
                await self._reconcile(other)

    async def _reconcile(self, item: Object) -> None:
        await self._working.wait()
        name = item["metadata"]["name"]
        with contextlib.suppress(RuntimeError):  # it changed meanwhile; its next event comes
            if item["metadata"].get("deletionTimestamp"):
                await self._delete(item)
            elif FINALIZER not in item["metadata"].get("finalizers", []):
                finalizers = [*item["metadata"].get("finalizers", []), FINALIZER]
                await self._patch(item, {"finalizers": finalizers})
            elif not item["spec"].get("suspend"):
                await self._apply(name, item)

    async def _delete(self, item: Object) -> None:
        name = item["metadata"]["name"]
        finalizers = item["metadata"].get("finalizers", [])
        if FINALIZER not in finalizers:
            return
        if not item["spec"].get("suspend") and name in self.installed:
            self.installed.discard(name)
            self.pruned.append(name)
        await self._patch(item, {"finalizers": [entry for entry in finalizers if entry != FINALIZER]})

    async def _patch(self, item: Object, metadata: dict[str, Any]) -> None:
        version = item["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version, **metadata}}
        await self._client.merge(f"{self._path}/{item['metadata']['name']}", body)

    async def _apply(self, name: str, item: Object) -> None:
        missing = [other for other in _dependencies(item) if not _ready(self._known.get(other))]
        if missing:
            verdict: Verdict = ("False", "DependencyNotReady", f"dependency '{missing[0]}' is not ready")
        else:
            verdict = self.verdict(item)
        status, reason, message = verdict
        if not status or _told(item) == (item["metadata"]["generation"], *verdict):
            return
        if status == "True":
            self.installed.add(name)
        generation = item["metadata"]["generation"]
        condition = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": STAMP,
        }
        body = {
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": name},
            "status": {"observedGeneration": generation, "conditions": [condition]},
        }
        await self._client.apply(f"{self._path}/{name}/status", body, manager=MANAGER)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["FluxActor"]:
        """Run in the background within the block."""
        task = asyncio.create_task(self.run())
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _dependencies(item: Object) -> list[str]:
    return [entry["name"] for entry in item["spec"].get("dependsOn", [])]


def _condition(item: Object) -> Mapping[str, Any]:
    conditions = item.get("status", {}).get("conditions", [])
    return next((entry for entry in conditions if entry["type"] == "Ready"), {})


def _told(item: Object) -> tuple[int, str, str, str]:
    condition = _condition(item)
    return (
        item.get("status", {}).get("observedGeneration", 0),
        condition.get("status", ""),
        condition.get("reason", ""),
        condition.get("message", ""),
    )


def _ready(item: Object | None) -> bool:
    if item is None:
        return False
    current = item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
    return current and _condition(item).get("status") == "True"
