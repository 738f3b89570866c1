"""What the catalog tells of itself, besides what every process tells (spec: companions §1.4)."""

from collections import Counter as Count
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from magicstick.model_catalog.desired import Desired
from magicstick.model_catalog.sync import Synced

SYNCED, HELD, FAILING = STATES = ("synced", "held", "failing")
NO_SOURCE: Final = "unknown"


class CatalogMetrics:
    """Labels are bounded: sources and states."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._routes = Gauge(
            "catalog_routes",
            "Routes by where they lead and how they are",
            ["source", "state"],
            registry=registry,
        )
        self._success = Gauge(
            "catalog_last_success_timestamp", "When LiteLLM was last as it should be", registry=registry
        )
        self._published = Counter(
            "catalog_publish_total", "How often the catalog was written", registry=registry
        )

    def synced(self, desired: Desired, synced: Synced, now_s: float) -> None:
        """A pass over LiteLLM ended at this time (seconds since 1970)."""
        counts = Count(_states(desired, synced))
        self._routes.clear()
        for (source, state), count in counts.items():
            self._routes.labels(source, state).set(count)
        if not synced.failing:
            self._success.set(now_s)

    def published(self) -> None:
        """The catalog was written."""
        self._published.inc()


def _states(desired: Desired, synced: Synced) -> Iterable[tuple[str, str]]:
    for route in desired.routes.values():
        if route.name not in synced.plan.held:
            yield str(route.source), FAILING if route.name in synced.failing else SYNCED
    for each in synced.existing:
        if each.managed and each.name in synced.plan.held:
            yield each.source or NO_SOURCE, HELD
