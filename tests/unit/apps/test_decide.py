"""The decision about one instance, rule by rule (spec: modules-and-apps §8.3, §8.6, §15, §16)."""

import dataclasses
from typing import Any

import msgspec
import pytest

from magicstick.api.kinds import MODULE_ACTIVATION
from magicstick.apps.kinds import SECURITY_POLICY
from magicstick.apps.observation import UNKNOWN_DOMAINS, Entry, Place, RequiredModule
from magicstick.apps.ports import LiveAccess, Piece
from magicstick.modules.facts import unknown
from magicstick.runtime.plan import Create, Finalizer
from tests.support.instance_objects import (
    BLANK,
    CLOSING,
    HOME,
    LOCAL,
    NAME,
    OPEN,
    REMOVING,
    REPORTED,
    WAITED,
    closed,
    decided,
    instance,
    message,
    observation,
    ready,
    release,
    served,
    settled,
    status_of,
    steps,
    told,
)
from tests.support.objects import resource

# --- 8: an instance that is wanted ------------------------------------------------------------------


@pytest.mark.req("MS-176", "MS-215", "MS-374", "MS-375")
def test_an_instance_is_ready_when_its_release_is_and_its_guard_is_accepted() -> None:
    plan = decided(settled())

    assert told(plan) == ("Ready", "InstallSucceeded")
    assert served(plan) == OPEN
    status = status_of(plan)
    assert (status["kind"], status["name"], status["namespace"]) == ("HelmRelease", NAME, HOME)


def test_e48_the_guard_counts_before_the_release() -> None:
    plan = decided(settled(live=LiveAccess()))

    assert told(plan) == ("Reconciling", "WaitingForAccessGuard")
    assert served(plan) == (*OPEN[:5], False)


def refused(said: str) -> LiveAccess:
    """A way in whose policies the gateway has refused, saying so."""
    given = settled().live
    pieces = tuple(
        Piece(
            each.kind,
            msgspec.structs.replace(each.live, status=refusal_of(each.live.metadata.generation, said)),
        )
        if each.kind == SECURITY_POLICY
        else each
        for each in given.pieces
    )
    return LiveAccess(pieces, {each.reference: each.live for each in pieces})


def refusal_of(generation: int, said: str) -> dict[str, Any]:
    verdict = {"type": "Accepted", "status": "False", "observedGeneration": generation, "message": said}
    return {"ancestors": [{"ancestorRef": {"name": "identity-pilot"}, "conditions": [verdict]}]}


def test_what_the_gateway_has_against_a_policy_is_told() -> None:
    plan = decided(settled(live=refused("ExtAuth: no ready endpoints")))

    assert told(plan) == ("Reconciling", "WaitingForAccessGuard")
    assert message(plan).endswith("until then. The gateway says: ExtAuth: no ready endpoints")
    assert len(message(decided(settled(live=refused("x" * 5_000))))) < 500


def test_e33_the_first_pass_makes_namespace_policies_closed_routes_and_the_release_in_this_order() -> None:
    o = observation(instance(finalizer=False), place=Place(exists=False))
    plan = decided(o)

    assert plan.finalizer is Finalizer.ADD
    assert steps(plan) == [
        "create Namespace ai",
        f"apply SecurityPolicy {NAME}-local-sso",
        f"apply SecurityPolicy {NAME}-public-sso",
        *CLOSING,
        f"apply HelmRelease {NAME}",
    ]


def test_e27_without_sign_in_and_publicity_there_is_one_address() -> None:
    plan = decided(settled(instance(access={"authentication": "none", "exposure": "local"})))

    assert told(plan) == ("Ready", "InstallSucceeded")
    assert served(plan) == (LOCAL, LOCAL, "", "none", "user", True)


def test_a_release_that_fails_leaves_the_way_in_as_it_is() -> None:
    plan = decided(settled(releases=(release(conditions=[ready("False", "UpgradeFailed")]),)))

    assert told(plan) == ("Degraded", "UpgradeFailed")
    assert served(plan) == OPEN
    assert not [each for each in steps(plan) if "delete" in each or "closed" in each]


def test_an_object_of_somebody_else_at_a_place_that_is_needed_is_a_name_conflict() -> None:
    o = settled()
    foreign = resource(
        {
            "apiVersion": "gateway.envoyproxy.io/v1alpha1",
            "kind": "SecurityPolicy",
            "metadata": {"name": f"{NAME}-local-sso", "namespace": "identity-system", "uid": "other"},
            "spec": {},
        }
    )
    (place,) = [each for each in o.live.occupants if each.key.name == f"{NAME}-local-sso"]
    pieces = tuple(each for each in o.live.pieces if each.reference != place)
    live = LiveAccess(pieces, {**o.live.occupants, place: foreign})
    plan = decided(dataclasses.replace(o, live=live))

    assert told(plan) == ("Degraded", "NameConflict")
    assert f"{NAME}-local-sso" in message(plan)
    assert steps(plan) == [*CLOSING, f"delete ReferenceGrant {NAME}-route-access"]


# --- 1: application and name ------------------------------------------------------------------------


def test_an_unknown_application_is_degraded_and_what_is_installed_stays() -> None:
    plan = decided(settled(entry=Entry()))

    assert told(plan) == ("Degraded", "UnknownApplication")
    assert served(plan) == BLANK
    assert (status_of(plan)["kind"], status_of(plan)["name"]) == ("", "")
    assert plan.steps == ()


def test_an_unknown_application_whose_policy_went_is_closed() -> None:
    o = settled(entry=Entry())
    pieces = tuple(each for each in o.live.pieces if each.kind.kind != "SecurityPolicy")
    plan = decided(dataclasses.replace(o, live=LiveAccess(pieces, o.live.occupants)))

    assert steps(plan) == CLOSING


def test_an_invalid_entry_is_told_with_its_field() -> None:
    plan = decided(observation(entry=Entry(problem="route.requestTimeout: must be '0s'")))

    assert told(plan) == ("Degraded", "InvalidApplicationDefinition")
    assert "route.requestTimeout" in message(plan)


def test_an_unknown_application_that_is_switched_off_is_shut() -> None:
    o = settled(entry=Entry())
    off = dataclasses.replace(o, instance=instance(enabled=False))

    assert told(decided(off)) == ("Degraded", "UnknownApplication")
    assert steps(decided(off)) == [*REMOVING, f"apply HelmRelease {NAME} suspended"]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("a" * 52, False),
        ("a" * 53, False),
        ("a" * 54, True),
        ("a" * 63, True),
        ("a" * 64, True),
        ("a" * 253, True),
        ("with.dots", True),
        ("-", True),
    ],
)
def test_f10_a_name_that_helm_cannot_take_is_refused_early_with_the_limit(name: str, refused: bool) -> None:  # noqa: FBT001 - a table
    plan = decided(observation(instance(name, finalizer=False)))

    assert (told(plan) == ("Degraded", "InvalidName")) is refused
    assert bool(plan.steps) is not refused
    assert not refused or ("53" in message(plan) and "metadata.name" in message(plan))
    assert plan.finalizer is (Finalizer.KEEP if refused else Finalizer.ADD)


@pytest.mark.parametrize(("length", "refused"), [(62, False), (63, False), (64, True)])
def test_f10_a_host_name_that_dns_cannot_serve_is_refused_with_the_limit(length: int, refused: bool) -> None:  # noqa: FBT001 - a table
    plan = decided(observation(instance(values={"name": "a" * length})))

    assert (told(plan) == ("Degraded", "InvalidHostname")) is refused
    assert not refused or ("63" in message(plan) and plan.steps == ())


def test_a_name_that_is_refused_is_still_cleaned_up() -> None:
    name = "a" * 54
    gone = decided(observation(instance(name, dying=True)))

    assert gone.finalizer is Finalizer.REMOVE


# --- 2, 5: deleted ----------------------------------------------------------------------------------


@pytest.mark.req("MS-165")
def test_e45_a_deleted_instance_loses_its_way_in_first_and_then_its_release() -> None:
    plan = decided(settled(instance(dying=True)))

    assert told(plan) == ("Removing", "Removing")
    assert served(plan) == BLANK
    assert steps(plan) == [*REMOVING, f"delete HelmRelease {NAME}"]
    assert plan.finalizer is Finalizer.KEEP


def test_a_suspended_release_is_resumed_before_it_is_deleted() -> None:
    plan = decided(observation(instance(dying=True), releases=(release(suspend=True),)))

    assert steps(plan) == [f"apply HelmRelease {NAME}"]


def test_a_release_that_is_dying_is_waited_for() -> None:
    plan = decided(observation(instance(dying=True), releases=(release(dying=True),)))

    assert told(plan) == ("Removing", "Removing")
    assert (plan.steps, plan.finalizer) == ((), Finalizer.KEEP)


@pytest.mark.parametrize(
    "without",
    [
        {"modules": WAITED},
        {"missing_crds": ("agents.kubeopencode.io",)},
        {"entry": Entry()},
        {"entry": None},
        {"unserved": ("httproutes.gateway.networking.k8s.io",)},
        {"unknown": "Namespaces cannot be read now", "domains": UNKNOWN_DOMAINS, "source": None},
    ],
)
def test_e44_e46_nothing_is_waited_for_when_an_instance_goes(without: dict[str, Any]) -> None:
    leaving = observation(instance(dying=True), releases=(release(),), **without)
    gone = observation(instance(dying=True), **without)

    assert steps(decided(leaving)) == [f"delete HelmRelease {NAME}"]
    assert decided(gone).finalizer is Finalizer.REMOVE


def test_a_release_under_another_name_that_carries_the_instances_label_goes_too() -> None:
    stray = release("former", instance_name=NAME)

    assert steps(decided(observation(instance(dying=True), releases=(stray,)))) == [
        "delete HelmRelease former"
    ]


# --- 7: disabled ------------------------------------------------------------------------------------


@pytest.mark.req("MS-165")
def test_e43_a_disabled_instance_is_shut_and_suspended_without_waiting_for_anything() -> None:
    shutting = decided(settled(instance(enabled=False), modules=WAITED, missing_crds=("x.example.com",)))
    assert told(shutting) == ("Reconciling", "Suspended")
    assert steps(shutting) == [*REMOVING, f"apply HelmRelease {NAME} suspended"]

    shut = decided(observation(instance(enabled=False), releases=(release(suspend=True),), modules=WAITED))
    assert told(shut) == ("Suspended", "Suspended")
    assert served(shut) == (LOCAL, "", "", "sso", "user", False)


@pytest.mark.req("MS-111")
def test_a_disabled_instance_that_never_ran_gets_nothing() -> None:
    request = Create(MODULE_ACTIVATION, {"kind": "ModuleActivation", "metadata": {"name": "litellm"}})
    plan = decided(observation(instance(enabled=False, access={"role": "nobody"}), requests=(request,)))

    assert told(plan) == ("Suspended", "Suspended")
    assert plan.steps == ()


# --- 3, 4: what has to be there first -----------------------------------------------------------------


@pytest.mark.req("MS-309", "MS-310", "MS-111")
def test_an_instance_waits_for_its_modules_and_requests_those_that_are_missing() -> None:
    request = Create(MODULE_ACTIVATION, {"kind": "ModuleActivation", "metadata": {"name": "litellm"}})
    plan = decided(observation(modules=WAITED, requests=(request,)))

    assert told(plan) == ("WaitingForModules", "WaitingForModules")
    assert message(plan) == "Waiting for modules: litellm is disabled."
    assert plan.steps == (request,)


def test_while_modules_are_waited_for_what_stands_stays_and_keeps_its_addresses() -> None:
    o = settled(instance(status=REPORTED), modules=WAITED)
    plan = decided(o)

    assert told(plan) == ("WaitingForModules", "WaitingForModules")
    assert served(plan) == OPEN
    assert not [each for each in steps(plan) if "delete" in each or "closed" in each or "Helm" in each]


def test_while_modules_are_waited_for_a_policy_that_went_closes_the_routes() -> None:
    o = settled(instance(status=REPORTED), modules=WAITED)
    pieces = tuple(each for each in o.live.pieces if each.kind.kind != "SecurityPolicy")
    left = {each: live for each, live in o.live.occupants.items() if each.kind.kind != "SecurityPolicy"}
    plan = decided(dataclasses.replace(o, live=LiveAccess(pieces, left)))

    assert steps(plan)[: len(CLOSING)] == CLOSING
    assert served(plan)[-1] is False


def test_a_module_that_cannot_be_judged_holds_up_only_what_is_new() -> None:
    unclear = (RequiredModule("litellm", unknown("is being checked by Flux")),)

    assert told(decided(observation(modules=unclear))) == ("Reconciling", "ApiUnavailable")
    assert told(decided(settled(modules=unclear))) == ("Ready", "InstallSucceeded")


@pytest.mark.req("MS-123", "MS-311", "MS-312")
def test_an_instance_waits_for_the_definitions_that_its_application_requires() -> None:
    plan = decided(observation(missing_crds=("agents.kubeopencode.io",)))

    assert told(plan) == ("WaitingForCRD", "WaitingForCRD")
    assert "agents.kubeopencode.io" in message(plan)
    assert plan.steps == ()


def test_without_flux_or_a_gateway_an_instance_waits_and_no_route_stays_open() -> None:
    absent = ("securitypolicies.gateway.envoyproxy.io",)
    o = settled(unserved=absent)
    pieces = tuple(each for each in o.live.pieces if each.kind.kind != "SecurityPolicy")
    plan = decided(dataclasses.replace(o, live=LiveAccess(pieces, o.live.occupants)))

    assert told(plan) == ("WaitingForCRD", "WaitingForCRD")
    assert steps(plan) == CLOSING


def test_a_namespace_that_is_being_deleted_is_waited_for() -> None:
    plan = decided(settled(instance(status=REPORTED), place=Place(dying=True)))

    assert told(plan) == ("Reconciling", "WaitingForNamespace")
    assert plan.steps == ()


SERVICES: dict[str, tuple[dict[str, Any], bool]] = {
    "of nobody": ({}, True),
    "of another release": ({"annotations": {"meta.helm.sh/release-name": "other"}}, True),
    "of its own release": ({"annotations": {"meta.helm.sh/release-name": NAME}}, False),
    "of its own agent": (
        {
            "ownerReferences": [
                {
                    "apiVersion": "kubeopencode.io/v1alpha1",
                    "kind": "Agent",
                    "name": "demo",
                    "uid": "u",
                    "controller": True,
                }
            ]
        },
        False,
    ),
    "of an agent of another name": (
        {
            "ownerReferences": [
                {
                    "apiVersion": "kubeopencode.io/v1alpha1",
                    "kind": "Agent",
                    "name": "other",
                    "uid": "u",
                    "controller": True,
                }
            ]
        },
        True,
    ),
    "of an owner that does not control it": (
        {
            "ownerReferences": [
                {"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "name": "demo", "uid": "u"}
            ]
        },
        True,
    ),
    "of a controller of another group": (
        {
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Agent", "name": "demo", "uid": "u", "controller": True}
            ]
        },
        True,
    ),
}


@pytest.mark.parametrize("case", SERVICES)
def test_no_route_leads_to_a_service_that_is_not_the_instances(case: str) -> None:
    marks, refused = SERVICES[case]
    metadata = {"name": "demo", "namespace": "ai", "uid": "u", **marks}
    service = resource({"apiVersion": "v1", "kind": "Service", "metadata": metadata})
    plan = decided(settled(place=Place(service=service)))

    assert told(plan) == (("Degraded", "ReservedName") if refused else ("Ready", "InstallSucceeded"))
    assert not refused or steps(plan) == CLOSING


STANDSTILLS: dict[str, dict[str, Any]] = {
    "a module is not ready": {"modules": WAITED},
    "a definition is missing": {"missing_crds": ("agents.kubeopencode.io",)},
    "the namespace goes": {"place": Place(dying=True)},
}


@pytest.mark.parametrize("case", STANDSTILLS)
def test_whatever_is_waited_for_no_route_leads_or_is_opened_to_a_service_of_somebody_else(case: str) -> None:
    o = settled(instance(status=REPORTED), **STANDSTILLS[case])
    metadata = {"name": "demo", "namespace": "ai", "uid": "u"}
    service = resource({"apiVersion": "v1", "kind": "Service", "metadata": metadata})
    taken = dataclasses.replace(o, place=dataclasses.replace(o.place, service=service))

    assert steps(decided(taken)) == CLOSING
    assert served(decided(taken))[-1] is False
    shut = LiveAccess(tuple(map(closed, o.live.pieces)), o.live.occupants)
    assert decided(dataclasses.replace(taken, live=shut)).steps == ()


def test_a_service_of_the_platform_is_nobodys_backend() -> None:
    plan = decided(observation(instance("kubeopencode-litellm", values={"name": "litellm"})))

    assert told(plan) == ("Degraded", "ReservedName")
    assert plan.steps == ()
