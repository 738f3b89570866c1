"""The operators that Palena drives, played: CloudNativePG, LiteLLM's and Langfuse's (spec: palena §3).

They act wherever their kinds are defined, and do nothing but look for the definitions elsewhere.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

from hack.bare import BareClient
from hack.devcluster.actors.cnpg import Clusters
from hack.devcluster.actors.cnpg_databases import DatabaseRoles, Databases
from hack.devcluster.actors.following import in_background
from hack.devcluster.actors.foreign import Role
from hack.devcluster.actors.langfuse_operator import LangfuseInstances
from hack.devcluster.actors.litellm_operator import Instances, Models, VirtualKeys
from hack.devcluster.actors.writing import present


class PalenaActors:
    """All of them, on one cluster."""

    def __init__(self, client: BareClient, *, clock: Callable[[], datetime] = present) -> None:
        self.clusters = Clusters(client, clock=clock)
        self.database_roles = DatabaseRoles(client, self.clusters, clock=clock)
        self.databases = Databases(client, self.clusters, clock=clock)
        self.instances = Instances(client, clock=clock)
        self.models = Models(client, self.instances, clock=clock)
        self.virtual_keys = VirtualKeys(client, self.instances, clock=clock)
        self.langfuse = LangfuseInstances(client, clock=clock)

    @property
    def roles(self) -> tuple[Role, ...]:
        """Each with its own gate."""
        databases = (self.clusters, self.database_roles, self.databases)
        return (*databases, self.instances, self.models, self.virtual_keys, self.langfuse)

    async def run(self) -> None:
        """Act. Never returns."""
        async with asyncio.TaskGroup() as group:
            for role in self.roles:
                group.create_task(role.run())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["PalenaActors"]:
        """Act in the background within the block."""
        async with in_background(self.run()):
            yield self
