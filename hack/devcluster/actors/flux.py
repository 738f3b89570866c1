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

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from hack.bare import BareClient
from hack.devcluster.actors.following import Collection, Gate, Object, condition, in_background

FINALIZER = "finalizers.fluxcd.io"
MANAGER = "kustomize-controller"
STAMP = "2026-01-01T00:00:00Z"

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
        self._known = Collection(client, self._path, self._see)
        self._namespace = namespace
        self._gate = Gate()

    def pause(self) -> None:
        """Do nothing until `resume`."""
        self._gate.shut()

    def resume(self) -> None:
        """Go on, beginning with what was missed."""
        self._gate.open()

    async def run(self) -> None:
        """Follow the Kustomizations. Never returns."""
        await self._known.follow()

    async def _see(self, type_: str, item: Object) -> None:
        if type_ != "DELETED":
            await self._reconcile(item)
        name = item["metadata"]["name"]
        for other in list(self._known.items.values()):
            if name in _dependencies(other):
                await self._reconcile(other)

    async def _reconcile(self, item: Object) -> None:
        await self._gate.passed()
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
        missing = [other for other in _dependencies(item) if not _ready(self._of(other))]
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
        ready = {
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
            "status": {"observedGeneration": generation, "conditions": [ready]},
        }
        await self._client.apply(f"{self._path}/{name}/status", body, manager=MANAGER)

    def _of(self, name: str) -> Object | None:
        return self._known.items.get((self._namespace, name))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["FluxActor"]:
        """Run in the background within the block."""
        async with in_background(self.run()):
            yield self


def _dependencies(item: Object) -> list[str]:
    return [entry["name"] for entry in item["spec"].get("dependsOn", [])]


def _told(item: Object) -> tuple[int, str, str, str]:
    ready = condition(item, "Ready")
    return (
        item.get("status", {}).get("observedGeneration", 0),
        ready.get("status", ""),
        ready.get("reason", ""),
        ready.get("message", ""),
    )


def _ready(item: Object | None) -> bool:
    if item is None:
        return False
    current = item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"]
    return current and condition(item, "Ready").get("status") == "True"
