"""What Flux says of an object that it reconciles: its verdict on the current generation.

Facts of kustomize-controller that the reading relies on:

- `status.observedGeneration` moves only when an apply *succeeded* (or failed for good). An ordinary
  failure leaves it behind; there, only the condition's own `observedGeneration` is current.
- At each reconcile, also the periodic one of a healthy object, `Ready` is Unknown until the apply is
  done. Taking that for "not ready" would suspend every dependant at each interval.
- While a dependency has not caught up with a new revision, `Ready` is False with DependencyNotReady.
  That is a wait, no failure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from magicstick.kube.objects import Resource

READY_CONDITIONS: Final = ("Ready", "ServerReady", "ServerHealthy", "Available")
"""Where readiness is looked for, in this order (spec: modules-and-apps §6)."""

FLUX_WAITS: Final = frozenset({"DependencyNotReady", "HealthCheckCanceled", "Progressing"})
"""Reasons of `Ready=False` with which Flux says that it will look again on its own."""


class FluxState(Enum):
    """What the verdict is."""

    READY = "ready"
    """The current generation is applied and healthy."""
    FAILED = "failed"
    """The current generation was tried and failed."""
    CHECKING = "checking"
    """The current generation was applied before and is being looked at again."""
    PENDING = "pending"
    """The current generation has no verdict yet; also for suspended and for dying objects."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Flux says, with its own reason and message ("" where it gave none).

    `current` tells whether reason and message speak of the current generation.
    """

    state: FluxState
    reason: str = ""
    message: str = ""
    current: bool = False


def suspended(resource: Resource) -> bool:
    """Whether Flux leaves the object alone; then it prunes nothing on deletion either."""
    return resource.spec.get("suspend") is True


def verdict(resource: Resource) -> Verdict:
    """Flux's verdict on the current generation of `resource`. Total: any status gives one.

    A condition counts only for the generation that it speaks of; a suspended or dying object has no
    verdict, since its last one is of the past.
    """
    status, generation = resource.status, resource.metadata.generation
    condition = _readiness_condition(status)
    observed = _number(status.get("observedGeneration"))
    applied = observed >= generation
    current = _number(condition.get("observedGeneration"), observed) >= generation
    reason, message = _text(condition.get("reason")), _text(condition.get("message"))
    if suspended(resource) or resource.metadata.dying:
        return Verdict(FluxState.PENDING, reason, message)
    if applied and current and (status.get("ready") is True or condition.get("status") == "True"):
        return Verdict(FluxState.READY, reason, message, current=True)
    if current and condition.get("status") == "False" and reason not in FLUX_WAITS:
        return Verdict(FluxState.FAILED, reason, message, current=True)
    looking = current and condition.get("status") in {"Unknown", "False"}
    state = FluxState.CHECKING if applied and looking else FluxState.PENDING
    return Verdict(state, reason, message, current=current)


def _readiness_condition(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first condition that tells readiness; {} when there is none."""
    listed = status.get("conditions")
    conditions = listed if isinstance(listed, list | tuple) else ()
    for type_ in READY_CONDITIONS:
        for entry in conditions:
            if isinstance(entry, Mapping) and entry.get("type") == type_:
                return entry
    return {}


def _number(value: object, default: int = -1) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
