"""What Flux's helm-controller reports of a HelmRelease, as values: no requests, no clock.

After `helm.toolkit.fluxcd.io/v2` of fluxcd/helm-controller: `Ready` and `Released` tell how the last action
ended, `Remediated` what was done about a failure, `Reconciling` stands while something is under way or will
be tried again at once, `Stalled` where nothing is tried again by itself; `observedGeneration` is that of the
last reconciliation that came to an end, well or not.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from hack.devcluster.actors.following import Object, condition, conditions
from hack.devcluster.actors.writing import Told, condition_of, stamp

REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
FORCE_AT: Final = "reconcile.fluxcd.io/forceAt"
RESET_AT: Final = "reconcile.fluxcd.io/resetAt"
HANDLED: Final = {FORCE_AT: "lastHandledForceAt", RESET_AT: "lastHandledResetAt"}
"""Requests that count once, and only where they come with the same token of REQUESTED_AT."""
LONGEST_NAME: Final = 53
KEPT_OF_NAME: Final = 40
HISTORY: Final = 5
DEPLOYED: Final = "deployed"
FAILED: Final = "failed"
SUPERSEDED: Final = "superseded"
UNINSTALLED: Final = "uninstalled"

Action: TypeAlias = Literal["install", "upgrade", "rollback", "uninstall"]
PAST: Final = {"install": "Install", "upgrade": "Upgrade", "rollback": "Rollback", "uninstall": "Uninstall"}
"""How the reasons of an action's end begin."""


class NotYetError(Exception):
    """What a release needs is not there; it is waited for."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an action on a release ends.

    Attributes:
        reason: of a failure (`InstallFailed`, `UpgradeFailed`, `UninstallFailed`, or anything a server may
            say); empty when it succeeds.
        message: of that failure.
        lie: a whole status that is written in place of the true one, while nothing is done; None for the
            truth.
    """

    reason: str = ""
    message: str = ""
    lie: Object | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a release is, as Helm knows it."""

    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ChartIdentity:
    """Which chart it is, as its Chart.yaml says; its version may have the revision of the source in it."""

    name: str
    version: str
    app_version: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Record:
    """One revision of a release, as Helm's storage has it.

    Attributes:
        version: counts from 1.
        status: Helm's word.
        digest: `sha256:<hex>` of what is stored.
    """

    version: int
    status: str
    digest: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is to be released: a chart, and the digest of the values for it."""

    chart: ChartIdentity
    digest: str


@dataclass(frozen=True, slots=True)
class Ended:
    """An action came to its end.

    Attributes:
        record: the revision that it left in the storage; None where it left none.
    """

    action: Action
    attempt: Attempt
    outcome: Outcome
    record: Record | None


def release_name(release: Object) -> str:
    """As Helm knows it (spec: platform §0.2)."""
    spec, meta = release["spec"], release["metadata"]
    if name := spec.get("releaseName"):
        return str(name)
    full = "-".join(filter(None, (spec.get("targetNamespace"), meta["name"])))
    if len(full) <= LONGEST_NAME:
        return full
    return f"{full[:KEPT_OF_NAME]}-{hashlib.sha256(full.encode()).hexdigest()[:12]}"


def target_namespace(release: Object) -> str:
    """Where its objects go."""
    return str(release["spec"].get("targetNamespace") or release["metadata"]["namespace"])


def wanted_place(release: Object) -> Place:
    """Where it is to be."""
    return Place(release_name(release), target_namespace(release))


def actual_place(release: Object) -> Place:
    """Where it was put last; where it is to be when it was never put anywhere."""
    latest = latest_of(release)
    return Place(latest["name"], latest["namespace"]) if latest else wanted_place(release)


def with_status(release: Object, status: Object) -> Object:
    """The release as it would be with another status."""
    return {**release, "status": status}


def history_of(release: Object) -> list[Object]:
    """What is known of its revisions, newest first."""
    return list(release.get("status", {}).get("history") or [])


def latest_of(release: Object) -> Object:
    """The newest revision; empty when there is none."""
    return next(iter(history_of(release)), {})


def is_deployed(release: Object) -> bool:
    """Whether its chart stands in the cluster: what Helm's history says, whatever the conditions say."""
    return any(each["status"] == DEPLOYED for each in history_of(release))


def is_ready(release: Object) -> bool:
    """Ready for its present generation, as those that depend on it see it."""
    current = release.get("status", {}).get("observedGeneration") == release["metadata"]["generation"]
    return current and condition(release, "Ready").get("status") == "True"


def asked_at(release: Object) -> str:
    """The token of the last request to look at it now; empty without."""
    return str(release["metadata"].get("annotations", {}).get(REQUESTED_AT, ""))


def timeout_of(release: Object, action: Action) -> str:
    """So long an action may take, as Flux and Helm write durations."""
    own = (release["spec"].get(action) or {}).get("timeout")
    return str(own or release["spec"].get("timeout", "5m0s"))


def is_requested(release: Object, annotation: str) -> bool:
    """Whether FORCE_AT or RESET_AT asks for something that was not done yet."""
    token = release["metadata"].get("annotations", {}).get(annotation, "")
    handled = release.get("status", {}).get(HANDLED[annotation], "")
    return token not in ("", handled) and token == asked_at(release)


def is_settled(
    release: Object, outcome: Outcome, last: Outcome | None, chart: ChartIdentity | None = None
) -> bool:
    """Whether what is reported is the end of what was asked: nothing is done again until that changes.

    Args:
        release: the live object.
        outcome: how an action would end now.
        last: how the last one ended, or was told to; None when nobody remembers.
        chart: what would be released now; None when that is not known.
    """
    if not _is_observed(release, chart) or condition(release, "Reconciling").get("status") == "True":
        return False
    if condition(release, "Stalled").get("status") == "True":
        return True
    if condition(release, "Ready").get("status") == "True":
        return not outcome.reason
    return last == outcome


def _is_observed(release: Object, chart: ChartIdentity | None) -> bool:
    """Whether what is reported is about what is asked for now."""
    status = release.get("status", {})
    return (
        status.get("observedGeneration") == release["metadata"]["generation"]
        and status.get("lastHandledReconcileAt", "") == asked_at(release)
        and (chart is None or status.get("lastAttemptedRevision", chart.version) == chart.version)
    )


def waiting(release: Object, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """It cannot begin; the generation is not observed, since nothing was done for it."""
    told: list[Told] = [
        ("Reconciling", "True", "ProgressingWithRetry", message),
        ("Ready", "False", reason, message),
    ]
    return _status(release, told, now)


def begun(release: Object, action: Action, now: datetime) -> dict[str, Any]:
    """An action is under way. What was reported of the generation before says nothing any more."""
    message = f"Running '{action}' action with timeout of {timeout_of(release, action)}"
    told = [("Reconciling", "True", "Progressing", message), ("Ready", "Unknown", "Progressing", message)]
    return _status(release, told, now)


def reset(release: Object) -> dict[str, Any]:
    """What is asked for is new: the failures of before do not count."""
    status = {**release.get("status", {})}
    for counter in ("failures", "installFailures", "upgradeFailures"):
        status.pop(counter, None)
    return status


def succeeded(release: Object, ended: Ended, now: datetime) -> dict[str, Any]:
    """The chart stands in the cluster, with the values of this digest."""
    message = f"Helm {ended.action} succeeded for release {_full_name(release, ended)}"
    reason = f"{PAST[ended.action]}Succeeded"
    told = [("Ready", "True", reason, message), ("Released", "True", reason, message)]
    status = _ended(with_status(release, reset(release)), told, ended, now)
    return {**status, "failures": 0}


def failed(release: Object, ended: Ended, now: datetime) -> dict[str, Any]:
    """An action ended badly. What an upgrade found standing still stands."""
    reason, message = ended.outcome.reason, ended.outcome.message
    told = [("Ready", "False", reason, message), ("Released", "False", reason, message)]
    status, counter = release.get("status", {}), f"{ended.action}Failures"
    counted = {name: int(status.get(name, 0)) + 1 for name in ("failures", counter)}
    return {**_ended(release, told, ended, now), **counted}


def remediated(release: Object, ended: Ended, *, again: bool, now: datetime) -> dict[str, Any]:
    """Something was done about a failure, well or not; a failure it is still, as Flux sees it.

    `again`: whether what failed will be tried once more.
    """
    if ended.outcome.reason:
        verdict = ("False", ended.outcome.reason, ended.outcome.message)
    else:
        words = "rollback to previous" if ended.action == "rollback" else "uninstall remediation for"
        message = f"Helm {words} release {_full_name(release, ended)} succeeded"
        verdict = ("True", f"{PAST[ended.action]}Succeeded", message)
    told: list[Told] = [("Ready", "False", *verdict[1:]), ("Remediated", *verdict)]
    if again:
        told.append(("Reconciling", "True", "ProgressingWithRetry", verdict[2]))
    status = _status(release, told, now) | {"history": _history_after(release, ended, now)}
    return status if again else _observed(release, status)


def kept(release: Object, now: datetime) -> dict[str, Any]:
    """It is as it is wanted: nothing was done, and what the last action came to is true still."""
    released = condition(release, "Released")
    reason, message = released.get("reason", "UpgradeSucceeded"), released.get("message", "in sync")
    if released.get("status") != "True":
        reason, message = "UpgradeSucceeded", f"Release {actual_place(release)} is as it is wanted"
    told = [("Ready", "True", reason, message), ("Released", "True", reason, message)]
    return _observed(release, _status(release, told, now))


def stalled(release: Object, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Nothing is tried again by itself; what the last action came to stays told."""
    ready = condition(release, "Ready")
    if ready.get("status") != "False":
        ready = {**condition(release, "Released"), "status": "False"}
    told: list[Told] = [
        ("Ready", "False", ready.get("reason", reason), ready.get("message", message)),
        ("Stalled", "True", reason, message),
    ]
    return _observed(release, _status(release, told, now))


def gone(release: Object) -> dict[str, Any]:
    """It was taken away from where it was, to be put elsewhere: its history says nothing any more."""
    return {**reset(release), "history": []}


def not_uninstalled(release: Object, outcome: Outcome, now: datetime) -> dict[str, Any]:
    """Deleting it ended badly, and is tried again."""
    told = [("Ready", "False", outcome.reason, outcome.message)]
    return _status(release, told, now)


def _ended(release: Object, told: list[Told], ended: Ended, now: datetime) -> dict[str, Any]:
    return _observed(release, _status(release, told, now)) | {
        "lastAttemptedGeneration": release["metadata"]["generation"],
        "lastAttemptedRevision": ended.attempt.chart.version,
        "lastAttemptedReleaseAction": ended.action,
        "lastAttemptedConfigDigest": ended.attempt.digest,
        "storageNamespace": target_namespace(release),
        "history": _history_after(release, ended, now),
    }


def _observed(release: Object, status: dict[str, Any]) -> dict[str, Any]:
    """The pass came to its end: what was asked for by annotation is done."""
    annotations = release["metadata"].get("annotations", {})
    handled = {name: annotations[each] for each, name in HANDLED.items() if annotations.get(each)}
    return {**status, "observedGeneration": release["metadata"]["generation"], **handled}


def _history_after(release: Object, ended: Ended, now: datetime) -> list[Object]:
    past = history_of(release)
    if ended.record is None:
        if ended.action == "uninstall" and not ended.outcome.reason:
            past = [{**each, "status": UNINSTALLED} if each is past[0] else each for each in past]
        return past
    newest = _snapshot(release, ended, ended.record, now)
    past = [each for each in past if each["version"] != newest["version"]]
    if newest["status"] == DEPLOYED:
        past = [{**each, "status": SUPERSEDED} if each["status"] == DEPLOYED else each for each in past]
    return [newest, *past][:HISTORY]


def _status(release: Object, told: list[Told], now: datetime) -> dict[str, Any]:
    """The status of before with these conditions in place of those that an action owns."""
    own = {type_ for type_, *_ in told}
    # The last attempt's result stays while another one is under way.
    lasting = set() if "Released" in own else {"Released", "Remediated"} - own
    kept = [each for each in conditions(release) if each["type"] in lasting]
    current = [condition_of(release, each, now) for each in told]
    status = {**release.get("status", {}), "conditions": [*current, *kept]}
    return status | ({"lastHandledReconcileAt": asked_at(release)} if asked_at(release) else {})


def _snapshot(release: Object, ended: Ended, record: Record, now: datetime) -> dict[str, Any]:
    history, moment = history_of(release), stamp(now)
    attempt = ended.attempt
    made = {
        "apiVersion": "v2",
        "name": release_name(release),
        "namespace": target_namespace(release),
        "version": record.version,
        "status": record.status,
        "chartName": attempt.chart.name,
        "chartVersion": attempt.chart.version,
        "configDigest": attempt.digest,
        "digest": record.digest,
        "firstDeployed": history[-1]["firstDeployed"] if history else moment,
        "lastDeployed": moment,
        "action": ended.action,
    }
    return made | ({"appVersion": attempt.chart.app_version} if attempt.chart.app_version else {})


def _full_name(release: Object, ended: Ended) -> str:
    version = ended.record.version if ended.record else latest_of(release).get("version", 1)
    place = wanted_place(release) if ended.action in ("install", "upgrade") else actual_place(release)
    return f"{place}.v{version} with chart {ended.attempt.chart}"


def digest_of(content: object) -> str:
    """`sha256:<hex>` of values, the same for the same content."""
    return f"sha256:{hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}"
