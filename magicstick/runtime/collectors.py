"""Metrics that are read when they are asked for, from what is there at that moment.

A series of this kind exists exactly as long as what it describes: nothing has to be deleted, and nothing
can be left over.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import READY, conditions_of, find
from magicstick.runtime.queue import Priority

MOST_OBJECTS: Final = 2000
"""Objects of one kind that get a series of their own; a kind with more shows its number alone."""


class QueueView(Protocol):
    """What is to be seen of a work queue (`runtime.queue.WorkQueue`)."""

    @property
    def working(self) -> int:
        """Keys that workers have."""
        ...

    def depth(self, priority: Priority) -> int:
        """Keys of this priority that could be taken now."""
        ...

    def longest_work_s(self) -> float:
        """How long the worker that works longest has worked on its key."""
        ...


class ActivityView(Protocol):
    """What is to be seen of an informer's work (`kube.informer.Counters`)."""

    events: int
    lists: int
    watches: int
    expired: int
    failures: int


class Queues(Collector):
    """Depths and ages of the work queues, by controller."""

    def __init__(self) -> None:
        self._of: dict[str, Callable[[], QueueView]] = {}

    def add(self, controller: str, queue: Callable[[], QueueView]) -> None:
        """Read this queue as well; the function gives the one that is in use now."""
        self._of[controller] = queue

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `prometheus_client`."""
        labels = ["name", "controller"]
        depth = GaugeMetricFamily(
            "workqueue_depth", "Keys that could be taken now", labels=[*labels, "priority"]
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Age of the longest pass", labels=labels
        )
        active = GaugeMetricFamily(
            "controller_runtime_active_workers", "Workers at work", labels=["controller"]
        )
        for name, current in self._of.items():
            queue = current()
            for priority in Priority:
                depth.add_metric([name, name, priority.name.lower()], queue.depth(priority))
            longest.add_metric([name, name], queue.longest_work_s())
            active.add_metric([name], queue.working)
        yield from (depth, longest, active)


class WatchAges(Collector):
    """How long each watch has said nothing."""

    def __init__(self, ages: Callable[[], Iterable[tuple[str, float]]]) -> None:
        self._ages = ages

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `prometheus_client`."""
        family = GaugeMetricFamily(
            "watch_last_event_age_seconds", "Seconds since the watch said anything", labels=["kind"]
        )
        oldest: dict[str, float] = {}
        for kind, age in self._ages():
            oldest[kind] = max(age, oldest.get(kind, age))
        for kind, age in oldest.items():
            family.add_metric([kind], age)
        yield family


class Watches(Collector):
    """What each informer did, and how far its store is."""

    def __init__(self, activity: Callable[[], Iterable[tuple[str, ActivityView, int]]]) -> None:
        self._activity = activity

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """See `prometheus_client`."""
        counters = {
            name: CounterMetricFamily(f"watch_{name}_total", text, labels=["kind"])
            for name, text in (
                ("events", "Events and bookmarks taken"),
                ("lists", "Complete lists"),
                ("watches", "Watches opened"),
                ("expired", "Versions that were too old, so that a new list was needed"),
                ("failures", "Requests that failed"),
            )
        }
        version = GaugeMetricFamily(
            "store_resource_version", "Newest resourceVersion that the store has seen", labels=["kind"]
        )
        for kind, activity, resource_version in self._activity():
            for name, family in counters.items():
                family.add_metric([kind], getattr(activity, name))
            version.add_metric([kind], resource_version)
        yield from counters.values()
        yield version


class Resources(Collector):
    """Our objects and whether they are Ready, read from the stores."""

    def __init__(self, objects: Callable[[], Mapping[str, Iterable[Resource]]]) -> None:
        self._objects = objects

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See `prometheus_client`."""
        where = ["kind", "namespace", "name"]
        number = GaugeMetricFamily("magicstick_resources", "Objects by kind", labels=["kind"])
        info = GaugeMetricFamily(
            "magicstick_resource_info", "One for each object", labels=[*where, "phase", "reason"]
        )
        ready = GaugeMetricFamily(
            "magicstick_resource_ready", "1 while Ready is True, -1 while it is unknown, else 0", labels=where
        )
        for kind, objects in self._objects().items():
            listed = list(objects)
            number.add_metric([kind], len(listed))
            for obj in listed if len(listed) <= MOST_OBJECTS else ():
                place = [kind, obj.metadata.namespace, obj.metadata.name]
                condition = find(conditions_of(obj.status), READY) or {}
                phase, reason = obj.status.get("phase", ""), condition.get("reason", "")
                info.add_metric([*place, str(phase), str(reason)], 1)
                ready.add_metric(place, {"True": 1, "False": 0}.get(str(condition.get("status")), -1))
        yield from (number, info, ready)
