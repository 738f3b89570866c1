"""What cannot be understood, read or written for an instance (spec: modules-and-apps §8.6, §15)."""

import dataclasses
from typing import Any

import pytest

from magicstick.apps.decide import decide_failure
from magicstick.apps.observation import UNKNOWN_DOMAINS, Entry, Place
from magicstick.apps.ports import LiveAccess
from magicstick.kube.errors import (
    ApiError,
    Forbidden,
    Invalid,
    NameConflict,
    NamespaceTerminating,
    Unavailable,
)
from magicstick.runtime.plan import Finalizer
from tests.support.instance_objects import (
    CLOSING,
    HOME,
    NAME,
    OPEN,
    REMOVING,
    REPORTED,
    WAITED,
    accepted,
    closed,
    decided,
    instance,
    message,
    observation,
    release,
    served,
    settled,
    steps,
    told,
)
from tests.support.objects import resource

# --- specs that cannot be understood ----------------------------------------------------------------


@pytest.mark.parametrize(
    "access",
    [
        {"authentication": "basic"},
        {"role": "root"},
        {"exposure": "public"},
        {"sharing": {"mode": "some"}},
        {"sharing": {"mode": "selected"}, "authentication": "none"},
        "everybody",
    ],
)
def test_an_access_that_cannot_be_understood_admits_nobody(access: object) -> None:
    open_before = accepted(observation())
    plan = decided(observation(instance(access=access), live=open_before, releases=(release(),)))

    assert told(plan) == ("Degraded", "InvalidAccess")
    assert "spec.access" in message(plan)
    assert steps(plan) == CLOSING
    assert served(plan)[-1] is False


@pytest.mark.parametrize("spec", [{"targetNamespace": "Not.A.Label"}, {"values": "x"}, {"enabled": "yes"}])
def test_any_other_field_that_cannot_be_read_leaves_all_as_it_is(spec: dict[str, Any]) -> None:
    open_before = accepted(observation())
    plan = decided(observation(instance(status=REPORTED, **spec), live=open_before, releases=(release(),)))

    assert told(plan) == ("Degraded", "InvalidSpec")
    assert next(iter(spec)) in message(plan)
    assert plan.steps == ()
    assert served(plan) == (*OPEN[:5], False)


def test_a_wrong_access_closes_also_where_another_field_is_wrong_before_it() -> None:
    spec: dict[str, Any] = {"targetNamespace": 7, "access": {"role": "root"}}
    plan = decided(observation(instance(**spec), live=accepted(observation())))

    assert told(plan) == ("Degraded", "InvalidAccess")
    assert steps(plan) == CLOSING


def test_a_host_that_an_older_instance_has_is_not_taken() -> None:
    plan = decided(settled(host_owner="kubeopencode-older"))

    assert told(plan) == ("Degraded", "HostConflict")
    assert "kubeopencode-older" in message(plan)
    assert steps(plan) == REMOVING


TIGHTER: dict[str, dict[str, Any]] = {
    "a higher role": {"access": {"role": "admin"}},
    "the local network alone": {"access": {"exposure": "local"}},
    "nobody knows whom": {"access": {"role": "root"}},
}
UNCERTAIN: dict[str, dict[str, Any]] = {
    "the catalog is missing": {"entry": None},
    "the catalog has it no more": {"entry": Entry()},
    "the settings are unknown": {"unknown": "Not known yet: settings"},
}


@pytest.mark.parametrize("uncertain", UNCERTAIN)
@pytest.mark.parametrize("tighter", TIGHTER)
def test_who_is_admitted_no_more_stays_out_whatever_else_is_unknown(tighter: str, uncertain: str) -> None:
    before = settled()
    plan = decided(
        observation(instance(status=REPORTED, **TIGHTER[tighter]), live=before.live, **UNCERTAIN[uncertain])
    )

    assert steps(plan) == CLOSING


@pytest.mark.parametrize("gap", [{"entry": None}, {"unknown": "Not known yet: settings"}])
def test_a_way_in_that_was_closed_is_not_told_to_be_guarded_whatever_is_unknown(gap: dict[str, Any]) -> None:
    opened = settled().live
    shut = LiveAccess(tuple(map(closed, opened.pieces)), opened.occupants)
    plan = decided(observation(instance(status=REPORTED), live=shut, **gap))

    assert told(plan)[0] == "Reconciling"
    assert served(plan) == (*OPEN[:5], False)
    assert plan.steps == ()


def test_a_tighter_access_holds_also_where_another_field_is_wrong() -> None:
    spec: dict[str, Any] = {"targetNamespace": "Not.A.Label", "access": {"role": "admin"}}
    plan = decided(observation(instance(status=REPORTED, **spec), live=settled().live))

    assert told(plan) == ("Degraded", "InvalidSpec")
    assert steps(plan) == CLOSING


@pytest.mark.parametrize("case", [{}, {"modules": WAITED}])
def test_a_release_of_somebody_else_under_the_instances_name_closes_the_way_in(case: dict[str, Any]) -> None:
    """Whatever it installs carries the name of the instance, so that nobody could tell it from its own."""
    metadata = {"name": "demo", "namespace": "ai", "uid": "u"}
    marks = {"annotations": {"meta.helm.sh/release-name": NAME}}
    service = resource({"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, **marks}})
    stranger = release(foreign=True)
    plan = decided(settled(releases=(), stranger=stranger, place=Place(service=service), **case))

    assert told(plan) == ("Degraded", "NameConflict")
    assert f"{HOME}/{NAME}" in message(plan)
    assert steps(plan) == CLOSING
    assert decided(observation(stranger=stranger, place=Place(service=service))).steps == ()
    gone = decided(settled(instance(dying=True), releases=(), live=LiveAccess(), stranger=stranger))
    assert (gone.steps, gone.finalizer) == ((), Finalizer.REMOVE)


# --- blindness and refusals -------------------------------------------------------------------------


def test_another_appliances_instance_is_left_alone() -> None:
    plan = decided(settled(ours=False))

    assert (plan.outcome, plan.steps, plan.status, plan.finalizer) == ("NotOurs", (), None, Finalizer.KEEP)


@pytest.mark.parametrize("live", [instance(), instance(dying=True), instance(enabled=False)])
def test_what_cannot_be_read_changes_nothing(live: Any) -> None:
    plan = decided(observation(live, blind="HelmReleases cannot be read now (failing)"))

    assert told(plan) == ("Reconciling", "ApiUnavailable")
    assert plan.steps == ()
    assert plan.finalizer is not Finalizer.REMOVE


@pytest.mark.parametrize(
    "gap", [{"entry": None}, {"unknown": "Not known yet: settings", "domains": UNKNOWN_DOMAINS}]
)
def test_what_is_not_known_keeps_the_status_that_there_is(gap: dict[str, Any]) -> None:
    plan = decided(settled(instance(status=REPORTED), **gap))

    assert (plan.outcome, plan.status, plan.steps) == ("Held", None, ())


FAILURES: dict[str, tuple[ApiError, tuple[str, str]]] = {
    "a release of that name is not ours": (
        NameConflict("helmreleases ai-system/x exists and is not managed by magicstick-operator"),
        ("Degraded", "NameConflict"),
    ),
    "a right is missing": (Forbidden("secret words"), ("Degraded", "ApiRejected")),
    "a field is refused": (
        Invalid("secret words", causes=[("spec.values", "secret words")]),
        ("Degraded", "ApiRejected"),
    ),
    "a namespace goes": (NamespaceTerminating("secret words"), ("Reconciling", "WaitingForNamespace")),
}


@pytest.mark.parametrize("case", FAILURES)
def test_what_the_server_refuses_is_told_without_its_words(case: str) -> None:
    error, expected = FAILURES[case]
    plan = decide_failure(settled(instance(status=REPORTED)), error)

    assert told(plan) == expected
    assert "secret words" not in message(plan)
    assert plan.steps == ()
    assert served(plan)[-1] is False


def test_a_failure_that_passes_keeps_the_status() -> None:
    error = Unavailable("secret words")

    assert decide_failure(settled(instance(status=REPORTED)), error).status is None
    assert told(decide_failure(observation(), error)) == ("Reconciling", "ApiUnavailable")


def test_e38_a_new_uid_makes_new_policies() -> None:
    o = settled()
    again = dataclasses.replace(o, instance=resource_with_uid("another"))
    plan = decided(again)

    assert told(plan) == ("Reconciling", "WaitingForAccessGuard")
    assert steps(plan)[: len(CLOSING)] == CLOSING


def resource_with_uid(uid: str) -> Any:
    live = instance()
    metadata = {"name": NAME, "namespace": HOME, "uid": uid, "resourceVersion": "1", "generation": 1}
    return resource(
        {"apiVersion": "v1", "kind": "AppInstance", "metadata": metadata, "spec": dict(live.spec)}
    )
