"""What Flux says of a HelmRelease, in every shape in which it may say it (fault F09, spec: §8.6)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.apps.release import AT_WORK, verdict
from magicstick.apps.status import InstancePhase, InstanceReason
from magicstick.runtime.conditions import MESSAGE_LIMIT
from tests.support.instance_objects import decided, message, observation, ready, release, settled, told

WAITING = ("Reconciling", "WaitingForHelmRelease")

SHAPES: dict[str, tuple[Any, tuple[str, str]]] = {
    "no status at all": ({}, WAITING),
    "no conditions": ({"observedGeneration": 1}, WAITING),
    "conditions that are no list": ({"observedGeneration": 1, "conditions": "Ready"}, WAITING),
    "conditions of which none is Ready": (
        {"observedGeneration": 1, "conditions": [{"type": "Released", "status": "True"}]},
        WAITING,
    ),
    "ready": ({"conditions": [ready("True", "UpgradeSucceeded")]}, ("Ready", "UpgradeSucceeded")),
    "ready without a reason": ({"conditions": [ready("True")]}, ("Ready", "HelmReleaseReady")),
    "ready for an earlier generation": ({"conditions": [ready("True", "InstallSucceeded", 0)]}, WAITING),
    "unknown": ({"conditions": [ready("Unknown", "Progressing")]}, ("Reconciling", "Progressing")),
    "a status that nobody has heard of": (
        {"conditions": [ready("Perhaps", "Whatever")]},
        ("Reconciling", "Whatever"),
    ),
    "another operation in progress": (
        {
            "conditions": [
                ready("False", "UpgradeFailed", message="another operation (install/upgrade) is in progress")
            ]
        },
        ("Degraded", "UpgradeFailed"),
    ),
    "failed without a reason": ({"conditions": [ready("False")]}, ("Degraded", "HelmReleaseNotReady")),
    "failed with a reason that is none": (
        {"conditions": [ready("False", "it is\nbroken")]},
        ("Degraded", "HelmReleaseNotReady"),
    ),
    "duplicate types, of which the first counts": (
        {"conditions": [ready("False", "InstallFailed"), ready("True", "InstallSucceeded")]},
        ("Degraded", "InstallFailed"),
    ),
    "a message of 40 KB": (
        {"conditions": [ready("False", "InstallFailed", message="x" * 40_000)]},
        ("Degraded", "InstallFailed"),
    ),
    "a time that is none": (
        {"conditions": [{**ready("True", "InstallSucceeded"), "lastTransitionTime": "yesterday"}]},
        ("Ready", "InstallSucceeded"),
    ),
    "the generation in the status alone": (
        {
            "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": "True", "reason": "InstallSucceeded"}],
        },
        ("Ready", "InstallSucceeded"),
    ),
    "a reason and a message that are numbers": (
        {
            "observedGeneration": 1,
            "conditions": [{"type": "Ready", "status": "False", "reason": 7, "message": 7}],
        },
        ("Degraded", "HelmReleaseNotReady"),
    ),
}


@pytest.mark.req("MS-176")
@pytest.mark.parametrize("shape", SHAPES)
def test_f09_every_shape_of_a_release_gives_one_phase(shape: str) -> None:
    status, expected = SHAPES[shape]
    plan = decided(settled(releases=(release(status=status),)))

    assert told(plan) == expected
    assert len(message(plan)) <= MESSAGE_LIMIT


@pytest.mark.parametrize("reason", sorted(AT_WORK))
def test_e47_a_release_that_flux_is_still_at_work_on_is_not_degraded(reason: str) -> None:
    found = verdict(release(conditions=[ready("False", reason)]))

    assert (found.phase, found.reason) == (InstancePhase.RECONCILING, reason)


def test_a_release_that_is_missing_or_dying_is_waited_for() -> None:
    for gone in (None, release(dying=True)):
        assert verdict(gone).reason == InstanceReason.WAITING_FOR_RELEASE
    assert told(decided(settled(releases=()))) == WAITING
    assert told(decided(settled(releases=(release(dying=True),)))) == WAITING


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CONDITION = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("Ready") | JSON,
        "status": st.sampled_from(["True", "False", "Unknown"]) | JSON,
        "reason": st.sampled_from([*AT_WORK, "InstallFailed"]) | JSON,
        "message": JSON,
        "observedGeneration": st.integers(0, 2) | JSON,
    },
)


@given(st.fixed_dictionaries({}, optional={"conditions": st.lists(CONDITION, max_size=3) | JSON}))
def test_whatever_stands_in_a_status_is_a_verdict_and_only_true_is_ready(status: dict[str, Any]) -> None:
    found = verdict(release(status=status))

    assert found.phase in {InstancePhase.READY, InstancePhase.DEGRADED, InstancePhase.RECONCILING}
    assert found.reason
    if found.phase is InstancePhase.READY:
        first = next(each for each in status["conditions"] if each.get("type") == "Ready")
        assert (first["status"], first["observedGeneration"] >= 1) == ("True", True)


def test_an_instance_without_an_accepted_guard_never_shows_what_the_release_says() -> None:
    plan = decided(observation(releases=(release(),)))

    assert told(plan) == ("Reconciling", "WaitingForAccessGuard")
