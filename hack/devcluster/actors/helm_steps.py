"""What Flux's helm-controller does next with a release: pure decisions, as its `atomic_release` makes them.

A release is installed where the storage has none, upgraded where chart or values differ from what was
released last, and left alone where they do not. A failure is tried again after an interval
(`strategy: RetryOnFailure`), or remedied and tried again as often as `remediation.retries` says.
"""

import re
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from hack.devcluster.actors.following import Object
from hack.devcluster.actors.releases import (
    DEPLOYED,
    FAILED,
    FORCE_AT,
    RESET_AT,
    SUPERSEDED,
    UNINSTALLED,
    Attempt,
    ChartIdentity,
    Record,
    history_of,
    is_requested,
    latest_of,
)

RETRY_INTERVAL: Final = "5m"
UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")

Release: TypeAlias = Literal["install", "upgrade"]


class Step(StrEnum):
    """What is done next; the value is Helm's word for it where Helm does it."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    UNINSTALL = "uninstall"
    NOTHING = "nothing"
    GIVE_UP = "give up"
    """Nothing is tried again by itself: the release is stalled."""


def next_step(release: Object, attempt: Attempt, record: Record | None, *, forced: bool) -> Step:
    """What follows from the storage, what is wanted, and the failures until now.

    Args:
        release: the HelmRelease; its history is what was observed last.
        attempt: what is wanted.
        record: the newest revision of the storage; None where there is none.
        forced: whether something is to be done in any case.
    """
    if record is None or record.status == UNINSTALLED:
        return Step.INSTALL if forced or has_tries_left(release, "install") else Step.GIVE_UP
    latest = latest_of(release)
    if not latest or latest["version"] != record.version:
        return Step.UPGRADE  # somebody else has released it: it is taken over
    if record.status == FAILED:
        return _after_failure(release, forced=forced)
    if not forced and _is_released(latest, attempt):
        return Step.NOTHING
    return Step.UPGRADE if forced or has_tries_left(release, "upgrade") else Step.GIVE_UP


def is_forced(release: Object) -> bool:
    """Whether an annotation asks for an action, needed or not."""
    return is_requested(release, FORCE_AT)


def is_new(release: Object, attempt: Attempt) -> bool:
    """Whether failures of before say nothing about what is wanted now."""
    status = release.get("status", {})
    return (
        status.get("lastAttemptedGeneration") != release["metadata"]["generation"]
        or status.get("lastAttemptedRevision") != attempt.chart.version
        or status.get("lastAttemptedConfigDigest") != attempt.digest
        or is_requested(release, RESET_AT)
    )


def has_tries_left(release: Object, action: Release) -> bool:
    """Whether an action may be begun, after the failures until now."""
    if retry_after_s(release, action) is not None:
        return True
    retries = _retries(release, action)
    return retries < 0 or _failures(release, action) <= retries


def retry_after_s(release: Object, action: Release) -> float | None:
    """After how many seconds a failed action is tried again; None where it is remedied instead."""
    strategy = (release["spec"].get(action) or {}).get("strategy") or {}
    if strategy.get("name") != "RetryOnFailure":
        return None
    return seconds(str(strategy.get("retryInterval", RETRY_INTERVAL)))


def rollback_target(release: Object) -> Object:
    """The revision before the failures; empty where there is none."""
    return next((each for each in history_of(release)[1:] if each["status"] in (DEPLOYED, SUPERSEDED)), {})


def attempt_of(snapshot: Object) -> Attempt:
    """What was released at a point of the history."""
    chart = ChartIdentity(snapshot["chartName"], snapshot["chartVersion"], snapshot.get("appVersion", ""))
    return Attempt(chart, snapshot["configDigest"])


def seconds(duration: str) -> float:
    """Of a duration as Flux writes it, for example `1m30s`."""
    return sum(float(number) * UNITS_S[unit] for number, unit in _PART.findall(duration))


def last_action(release: Object) -> Release:
    """What was tried last."""
    return (
        "upgrade" if release.get("status", {}).get("lastAttemptedReleaseAction") == "upgrade" else "install"
    )


def _after_failure(release: Object, *, forced: bool) -> Step:
    action = last_action(release)
    if forced or retry_after_s(release, action) is not None or _failures(release, action) == 0:
        return Step.UPGRADE
    if not has_tries_left(release, action) and not _is_last_failure_remedied(release, action):
        return Step.GIVE_UP
    remediation = _remediation(release, action)
    if action == "install" or remediation.get("strategy") == "uninstall":
        return Step.UNINSTALL
    return Step.ROLLBACK if rollback_target(release) else Step.GIVE_UP


def _is_released(latest: Object, attempt: Attempt) -> bool:
    return latest["status"] == DEPLOYED and attempt_of(latest) == attempt


def _is_last_failure_remedied(release: Object, action: Release) -> bool:
    told = _remediation(release, action).get("remediateLastFailure")
    return bool(told) if told is not None else action == "upgrade" and _retries(release, action) > 0


def _retries(release: Object, action: Release) -> int:
    return int(_remediation(release, action).get("retries") or 0)


def _failures(release: Object, action: Release) -> int:
    return int(release.get("status", {}).get(f"{action}Failures", 0))


def _remediation(release: Object, action: Release) -> Object:
    remediation: Object = (release["spec"].get(action) or {}).get("remediation") or {}
    return remediation
