"""Stands in for Node Feature Discovery and for the GPU operators of NVIDIA, AMD and Intel.

Node Feature Discovery begins when its release stands (module `hardware-discovery`): it labels the nodes
with what `hardware` says of them, and takes its labels back when the release goes. Each vendor's software
begins on a labelled node when its own release stands: it offers the cards as `status.allocatable` and
`status.capacity`; NVIDIA's also has its ClusterPolicy and labels of its own. When the release goes, or
while a plugin is down, `allocatable` is 0 and `capacity` stays, as a kubelet has it. Labels that vanish
later do not end a plugin that runs.

AMD's real operator waits for a DeviceConfig before it starts its device plugin. This one does not: it
offers the cards when the release stands and the node is labelled.

What a test can direct: `lose_labels`, `return_labels`, `stop_plugin`, `start_plugin`, `restart_plugin`.
What a person can, as annotations of a node:

- `devcluster.magicstick.dev/lose-labels: forever`, or a number of seconds, counted from its first sight;
- `devcluster.magicstick.dev/plugins: down`.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster.actors.following import (
    Collection,
    Key,
    Object,
    Workers,
    direction,
    in_background,
    key_of,
)
from hack.devcluster.actors.hardware import (
    CARDS,
    cards_of,
    feature_labels,
    offered,
    plugin_labels,
    plugin_of,
    selects,
)
from hack.devcluster.actors.helm import RELEASES
from hack.devcluster.actors.releases import is_deployed

NODES: Final = "/api/v1/nodes"
CLUSTER_POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"
POLICY_KEY: Final = ("clusterpolicies", "cluster-policy")
VENDORS: Final = tuple(sorted({card.vendor for card in CARDS.values()}))
FOREVER: Final = float("inf")

log = logging.getLogger(__name__)


class GpuActor:
    """Acts on all Nodes of a cluster until cancelled."""

    def __init__(self, client: BareClient) -> None:
        self._client = client
        self._workers = Workers(self._work)
        self._nodes = Collection(client, NODES, self._see)
        self._releases = Collection(client, f"{RELEASES}/helmreleases", lambda *_: self.look_again())
        self._down: set[str] = set()
        self._lost_until: dict[str, float] = {}
        self._heard: set[tuple[str, str]] = set()

    async def run(self) -> None:
        """Follow nodes and releases. Never returns."""
        await self._workers.run(self._nodes.follow(), self._releases.follow())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["GpuActor"]:
        """Run in the background within the block."""
        async with in_background(self.run()):
            yield self

    def look_again(self) -> None:
        """Look at every node."""
        for key in self._nodes.items:
            self._workers.wake(key)
        self._workers.wake(POLICY_KEY)

    # --- directions -----------------------------------------------------------------------------------

    def lose_labels(self, nodes: Iterable[str] | None = None, *, for_s: float = FOREVER) -> None:
        """Node Feature Discovery takes its labels from these nodes, or from all, for so many seconds."""
        loop = asyncio.get_running_loop()
        for node in [name for _, name in self._nodes.items] if nodes is None else nodes:
            self._lost_until[node] = loop.time() + for_s
        if for_s < FOREVER:
            loop.call_later(for_s, self.look_again)
        self.look_again()

    def return_labels(self) -> None:
        """It publishes them again."""
        self._lost_until.clear()
        self.look_again()

    def stop_plugin(self, vendor: str) -> None:
        """The device plugin of a vendor does not run: it is slow, fails, or restarts."""
        self._down.add(vendor)
        self.look_again()

    def start_plugin(self, vendor: str) -> None:
        """It runs."""
        self._down.discard(vendor)
        self.look_again()

    async def restart_plugin(self, vendor: str) -> None:
        """Returns when it runs again, after every node has seen it gone."""
        self.stop_plugin(vendor)
        for node in list(self._nodes.items.values()):
            await self._show_resources(node, vendor)
        self.start_plugin(vendor)

    # --- one node -------------------------------------------------------------------------------------

    def _see(self, _: str, node: Object) -> None:
        self._hear(node)
        self._workers.wake(key_of(node))

    def _hear(self, node: Object) -> None:
        name, told = node["metadata"]["name"], direction(node, "lose-labels")
        if (name, told) in self._heard:
            return
        self._heard = {each for each in self._heard if each[0] != name} | {(name, told)}
        if not told:
            self._lost_until.pop(name, None)
            return
        try:
            self.lose_labels([name], for_s=float(told.replace("forever", "inf")))
        except ValueError as wrong:
            log.warning("node %s: lose-labels: %s", name, wrong)

    async def _work(self, key: Key) -> None:
        await self._releases.listed.wait()
        if key == POLICY_KEY:
            await self._show_policy()
            return
        node = self._nodes.items.get(key)
        if node is None:
            return
        try:
            cards_of(node)
        except ValueError as wrong:
            log.warning("node %s: hardware: %s", key[1], wrong)
            return
        node = await self._label(node, "nfd-master", self._features(node))
        for vendor in VENDORS:
            node = await self._show_resources(node, vendor)
            runs = self._runs(node, vendor)
            node = await self._label(node, f"{vendor}-discovery", plugin_labels(node, vendor) if runs else {})

    def _deployed(self) -> frozenset[str]:
        """The names of the releases whose charts stand."""
        return frozenset(
            release["metadata"]["name"]
            for release in self._releases.items.values()
            if is_deployed(release) and "deletionTimestamp" not in release["metadata"]
        )

    def _features(self, node: Object) -> dict[str, str]:
        until = self._lost_until.get(node["metadata"]["name"], 0.0)
        lost = asyncio.get_running_loop().time() < until
        return {} if lost else feature_labels(node, self._deployed())

    def _runs(self, node: Object, vendor: str) -> bool:
        """Whether a vendor's plugin serves a node; once it did, labels that vanish do not end it."""
        if vendor in self._down or direction(node, "plugins") == "down":
            return False
        if plugin_of(vendor) not in self._deployed():
            return False
        return selects(node, vendor) or _was_served(node, vendor)

    async def _label(self, node: Object, manager: str, labels: dict[str, str]) -> Object:
        """Make these the labels of this manager: others of its own go, those of others stay."""
        present = {label: node["metadata"].get("labels", {}).get(label) for label in labels}
        if present == labels and _owned_labels(node, manager) == labels.keys():
            return node
        return await self._apply(node, "", manager, {"metadata": {"labels": labels}})

    async def _show_resources(self, node: Object, vendor: str) -> Object:
        amounts = offered(node, vendor)
        if not amounts:
            return node
        runs = self._runs(node, vendor)
        if not runs and not _was_served(node, vendor):
            return node
        status = {
            "capacity": {name: str(amount) for name, amount in amounts.items()},
            "allocatable": {name: str(amount if runs else 0) for name, amount in amounts.items()},
        }
        present = node.get("status", {})
        if all(present.get(key, {}).items() >= wanted.items() for key, wanted in status.items()):
            return node
        return await self._apply(node, "/status", f"{vendor}-device-plugin", {"status": status})

    async def _apply(self, node: Object, subresource: str, manager: str, part: dict[str, Any]) -> Object:
        meta = node["metadata"]
        metadata = {"name": meta["name"], "uid": meta["uid"], **part.get("metadata", {})}
        body = {"apiVersion": "v1", "kind": "Node", **part, "metadata": metadata}
        answer = await self._client.apply(f"{NODES}/{meta['name']}{subresource}", body, manager=manager)
        written: Object = json.loads(answer)
        self._nodes.put(written)
        return written

    # --- NVIDIA's own object --------------------------------------------------------------------------

    async def _show_policy(self) -> None:
        """The chart makes it and takes it away, the vendor's operator reports on it."""
        name = POLICY_KEY[1]
        head: dict[str, Any] = {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": {"name": name},
        }
        found = await self._client.find(f"{CLUSTER_POLICIES}/{name}")
        if plugin_of("nvidia") not in self._deployed():
            if found is not None:
                await self._client.send("DELETE", f"{CLUSTER_POLICIES}/{name}")
            return
        if found is None:
            await self._client.apply(f"{CLUSTER_POLICIES}/{name}", {**head, "spec": {}}, manager="helm")
        state = "notReady" if "nvidia" in self._down else "ready"
        if (found or {}).get("status", {}).get("state") != state:
            body = {**head, "status": {"state": state, "namespace": "gpu-operator"}}
            await self._client.apply(f"{CLUSTER_POLICIES}/{name}/status", body, manager="gpu-operator")


def _was_served(node: Object, vendor: str) -> bool:
    amounts = offered(node, vendor)
    return bool(amounts) and set(amounts) <= set(node.get("status", {}).get("capacity", {}))


def _owned_labels(node: Object, manager: str) -> set[str]:
    """The labels that a field manager has applied."""
    owned: set[str] = set()
    for entry in node["metadata"].get("managedFields", []):
        if entry["manager"] == manager and entry["operation"] == "Apply" and "subresource" not in entry:
            fields = entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
            owned |= {name.removeprefix("f:") for name in fields if name.startswith("f:")}
    return owned
