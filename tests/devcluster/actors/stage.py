"""Where actors are watched: a namespace, what they act on, and ways to wait for what they do."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster import DevCluster
from hack.devcluster.actors.following import Object, condition
from tests.support.mirror import Mirror

HELM: Final = "/apis/helm.toolkit.fluxcd.io/v2"
SOURCE: Final = "/apis/source.toolkit.fluxcd.io/v1"
RELEASES: Final = f"{HELM}/helmreleases"
REPOSITORIES: Final = f"{SOURCE}/helmrepositories"
NODES: Final = "/api/v1/nodes"
SECRETS: Final = "/api/v1/secrets"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CURTAIN: Final = (RELEASES, REPOSITORIES, f"{SOURCE}/ocirepositories", NODES)
"""Cleared after each test. The names of what stays are different in each."""

_numbers = itertools.count(1)


class Stage:
    """See the module. `namespace` is new for each test, and holds a chart repository `charts`."""

    def __init__(self, cluster: DevCluster, client: BareClient) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = f"stage-{next(_numbers)}"
        self.mirror = Mirror(client, RELEASES, REPOSITORIES, NODES, SECRETS, DEFINITIONS)

    async def open(self) -> None:
        """The namespace and the repository."""
        await self.make_namespace(self.namespace)
        await self.repository("charts")

    async def make_namespace(self, name: str) -> None:
        """A bare one."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.client.create("/api/v1/namespaces", body)

    async def clear(self, path: str) -> None:
        """Delete all objects of a cluster-wide collection, finalizers or not."""
        for item in (await self.client.get(path))["items"]:
            own = self._own(path, item["metadata"]["name"], item["metadata"].get("namespace", ""))
            await self.client.merge(own, {"metadata": {"finalizers": None}})
            if "deletionTimestamp" not in item["metadata"]:
                await self.client.send("DELETE", own)

    # -- objects ------------------------------------------------------------------------------------

    async def repository(self, name: str, **spec: object) -> None:
        """A HelmRepository; of type `oci` unless told otherwise, which needs no actor to be Ready."""
        url = "oci://example.com/charts" if spec.get("type", "oci") == "oci" else "https://example.com/charts"
        body = {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "HelmRepository",
            "metadata": {"name": name},
            "spec": {"interval": "1h", "url": url, **({"type": "oci"} | spec)},
        }
        await self.client.apply(self._own(REPOSITORIES, name), body)

    async def release(
        self,
        name: str,
        *,
        chart: str = "nothing",
        repository: str = "charts",
        annotations: dict[str, str] | None = None,
        **spec: object,
    ) -> None:
        """A HelmRelease as a module would have it; applied anew it is changed."""
        body = {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {
                "interval": "10m",
                "chart": {
                    "spec": {
                        "chart": chart,
                        "version": "1.0.0",
                        "sourceRef": {"kind": "HelmRepository", "name": repository},
                    }
                },
                **spec,
            },
        }
        await self.client.apply(self._own(RELEASES, name), body)

    async def delete_release(self, name: str) -> None:
        """As a user would."""
        await self.client.send("DELETE", self._own(RELEASES, name))

    async def annotate(
        self, path: str, name: str, namespace: str | None = None, **values: str | None
    ) -> None:
        """Directions for the actors; None takes one away. `_` stands for `-`."""
        named = {f"devcluster.magicstick.dev/{key.replace('_', '-')}": text for key, text in values.items()}
        own = self._own(path, name, self.namespace if namespace is None else namespace)
        await self.client.merge(own, {"metadata": {"annotations": named}})

    async def ask(self, name: str, token: str, *, reset: bool = False, force: bool = False) -> None:
        """`flux reconcile helmrelease`, with --reset or --force."""
        asked = {"requestedAt": True, "resetAt": reset, "forceAt": force}
        annotations = {f"reconcile.fluxcd.io/{name}": token for name, wanted in asked.items() if wanted}
        body = {"metadata": {"annotations": annotations}}
        await self.client.merge(self._own(RELEASES, name), body)

    async def config_map(self, name: str, **data: str) -> None:
        """Values for a release."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        await self.client.apply(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}", body)

    async def node(self, name: str, hardware: str, **annotations: str) -> None:
        """A node with hidden hardware, without a kubelet."""
        marks = {"hardware": hardware, **annotations}
        named = {f"devcluster.magicstick.dev/{key.replace('_', '-')}": text for key, text in marks.items()}
        await asyncio.to_thread(self.cluster.add_node, name, annotations=named, ready=False)

    # -- what is seen -------------------------------------------------------------------------------

    def get(self, path: str, name: str) -> Object:
        """An object; empty while it is not there."""
        return self.mirror.get(path, name) or {"metadata": {}}

    def ready(self, name: str) -> tuple[str, str]:
        """(status, reason) of a release's Ready condition."""
        found = condition(self.get(RELEASES, name), "Ready")
        return found.get("status", ""), found.get("reason", "")

    def seen_ready(self, name: str) -> list[tuple[str, str]]:
        """Every (status, reason) that Ready had, without repetitions."""
        states = [
            (ready["status"], ready["reason"])
            for path, _, obj in self.mirror.history
            if path == RELEASES and obj["metadata"]["name"] == name and (ready := condition(obj, "Ready"))
        ]
        return [state for state, _ in itertools.groupby(states)]

    def status(self, name: str) -> dict[str, Any]:
        """The status of a release."""
        return dict(self.get(RELEASES, name).get("status", {}))

    def labels(self, node: str) -> dict[str, str]:
        """The labels of a node."""
        return dict(self.get(NODES, node)["metadata"].get("labels", {}))

    def resource(self, node: str, name: str) -> tuple[str | None, str | None]:
        """(capacity, allocatable) of a resource of a node."""
        status = self.get(NODES, node).get("status", {})
        return status.get("capacity", {}).get(name), status.get("allocatable", {}).get(name)

    async def until(self, what: str, holds: Callable[[], object]) -> None:
        """Wait for a state."""
        await self.mirror.until(what, holds)

    async def until_ready(self, name: str, status: str, reason: str) -> None:
        """Wait for a release's Ready condition."""
        await self.until(f"{name} is {status} {reason}", lambda: self.ready(name) == (status, reason))

    def _own(self, path: str, name: str, namespace: str | None = None) -> str:
        namespace = self.namespace if namespace is None else namespace
        root, plural = path.rsplit("/", 1)
        return f"{root}/namespaces/{namespace}/{plural}/{name}" if namespace else f"{path}/{name}"
