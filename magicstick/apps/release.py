"""What Flux says of an instance's HelmRelease, as one of three verdicts (spec: modules-and-apps §8.6).

A closed table over the condition Ready, with a default: what the table does not know is work in progress,
with Flux's own reason. Nothing that Flux may ever write is an error here, and nothing is repaired by
deleting (fault F09). A condition counts only for the generation that it speaks of.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.apps.status import InstancePhase, InstanceReason
from magicstick.kube.objects import Resource
from magicstick.runtime.conditions import READY, conditions_of, find

AT_WORK: Final = frozenset({"Progressing", "InstallSucceeded", "UpgradeSucceeded"})
"""Reasons of `Ready=False` with which Flux is still at work."""

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?")
"""What Kubernetes allows as the reason of a condition, and we therefore pass on."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The phase that the release gives an instance whose guard is accepted."""

    phase: InstancePhase
    reason: str
    message: str


def verdict(release: Resource | None) -> Verdict:
    """What the HelmRelease, as the caches have it, says of the installation. Total."""
    if release is None:
        return _waiting("The HelmRelease does not exist yet.")
    if release.metadata.dying:
        return _waiting("The HelmRelease is being deleted, and is made anew once it is gone.")
    condition = find(conditions_of(release.status), READY)
    if condition is None or not _current(condition, release):
        return _waiting("Flux has not looked at the HelmRelease yet.")
    return _judged(condition)


def _judged(condition: Mapping[str, Any]) -> Verdict:
    reason, message = _reason(condition.get("reason")), _text(condition.get("message"))
    match condition.get("status"):
        case "True":
            phase, default = InstancePhase.READY, InstanceReason.RELEASE_READY
            told = message or "The application is installed."
        case "False" if reason not in AT_WORK:
            phase, default = InstancePhase.DEGRADED, InstanceReason.RELEASE_NOT_READY
            told = f"Flux could not install the application: {message or 'it does not say why.'}"
        case _:
            phase, default = InstancePhase.RECONCILING, InstanceReason.WAITING_FOR_RELEASE
            told = message or "Flux is at work on the HelmRelease."
    return Verdict(phase, reason or default, told)


def _waiting(message: str) -> Verdict:
    return Verdict(InstancePhase.RECONCILING, InstanceReason.WAITING_FOR_RELEASE, message)


def _current(condition: Mapping[str, Any], release: Resource) -> bool:
    """Whether the condition speaks of what is wanted now."""
    observed = _number(condition.get("observedGeneration"))
    if observed is None:
        observed = _number(release.status.get("observedGeneration"))
    return observed is not None and observed >= release.metadata.generation


def _reason(value: object) -> str:
    return value if isinstance(value, str) and _REASON.fullmatch(value) else ""


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
