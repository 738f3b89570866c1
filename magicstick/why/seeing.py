"""The reconcilers as the operator makes them, without anything that acts."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import anyio

from magicstick.catalogs.loader import Catalogs
from magicstick.composition.platform import platform
from magicstick.kube.cache import Caches, NotSyncedError
from magicstick.kube.client import Client
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.informer import Tuning
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.runtime.clock import SystemClock
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration
from magicstick.runtime.settings import Settings
from magicstick.why.edges import Graph, around
from magicstick.why.sight import Sight


class Watch:
    """What is being read; `sight` once it was."""

    def __init__(self, caches: Caches, discovery: Discovery, settings: Settings) -> None:
        self._caches = caches
        self._settings = settings
        self._catalogs = Catalogs(caches, settings)
        self._reads = Reads(caches)
        # What a label says counts at once: nobody is to wait for an explanation until it has settled.
        self._platform = platform(
            self._reads, self._catalogs, settings, discovery, SystemClock(), settle_s=0.0
        )
        reconcilers = self._platform.reconcilers
        declarations = (*(each.declaration for each in reconcilers), *around(settings))
        for declaration in declarations:
            self._reads.declare(declaration)
        self._graph = Graph(declarations)
        self._scopes = dict(_scopes(declarations))

    async def sight(self, now: datetime) -> Sight:
        """Everything as it is in the caches now."""
        site = self._platform.modules.facts.site
        key = ObjectKey(site.appliance_namespace, site.appliance_name)
        return Sight(
            self._reads,
            self._reason,
            self._settings,
            self._platform.modules.facts,
            self._catalogs,
            await self._platform.appliance.observe(key),
            {each.module: each for each in self._platform.hardware.provider_states()},
            self._graph,
            now,
        )

    def _reason(self, kind: Kind) -> str:
        return self._caches.informer(kind, *self._scopes[kind]).reason


@asynccontextmanager
async def seen(
    client: Client,
    flags: Mapping[str, object],
    *,
    timeout_s: float,
    clock: Callable[[], datetime],
) -> AsyncIterator[Sight]:
    """See `opening.opened`."""
    settings = Settings.load(**flags)
    caches = Caches(client, tuning=Tuning(first_grace_s=timeout_s))
    discovery = Discovery(caches.add(CUSTOM_RESOURCE_DEFINITION, view=CrdView).store)
    caches.follow(discovery)
    watch = Watch(caches, discovery, settings)
    async with anyio.create_task_group() as group:
        group.start_soon(caches.run)
        with suppress(NotSyncedError):
            await caches.wait_synced(timeout_s)
        yield await watch.sight(clock())
        group.cancel_scope.cancel()


def _scopes(declarations: Iterable[Declaration]) -> Iterable[tuple[Kind, tuple[str, str | None]]]:
    for declaration in declarations:
        for scope in (declaration.scope, *(edge.scope for edge in declaration.edges)):
            yield scope.kind, (scope.namespace, scope.name)
