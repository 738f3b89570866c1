"""What the guard tells of itself (spec: companions §2.5). Labels are bounded: no user, no instance."""

from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from magicstick.access_guard.decide import ALLOWING, Reason, Verdict

BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

# They would double the number of series, and no dashboard of the field reads them.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library does not annotate it


class GuardMetrics:
    """All metrics of the process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        decisions = Counter(
            "guard_decisions_total",
            "Answers to the gateway by result and class of reason",
            ["result", "reason"],
            registry=self.registry,
        )
        self._decisions = {
            reason: decisions.labels("allow" if reason in ALLOWING else "deny", str(reason))
            for reason in Reason
        }
        self._seconds = Histogram(
            "guard_decision_seconds",
            "From the question to the answer",
            buckets=BUCKETS,
            registry=self.registry,
        )
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def decided(self, verdict: Verdict, took_s: float) -> None:
        """A question was answered."""
        self._decisions[verdict.reason].inc()
        self._seconds.observe(took_s)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self.registry)
