"""Metrics under the names that controller-runtime's users have dashboards for (spec: README, lessons A.1).

One instance owns one registry; nothing is global. Labels are bounded: controllers, results, status
codes, kinds. No series is named after an object.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from magicstick.runtime.queue import WorkQueue
from magicstick.runtime.skeleton import Result

RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
QUEUE_BUCKETS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
FAILURES = frozenset({"InternalError", "unsettled"})


class Metrics:
    """All metrics of the process; hands out what each part reports to."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reconciles = Counter(
            "controller_runtime_reconcile_total",
            "Passes by controller and result",
            ["controller", "result"],
            registry=self.registry,
        )
        self._errors = self._per_controller("controller_runtime_reconcile_errors_total", "Passes that failed")
        self._terminal = self._per_controller(
            "controller_runtime_terminal_reconcile_errors_total",
            "Passes that failed in a way only a change can mend",
        )
        self._panics = self._per_controller(
            "controller_runtime_reconcile_panics_total", "Passes that failed by a fault of the operator"
        )
        self._time = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of a pass",
            ["controller"],
            buckets=RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self._workers = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Workers by controller",
            ["controller"],
            registry=self.registry,
        )
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server",
            ["code", "method", "host"],
            registry=self.registry,
        )
        self._leading = Gauge(
            "leader_election_master_status", "1 while the lease is held", ["name"], registry=self.registry
        )
        self.loop_lag = Gauge(
            "event_loop_lag_seconds", "How late the event loop last was", registry=self.registry
        )
        self._queues = _Queues()
        self.registry.register(self._queues)
        names = ("adds", "retries")
        self._queue_counters = {
            name: Counter(
                f"workqueue_{name}_total",
                f"Work queue {name}",
                ["name", "controller"],
                registry=self.registry,
            )
            for name in names
        }
        self._queue_times = {
            name: Histogram(
                f"workqueue_{name}_duration_seconds",
                f"Seconds of {name}",
                ["name", "controller"],
                buckets=QUEUE_BUCKETS,
                registry=self.registry,
            )
            for name in ("queue", "work")
        }

    def _per_controller(self, name: str, text: str) -> Counter:
        return Counter(name, text, ["controller"], registry=self.registry)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)

    def reconciled(self, controller: str, result: Result, took_s: float) -> None:
        """A pass ended (`runtime.controller.ReconcileMetrics`)."""
        if result.backoff:
            verdict = "error"
            self._errors.labels(controller).inc()
            if result.outcome in FAILURES:
                self._panics.labels(controller).inc()
        elif result.outcome in {"ApiRejected", "Rejected"}:
            verdict = "requeue_after"
            self._terminal.labels(controller).inc()
        else:
            verdict = "success" if result.after_s is None else "requeue_after"
        self._reconciles.labels(controller, verdict).inc()
        self._time.labels(controller).observe(took_s)

    def requested(self, method: str, host: str, code: int) -> None:
        """A request was answered, or not (code 0) (`kube.client.Observer`)."""
        self._requests.labels(str(code) if code else "<error>", method, host).inc()

    def leading(self, name: str, *, held: bool) -> None:
        """The lease was won or lost."""
        self._leading.labels(name).set(1 if held else 0)

    def queue(self, controller: str, workers: int) -> "QueueReport":
        """What the queue of a controller reports to."""
        self._workers.labels(controller).set(workers)
        return QueueReport(
            self._queue_counters["adds"].labels(controller, controller),
            self._queue_counters["retries"].labels(controller, controller),
            self._queue_times["queue"].labels(controller, controller),
            self._queue_times["work"].labels(controller, controller),
        )

    def watch_queue(self, controller: str, queue: Callable[[], WorkQueue[object]]) -> None:
        """Read the depth and ages of a queue whenever metrics are asked for."""
        self._queues.add(controller, queue)

    def watch_ages(self, ages: Callable[[], Iterable[tuple[str, float]]]) -> None:
        """Read (kind, seconds since its watch last said anything) whenever metrics are asked for."""
        self.registry.register(_WatchAges(ages))


class QueueReport:
    """`runtime.queue.QueueMetrics` of one controller."""

    def __init__(self, adds: Counter, retries: Counter, waits: Histogram, works: Histogram) -> None:
        self._adds, self._retries, self._waits, self._works = adds, retries, waits, works

    def added(self) -> None:
        """A key entered the queue."""
        self._adds.inc()

    def taken(self, waited_s: float) -> None:
        """A worker took a key."""
        self._waits.observe(waited_s)

    def finished(self, worked_s: float) -> None:
        """A worker finished with a key."""
        self._works.observe(worked_s)

    def retried(self) -> None:
        """A key failed and was added with back-off."""
        self._retries.inc()


class _Queues(Collector):
    def __init__(self) -> None:
        self._of: dict[str, Callable[[], WorkQueue[object]]] = {}

    def add(self, controller: str, queue: Callable[[], WorkQueue[object]]) -> None:
        self._of[controller] = queue

    def collect(self) -> Iterator[GaugeMetricFamily]:
        labels = ["name", "controller"]
        depth = GaugeMetricFamily("workqueue_depth", "Keys that could be taken now", labels=labels)
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Age of the key that waits longest", labels=labels
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Age of the longest pass", labels=labels
        )
        active = GaugeMetricFamily(
            "controller_runtime_active_workers", "Workers at work", labels=["controller"]
        )
        for name, queue in self._of.items():
            now = queue()
            depth.add_metric([name, name], len(now))
            unfinished.add_metric([name, name], now.oldest_wait_s())
            longest.add_metric([name, name], now.longest_work_s())
            active.add_metric([name], now.working)
        yield from (depth, unfinished, longest, active)


class _WatchAges(Collector):
    def __init__(self, ages: Callable[[], Iterable[tuple[str, float]]]) -> None:
        self._ages = ages

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "watch_last_event_age_seconds", "Seconds since the watch said anything", labels=["kind"]
        )
        for kind, age in self._ages():
            family.add_metric([kind], age)
        yield family
