"""Metrics under the names that dashboards query."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from prometheus_client.parser import text_string_to_metric_families

from magicstick.kube.informer import Counters
from magicstick.kube.objects import FullObjectMeta, Resource
from magicstick.runtime.collectors import MOST_OBJECTS
from magicstick.runtime.metrics import Metrics
from magicstick.runtime.queue import Priority, WorkQueue
from magicstick.runtime.skeleton import Result
from tests.support.virtual_time import VirtualTime


def sample(metrics: Metrics, metric: str, /, **labels: str) -> float | None:
    """The one sample of this name with exactly these labels."""
    return metrics.registry.get_sample_value(metric, labels)


def series(metrics: Metrics, name: str) -> list[dict[str, str]]:
    return [
        entry.labels
        for family in metrics.registry.collect()
        for entry in family.samples
        if entry.name == name
    ]


def test_every_name_that_dashboards_query_is_there_from_the_start() -> None:
    time = VirtualTime()
    metrics = Metrics(time)
    queue = WorkQueue[str](timers=time, metrics=metrics.queue("module", 16))
    metrics.watch_queue("module", lambda: queue)
    metrics.watch_ages(lambda: [("pods", 1.0)])
    metrics.watch_informers(lambda: [("pods", Counters(), 7)])
    metrics.watch_resources(lambda: {"Appliance": []})
    metrics.reconciled("module", Result("Ready"), 0.1)
    metrics.requested("GET", "api.example.local", 200)
    metrics.leading("magicstick-operator", held=True)
    metrics.event("sent")
    names = {entry.name for family in metrics.registry.collect() for entry in family.samples}
    assert names >= {
        "controller_runtime_reconcile_total",
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
        "controller_runtime_reconcile_time_seconds_bucket",
        "controller_runtime_max_concurrent_reconciles",
        "controller_runtime_active_workers",
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds_bucket",
        "workqueue_work_duration_seconds_bucket",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "workqueue_retries_total",
        "rest_client_requests_total",
        "leader_election_master_status",
        "watch_last_event_age_seconds",
        "watch_lists_total",
        "store_resource_version",
        "event_loop_lag_seconds",
        "magicstick_events_total",
        "magicstick_resources",
        "process_resident_memory_bytes",
    }


@pytest.mark.parametrize(
    ("result", "verdict", "errors", "terminal", "panics"),
    [
        (Result("Ready"), "success", 0, 0, 0),
        (Result("Ready", after_s=20), "requeue_after", 0, 0, 0),
        (Result("FenceClosed", backoff=True), "requeue", 0, 0, 0),
        (Result("unsynced"), "requeue", 0, 0, 0),
        (Result("Unavailable", backoff=True), "error", 1, 0, 0),
        (Result("ApiRejected", after_s=60, backoff=True), "error", 1, 1, 0),
        (Result("Forbidden", backoff=True), "error", 1, 1, 0),
        (Result("InternalError", backoff=True), "error", 1, 0, 1),
        (Result("unsettled", backoff=True), "error", 1, 0, 0),
    ],
    ids=lambda value: value.outcome if isinstance(value, Result) else None,
)
def test_a_pass_is_counted_by_how_it_ended(
    result: Result, verdict: str, errors: int, terminal: int, panics: int
) -> None:
    metrics = Metrics()
    metrics.queue("module", 1)
    metrics.reconciled("module", result, 0.02)
    assert sample(metrics, "controller_runtime_reconcile_total", controller="module", result=verdict) == 1
    for kind, expected in (
        ("reconcile_errors", errors),
        ("terminal_reconcile_errors", terminal),
        ("reconcile_panics", panics),
    ):
        assert sample(metrics, f"controller_runtime_{kind}_total", controller="module") == expected
    buckets = "controller_runtime_reconcile_time_seconds_bucket"
    assert sample(metrics, buckets, controller="module", le="0.01") == 0
    assert sample(metrics, buckets, controller="module", le="0.025") == 1


def test_requests_are_counted_also_those_without_an_answer() -> None:
    metrics = Metrics()
    metrics.requested("PATCH", "api.example.local", 409)
    metrics.requested("GET", "api.example.local", 0)
    name, host = "rest_client_requests_total", "api.example.local"
    assert sample(metrics, name, code="409", method="PATCH", host=host) == 1
    assert sample(metrics, name, code="<error>", method="GET", host=host) == 1


def test_the_lease_shows_whether_it_is_held() -> None:
    metrics = Metrics()
    metrics.leading("lease", held=True)
    assert sample(metrics, "leader_election_master_status", name="lease") == 1
    metrics.leading("lease", held=False)
    assert sample(metrics, "leader_election_master_status", name="lease") == 0


@pytest.mark.anyio
async def test_the_queue_shows_depth_by_priority_and_the_age_of_work() -> None:
    time = VirtualTime()
    metrics = Metrics(time)
    queue = WorkQueue[str](timers=time, metrics=metrics.queue("module", 4))
    metrics.watch_queue("module", lambda: queue)
    labels = {"name": "module", "controller": "module"}
    for key, priority in (("a", Priority.URGENT), ("b", Priority.NORMAL), ("c", Priority.NORMAL)):
        queue.add(key, priority)
    assert [
        sample(metrics, "workqueue_depth", **labels, priority=p) for p in ("urgent", "normal", "low")
    ] == [
        1,
        2,
        0,
    ]
    time.advance(2)
    first = await queue.get()
    time.advance(3)
    second = await queue.get()
    time.advance(1)
    assert sample(metrics, "workqueue_longest_running_processor_seconds", **labels) == 4
    assert sample(metrics, "workqueue_unfinished_work_seconds", **labels) == 4 + 1
    assert sample(metrics, "controller_runtime_active_workers", controller="module") == 2
    assert sample(metrics, "controller_runtime_max_concurrent_reconciles", controller="module") == 4
    queue.done(first)
    assert sample(metrics, "workqueue_unfinished_work_seconds", **labels) == 1
    queue.done(second)
    assert sample(metrics, "workqueue_unfinished_work_seconds", **labels) == 0
    assert sample(metrics, "workqueue_adds_total", **labels) == 3
    assert sample(metrics, "workqueue_queue_duration_seconds_sum", **labels) == 2 + 5
    assert sample(metrics, "workqueue_work_duration_seconds_sum", **labels) == 4 + 1
    queue.add_backoff("d")
    assert sample(metrics, "workqueue_retries_total", **labels) == 1


@pytest.mark.anyio
async def test_a_queue_that_was_replaced_is_no_longer_looked_at() -> None:
    time = VirtualTime()
    metrics = Metrics(time)
    queues = [WorkQueue[str](timers=time)]
    metrics.watch_queue("module", lambda: queues[-1])
    queues[0].add("a")
    queues.append(WorkQueue(timers=time))
    labels = {"name": "module", "controller": "module", "priority": "normal"}
    assert sample(metrics, "workqueue_depth", **labels) == 0


def test_of_several_watches_of_one_kind_the_oldest_counts() -> None:
    metrics = Metrics()
    metrics.watch_ages(lambda: [("configmaps", 3.0), ("configmaps", 40.0), ("configmaps", 5.0)])
    assert sample(metrics, "watch_last_event_age_seconds", kind="configmaps") == 40


def test_what_informers_did_is_counted() -> None:
    metrics = Metrics()
    counters = Counters(events=9, lists=2, watches=3, expired=1, failures=4)
    metrics.watch_informers(lambda: [("pods", counters, 1234)])
    for name in ("events", "lists", "watches", "expired", "failures"):
        assert sample(metrics, f"watch_{name}_total", kind="pods") == getattr(counters, name)
    assert sample(metrics, "store_resource_version", kind="pods") == 1234


@dataclass
class Objects:
    """Stores as the metrics see them."""

    modules: list[Resource] = field(default_factory=list)

    def __call__(self) -> dict[str, Iterable[Resource]]:
        return {"ModuleActivation": self.modules}


def module(name: str, ready: str | None, phase: str = "Ready", reason: str = "Applied") -> Resource:
    conditions = [{"type": "Ready", "status": ready, "reason": reason}] if ready else []
    metadata = FullObjectMeta(name=name, namespace="ai-system", uid=f"uid-{name}")
    return Resource(metadata, status={"phase": phase, "conditions": conditions})


def test_an_object_has_series_of_its_own_exactly_as_long_as_it_exists() -> None:
    metrics, objects = Metrics(), Objects([module("litellm", "True"), module("gpu", "False", "Degraded")])
    metrics.watch_resources(objects)
    place = {"kind": "ModuleActivation", "namespace": "ai-system"}
    assert sample(metrics, "magicstick_resources", kind="ModuleActivation") == 2
    assert sample(metrics, "magicstick_resource_ready", **place, name="litellm") == 1
    assert sample(metrics, "magicstick_resource_ready", **place, name="gpu") == 0
    info = {**place, "name": "gpu", "phase": "Degraded", "reason": "Applied"}
    assert sample(metrics, "magicstick_resource_info", **info) == 1
    objects.modules.pop()
    assert [labels["name"] for labels in series(metrics, "magicstick_resource_info")] == ["litellm"]
    objects.modules.clear()
    assert series(metrics, "magicstick_resource_ready") == []


def test_an_object_without_a_condition_is_unknown() -> None:
    metrics = Metrics()
    metrics.watch_resources(Objects([module("new", None, "")]))
    place = {"kind": "ModuleActivation", "namespace": "ai-system", "name": "new"}
    assert sample(metrics, "magicstick_resource_ready", **place) == -1


def test_a_kind_with_very_many_objects_shows_their_number_alone() -> None:
    metrics = Metrics()
    metrics.watch_resources(Objects([module(f"m{n}", "True") for n in range(MOST_OBJECTS + 1)]))
    assert sample(metrics, "magicstick_resources", kind="ModuleActivation") == MOST_OBJECTS + 1
    assert series(metrics, "magicstick_resource_info") == []


def test_no_series_is_labelled_by_uid_or_pod() -> None:
    metrics = Metrics()
    metrics.queue("module", 1)
    metrics.watch_resources(Objects([module("one", "True")]))
    labels = {
        name for family in metrics.registry.collect() for entry in family.samples for name in entry.labels
    }
    assert not labels & {"uid", "pod"}


def test_the_text_can_be_read_by_prometheus_and_registries_are_apart() -> None:
    metrics = Metrics()
    metrics.event("sent")
    assert b"_created" not in metrics.render()
    families = {family.name for family in text_string_to_metric_families(metrics.render().decode())}
    assert "magicstick_events" in families
    assert sample(Metrics(), "magicstick_events_total", result="sent") is None
