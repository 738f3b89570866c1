"""Hardware in a corner of the cluster: Nodes that nobody runs, and vendors with labels of the corner's own.

Nodes are shared by the whole cluster, so each corner has labels, resources and definitions of its own and
removes its Nodes at the end.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from hack.bare import RefusedError
from hack.devcluster import DevCluster
from magicstick.api.labels import GPU_HOST_PREFLIGHT
from magicstick.kube.kinds import NODE, ObjectKey
from magicstick.kube.store import version
from magicstick.runtime.clock import SystemClock
from tests.support.gpu_objects import node_body
from tests.support.mirror import DEADLINE_S, Object
from tests.support.operator import RunningOperator, operator
from tests.support.oracles import quiet
from tests.support.waiting import eventually
from tests.support.world import SMALL_CATALOG, World, corner

NODES = "/api/v1/nodes"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VENDORS: Mapping[str, str] = {"gpu": "nvidia", "amd-gpu": "amd", "intel-gpu": "intel"}


class HandClock(SystemClock):
    """A clock whose hands a test moves; what sleeps on it does so in real time."""

    def __init__(self) -> None:
        self.passed_s = 1000.0

    def monotonic(self) -> float:
        return self.passed_s


class GpuWorld:
    """The hardware of a corner. `label(module)` and `resource(module)` are a vendor's in this corner.

    Attributes:
        suffix: what tells its names from those of other corners.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.suffix = world.namespace.split("-")[1]
        self._nodes: set[str] = set()

    def label(self, module: str) -> str:
        return f"{self.suffix}.example.com/{VENDORS[module]}.present"

    def resource(self, module: str) -> str:
        return f"{self.suffix}.example.com/{module}"

    def definition(self, module: str) -> str:
        return f"{VENDORS[module]}policies.{self.suffix}.example.com"

    def name(self, node: str) -> str:
        """The name that a Node of this corner has in the cluster."""
        return f"{self.suffix}-{node}"

    async def furnish(self) -> None:
        """The vendors' modules in the catalog, and an Appliance."""
        await self.world.catalog(self.catalog())
        await self.world.appliance({})

    def catalog(self) -> dict[str, Mapping[str, Any]]:
        return {**SMALL_CATALOG, **{module: self._module(module) for module in VENDORS}}

    def _module(self, module: str) -> Mapping[str, Any]:
        return {
            "path": f"manifests/modules/{module}",
            "kustomizationName": f"platform-{module}",
            "requires": ["basis"],
            "activationPolicy": "hardware-detected",
            "waitForReady": True,
            "requiredCrds": [self.definition(module)],
            "hardware": {
                "vendor": VENDORS[module],
                "detectionLabel": self.label(module),
                "supportedLabel": self.label(module),
                "architectures": ["amd64"],
                "minimumKubernetes": "1.29.0",
                "resourceNames": [self.resource(module)],
            },
        }

    # -- Nodes --------------------------------------------------------------------------------------

    async def node(self, name: str, *modules: str, slots: int = 0, **options: Any) -> None:
        """Make a Node with these vendors' labels, that offers so many of each one's resource."""
        offered = {self.resource(module): str(slots) for module in modules} if slots else {}
        made = node_body(
            self.name(name), *(self.label(module) for module in modules), allocatable=offered, **options
        )
        del made["metadata"]["uid"]
        self._nodes.add(name)
        await self.world.client.create(NODES, made)
        await self.status(name, made["status"])

    async def status(self, name: str, status: Mapping[str, Any]) -> int:
        """Report a status as the kubelet does; the version that it got."""
        return await self._patch(f"{NODES}/{self.name(name)}/status", {"status": status})

    async def set_label(self, name: str, module: str, *, present: bool) -> int:
        """Set or remove a vendor's label as Node Feature Discovery does; the version that it got."""
        return await self._labels(name, {self.label(module): "true" if present else None})

    async def set_other_label(self, name: str, label: str) -> int:
        """Set a label that no vendor has; the version that the Node got."""
        return await self._labels(name, {label: "true"})

    async def _labels(self, name: str, labels: Mapping[str, str | None]) -> int:
        return await self._patch(f"{NODES}/{self.name(name)}", {"metadata": {"labels": labels}})

    async def annotate(self, name: str, evidence: object) -> int:
        """Write down what a host says of itself, or remove it; the version that the Node got."""
        text = None if evidence is None else json.dumps(evidence)
        body = {"metadata": {"annotations": {GPU_HOST_PREFLIGHT: text}}}
        return await self._patch(f"{NODES}/{self.name(name)}", body)

    async def _patch(self, path: str, body: Mapping[str, Any]) -> int:
        answer = await self.world.client.send(
            "PATCH", path, body, content_type="application/merge-patch+json"
        )
        return int(json.loads(answer)["metadata"]["resourceVersion"])

    async def delete_node(self, name: str) -> None:
        self._nodes.discard(name)
        await self.world.client.send("DELETE", f"{NODES}/{self.name(name)}")

    async def seen(self, running: RunningOperator, name: str, resource_version: int) -> None:
        """Wait until the operator has this version of a Node, or a later one."""
        store = running.manager.caches.store(NODE)

        def there() -> bool:
            found = store.get(ObjectKey("", self.name(name)))
            return found is not None and version(found) >= resource_version

        await eventually(there)

    # -- definitions --------------------------------------------------------------------------------

    async def define(self, module: str) -> None:
        """Install the definition that the vendor's operator brings."""
        name = self.definition(module)
        plural, _, group = name.partition(".")
        kind = plural.removesuffix("ies").capitalize() + "y"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": {
                    "plural": plural,
                    "singular": kind.lower(),
                    "kind": kind,
                    "listKind": f"{kind}List",
                },
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        }
        await self.world.client.apply(f"{DEFINITIONS}/{name}", body, manager="vendor")

    # -- reading ------------------------------------------------------------------------------------

    @property
    def appliance(self) -> Object:
        """The Appliance's status."""
        found: Object = (self.world.mirror.get(self.world.appliances, "local") or {}).get("status", {})
        return found

    def entry(self, module: str = "gpu") -> Object:
        """What the Appliance says of a vendor."""
        found: Object = self.appliance.get("hardwareOperators", {}).get(module, {})
        return found

    async def until_entry(self, phase: str, module: str = "gpu", *, deadline_s: float = DEADLINE_S) -> None:
        """Wait until the Appliance reports a vendor in this phase."""
        await self.world.mirror.until(
            f"{module} is {phase}", lambda: self.entry(module).get("phase") == phase, deadline_s=deadline_s
        )

    async def clear(self) -> None:
        """Remove what is not of a namespace."""
        for name in tuple(self._nodes):
            with contextlib.suppress(RefusedError):
                await self.delete_node(name)
        for module in VENDORS:
            with contextlib.suppress(RefusedError):
                await self.world.client.send("DELETE", f"{DEFINITIONS}/{self.definition(module)}")


@contextlib.asynccontextmanager
async def hardware(world: World) -> AsyncIterator[GpuWorld]:
    """The corner with the vendors' modules in its catalog, and an Appliance."""
    gpus = GpuWorld(world)
    await gpus.furnish()
    try:
        yield gpus
    finally:
        await gpus.clear()


def passes(running: RunningOperator, controller: str) -> float:
    """How many passes a controller has ended."""
    return sum(
        sample.value
        for metric in running.manager.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "controller_runtime_reconcile_total" and sample.labels["controller"] == controller
    )


async def look(running: RunningOperator, controller: str = "hardware") -> None:
    """Have a controller look at everything, and wait until it has."""
    before = passes(running, controller)
    (found,) = (each for each in running.manager.controllers if each.name == controller)
    found.wake_all()
    await eventually(lambda: passes(running, controller) > before)


class ReadyGpu(NamedTuple):
    """A corner at rest, in which node `n1` offers a GPU of vendor `gpu`."""

    world: World
    gpus: GpuWorld
    running: RunningOperator
    clock: HandClock


@contextlib.asynccontextmanager
async def ready_gpu(cluster: DevCluster) -> AsyncIterator[ReadyGpu]:
    """The corner with an operator that has told so, and writes no more; a test moves its clock."""
    clock = HandClock()
    async with corner(cluster) as world, hardware(world) as gpus:
        await gpus.node("n1", "gpu", slots=1)
        await gpus.define("gpu")
        await world.activate("gpu")
        async with operator(world, clock=clock) as running:
            await look(running)
            clock.passed_s += 3
            await gpus.until_entry("Ready")
            await world.mirror.until("it is Ready", lambda: gpus.appliance["phase"] == "Ready")
            await quiet(world)
            yield ReadyGpu(world, gpus, running, clock)
