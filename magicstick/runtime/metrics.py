"""Metrics under the names that controller-runtime's users have dashboards for.

One instance owns one registry; nothing is global. Labels are bounded: controllers, results, status codes,
kinds. Series about single objects are read from the stores (`runtime.collectors`), so that they end with
their object. `controller_runtime_reconcile_timeouts_total` is missing, since passes have no time-out of
their own; requests have.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from magicstick.kube.objects import Resource
from magicstick.runtime.clock import Clock, SystemClock
from magicstick.runtime.collectors import ActivityView, Queues, QueueView, Resources, WatchAges, Watches
from magicstick.runtime.skeleton import Result

RECONCILE_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
QUEUE_BUCKETS: Final = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
FAULTS: Final = frozenset({"InternalError"})
"""Outcomes that are faults of the operator."""
REFUSED: Final = frozenset({"ApiRejected", "Rejected", "Invalid", "Forbidden", "NameConflict"})
"""Failed outcomes that only a change of an object, a rule or a right can mend."""
STANDING_BY: Final = frozenset({"FenceClosed", "unsynced"})
"""Outcomes of passes that could not begin yet: no failures."""
NO_ANSWER: Final = "<error>"

_QUEUE_LABELS: Final = ["name", "controller"]

# They would double the number of series, and no dashboard of the field reads them.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library does not annotate it


class Metrics:
    """All metrics of the process; hands out what each part reports to."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock or SystemClock()
        self._reconciles = self._counter(
            "controller_runtime_reconcile_total", "Passes by controller and result", "controller", "result"
        )
        self._errors = self._counter(
            "controller_runtime_reconcile_errors_total", "Passes that failed", "controller"
        )
        self._terminal = self._counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Passes that failed in a way only a change can mend",
            "controller",
        )
        self._panics = self._counter(
            "controller_runtime_reconcile_panics_total",
            "Passes that failed by a fault of the operator",
            "controller",
        )
        self._time = self._histogram(
            "controller_runtime_reconcile_time_seconds", "Length of a pass", RECONCILE_BUCKETS, "controller"
        )
        self._workers = self._gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers by controller", "controller"
        )
        self._requests = self._counter(
            "rest_client_requests_total", "Requests to the API server", "code", "method", "host"
        )
        self._leading = self._gauge("leader_election_master_status", "1 while the lease is held", "name")
        self._events = self._counter("magicstick_events_total", "Events by what became of them", "result")
        self._adds = self._counter("workqueue_adds_total", "Keys that entered the queue", *_QUEUE_LABELS)
        self._retries = self._counter("workqueue_retries_total", "Keys that came back", *_QUEUE_LABELS)
        self._waits = self._histogram(
            "workqueue_queue_duration_seconds", "Time in the queue", QUEUE_BUCKETS, *_QUEUE_LABELS
        )
        self._works = self._histogram(
            "workqueue_work_duration_seconds", "Time with a worker", QUEUE_BUCKETS, *_QUEUE_LABELS
        )
        self.loop_lag = self._gauge("event_loop_lag_seconds", "How late the event loop last was")
        self._queues = Queues()
        self._reports: dict[str, QueueReport] = {}
        self.registry.register(self._queues)
        self.registry.register(_Unfinished(self._reports))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)

    # -- told by others ------------------------------------------------------------------------------

    def reconciled(self, controller: str, result: Result, took_s: float) -> None:
        """A pass ended (`runtime.controller.ReconcileMetrics`)."""
        self._reconciles.labels(controller, _verdict(result)).inc()
        self._time.labels(controller).observe(took_s)
        if _verdict(result) == "error":
            self._errors.labels(controller).inc()
            if result.outcome in FAULTS:
                self._panics.labels(controller).inc()
            if result.outcome in REFUSED:
                self._terminal.labels(controller).inc()

    def requested(self, method: str, host: str, code: int) -> None:
        """A request was answered, or not (code 0) (`kube.client.Observer`)."""
        self._requests.labels(str(code) if code else NO_ANSWER, method, host).inc()

    def leading(self, name: str, *, held: bool) -> None:
        """The lease was won or lost."""
        self._leading.labels(name).set(1 if held else 0)

    def event(self, result: str) -> None:
        """An Event was sent, or was not (`runtime.events.EventMetrics`)."""
        self._events.labels(result).inc()

    def queue(self, controller: str, workers: int) -> "QueueReport":
        """What the queue of a controller reports to; its series are there from now on, at zero."""
        self._workers.labels(controller).set(workers)
        for counter in (self._errors, self._terminal, self._panics):
            counter.labels(controller)
        names = (controller, controller)
        self._reports[controller] = QueueReport(
            self._adds.labels(*names),
            self._retries.labels(*names),
            self._waits.labels(*names),
            self._works.labels(*names),
            self._clock,
        )
        return self._reports[controller]

    # -- read when asked -----------------------------------------------------------------------------

    def watch_queue(self, controller: str, queue: Callable[[], QueueView]) -> None:
        """Read the depth and ages of a queue whenever metrics are asked for."""
        self._queues.add(controller, queue)

    def watch_ages(self, ages: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Read (kind, seconds since its watch last said anything) whenever metrics are asked for."""
        self.registry.register(WatchAges(ages))

    def watch_informers(self, activity: Callable[[], Iterable[tuple[str, ActivityView, int]]]) -> None:
        """Read (scope, counters, resourceVersion of the store) of every informer. Scopes are unique."""
        self.registry.register(Watches(activity))

    def watch_resources(self, objects: Callable[[], Mapping[str, Iterable[Resource]]]) -> None:
        """Read our objects, by the name of their kind."""
        self.registry.register(Resources(objects))

    # -- internals -----------------------------------------------------------------------------------

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)


def _verdict(result: Result) -> str:
    """In controller-runtime's words."""
    if result.outcome in STANDING_BY:
        return "requeue"
    if result.backoff:
        return "error"
    return "success" if result.after_s is None else "requeue_after"


class QueueReport:
    """`runtime.queue.QueueMetrics` of one controller."""

    def __init__(
        self, adds: Counter, retries: Counter, waits: Histogram, works: Histogram, clock: Clock
    ) -> None:
        self._adds, self._retries, self._waits, self._works = adds, retries, waits, works
        self._clock = clock
        self._working = 0
        self._begun = 0.0
        """The sum of the moments in which the work under way began."""

    def added(self) -> None:
        """A key entered the queue."""
        self._adds.inc()

    def taken(self, waited_s: float) -> None:
        """A worker took a key."""
        self._waits.observe(waited_s)
        self._working += 1
        self._begun += self._clock.monotonic()

    def finished(self, worked_s: float) -> None:
        """A worker finished with a key."""
        self._works.observe(worked_s)
        self._working -= 1
        self._begun -= self._clock.monotonic() - worked_s

    def retried(self) -> None:
        """A key failed and was added with back-off."""
        self._retries.inc()

    def unfinished_s(self) -> float:
        """How long all work under way has taken so far, together."""
        return max(0.0, self._working * self._clock.monotonic() - self._begun) if self._working else 0.0


class _Unfinished(Collector):
    """Grows by itself while work is stuck, other than a histogram of what was finished."""

    def __init__(self, reports: Mapping[str, QueueReport]) -> None:
        self._reports = reports

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Seconds of all work under way", labels=_QUEUE_LABELS
        )
        for name, report in self._reports.items():
            family.add_metric([name, name], report.unfinished_s())
        yield family
