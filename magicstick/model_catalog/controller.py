"""The loop: one pass after each change, after a failure, and every so often, since LiteLLM tells nobody.

Guarantees: passes never overlap; what fails in one part of a pass (a route, the ConfigMap, a template, a
Pod) does not keep the other parts from being done; while LiteLLM cannot be read, the catalog stays as it
is. A pass in which nothing differs writes nothing (spec: companions §1.3, §1.4 and §1.9).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import structlog

from magicstick.kube.errors import ApiError, FenceClosed
from magicstick.model_catalog.backoff import Backoffs
from magicstick.model_catalog.consumers import Restarts
from magicstick.model_catalog.desired import Desired, Problem, desired_routes
from magicstick.model_catalog.documents import Document, DocumentSettings, catalog_document
from magicstick.model_catalog.litellm import LiteLlmError, Unreachable
from magicstick.model_catalog.metrics import CatalogMetrics
from magicstick.model_catalog.observe import Observer
from magicstick.model_catalog.publish import RESTART_PENDING, Publisher
from magicstick.model_catalog.settings import CatalogSettings
from magicstick.model_catalog.sync import Sync, Synced
from magicstick.model_catalog.templates import Templates
from magicstick.runtime.clock import SleepingClock, within

log = structlog.get_logger(__name__)

DEBOUNCE_S: Final = 1.0
"""Changes come in groups: a pass is for all of them."""
CALM_S: Final = 5.0
"""Passes that no change asks for are so far apart. So long, or as long as it asks for, LiteLLM is left alone
after it could not be read."""
JITTER: Final = 0.1
LONGEST_PASS_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What a pass consists of."""

    observer: Observer
    sync: Sync
    publisher: Publisher
    restarts: Restarts
    templates: Templates
    backoffs: Backoffs


@dataclass
class _Pass:
    """What became of a pass: what was wrong, and when the next one may and must begin."""

    problems: list[Problem]
    earliest_s: float = 0.0
    latest_s: float = 0.0


class CatalogController:
    """See the module."""

    def __init__(
        self,
        parts: Parts,
        settings: CatalogSettings,
        document_settings: DocumentSettings,
        clock: SleepingClock,
        chance: Random,
        metrics: CatalogMetrics,
    ) -> None:
        self._parts = parts
        self._settings = settings
        self._document_settings = document_settings
        self._clock = clock
        self._chance = chance
        self._metrics = metrics
        self._news = asyncio.Event()
        self._told: frozenset[str] = frozenset()
        self._begun: float | None = None
        self.document: Document | None = None
        """What should be published, as of the last pass."""
        self.passes = 0
        """How many ended, whatever became of them."""

    def wake(self) -> None:
        """Something changed: look at everything soon."""
        self._news.set()

    def check(self) -> str:
        """For `/livez`: no pass takes so long."""
        took_s = 0.0 if self._begun is None else self._clock.monotonic() - self._begun
        return f"a pass has been going on for {took_s:.0f} s" if took_s > LONGEST_PASS_S else ""

    async def run(self) -> None:
        """Pass after pass, until cancelled."""
        while True:
            self._news.clear()
            self._begun = self._clock.monotonic()
            try:
                done = await self._guarded()
            finally:
                self._begun = None
            self.passes += 1
            await self._rest(done)

    async def _rest(self, done: _Pass) -> None:
        await self._clock.sleep(done.earliest_s)
        try:
            await within(self._clock, max(0.0, done.latest_s - done.earliest_s), self._news.wait())
        except TimeoutError:
            return
        await self._clock.sleep(DEBOUNCE_S)

    async def _guarded(self) -> _Pass:
        try:
            return await self._pass()
        except FenceClosed:
            log.info("pass ended: the lease is not held")
            return _Pass([], latest_s=self._settings.catalog_poll_seconds)
        except Exception:
            log.exception("pass failed by a fault of the program")
            return _Pass([], latest_s=self._settings.catalog_poll_seconds)

    # -- one pass --------------------------------------------------------------------------------------

    async def _pass(self) -> _Pass:
        sources = await self._parts.observer.sources()
        desired = desired_routes(sources, self._settings.kubeai_api_base)
        done = _Pass([])
        synced = await self._synced(desired, done)
        if synced is not None and self._tells_all(synced, done):
            self._metrics.synced(desired, synced, self._clock.now().timestamp())
            self.document = catalog_document(synced.existing, self._document_settings)
            await self._publish(self.document, done)
        await self._restart(done)
        await self._tell(done)
        done.latest_s = max(done.earliest_s, self._next_s(done))
        return done

    async def _synced(self, desired: Desired, done: _Pass) -> Synced | None:
        try:
            synced = await self._parts.sync.run(desired)
        except LiteLlmError as error:
            done.problems += [*desired.problems, Problem("LiteLLM", str(error))]
            asked_s = error.retry_after_s if isinstance(error, Unreachable) else 0.0
            done.earliest_s = max(CALM_S, asked_s)
            return None
        done.problems += synced.problems
        return synced

    def _tells_all(self, synced: Synced, done: _Pass) -> bool:
        """Whether a catalog may be made of it. One that knows no models takes none out of the catalog."""
        if synced.loaded or not self._parts.publisher.lists_models:
            return True
        done.problems.append(Problem("LiteLLM", "has loaded no models"))
        done.earliest_s = CALM_S
        return False

    async def _publish(self, document: Document, done: _Pass) -> None:
        restarts = self._settings.consumer_restart_enabled
        try:
            if await self._parts.publisher.publish(document, restarts=restarts):
                self._metrics.published()
        except FenceClosed:
            raise
        except ApiError as error:
            done.problems.append(Problem("catalog", f"cannot be written ({type(error).__name__})"))
            return
        if self._settings.agent_template_sync_enabled:
            await self._parts.templates.run(document)

    async def _restart(self, done: _Pass) -> None:
        owed = self._parts.publisher.owed
        if not owed:
            return
        enabled = self._settings.consumer_restart_enabled
        try:
            if not enabled or await self._parts.restarts.run(owed):
                await self._parts.publisher.annotate({RESTART_PENDING: None})
        except FenceClosed:
            raise
        except ApiError as error:
            done.problems.append(Problem("consumers", f"cannot be restarted ({type(error).__name__})"))

    async def _tell(self, done: _Pass) -> None:
        """In the log when it begins and ends, in the annotation while it lasts. Both without any value."""
        texts = [str(each) for each in dict.fromkeys(done.problems)]
        for each in texts:
            if each not in self._told:
                log.warning("catalog problem", problem=each)
        for each in sorted(self._told - set(texts)):
            log.info("catalog problem is over", problem=each)
        self._told = frozenset(texts)
        try:
            await self._parts.publisher.report("; ".join(sorted(texts)))
        except FenceClosed:
            raise
        except ApiError as error:
            log.warning("the catalog's annotation cannot be written", error=type(error).__name__)

    def _next_s(self, done: _Pass) -> float:
        """Seconds until the next pass without any change."""
        settings = self._settings
        resync_s = settings.resync_s * self._chance.uniform(1 - JITTER, 1 + JITTER)
        waits: Sequence[float | None] = (
            resync_s,
            settings.catalog_poll_seconds if done.problems else None,
            self._parts.backoffs.next_s(),
            self._parts.restarts.wait_s() if self._parts.publisher.owed else None,
        )
        return max(CALM_S, min(each for each in waits if each is not None))
