"""The composition root: which reconcilers run, on which caches, behind which lease.

    configuration → client ──→ caches ──→ controllers (only while the lease is held)
                      ↑ fence              ↓ writes
                    lease ←──────────── applier

Caches fill while the lease is waited for, so that a new holder starts warm. Losing the lease stops the
controllers and nothing else.
"""

import gc
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import anyio
import structlog

from magicstick import __version__
from magicstick.api.labels import OPERATOR
from magicstick.catalogs.loader import Catalogs
from magicstick.composition.apps import apps
from magicstick.composition.models import models
from magicstick.composition.palena import palena
from magicstick.composition.platform import platform
from magicstick.kube.applier import Applier
from magicstick.kube.cache import Caches, NotSyncedError
from magicstick.kube.config import ClusterConfig
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.informer import Tuning
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION
from magicstick.kube.objects import Resource
from magicstick.models.catalog_facts import PublishedModels
from magicstick.models.ports import Seams
from magicstick.models.probes import EngineProbes
from magicstick.models.runtime_http import RuntimeHttp
from magicstick.palena.common.secrets import Entropy, SystemEntropy
from magicstick.runtime.checks import SilentWatches, not_leading, not_synced, stuck_election, stuck_work
from magicstick.runtime.clock import SleepingClock, SystemClock
from magicstick.runtime.controller import Controller
from magicstick.runtime.events import EventRecorder
from magicstick.runtime.health import Check, LoopLag, Probes
from magicstick.runtime.metrics import Metrics
from magicstick.runtime.process import Leadership, Supervised, served, tuned
from magicstick.runtime.reads import Reads
from magicstick.runtime.reconciler import Declaration, Followed
from magicstick.runtime.settings import Settings

log = structlog.get_logger(__name__)

USER_AGENT = f"magicstick/{__version__}"
FLUSH_S = 1.0
"""Events about the last changes are worth so much of the time in which the process ends."""
GC_THRESHOLDS = (50_000, 20, 100)
"""Views hold no cycles and most garbage dies by its reference count: looking rarely keeps pauses rare."""


class Manager:
    """One operator. `run` returns only by cancellation; `started` is set once caches have synced."""

    def __init__(
        self,
        settings: Settings,
        config: ClusterConfig,
        *,
        clock: SleepingClock | None = None,
        chance: Random | None = None,
        user_agent: str = USER_AGENT,
        tuning: Tuning | None = None,
        seams: Seams | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._chance = chance or Random()  # noqa: S311 - spreads requests, guards no secret
        self.metrics = Metrics()
        self.started = anyio.Event()
        self._leadership = Leadership(
            settings, config, self._clock, self.metrics, user_agent=user_agent, field_manager=OPERATOR
        )
        self.lease, self.client = self._leadership.lease, self._leadership.client
        self._tuning = tuned(settings, tuning)
        self.caches = Caches(self.client, tuning=self._tuning, chance=self._chance)
        definitions = self.caches.add(CUSTOM_RESOURCE_DEFINITION, view=CrdView)
        self.discovery = Discovery(definitions.store)
        self.caches.follow(self.discovery)
        self.applier = self._applier(OPERATOR, OPERATOR)
        self.recorder = EventRecorder(
            self.client, self._clock, controller=OPERATOR, instance=self.lease.holder, metrics=self.metrics
        )
        http = RuntimeHttp(self._clock, fence=self.lease.fence)
        self.probes = EngineProbes(self._clock, http, settings.requeue_seconds)
        self._reads = Reads(self.caches)
        self.seams = seams or Seams(publication=PublishedModels(self._reads), checks=self.probes)
        found = (*self._appliance(), *self._palena(entropy or SystemEntropy()))
        self.controllers: Sequence[Controller[Any]] = tuple(map(self._controller, found))
        settings.check_controllers([each.name for each in self.controllers])
        self._lag = LoopLag(self._clock, self.metrics.loop_lag.set)
        self._observe()

    async def run(self) -> None:
        """Everything, until cancelled; the lease is released last."""
        async with (
            served(self.settings, self._probes(), self.metrics),
            self._leadership,
            anyio.create_task_group() as outer,
        ):
            outer.start_soon(self._lag.run)
            outer.start_soon(self.recorder.run)
            async with self._leadership.kept(self._flush), anyio.create_task_group() as group:
                group.start_soon(self.caches.run)
                group.start_soon(self.probes.run)
                group.start_soon(self._sync)
                await self._leadership.work(
                    Supervised(each.name, each.run, self._clock).run for each in self.controllers
                )

    # -- composition ----------------------------------------------------------------------------------

    # They read through `Reads`, which knows their declarations: what no edge covers cannot be read, and what
    # no controller that runs declares is not watched.

    def _appliance(self) -> Iterable[Followed]:
        """The appliance's half, if it is to run."""
        if not self.settings.magicstick_enable_appliance:
            return
        reads, settings, clock = self._reads, self.settings, self._clock
        catalogs = Catalogs(self.caches, settings)
        base = platform(reads, catalogs, settings, self.discovery, clock)
        found = (
            *base.reconcilers,
            *models(base.modules.facts, reads, catalogs, settings, clock, self.seams),
            *apps(base.modules.facts, reads, catalogs, settings, self.discovery),
        )
        yield from _declared(found, reads)

    def _palena(self, entropy: Entropy) -> Iterable[Followed]:
        """Palena's half, if it is to run; what it reads is its own business."""
        if self.settings.magicstick_enable_palena:
            reads = Reads(self.caches)
            yield from _declared(palena(reads, self.settings, self.discovery, entropy), reads)

    def _applier(self, manager: str, managed_by: str) -> Applier:
        client = self.client if manager == OPERATOR else self.client.speaking_as(manager)
        return Applier(client, self.caches, manager=manager, managed_by=managed_by)

    def _controller(self, reconciler: Followed) -> Controller[Any]:
        declaration = reconciler.declaration
        workers = self.settings.workers_of(declaration.name)
        controller = Controller(
            reconciler,
            self.caches,
            self._hands(declaration),
            clock=self._clock,
            recorder=self.recorder,
            metrics=self.metrics,
            queue_metrics=self.metrics.queue(declaration.name, min(workers, declaration.workers)),
            rng=self._chance,
            drain_s=self.settings.drain_seconds,
            workers=workers,
        )
        self.metrics.watch_queue(declaration.name, lambda: controller.queue)
        reconciler.follow(controller.wake)
        return controller

    def _hands(self, declaration: Declaration) -> Applier:
        """Who writes for a controller: the operator, unless it has a name of its own."""
        if not declaration.field_manager:
            return self.applier
        return self._applier(declaration.field_manager, declaration.managed_by or OPERATOR)

    # -- running -------------------------------------------------------------------------------------

    async def _flush(self) -> None:
        await self.recorder.flush(FLUSH_S)

    async def _sync(self) -> None:
        try:
            await self.caches.wait_synced(self.settings.sync_timeout_seconds)
        except NotSyncedError as error:
            # What cannot be read holds up only what depends on it.
            log.warning("some kinds cannot be read", missing=error.missing)
        gc.collect()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.freeze()  # what start-up made lives as long as the process: no need to look at it again
        self.started.set()
        log.info("caches synced", kinds=len(tuple(self.caches.informers())))

    # -- health --------------------------------------------------------------------------------------

    def _probes(self) -> Probes:
        informers = self.caches.informers
        live: dict[str, Check] = {
            "loop": self._lag.check,
            "watches": SilentWatches(informers, self._clock, self._tuning.idle_timeout_s),
            "work": stuck_work(lambda: ((each.name, each.queue) for each in self.controllers)),
            "lease": stuck_election(self.lease, self._clock, self.settings.lease_renew_deadline_seconds),
        }
        return Probes(live, {"caches": not_synced(informers), "lease": not_leading(self.lease)})

    def _observe(self) -> None:
        """Let metrics be read from what is there at the moment they are asked for."""
        self.metrics.watch_ages(self._watch_ages)
        self.metrics.watch_informers(
            lambda: (
                (str(each.scope), each.counters, each.store.resource_version)
                for each in self.caches.informers()
            )
        )
        self.metrics.watch_resources(self._primaries)

    def _primaries(self) -> Mapping[str, Iterable[Resource]]:
        """The objects whose state is reported here, by kind."""
        found: dict[str, list[Resource]] = {}
        for declaration in (each.declaration for each in self.controllers):
            if declaration.owns_status is not False:
                scope = declaration.scope
                found.setdefault(scope.kind.kind, []).extend(self.caches.store_of(scope).list())
        return found

    def _watch_ages(self) -> Iterable[tuple[str, float]]:
        for informer in self.caches.informers():
            age = informer.last_event_age
            if age is not None:
                yield str(informer.scope), age


def _declared(found: Iterable[Followed], reads: Reads) -> Iterable[Followed]:
    for reconciler in found:
        reads.declare(reconciler.declaration)
        yield reconciler
