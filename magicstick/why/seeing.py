"""The reconcilers as the operator makes them, without anything that acts."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from magicstick.appliance.reconciler import ApplianceReconciler
from magicstick.catalogs.loader import Catalogs
from magicstick.gpu.facts import HardwareFacts
from magicstick.gpu.reconciler import HardwareReconciler
from magicstick.kube.cache import Caches
from magicstick.kube.discovery import Discovery
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.modules.orphans import OrphanReconciler
from magicstick.modules.reconciler import ModuleReconciler
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
        resync_s = settings.requeue_seconds
        self._modules = ModuleReconciler(self._reads, self._catalogs, settings, discovery)
        orphans = OrphanReconciler(self._modules.facts, self._reads, self._catalogs, resync_s)
        # What a label says counts at once: nobody is to wait for an explanation until it has settled.
        self._hardware = HardwareFacts(self._modules.facts, self._reads, SystemClock(), settle_s=0.0)
        hardware = HardwareReconciler(self._hardware, self._catalogs, resync_s)
        self._appliance = ApplianceReconciler(self._hardware, self._reads, self._catalogs, resync_s)
        reconcilers = (self._modules, orphans, hardware, self._appliance)
        declarations = (*(each.declaration for each in reconcilers), *around(settings))
        for declaration in declarations:
            self._reads.declare(declaration)
        self._graph = Graph(declarations)
        self._scopes = dict(_scopes(declarations))

    async def sight(self, now: datetime) -> Sight:
        """Everything as it is in the caches now."""
        site = self._modules.facts.site
        key = ObjectKey(site.appliance_namespace, site.appliance_name)
        return Sight(
            self._reads,
            self._reason,
            self._settings,
            self._modules.facts,
            self._catalogs,
            await self._appliance.observe(key),
            {each.module: each for each in self._hardware.provider_states()},
            self._graph,
            now,
        )

    def _reason(self, kind: Kind) -> str:
        return self._caches.informer(kind, *self._scopes[kind]).reason


def watch(caches: Caches, discovery: Discovery, flags: Mapping[str, object]) -> Watch:
    """Begin to read everything. SettingsError as `Settings.load`."""
    return Watch(caches, discovery, Settings.load(**flags))


def _scopes(declarations: Iterable[Declaration]) -> Iterable[tuple[Kind, tuple[str, str | None]]]:
    for declaration in declarations:
        for scope in (declaration.scope, *(edge.scope for edge in declaration.edges)):
            yield scope.kind, (scope.namespace, scope.name)
