"""What is said of a release, without a cluster."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hack.devcluster.actors.following import Object, condition
from hack.devcluster.actors.releases import (
    Action,
    Attempt,
    ChartIdentity,
    Ended,
    Outcome,
    Record,
    begun,
    is_deployed,
    is_ready,
    is_settled,
    latest_of,
    release_name,
)
from hack.devcluster.actors.releases import failed as told_failed
from hack.devcluster.actors.releases import succeeded as told_succeeded

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def release(name: str = "a", status: Object | None = None, **spec: object) -> dict[str, Any]:
    chart = {"spec": {"chart": "c", "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "r"}}}
    return {
        "metadata": {"name": name, "namespace": "flux-system", "generation": 1},
        "spec": {"chart": chart, **spec},
        "status": status or {},
    }


def ended(of: Object, action: Action, digest: str, outcome: Outcome = Outcome()) -> Ended:  # noqa: B008 - frozen
    attempt = Attempt(ChartIdentity("c", "1.0.0"), digest)
    status = "failed" if outcome.reason else "deployed"
    return Ended(action, attempt, outcome, Record(latest_of(of).get("version", 0) + 1, status, "sha256:f"))


def succeeded(of: Object, digest: str, now: datetime) -> dict[str, Any]:
    return told_succeeded(of, ended(of, "upgrade" if is_deployed(of) else "install", digest), now)


def failed(of: Object, outcome: Outcome, digest: str, now: datetime) -> dict[str, Any]:
    return told_failed(of, ended(of, "install", digest, outcome), now)


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("kubeai", {"targetNamespace": "ai"}, "ai-kubeai"),
        ("reloader", {}, "reloader"),
        ("a", {"targetNamespace": "ai", "releaseName": "own"}, "own"),
        # 55 characters: the one case among the modules (spec: platform §0.2).
        (
            "intel-device-plugins-operator",
            {"targetNamespace": "inteldeviceplugins-system"},
            "inteldeviceplugins-system-intel-device-p-84a2ab0f40bc",
        ),
        ("n" * 50, {"targetNamespace": "ai"}, f"ai-{'n' * 50}"),
    ],
)
def test_the_name_of_a_release(name: str, spec: dict[str, object], expected: str) -> None:
    assert release_name(release(name, None, **spec)) == expected
    assert len(expected) <= 53


def test_a_success_is_settled_and_ready() -> None:
    done = release(status=succeeded(release(), "sha256:0", NOW))
    assert is_deployed(done)
    assert is_ready(done)
    assert is_settled(done, Outcome(), None)
    assert not is_settled(done, Outcome("UpgradeFailed"), None)


def test_the_time_of_a_condition_moves_with_its_status_alone() -> None:
    done = release(status=succeeded(release(), "sha256:0", NOW))
    again = release(status=succeeded(done, "sha256:1", LATER))
    assert condition(again, "Ready")["reason"] == "UpgradeSucceeded"
    assert condition(again, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    during = release(status=begun(done, "upgrade", LATER))
    assert condition(during, "Ready")["lastTransitionTime"] == "2026-01-01T01:00:00Z"
    assert condition(during, "Released")["status"] == "True", "of the action before"


def test_a_stale_success_is_neither_ready_nor_settled() -> None:
    done = release(status=succeeded(release(), "sha256:0", NOW))
    done["metadata"]["generation"] = 2
    assert condition(done, "Ready")["status"] == "True"
    assert not is_ready(done)
    assert not is_settled(done, Outcome(), Outcome())


def test_a_failure_is_not_settled_before_it_is_known_how_it_ended() -> None:
    asked, outcome = release(), Outcome("InstallFailed", "no")
    bad = {**asked, "status": failed(asked, outcome, "sha256:0", NOW)}
    assert not is_deployed(bad)
    assert is_settled(bad, outcome, outcome)
    assert not is_settled(bad, Outcome(), outcome)


def test_what_another_revision_brought_is_not_settled() -> None:
    done = release(status=succeeded(release(), "sha256:0", NOW))
    assert is_settled(done, Outcome(), None, ChartIdentity("c", "1.0.0"))
    assert not is_settled(done, Outcome(), None, ChartIdentity("c", "1.0.0+abc"))


def test_the_history_is_bounded_and_counts_on() -> None:
    current = release()
    for _ in range(8):
        current["status"] = succeeded(current, "sha256:0", NOW)
    history = current["status"]["history"]
    assert [each["version"] for each in history] == [8, 7, 6, 5, 4]
    assert [each["status"] for each in history] == ["deployed", *["superseded"] * 4]
