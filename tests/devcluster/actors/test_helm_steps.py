"""What the Helm actor does next, without a cluster."""

from typing import Any

import pytest

from hack.devcluster.actors.following import Object
from hack.devcluster.actors.helm_steps import (
    Step,
    has_tries_left,
    is_forced,
    is_new,
    next_step,
    retry_after_s,
    rollback_target,
    seconds,
)
from hack.devcluster.actors.releases import Attempt, ChartIdentity, Record

WANTED = Attempt(ChartIdentity("c", "1.0.0"), "sha256:1")


def snapshot(version: int, status: str, attempt: Attempt = WANTED) -> dict[str, Any]:
    return {
        "version": version,
        "status": status,
        "chartName": attempt.chart.name,
        "chartVersion": attempt.chart.version,
        "configDigest": attempt.digest,
    }


def release(*history: Object, spec: Object | None = None, **status: Any) -> Object:
    meta = {"name": "a", "namespace": "n", "generation": 1}
    return {"metadata": meta, "spec": spec or {}, "status": {"history": list(history), **status}}


def record(version: int, status: str) -> Record:
    return Record(version, status, "sha256:f")


def step(of: Object, found: Record | None, attempt: Attempt = WANTED, *, forced: bool = False) -> Step:
    return next_step(of, attempt, found, forced=forced)


OTHER_VALUES = Attempt(WANTED.chart, "sha256:2")
OTHER_CHART = Attempt(ChartIdentity("c", "1.0.0+abc"), "sha256:1")
RETRY = {"strategy": {"name": "RetryOnFailure", "retryInterval": "1m0s"}}


def test_what_the_storage_lacks_is_installed() -> None:
    assert step(release(), None) is Step.INSTALL
    assert step(release(snapshot(1, "deployed")), None) is Step.INSTALL
    assert step(release(snapshot(1, "uninstalled")), record(1, "uninstalled")) is Step.INSTALL


def test_what_somebody_else_released_is_taken_over() -> None:
    assert step(release(), record(1, "deployed")) is Step.UPGRADE
    assert step(release(snapshot(1, "deployed")), record(2, "deployed")) is Step.UPGRADE


def test_what_is_as_it_is_wanted_is_left_alone_unless_forced() -> None:
    standing = release(snapshot(1, "deployed"))
    assert step(standing, record(1, "deployed")) is Step.NOTHING
    assert step(standing, record(1, "deployed"), forced=True) is Step.UPGRADE
    for other in (OTHER_VALUES, OTHER_CHART):
        assert step(standing, record(1, "deployed"), other) is Step.UPGRADE


@pytest.mark.parametrize(
    ("install", "failures", "expected"),
    [
        ({}, 0, Step.UPGRADE),
        ({}, 1, Step.GIVE_UP),
        ({"remediation": {"remediateLastFailure": True}}, 1, Step.UNINSTALL),
        ({"remediation": {"retries": 2}}, 2, Step.UNINSTALL),
        ({"remediation": {"retries": 2}}, 3, Step.GIVE_UP),
        ({"remediation": {"retries": -1}}, 99, Step.UNINSTALL),
        (RETRY, 99, Step.UPGRADE),
    ],
)
def test_after_a_failed_install(install: Object, failures: int, expected: Step) -> None:
    failing = release(
        snapshot(1, "failed"),
        spec={"install": install},
        installFailures=failures,
        lastAttemptedReleaseAction="install",
    )
    assert step(failing, record(1, "failed")) is expected
    assert step(failing, record(1, "failed"), forced=True) is Step.UPGRADE


@pytest.mark.parametrize(
    ("upgrade", "failures", "expected"),
    [
        ({}, 1, Step.GIVE_UP),
        ({"remediation": {"retries": 1}}, 1, Step.ROLLBACK),
        ({"remediation": {"retries": 1}}, 2, Step.ROLLBACK),  # the last failure is remedied, too
        ({"remediation": {"retries": 1, "remediateLastFailure": False}}, 2, Step.GIVE_UP),
        ({"remediation": {"retries": 1, "strategy": "uninstall"}}, 1, Step.UNINSTALL),
        (RETRY, 5, Step.UPGRADE),
    ],
)
def test_after_a_failed_upgrade(upgrade: Object, failures: int, expected: Step) -> None:
    failing = release(
        snapshot(2, "failed"),
        snapshot(1, "superseded"),
        spec={"upgrade": upgrade},
        upgradeFailures=failures,
        lastAttemptedReleaseAction="upgrade",
    )
    assert step(failing, record(2, "failed")) is expected
    assert rollback_target(failing)["version"] == 1


def test_without_a_revision_to_return_to_nothing_is_rolled_back() -> None:
    failing = release(
        snapshot(2, "failed"),
        spec={"upgrade": {"remediation": {"retries": 1}}},
        upgradeFailures=1,
        lastAttemptedReleaseAction="upgrade",
    )
    assert step(failing, record(2, "failed")) is Step.GIVE_UP


@pytest.mark.parametrize("action", ["install", "upgrade"])
def test_tries_end_unless_they_follow_an_interval(action: Any) -> None:
    counter: dict[str, Any] = {f"{action}Failures": 1}
    assert not has_tries_left(release(**counter), action)
    assert has_tries_left(release(spec={action: {"remediation": {"retries": 1}}}, **counter), action)
    assert has_tries_left(release(spec={action: RETRY}, **counter), action)
    assert retry_after_s(release(spec={action: RETRY}), action) == 60
    assert retry_after_s(release(spec={action: {"strategy": {"name": "RetryOnFailure"}}}), action) == 300
    assert retry_after_s(release(), action) is None


def test_failures_of_before_do_not_count_for_something_new() -> None:
    status: dict[str, Any] = {
        "lastAttemptedGeneration": 1,
        "lastAttemptedRevision": "1.0.0",
        "lastAttemptedConfigDigest": "sha256:1",
    }
    assert not is_new(release(**status), WANTED)
    assert is_new(release(**status), OTHER_VALUES)
    assert is_new(release(**status), OTHER_CHART)
    assert is_new(release(**{**status, "lastAttemptedGeneration": 0}), WANTED)


def test_a_request_counts_once_and_only_with_its_token() -> None:
    def asked(**tokens: str) -> Object:
        annotations = {f"reconcile.fluxcd.io/{name}": token for name, token in tokens.items()}
        plain = release(lastHandledForceAt="1")
        return {**plain, "metadata": {**plain["metadata"], "annotations": annotations}}

    assert is_forced(asked(forceAt="2", requestedAt="2"))
    assert not is_forced(asked(forceAt="2", requestedAt="3"))
    assert not is_forced(asked(forceAt="1", requestedAt="1"))
    assert not is_forced(asked(requestedAt="2"))


@pytest.mark.parametrize(
    ("text", "expected"), [("300ms", 0.3), ("1m30s", 90), ("15m0s", 900), ("1.5h", 5400)]
)
def test_durations_are_read_as_flux_writes_them(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)
