"""Stands in for the Langfuse operator (0.10): web and worker of LangfuseInstances (spec: palena §3.5).

What an instance names in Secrets has to be there. Then a Job migrates the database, and two Deployments
follow; it is ready once both have a replica. Nothing answers, so what the environment has it seed at the
first start is never seen. API keys are not its business: it takes those that it is given.

The direction `fails` is `migration`, `config`, or else the message of a Ready condition that is degraded.
"""

import secrets
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from hack.devcluster.actors.following import Object, key_of
from hack.devcluster.actors.foreign import (
    DEPLOYMENTS,
    JOBS,
    MANAGED_BY,
    SECRETS,
    SERVICES,
    Place,
    Role,
    Status,
    deployment,
    is_complete,
    job,
    opaque,
    ready_replicas,
    service,
)
from hack.devcluster.actors.writing import Told

API: Final = "/apis/langfuse.palena.ai/v1alpha1"
MANAGER: Final = "langfuse-operator"
MADE: Final = f"{MANAGED_BY}%3D{MANAGER}"
COMPONENTS: Final = ("web", "worker")
WEB_PORT: Final = 3000
GENERATED: Final = (
    "nextauth-secret",
    "salt",
    "clickhouse-username",
    "clickhouse-password",
    "redis-password",
    "admin-api-key",
)
REPOSITORIES: Final = {"web": "langfuse/langfuse", "worker": "langfuse/langfuse-worker"}
FAILURES: Final = {"migration": "ReconcileError", "config": "ConfigError"}


class LangfuseInstances(Role):
    """Plays the Langfuse operator."""

    place: ClassVar = Place(API, "langfuseinstances")
    manager: ClassVar = MANAGER
    finalizer: ClassVar = "langfuse.palena.ai/finalizer"
    made: ClassVar = dict.fromkeys((DEPLOYMENTS, JOBS, SERVICES, SECRETS), MADE)

    async def serve(self, obj: Object) -> Status:
        """See `Role`."""
        namespace, name = key_of(obj)
        for secret, key in needed_secrets(obj):
            await self.value(namespace, secret, key)
        await self.make_once(obj, SECRETS, f"{name}-generated-secrets", lambda: generated(obj))
        if _migrates(obj):
            await self.make(obj, JOBS, migration(obj))
            if not is_complete(self.child(JOBS, namespace, f"{name}-migrate")):
                return self._told(obj, "Migrating", "MigrationInProgress", "the migration is running")
        labels = labels_of(obj, "web")
        await self.make(obj, SERVICES, service(f"{name}-web", labels, _selector(labels), WEB_PORT))
        for component in COMPONENTS:
            await self.make(obj, DEPLOYMENTS, workload(obj, component))
        if not all(self._ready(obj, component) for component in COMPONENTS):
            return self._told(obj, "Pending", "ComponentsStarting", "components are starting")
        return self._told(obj, "Running", "AllComponentsReady", "all components are ready")

    def waiting(self, obj: Object, message: str) -> Status:
        """See `Role`."""
        return self._told(obj, "Pending", "ComponentsStarting", message)

    def failing(self, obj: Object, said: str) -> Status:
        """See `Role`."""
        if said in FAILURES:
            return self._told(obj, "Error", FAILURES[said], f"the {said} has failed")
        return self._told(obj, "Degraded", "ComponentDegraded", said)

    def _ready(self, obj: Object, component: str) -> int:
        namespace, name = key_of(obj)
        return ready_replicas(self.child(DEPLOYMENTS, namespace, f"{name}-{component}"))

    def _told(self, obj: Object, phase: str, reason: str, message: str) -> Status:
        namespace, name = key_of(obj)
        ready = phase == "Running"
        told: list[Told] = [("Ready", str(ready), reason, message)]
        counts = {
            each: {"replicas": _replicas(obj, each), "readyReplicas": self._ready(obj, each)}
            for each in COMPONENTS
        }
        endpoint = f"http://{name}-web.{namespace}.svc.cluster.local:{WEB_PORT}"
        return self.status(
            obj,
            told,
            phase=phase,
            ready=ready,
            version=obj["spec"]["image"]["tag"],
            publicUrl=obj["spec"]["auth"]["nextAuthUrl"],
            web={**counts["web"], "endpoint": endpoint},
            worker=counts["worker"],
        )


def labels_of(instance: Object, component: str) -> dict[str, str]:
    """Of all that is made for a component, its Pods included."""
    return {
        "app.kubernetes.io/name": "langfuse",
        "app.kubernetes.io/instance": instance["metadata"]["name"],
        "app.kubernetes.io/component": component,
        MANAGED_BY: MANAGER,
    }


def needed_secrets(instance: Object) -> Iterator[tuple[str, str]]:
    """Name and key of all that has to be there before anything is started."""
    spec = instance["spec"]
    blocks = [spec.get(name, {}).get("external") for name in ("database", "redis", "clickhouse")]
    blob = spec.get("blobStorage", {})
    blocks.append(blob.get(blob.get("provider"), {}).get("credentials"))
    for block in filter(None, blocks):
        for key in block["secretRef"].get("keys", {}).values():
            yield block["secretRef"]["name"], key
    for variable in spec.get("web", {}).get("extraEnv", ()):
        if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
            yield reference["name"], reference["key"]


def generated(instance: Object) -> dict[str, Any]:
    """What Langfuse needs and nobody has given."""
    labels = labels_of(instance, "web")
    values = {each: secrets.token_hex(32) for each in GENERATED}
    return opaque(f"{instance['metadata']['name']}-generated-secrets", values, labels)


def migration(instance: Object) -> dict[str, Any]:
    """The Job that migrates the database."""
    container = {"name": "migrate", "image": _image(instance, "web")}
    name = f"{instance['metadata']['name']}-migrate"
    return job(name, labels_of(instance, "migration"), container)


def workload(instance: Object, component: str) -> dict[str, Any]:
    """The Deployment of a component."""
    spec = instance["spec"].get(component, {})
    container: dict[str, Any] = {
        "name": component,
        "image": _image(instance, component),
        "env": [*spec.get("extraEnv", ())],
        "resources": spec.get("resources", {}),
    }
    if component == "web":
        container["ports"] = [{"name": "http", "containerPort": WEB_PORT}]
        container["readinessProbe"] = {"httpGet": {"path": "/api/public/health", "port": "http"}}
    name = f"{instance['metadata']['name']}-{component}"
    return deployment(name, labels_of(instance, component), _replicas(instance, component), container)


def _migrates(instance: Object) -> bool:
    return bool(instance["spec"].get("database", {}).get("migration", {}).get("runOnDeploy", True))


def _replicas(instance: Object, component: str) -> int:
    return int(instance["spec"].get(component, {}).get("replicas", 1))


def _image(instance: Object, component: str) -> str:
    image = {**instance["spec"]["image"], **instance["spec"].get(component, {}).get("image", {})}
    if component == "web":
        return f"{image.get('repository', REPOSITORIES['web'])}:{image['tag']}"
    own = instance["spec"].get(component, {}).get("image", {}).get("repository", REPOSITORIES[component])
    return f"{own}:{image['tag']}"


def _selector(labels: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if name != MANAGED_BY}
