"""The cluster and the identity provider as the guard's sources."""

from collections.abc import Awaitable, Callable

from magicstick.access_guard.decide import ABSENT, Absent, Person, Principal
from magicstick.access_guard.directory import Directory
from magicstick.access_guard.policy import Instance, InstanceView
from magicstick.access_guard.principals import Principals
from magicstick.access_guard.provider import IdentityUnavailableError
from magicstick.kube.errors import KindNotServed, NotFound
from magicstick.kube.kinds import ObjectKey
from magicstick.runtime.logs import Secret

Instances = Callable[[ObjectKey], Awaitable[InstanceView]]
"""Reads one instance; raises ApiError."""


class LiveSources:
    """See `guard.Sources`. Without a directory nobody has an identity."""

    def __init__(
        self, instances: Instances, namespace: str, principals: Principals, directory: Directory | None
    ) -> None:
        self._instances, self._namespace = instances, namespace
        self._principals, self._directory = principals, directory

    async def instance(self, name: str) -> Instance | Absent:
        """An instance as the API server has it now.

        Raises:
            ApiError: it could not be read.
        """
        try:
            view = await self._instances(ObjectKey(self._namespace, name))
        except KindNotServed:
            raise
        except NotFound:
            return ABSENT
        return view.instance

    def remembered(self, token: Secret) -> Principal | None:
        """See `Principals.remembered`."""
        return None if self._directory is None else self._principals.remembered(token)

    async def principal(self, token: Secret) -> Principal | Absent:
        """See `Principals.find`."""
        self._reachable()
        return await self._principals.find(token)

    async def person(self, subject: str) -> Person | Absent:
        """See `Directory.person`."""
        return await self._reachable().person(subject)

    async def groups(self, subject: str, wanted: frozenset[str]) -> frozenset[str]:
        """See `Directory.groups`."""
        return await self._reachable().groups(subject, wanted)

    def _reachable(self) -> Directory:
        if self._directory is None:
            raise IdentityUnavailableError("IDENTITY_MANAGEMENT_MODE is not keycloak")
        return self._directory
