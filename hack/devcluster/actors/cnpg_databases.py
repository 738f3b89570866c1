"""Plays CloudNativePG for what is in a server: databases and their roles (spec: palena §3.1).

A database needs its owner, as a real server does; what is not there is tried again. A role that owns a
database cannot be dropped, and its object stays until then.

The direction `fails` of either is the message with which it is not applied.
"""

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar, Final

from hack.bare import BareClient
from hack.devcluster.actors.cnpg import API, MANAGER, Clusters
from hack.devcluster.actors.following import Object, key_of
from hack.devcluster.actors.foreign import NotYetError, Place, Role, Status
from hack.devcluster.actors.writing import present

DELETE: Final = "delete"
ABSENT: Final = "absent"


class _InServer(Role):
    """What both kinds have in common: they name a Cluster, and report whether they are applied."""

    manager: ClassVar = MANAGER

    def __init__(
        self, client: BareClient, clusters: Clusters, *, clock: Callable[[], datetime] = present
    ) -> None:
        super().__init__(client, clock=clock)
        self._clusters = clusters
        self.heed(clusters, _cluster_of)

    def waiting(self, obj: Object, message: str) -> Status:
        """See `Role`."""
        return _applied(obj, message)

    def failing(self, obj: Object, said: str) -> Status:
        """See `Role`."""
        return _applied(obj, said)


class DatabaseRoles(_InServer):
    """Plays CloudNativePG for DatabaseRoles."""

    place: ClassVar = Place(API, "databaseroles")
    finalizer: ClassVar = "cnpg.io/deleteDatabaseRole"

    async def serve(self, obj: Object) -> Status:
        """See `Role`."""
        namespace, spec = key_of(obj)[0], obj["spec"]
        server = self._clusters.server(namespace, _cluster_of(obj))
        if "passwordSecret" in spec:
            await self.value(namespace, spec["passwordSecret"]["name"], "password")
        server.roles.add(spec["name"])
        return _applied(obj)

    async def give_up(self, obj: Object) -> bool:
        """See `Role`."""
        name = obj["spec"]["name"]
        if obj["spec"].get("databaseRoleReclaimPolicy") != DELETE:
            return True
        try:
            server = self._clusters.server(key_of(obj)[0], _cluster_of(obj))
        except NotYetError:
            return True  # nothing is there that could be dropped
        if name in server.databases.values():
            return False
        server.roles.discard(name)
        return True


class Databases(_InServer):
    """Plays CloudNativePG for Databases."""

    place: ClassVar = Place(API, "databases")
    finalizer: ClassVar = "cnpg.io/deleteDatabase"

    async def serve(self, obj: Object) -> Status:
        """See `Role`."""
        spec = obj["spec"]
        server = self._clusters.server(key_of(obj)[0], _cluster_of(obj))
        if spec.get("ensure") == ABSENT:
            server.databases.pop(spec["name"], None)
            return _applied(obj)
        if spec["owner"] not in server.roles:
            raise NotYetError(
                f'while creating database "{spec["name"]}": ERROR: role "{spec["owner"]}" does not exist '
                "(SQLSTATE 42704)"
            )
        server.databases[spec["name"]] = spec["owner"]
        return _applied(obj)

    async def give_up(self, obj: Object) -> bool:
        """See `Role`."""
        if obj["spec"].get("databaseReclaimPolicy") == DELETE:
            try:
                server = self._clusters.server(key_of(obj)[0], _cluster_of(obj))
            except NotYetError:
                return True  # nothing is there that could be dropped
            server.databases.pop(obj["spec"]["name"], None)
        return True


def _cluster_of(obj: Object) -> str:
    return str(obj["spec"]["cluster"]["name"])


def _applied(obj: Object, message: str = "") -> Status:
    status: Status = {"applied": not message, "observedGeneration": obj["metadata"]["generation"]}
    return {**status, "message": message} if message else status
