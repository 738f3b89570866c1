"""Stands in for the LiteLLM operator (0.20): proxies, models and keys (spec: palena §3.2-§3.4).

A LiteLLMInstance becomes a migration Job, then a Deployment with its Service; it is ready as soon as one
replica is. Models and keys are known to a proxy that is ready. Callbacks are rendered into the proxy's
configuration and its environment. No proxy answers.

The direction `fails` is: of an instance `migration`, or else the message of its Ready condition; of a model
or a key the message with which it is not synchronised.
"""

import secrets
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, Final

from hack.bare import BareClient
from hack.devcluster.actors.following import Object, key_of
from hack.devcluster.actors.foreign import (
    ACCOUNTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    MANAGED_BY,
    SECRETS,
    SERVICES,
    NotYetError,
    Place,
    Role,
    Status,
    is_complete,
    opaque,
    ready_replicas,
)
from hack.devcluster.actors.litellm_objects import (
    MANAGER,
    account,
    configuration,
    migrates,
    migration,
    needed_secrets,
    proxy,
    proxy_service,
)
from hack.devcluster.actors.writing import Told, present

API: Final = "/apis/litellm.palena.ai/v1alpha1"
FINALIZER: Final = "litellm.palena.ai/finalizer"
MIGRATION: Final = "migration"
MADE: Final = f"{MANAGED_BY}%3D{MANAGER}"
ALIVE: Final[Told] = ("PodsHealthy", "True", "AllPodsHealthy", "all pods are healthy")


class Instances(Role):
    """Plays the LiteLLM operator for LiteLLMInstances."""

    place: ClassVar = Place(API, "litellminstances")
    manager: ClassVar = MANAGER
    finalizer: ClassVar = FINALIZER
    made: ClassVar = dict.fromkeys((DEPLOYMENTS, JOBS, SERVICES, CONFIG_MAPS, ACCOUNTS), MADE)

    async def serve(self, obj: Object) -> Status:
        """See `Role`."""
        namespace, name = key_of(obj)
        for secret, key in needed_secrets(obj):
            await self.value(namespace, secret, key)
        await self.make(obj, ACCOUNTS, account(obj))
        await self.make(obj, CONFIG_MAPS, configuration(obj))
        if migrates(obj):
            job = migration(obj)
            await self.make(obj, JOBS, job)
            if not is_complete(self.child(JOBS, namespace, job["metadata"]["name"])):
                return self._told(obj, ("False", "MigrationRunning", "the migration is running"))
        await self.make(obj, SERVICES, proxy_service(obj))
        await self.make(obj, DEPLOYMENTS, proxy(obj))
        done = "MigrationComplete" if migrates(obj) else "MigrationSkipped"
        return self._told(obj, ("True", done, ""), self.child(DEPLOYMENTS, namespace, name))

    def waiting(self, obj: Object, message: str) -> Status:
        """See `Role`."""
        return self.status(obj, [("Ready", "False", "ReconcileError", message)], ready=False)

    def failing(self, obj: Object, said: str) -> Status:
        """See `Role`."""
        if said == MIGRATION:
            return self._told(obj, ("False", "MigrationFailed", "the migration Job has failed"))
        return self.waiting(obj, said)

    def is_ready(self, namespace: str, name: str) -> bool:
        """Whether the proxy could be asked."""
        found = self.objects.items.get((namespace, name), {"metadata": {}})
        ready = found.get("status", {}).get("ready", False)
        return bool(ready) and "deletionTimestamp" not in found["metadata"]

    def _told(self, obj: Object, database: tuple[str, str, str], workload: Object | None = None) -> Status:
        namespace, name = key_of(obj)
        ready, port = ready_replicas(workload or {}), obj["spec"].get("service", {}).get("port", 4000)
        told: list[Told] = [
            ("Ready", "True", "AllResourcesReady", "all resources are ready")
            if ready
            else ("Ready", "False", "DeploymentNotReady", f"{ready} replicas are ready"),
            ("DatabaseReady", *database),
            ("RedisReady", "True", "RedisConfigured", ""),
            *([ALIVE] if ready else []),
        ]
        image = obj["spec"].get("image", {})
        return self.status(
            obj,
            told,
            ready=ready > 0,
            replicas=(workload or {}).get("status", {}).get("replicas", 0),
            readyReplicas=ready,
            endpoint=f"http://{name}.{namespace}.svc:{port}",
            version=image.get("tag", "latest"),
            database={"connected": ready > 0},
            redis={"connected": ready > 0},
        )


class _OnInstance(Role):
    """What models and keys have in common: an instance in their namespace, and whether it knows of them."""

    manager: ClassVar = MANAGER
    finalizer: ClassVar = FINALIZER

    def __init__(
        self, client: BareClient, instances: Instances, *, clock: Callable[[], datetime] = present
    ) -> None:
        super().__init__(client, clock=clock)
        self._instances = instances
        self.heed(instances, _instance_of)

    def waiting(self, obj: Object, message: str) -> Status:
        """See `Role`. What was synchronised once stays so in the field, not in the condition."""
        return self._synced(obj, ("Synced", "False", "InstanceNotReady", message))

    def failing(self, obj: Object, said: str) -> Status:
        """See `Role`."""
        return self._synced(obj, ("Synced", "False", "SyncFailed", said))

    def _check_instance(self, obj: Object) -> None:
        if not self._instances.is_ready(key_of(obj)[0], _instance_of(obj)):
            raise NotYetError(f'LiteLLMInstance "{_instance_of(obj)}" is not ready')

    def _synced(self, obj: Object, told: Told, **fields: Any) -> Status:
        """The condition says nothing of a generation, as the operator's does not."""
        before = {name: value for name, value in obj.get("status", {}).items() if name != "conditions"}
        status = self.status(obj, [told], **{"synced": False, **before, **fields})
        for each in status["conditions"]:
            del each["observedGeneration"]
        return status


class Models(_OnInstance):
    """Plays the LiteLLM operator for LiteLLMModels."""

    place: ClassVar = Place(API, "litellmmodels")

    async def serve(self, obj: Object) -> Status:
        """See `Role`."""
        self._check_instance(obj)
        reference = obj["spec"]["litellmParams"].get("apiKeySecretRef")
        if reference:
            try:
                await self.value(key_of(obj)[0], reference["name"], reference["key"])
            except NotYetError as missing:
                return self.failing(obj, str(missing))
        known = str(uuid.uuid5(uuid.NAMESPACE_OID, obj["metadata"]["uid"]))
        told: Told = ("Synced", "True", "Synced", "the proxy has the model")
        return self._synced(obj, told, synced=True, litellmModelId=known, health="healthy")


class VirtualKeys(_OnInstance):
    """Plays the LiteLLM operator for LiteLLMVirtualKeys."""

    place: ClassVar = Place(API, "litellmvirtualkeys")
    made: ClassVar = {SECRETS: MADE}

    async def serve(self, obj: Object) -> Status:
        """See `Role`."""
        self._check_instance(obj)
        name = obj["spec"].get("keySecretName") or f"{obj['metadata']['name']}-key"
        labels = {MANAGED_BY: MANAGER}
        await self.make_once(
            obj, SECRETS, name, lambda: opaque(name, {"api-key": f"sk-{secrets.token_urlsafe(16)}"}, labels)
        )
        told: Told = ("Synced", "True", "Synced", "the proxy has the key")
        reference = {"name": name, "key": "api-key"}
        return self._synced(obj, told, synced=True, isActive=True, keySecretRef=reference)


def _instance_of(obj: Object) -> str:
    return str(obj["spec"]["instanceRef"]["name"])
