"""Stands in for CloudNativePG (1.30): makes the Pods, Services and Secrets of Clusters (spec: palena §3.1).

The Pods of a Cluster belong to it, and are run by whoever plays kubelets; nothing in them answers. A Cluster
is healthy once all of its instances are Ready. Databases and roles are `cnpg_databases`; what is in a server
is remembered here as long as this process lives.

The direction `fails` of a Cluster is the phase that it reports, `Failing over` for example.
"""

import functools
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final

from hack.bare import BareClient
from hack.devcluster.actors.following import Object, key_of
from hack.devcluster.actors.foreign import (
    CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    NotYetError,
    Place,
    Role,
    Status,
    is_true,
    opaque,
    service,
)
from hack.devcluster.actors.writing import Told, present

API: Final = "/apis/postgresql.cnpg.io/v1"
MANAGER: Final = "cloudnative-pg"
CLUSTER_LABEL: Final = "cnpg.io/cluster"
HEALTHY: Final = "Cluster in healthy state"
STARTING: Final = "Setting up primary"
GROWING: Final = "Creating a new replica"
IMAGE: Final = "ghcr.io/cloudnative-pg/postgresql:18.6-system-trixie"
PORT: Final = 5432
BASIC_AUTH: Final = "kubernetes.io/basic-auth"
ALPHABET: Final = string.ascii_letters + string.digits
PASSWORD_LENGTH: Final = 64


@dataclass(slots=True)
class Server:
    """What PostgreSQL of a Cluster holds.

    Attributes:
        databases: by name, with their owners.
        roles: all that may log in or own something.
    """

    databases: dict[str, str] = field(default_factory=dict)
    roles: set[str] = field(default_factory=set)


class Clusters(Role):
    """Plays CloudNativePG for Clusters."""

    place: ClassVar = Place(API, "clusters")
    manager: ClassVar = MANAGER
    made: ClassVar = dict.fromkeys((PODS, SECRETS, SERVICES, CLAIMS), CLUSTER_LABEL)

    def __init__(self, client: BareClient, *, clock: Callable[[], datetime] = present) -> None:
        super().__init__(client, clock=clock)
        self._servers: dict[str, Server] = {}

    async def serve(self, obj: Object) -> Status:
        """See `Role`."""
        name = obj["metadata"]["name"]
        for suffix, role in (("rw", "primary"), ("ro", "replica"), ("r", "")):
            selector = {CLUSTER_LABEL: name, **({"cnpg.io/instanceRole": role} if role else {})}
            await self.make(obj, SERVICES, service(f"{name}-{suffix}", labels_of(obj), selector, PORT))
        await self.make_once(obj, SECRETS, f"{name}-app", lambda: connection_secret(obj))
        await self._scale(obj)
        roles = await self._roles(obj)
        ready, wanted = self._ready_instances(obj), obj["spec"]["instances"]
        if not ready:
            return self._told(obj, STARTING, roles=roles)
        return self._told(obj, HEALTHY if ready == wanted else GROWING, roles=roles)

    def waiting(self, obj: Object, message: str) -> Status:
        """See `Role`."""
        return self._told(obj, STARTING, message)

    def failing(self, obj: Object, said: str) -> Status:
        """See `Role`."""
        return self._told(obj, said)

    def server(self, namespace: str, cluster: str) -> Server:
        """What is in the server of a Cluster.

        Raises:
            NotYetError: there is none that could be asked.
        """
        found = self.objects.items.get((namespace, cluster), {})
        if found.get("status", {}).get("phase") != HEALTHY:
            raise NotYetError(f'cluster "{cluster}" is not healthy')
        return self._server_of(found)

    def _server_of(self, cluster: Object) -> Server:
        first = initdb(cluster)
        begun = Server({first["database"]: first["owner"]}, {"postgres", first["owner"]})
        return self._servers.setdefault(cluster["metadata"]["uid"], begun)

    async def _roles(self, cluster: Object) -> tuple[list[str], dict[str, list[str]]]:
        """The managed roles that are as they are wanted, and why others are not."""
        server, refused = self._server_of(cluster), dict[str, list[str]]()
        done: list[str] = []
        for role in cluster["spec"].get("managed", {}).get("roles", ()):
            name = role["name"]
            if role.get("ensure") == "absent":
                server.roles.discard(name)
            else:
                try:
                    await self._check_password(cluster, role)
                except NotYetError as missing:
                    refused[name] = [str(missing)]
                    continue
                server.roles.add(name)
            done.append(name)
        return done, refused

    async def _check_password(self, cluster: Object, role: Object) -> None:
        if "passwordSecret" in role:
            await self.value(key_of(cluster)[0], role["passwordSecret"]["name"], "password")

    # --- instances ------------------------------------------------------------------------------------

    async def _scale(self, cluster: Object) -> None:
        """Instances are numbered from 1; the first is the primary. What is too many is taken away."""
        namespace, name = key_of(cluster)
        wanted = [f"{name}-{number + 1}" for number in range(cluster["spec"]["instances"])]
        for instance in wanted:
            await self.make_once(cluster, CLAIMS, instance, functools.partial(claim, cluster, instance))
            await self.make_once(cluster, PODS, instance, functools.partial(pod, cluster, instance))
        for each in self._instances(cluster):
            if each["metadata"]["name"] not in wanted:
                await self._client.send("DELETE", PODS.of(namespace, each["metadata"]["name"]))

    def _ready_instances(self, cluster: Object) -> int:
        return sum(is_true(each, "Ready") for each in self._instances(cluster))

    def _instances(self, cluster: Object) -> list[Object]:
        uid = cluster["metadata"]["uid"]
        return [
            each
            for each in self._children[PODS].items.values()
            if uid in {owner["uid"] for owner in each["metadata"].get("ownerReferences", ())}
            and "deletionTimestamp" not in each["metadata"]
        ]

    def _told(
        self,
        cluster: Object,
        phase: str,
        why: str = "",
        *,
        roles: tuple[list[str], dict[str, list[str]]] = ([], {}),
    ) -> Status:
        ready = self._ready_instances(cluster)
        begun = is_true(cluster, "Initialized") or ready > 0
        told: list[Told] = [
            ("Ready", "True", "ClusterIsReady", "Cluster is Ready")
            if phase == HEALTHY
            else ("Ready", "False", "ClusterIsNotReady", "Cluster Is Not Ready"),
            ("Initialized", "True", "BootstrapCompleted", "Bootstrap completed")
            if begun
            else ("Initialized", "False", "BootstrapPending", "Bootstrap pending"),
        ]
        done, refused = roles
        managed = {
            **({"byStatus": {"reconciled": done}} if done else {}),
            **({"cannotReconcile": refused} if refused else {}),
        }
        return self.status(
            cluster,
            told,
            phase=phase,
            instances=len(self._instances(cluster)),
            readyInstances=ready,
            **({"phaseReason": why} if why else {}),
            **({"currentPrimary": f"{cluster['metadata']['name']}-1"} if begun else {}),
            **({"managedRolesStatus": managed} if managed else {}),
        )


def initdb(cluster: Object) -> dict[str, str]:
    """The first database and its owner."""
    asked = cluster["spec"].get("bootstrap", {}).get("initdb", {})
    database = asked.get("database", "app")
    return {"database": database, "owner": asked.get("owner") or database}


def labels_of(cluster: Object, **others: str) -> dict[str, str]:
    """Of all that is made for a Cluster."""
    inherited = cluster["spec"].get("inheritedMetadata", {}).get("labels", {})
    return {**inherited, CLUSTER_LABEL: cluster["metadata"]["name"], **others}


def connection_secret(cluster: Object) -> dict[str, Any]:
    """How the owner of the first database reaches it."""
    namespace, name = key_of(cluster)
    user, database = initdb(cluster)["owner"], initdb(cluster)["database"]
    password = "".join(secrets.choice(ALPHABET) for _ in range(PASSWORD_LENGTH))
    host = f"{name}-rw"
    short, full = f"{host}.{namespace}", f"{host}.{namespace}.svc.cluster.local"
    values = {
        "username": user,
        "user": user,
        "password": password,
        "dbname": database,
        "host": host,
        "port": str(PORT),
        "pgpass": f"{host}:{PORT}:{database}:{user}:{password}\n",
        "uri": f"postgresql://{user}:{password}@{short}:{PORT}/{database}",
        "jdbc-uri": f"jdbc:postgresql://{short}:{PORT}/{database}?password={password}&user={user}",
        "fqdn-uri": f"postgresql://{user}:{password}@{full}:{PORT}/{database}",
        "fqdn-jdbc-uri": f"jdbc:postgresql://{full}:{PORT}/{database}?password={password}&user={user}",
    }
    return opaque(f"{name}-app", values, labels_of(cluster), BASIC_AUTH)


def claim(cluster: Object, instance: str) -> dict[str, Any]:
    """The volume of an instance."""
    storage = cluster["spec"].get("storage", {})
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.get("size", "1Gi")}},
        **({"storageClassName": storage["storageClass"]} if "storageClass" in storage else {}),
    }
    metadata = {"name": instance, "labels": labels_of(cluster)}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def pod(cluster: Object, instance: str) -> dict[str, Any]:
    """An instance."""
    role = "primary" if instance == f"{cluster['metadata']['name']}-1" else "replica"
    labels = labels_of(cluster)
    labels |= {"cnpg.io/instanceName": instance, "cnpg.io/instanceRole": role, "cnpg.io/podRole": "instance"}
    container = {
        "name": "postgres",
        "image": cluster["spec"].get("imageName", IMAGE),
        "ports": [
            {"name": "postgresql", "containerPort": PORT},
            {"name": "metrics", "containerPort": 9187},
            {"name": "status", "containerPort": 8000},
        ],
        "resources": cluster["spec"].get("resources", {}),
        "volumeMounts": [{"name": "pgdata", "mountPath": "/var/lib/postgresql/data"}],
    }
    volume = {"name": "pgdata", "persistentVolumeClaim": {"claimName": instance}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": instance, "labels": labels},
        "spec": {"containers": [container], "volumes": [volume]},
    }
