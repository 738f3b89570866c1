"""A corner of the cluster for one test: namespaces of its own, catalogs, a Flux that can be directed."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from hack.bare import BareClient
from hack.bench.objects import config_map, ready_status
from hack.devcluster import DevCluster
from hack.devcluster.actors.flux import FluxActor
from hack.devcluster.audit import AuditRecord
from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from tests.support.mirror import DEADLINE_S, Mirror, Object

GROUP = "appliance.magicstick.dev/v1alpha1"
FLUX_GROUP = "kustomize.toolkit.fluxcd.io/v1"
BASIS = "infrastructure-basis"
AGENT = "magicstick"
CRDS = Path(__file__).resolve().parents[2] / "manifests" / "crds"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

SMALL_CATALOG: Mapping[str, Mapping[str, Any]] = {
    "basis": {
        "path": "manifests/modules/basis",
        "kustomizationName": "platform-basis",
        "activationMode": "static",
    },
    "alpha": {"path": "manifests/modules/alpha", "kustomizationName": "app-alpha", "requires": ["basis"]},
    "beta": {"path": "manifests/modules/beta", "kustomizationName": "app-beta", "requires": ["alpha"]},
    "gamma": {
        "path": "manifests/modules/gamma",
        "kustomizationName": "app-gamma",
        "requires": ["basis", "beta"],
        "parameters": [{"name": "storage", "label": "Storage", "substitution": "STORAGE"}],
    },
}


class World:
    """See the module's docstring. Paths are properties; `mirror` holds what is there now."""

    def __init__(self, cluster: DevCluster, client: BareClient) -> None:
        suffix = secrets.token_hex(3)  # a kept cluster still has the corners of earlier runs
        self.cluster = cluster
        self.client = client
        self.namespace = f"test-{suffix}-system"
        self.flux_namespace = f"test-{suffix}-flux"
        self.mirror = Mirror(client, self.activations, self.appliances, self.kustomizations)
        self.flux = FluxActor(client, self.flux_namespace)

    @property
    def activations(self) -> str:
        return f"/apis/{GROUP}/namespaces/{self.namespace}/moduleactivations"

    @property
    def appliances(self) -> str:
        return f"/apis/{GROUP}/namespaces/{self.namespace}/appliances"

    @property
    def kustomizations(self) -> str:
        return f"/apis/{FLUX_GROUP}/namespaces/{self.flux_namespace}/kustomizations"

    @property
    def environment(self) -> dict[str, str]:
        """The settings that point an operator at this corner."""
        return {
            "APPLIANCE_NAMESPACE": self.namespace,
            "MODULE_CATALOG_NAMESPACE": self.namespace,
            "APP_CATALOG_NAMESPACE": self.namespace,
            "COMPUTE_TARGET_CATALOG_NAMESPACE": self.namespace,
            "MODEL_PRESETS_NAMESPACE": self.namespace,
            "FLUX_NAMESPACE": self.flux_namespace,
            "LEASE_NAMESPACE": self.namespace,
        }

    # -- furnishing ---------------------------------------------------------------------------------

    async def furnish(self, catalog: Mapping[str, Mapping[str, Any]] = SMALL_CATALOG) -> None:
        """Namespaces, catalogs, and a ready `basis`."""
        for name in (self.namespace, self.flux_namespace):
            await self.client.apply(
                f"/api/v1/namespaces/{name}",
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            )
        await self.catalog(catalog)
        await self.config_map("magicstick-app-catalog", {"applications.json": '{"applications":{}}'})
        targets = '{"schemaVersion":3,"engines":{},"targets":{}}'
        await self.config_map("magicstick-compute-target-catalog", {"targets.json": targets})
        await self.config_map(
            "magicstick-model-presets", {"presets.json": '{"schemaVersion":3,"presets":{}}'}
        )
        await self.kustomization(BASIS, {})
        await self.report(BASIS)

    async def catalog(self, modules: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the module catalog."""
        text = json.dumps({"groups": {}, "modules": modules})
        await self.config_map("magicstick-module-catalog", {"modules.json": text})

    async def config_map(self, name: str, data: dict[str, str]) -> None:
        """Replace a ConfigMap of the operator's namespace."""
        body = config_map(name, data)
        body["metadata"]["namespace"] = self.namespace
        await self.client.apply(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}", body, manager="git")

    async def kustomization(self, name: str, labels: dict[str, str]) -> None:
        """A Kustomization that the operator did not make."""
        body = {
            "apiVersion": FLUX_GROUP,
            "kind": "Kustomization",
            "metadata": {"name": name, "namespace": self.flux_namespace, "labels": labels},
            "spec": {
                "interval": "10m0s",
                "path": "./somewhere",
                "prune": True,
                "sourceRef": {"kind": "GitRepository", "name": "flux-system"},
            },
        }
        await self.client.apply(f"{self.kustomizations}/{name}", body, manager="git")

    async def report(self, name: str, status: str = "True", *, generation: int | None = None) -> None:
        """Write a Kustomization's status as Flux would."""
        live = await self.client.get(f"{self.kustomizations}/{name}")
        body = ready_status(name, generation or live["metadata"]["generation"])
        body["metadata"]["namespace"] = self.flux_namespace
        body["status"]["conditions"][0]["status"] = status
        await self.client.apply(f"{self.kustomizations}/{name}/status", body, manager="kustomize-controller")

    async def activate(self, module: str, *, name: str | None = None, **spec: Any) -> None:
        """Create or change a ModuleActivation as a user would; returns once the mirror shows it."""
        body = {
            "apiVersion": GROUP,
            "kind": "ModuleActivation",
            "metadata": {"name": name or module, "namespace": self.namespace},
            "spec": {"module": module, "enabled": True, **spec},
        }
        answer = await self.client.apply(f"{self.activations}/{name or module}", body, manager="user")
        version = int(json.loads(answer)["metadata"]["resourceVersion"])
        await self.mirror.until(f"{module} is seen", lambda: self._version(name or module) >= version)

    async def appliance(self, modules: Mapping[str, Any], **spec: Any) -> None:
        """Create or change the Appliance."""
        body = {
            "apiVersion": GROUP,
            "kind": "Appliance",
            "metadata": {"name": "local", "namespace": self.namespace},
            "spec": {
                "source": {"kind": "GitRepository", "name": "flux-system"},
                "modules": {name: {"enabled": enabled} for name, enabled in modules.items()},
                **spec,
            },
        }
        await self.client.apply(f"{self.appliances}/local", body, manager="git")

    async def delete(self, path: str, name: str) -> None:
        """Delete an object as a user would."""
        await self.client.send("DELETE", f"{path}/{name}")

    # -- reading ------------------------------------------------------------------------------------

    def activation(self, name: str) -> Object | None:
        return self.mirror.get(self.activations, name)

    def child(self, name: str) -> Object | None:
        return self.mirror.get(self.kustomizations, name)

    def _version(self, name: str) -> int:
        return int((self.activation(name) or {"metadata": {}})["metadata"].get("resourceVersion", 0))

    def phase(self, name: str) -> str:
        """The phase reported for the present generation; empty otherwise."""
        found = self.activation(name)
        if found is None:
            return ""
        status = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return str(status.get("phase", "")) if current else ""

    def reason(self, name: str) -> str:
        """The reason of the Ready condition."""
        found = self.activation(name) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((str(entry["reason"]) for entry in conditions if entry["type"] == "Ready"), "")

    def message(self, name: str) -> str:
        """What the status says, for people."""
        return str((self.activation(name) or {}).get("status", {}).get("message", ""))

    def phases_seen(self, name: str) -> set[str]:
        """Every phase that an activation was ever reported in."""
        return {
            str(obj.get("status", {}).get("phase", ""))
            for path, _, obj in self.mirror.history
            if path == self.activations and obj["metadata"]["name"] == name
        }

    async def until_phase(self, name: str, phase: str, *, deadline_s: float = DEADLINE_S) -> None:
        """Wait until a module is reported in this phase."""
        await self.mirror.until(
            f"{name} is {phase}", lambda: self.phase(name) == phase, deadline_s=deadline_s
        )

    def operator_requests(self, since: Any = None) -> list[AuditRecord]:
        """What operators asked for in this corner, without leases."""
        corner = {self.namespace, self.flux_namespace}
        return [
            record
            for record in self.cluster.audit(AGENT, since)
            if record.namespace in corner and record.resource != "leases"
        ]

    def operator_writes(self, since: Any = None) -> list[AuditRecord]:
        """The writes among them, without Events."""
        return [
            record
            for record in self.operator_requests(since)
            if record.is_write and record.resource != "events"
        ]


def install_kinds(cluster: DevCluster) -> None:
    """Our kinds and Flux's, where they are not there yet."""
    known = {item["metadata"]["name"] for item in cluster.rest.get(DEFINITIONS)["items"]}
    if not {KUSTOMIZATION.crd_name, MODULE_ACTIVATION.crd_name} <= known:
        cluster.apply([*sorted(CRDS.glob("*.yaml")), *cluster.crd_files("flux")])


@contextlib.asynccontextmanager
async def corner(cluster: DevCluster, *, flux: bool = True) -> AsyncIterator[World]:
    """A furnished corner with a running Flux (unless told otherwise). What is in it stays there."""
    await asyncio.to_thread(install_kinds, cluster)
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            BareClient(cluster.url, cluster.ca_file, cluster.admin_token, user_agent="test")
        )
        world = World(cluster, client)
        await world.furnish()
        await stack.enter_async_context(world.mirror.running())
        if flux:
            await stack.enter_async_context(world.flux.running())
        yield world
