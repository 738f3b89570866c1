"""What Flux's helm-controller reports of a HelmRelease, as values: no requests, no clock.

After `helm.toolkit.fluxcd.io/v2` of fluxcd/helm-controller: `Ready` and `Released` tell how the last action
ended, `Reconciling` stands while one is under way, `Stalled` where nothing is tried again by itself;
`observedGeneration` is that of the last reconciliation that came to an end, well or not.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from hack.devcluster.actors.following import Object, condition, conditions
from hack.devcluster.actors.writing import Told, condition_of, stamp

REQUESTED_AT: Final = "reconcile.fluxcd.io/requestedAt"
LONGEST_NAME: Final = 53
KEPT_OF_NAME: Final = 40
HISTORY: Final = 5

Action: TypeAlias = Literal["install", "upgrade"]


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


def is_deployed(release: Object) -> bool:
    """Whether its chart stands in the cluster: what Helm's history says, whatever the conditions say."""
    history = release.get("status", {}).get("history") or []
    return any(each["status"] == "deployed" for each in history)


def is_ready(release: Object) -> bool:
    """Ready for its present generation, as those that depend on it see it."""
    current = release.get("status", {}).get("observedGeneration") == release["metadata"]["generation"]
    return current and condition(release, "Ready").get("status") == "True"


def action_of(release: Object) -> Action:
    """What has to be done next."""
    return "upgrade" if is_deployed(release) else "install"


def is_settled(release: Object, outcome: Outcome, last: Outcome | None) -> bool:
    """Whether what is reported is the end of what was asked: nothing is done again until that changes.

    Args:
        release: the live object.
        outcome: how an action would end now.
        last: how the last one was meant to end; None when nobody remembers.
    """
    meta, status = release["metadata"], release.get("status", {})
    if status.get("observedGeneration") != meta["generation"]:
        return False
    if status.get("lastHandledReconcileAt", "") != meta.get("annotations", {}).get(REQUESTED_AT, ""):
        return False
    if condition(release, "Stalled").get("status") == "True":
        return True
    if condition(release, "Ready").get("status") == "True":
        return not outcome.reason
    return last == outcome


def waiting(release: Object, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """It cannot begin; the generation is not observed, since nothing was done for it."""
    told: list[Told] = [
        ("Reconciling", "True", "ProgressingWithRetry", message),
        ("Ready", "False", reason, message),
    ]
    return _status(release, told, now)


def begun(release: Object, now: datetime) -> dict[str, Any]:
    """An action is under way. What was reported of the generation before says nothing any more."""
    message = f"Running '{action_of(release)}' action with timeout of {_timeout(release)}"
    told = [("Reconciling", "True", "Progressing", message), ("Ready", "Unknown", "Progressing", message)]
    return _status(release, told, now)


def succeeded(release: Object, digest: str, now: datetime) -> dict[str, Any]:
    """The chart stands in the cluster, with the values of this digest."""
    action = action_of(release)
    snapshot = _snapshot(release, "deployed", digest, now)
    message = f"Helm {action} succeeded for release {_full_name(release, snapshot)}"
    reason = f"{action.capitalize()}Succeeded"
    told = [("Ready", "True", reason, message), ("Released", "True", reason, message)]
    return {**_ended(release, told, snapshot, now), "failures": 0}


def failed(release: Object, outcome: Outcome, digest: str, now: datetime) -> dict[str, Any]:
    """An action ended badly. What an upgrade found standing still stands."""
    snapshot = _snapshot(release, "failed", digest, now)
    message = outcome.message
    told = [("Ready", "False", outcome.reason, message), ("Released", "False", outcome.reason, message)]
    failures = int(release.get("status", {}).get("failures", 0)) + 1
    action = action_of(release)
    if not _tries_again(release, action):
        told.append(("Stalled", "True", "RetriesExceeded", f"Failed to {action} after 1 attempt(s)"))
    return {**_ended(release, told, snapshot, now), "failures": failures}


def not_uninstalled(release: Object, outcome: Outcome, now: datetime) -> dict[str, Any]:
    """Deleting it ended badly, and is tried again."""
    told = [("Ready", "False", outcome.reason, outcome.message)]
    return _status(release, told, now)


def _ended(release: Object, told: list[Told], snapshot: dict[str, Any], now: datetime) -> dict[str, Any]:
    meta = release["metadata"]
    status = _status(release, told, now) | {
        "observedGeneration": meta["generation"],
        "lastAttemptedGeneration": meta["generation"],
        "lastAttemptedRevision": snapshot["chartVersion"],
        "lastAttemptedReleaseAction": action_of(release),
        "lastAttemptedConfigDigest": snapshot["configDigest"],
        "storageNamespace": meta["namespace"],
        "history": _history(release, snapshot),
    }
    if requested := meta.get("annotations", {}).get(REQUESTED_AT):
        status["lastHandledReconcileAt"] = requested
    return status


def _history(release: Object, newest: dict[str, Any]) -> list[Object]:
    past = list(release.get("status", {}).get("history") or [])
    if newest["status"] == "deployed":
        past = [{**each, "status": "superseded"} if each["status"] == "deployed" else each for each in past]
    return [newest, *past][:HISTORY]


def _status(release: Object, told: list[Told], now: datetime) -> dict[str, Any]:
    """The status of before with these conditions in place of those that an action owns."""
    own = {type_ for type_, *_ in told}
    # The last attempt's result stays while another one is under way.
    kept = [each for each in conditions(release) if each["type"] == "Released" and "Released" not in own]
    current = [condition_of(release, each, now) for each in told]
    return {**release.get("status", {}), "conditions": [*current, *kept]}


def _snapshot(release: Object, status: str, digest: str, now: datetime) -> dict[str, Any]:
    spec = release["spec"]
    history = release.get("status", {}).get("history") or []
    chart = spec["chart"]["spec"] if "chart" in spec else {"chart": spec["chartRef"]["name"]}
    moment = stamp(now)
    content = json.dumps([spec, digest], sort_keys=True).encode()
    return {
        "apiVersion": "v2",
        "name": release_name(release),
        "namespace": target_namespace(release),
        "version": 1 + max((int(each["version"]) for each in history), default=0),
        "status": status,
        "chartName": str(chart["chart"]).rsplit("/", 1)[-1],
        "chartVersion": str(chart.get("version") or "0.0.0"),
        "configDigest": digest,
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "firstDeployed": history[-1]["firstDeployed"] if history else moment,
        "lastDeployed": moment,
    }


def _full_name(release: Object, snapshot: dict[str, Any]) -> str:
    name = f"{target_namespace(release)}/{snapshot['name']}.v{snapshot['version']}"
    return f"{name} with chart {snapshot['chartName']}@{snapshot['chartVersion']}"


def _timeout(release: Object) -> str:
    return str(release["spec"].get("timeout", "5m0s"))


def _tries_again(release: Object, action: Action) -> bool:
    how = release["spec"].get(action) or {}
    if (how.get("strategy") or {}).get("name") == "RetryOnFailure":
        return True
    return bool((how.get("remediation") or {}).get("retries"))
