"""Where the operators that Palena drives are watched: a namespace, their kinds, and hands for the rest.

Nobody runs Pods here: what a kubelet or a controller of workloads would report, a test reports.
"""

import base64
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from hack.bare import BareClient, RefusedError
from hack.devcluster import DevCluster
from hack.devcluster.actors.definitions import DEFINITIONS, PALENA_CRDS
from hack.devcluster.actors.following import DIRECTIONS, Object, condition
from hack.devcluster.actors.palena import PalenaActors
from tests.support.mirror import Mirror

CNPG: Final = "/apis/postgresql.cnpg.io/v1"
LITELLM: Final = "/apis/litellm.palena.ai/v1alpha1"
LANGFUSE: Final = "/apis/langfuse.palena.ai/v1alpha1"
APIS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("clusters", "databases", "databaseroles"), CNPG),
    **dict.fromkeys(("litellminstances", "litellmmodels", "litellmvirtualkeys"), LITELLM),
    "langfuseinstances": LANGFUSE,
    "deployments": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    **dict.fromkeys(
        ("pods", "secrets", "services", "persistentvolumeclaims", "serviceaccounts", "configmaps"), "/api/v1"
    ),
}
KINDS: Final[Mapping[str, str]] = {
    "clusters": "Cluster",
    "databases": "Database",
    "databaseroles": "DatabaseRole",
    "litellminstances": "LiteLLMInstance",
    "litellmmodels": "LiteLLMModel",
    "litellmvirtualkeys": "LiteLLMVirtualKey",
    "langfuseinstances": "LangfuseInstance",
}


class ForeignStage:
    """See the module. `actors` act as long as the stage stands."""

    def __init__(self, client: BareClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.actors = PalenaActors(client)
        self.mirror = Mirror(client, *map(self.path, APIS))

    def path(self, plural: str, name: str = "") -> str:
        return f"{APIS[plural]}/namespaces/{self.namespace}/{plural}{name and '/'}{name}"

    # -- what others do -----------------------------------------------------------------------------

    async def make(self, plural: str, name: str, spec: Mapping[str, Any], **directions: str) -> None:
        """Make or change an object, with directions for who plays its operator."""
        annotations = {f"{DIRECTIONS}/{each}": text for each, text in directions.items()}
        body = {
            "apiVersion": APIS[plural].removeprefix("/apis/"),
            "kind": KINDS[plural],
            "metadata": {"name": name, "annotations": annotations},
            "spec": spec,
        }
        await self.client.apply(self.path(plural, name), body, manager="test")

    async def secret(self, name: str, **values: str) -> None:
        """Something that is referred to."""
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}
        await self.client.apply(self.path("secrets", name), body, manager="test")

    async def report(self, plural: str, name: str, **status: Any) -> None:
        """What a kubelet or a controller of workloads says, once there is something to say it of."""
        await self.until(f"{plural}/{name}", lambda: self.find(plural, name))
        await self.client.merge(f"{self.path(plural, name)}/status", {"status": status})

    async def pod_ready(self, name: str) -> None:
        """The kubelet says so."""
        await self.report("pods", name, phase="Running", conditions=[{"type": "Ready", "status": "True"}])

    async def job_done(self, name: str) -> None:
        """The Job has come to its end well."""
        moment = "2026-01-01T00:00:00Z"
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": moment, "lastProbeTime": moment}
            for each in ("SuccessCriteriaMet", "Complete")
        ]
        times = {"startTime": moment, "completionTime": moment}
        await self.report("jobs", name, conditions=conditions, succeeded=1, **times)

    async def delete(self, plural: str, name: str) -> None:
        """Ask for a deletion."""
        await self.client.send("DELETE", self.path(plural, name))

    # -- what is seen -------------------------------------------------------------------------------

    async def until(self, what: str, holds: Callable[[], object]) -> None:
        await self.mirror.until(what, holds)

    def find(self, plural: str, name: str) -> Object:
        """An object; empty while it is not there."""
        return self.mirror.get(self.path(plural), name) or {}

    def metadata(self, plural: str, name: str) -> Any:
        """Of an object; empty while it is not there."""
        return self.find(plural, name).get("metadata", {})

    def names(self, plural: str) -> set[str]:
        return set(self.mirror.all(self.path(plural)))

    def status(self, plural: str, name: str) -> Any:
        return self.find(plural, name).get("status", {})

    def told(self, plural: str, name: str, type_: str = "Ready") -> tuple[str, str]:
        """(status, reason) of a condition."""
        found = condition(self.find(plural, name), type_)
        return found.get("status", ""), found.get("reason", "")

    def values(self, name: str) -> dict[str, str]:
        """What is in a Secret."""
        data = self.find("secrets", name).get("data", {})
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    async def until_told(self, plural: str, name: str, *expected: str, type_: str = "Ready") -> None:
        """Wait for a condition: (status, reason)."""
        await self.until(f"{plural}/{name} {expected}", lambda: self.told(plural, name, type_) == expected)


@contextlib.asynccontextmanager
async def foreign_stage(theatre: DevCluster, namespace: str) -> AsyncIterator[ForeignStage]:
    """With all kinds, and the actors at work; empty at the end."""
    theatre.apply(sorted(PALENA_CRDS.glob("*.yaml")))
    async with BareClient(theatre.url, theatre.ca_file, theatre.admin_token, user_agent="test") as client:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create("/api/v1/namespaces", body)
        stage = ForeignStage(client, namespace)
        async with stage.mirror.running(), stage.actors.running():
            yield stage
        for plural in KINDS:
            await _clear(stage, plural)


async def _clear(stage: ForeignStage, plural: str) -> None:
    """Delete all objects of a kind, held or not; a kind that a test has removed is empty already."""
    with contextlib.suppress(RefusedError):
        for name in [
            each["metadata"]["name"] for each in (await stage.client.get(stage.path(plural)))["items"]
        ]:
            await stage.client.merge(stage.path(plural, name), {"metadata": {"finalizers": None}})
            await stage.client.send("DELETE", stage.path(plural, name))


async def remove_kind(stage: ForeignStage, name: str) -> None:
    """As uninstalling an operator does."""
    await stage.client.send("DELETE", f"{DEFINITIONS}/{name}")
