"""The composition root of `magicstick model-catalog`: what runs, on which caches, behind which lease."""

from random import Random
from typing import Final

import anyio
import structlog

from magicstick import __version__
from magicstick.kube.cache import Caches, NotSyncedError
from magicstick.kube.config import ClusterConfig
from magicstick.kube.informer import Tuning
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.model_catalog.backoff import Backoffs
from magicstick.model_catalog.consumers import Restarts
from magicstick.model_catalog.controller import CatalogController, Parts
from magicstick.model_catalog.documents import DocumentSettings
from magicstick.model_catalog.limits import LimitSettings
from magicstick.model_catalog.litellm import LiteLlm
from magicstick.model_catalog.metrics import CatalogMetrics
from magicstick.model_catalog.observe import Observer, relevant
from magicstick.model_catalog.publish import Publisher, is_published
from magicstick.model_catalog.settings import CatalogSettings
from magicstick.model_catalog.sync import Sync
from magicstick.model_catalog.templates import Templates
from magicstick.runtime.checks import SilentWatches, not_leading, not_synced, stuck_election
from magicstick.runtime.clock import SleepingClock, SystemClock
from magicstick.runtime.health import Check, LoopLag, Probes
from magicstick.runtime.metrics import Metrics
from magicstick.runtime.options import SettingsError
from magicstick.runtime.process import Leadership, served, tuned

log = structlog.get_logger(__name__)

FIELD_MANAGER: Final = "ai-model-catalog-controller"
USER_AGENT: Final = f"{FIELD_MANAGER}/{__version__}"


class ModelCatalog:
    """One process. `run` returns only by cancellation; `started` is set once caches were waited for."""

    def __init__(
        self,
        settings: CatalogSettings,
        config: ClusterConfig,
        *,
        clock: SleepingClock | None = None,
        chance: Random | None = None,
        user_agent: str = USER_AGENT,
        tuning: Tuning | None = None,
    ) -> None:
        """Raises SettingsError where the master key is missing, without which LiteLLM says nothing."""
        if not settings.litellm_master_key.get_secret_value():
            raise SettingsError("LITELLM_MASTER_KEY is not set; it has to be LiteLLM's master key")
        self.settings = settings
        self._clock = clock or SystemClock()
        chance = chance or Random()  # noqa: S311 - spreads requests, guards no secret
        self.metrics = Metrics()
        self.started = anyio.Event()
        self._leadership = Leadership(
            settings, config, self._clock, self.metrics, user_agent=user_agent, field_manager=FIELD_MANAGER
        )
        self.lease, self.client = self._leadership.lease, self._leadership.client
        self._tuning = tuned(settings, tuning)
        self.caches = Caches(self.client, tuning=self._tuning, chance=chance)
        self.litellm = LiteLlm(
            settings.litellm_base_url, settings.litellm_master_key, self._clock, fence=self.lease.fence
        )
        self.controller = CatalogController(
            self._parts(),
            settings,
            document_settings(settings),
            self._clock,
            chance,
            CatalogMetrics(self.metrics.registry),
        )
        self._lag = LoopLag(self._clock, self.metrics.loop_lag.set)
        self._follow()

    async def run(self) -> None:
        """Everything, until cancelled; the lease is released last."""
        async with (
            served(self.settings, self._probes(), self.metrics),
            self._leadership,
            self.litellm,
            anyio.create_task_group() as outer,
        ):
            outer.start_soon(self._lag.run)
            async with self._leadership.kept(), anyio.create_task_group() as group:
                group.start_soon(self.caches.run)
                await self._sync()
                await self._leadership.work([self.controller.run])

    # -- composition ----------------------------------------------------------------------------------

    def _parts(self) -> Parts:
        settings, client, clock = self.settings, self.client, self._clock
        backoffs = Backoffs(clock)
        catalog = ObjectKey(settings.namespace, settings.catalog_configmap)
        return Parts(
            Observer(self.caches, client, settings),
            Sync(self.litellm, backoffs, settings.litellm_master_key),
            Publisher(client, self.caches, catalog, clock),
            Restarts(client, settings.namespace, clock),
            Templates(client, settings.namespace, settings.templates),
            backoffs,
        )

    def _follow(self) -> None:
        """Wake the loop for changes that can change what it does, and for none of its own."""
        settings, controller = self.settings, self.controller

        def source_changed(old: Resource | None, new: Resource | None) -> None:
            if old is None or new is None or relevant(old) != relevant(new):
                controller.wake()

        def catalog_changed(_: Resource | None, new: Resource | None) -> None:
            document = controller.document
            if document is not None and (new is None or not is_published(new, document)):
                controller.wake()

        for informer in self.caches.informers():
            of_catalog = (
                informer.scope.kind == CONFIG_MAP and informer.scope.name == settings.catalog_configmap
            )
            informer.store.subscribe(catalog_changed if of_catalog else source_changed)
        self.caches.subscribe_state(lambda *_: controller.wake())

    # -- running -------------------------------------------------------------------------------------

    async def _sync(self) -> None:
        try:
            await self.caches.wait_synced(self.settings.sync_timeout_seconds)
        except NotSyncedError as error:
            log.warning("some kinds cannot be read; their routes stay as they are", missing=error.missing)
        self.started.set()

    def _probes(self) -> Probes:
        informers = self.caches.informers
        live: dict[str, Check] = {
            "loop": self._lag.check,
            "watches": SilentWatches(informers, self._clock, self._tuning.idle_timeout_s),
            "work": self.controller.check,
            "lease": stuck_election(self.lease, self._clock, self.settings.lease_renew_deadline_seconds),
        }
        return Probes(live, {"caches": not_synced(informers), "lease": not_leading(self.lease)})


def document_settings(settings: CatalogSettings) -> DocumentSettings:
    """What of the settings shapes the catalog."""
    limits = LimitSettings(
        settings.opencode_default_context_tokens,
        settings.opencode_default_output_tokens,
        settings.paperclip_opencode_max_output_tokens,
        settings.paperclip_opencode_context_headroom_tokens,
    )
    return DocumentSettings(
        settings.litellm_api_base,
        settings.ai_appliance_default_chat_model,
        settings.ai_appliance_default_embedding_model,
        limits,
    )
