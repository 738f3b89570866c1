"""When a policy counts as accepted, and that nothing else does (spec: modules-and-apps §9.7)."""

import copy
from typing import Any

import msgspec
import pytest

from magicstick.apps.gateway.acceptance import accepted, accepted_as_it_is, refusal, targets
from magicstick.apps.gateway.plan import wanted
from magicstick.kube.objects import Resource
from tests.support.gateway_objects import SITE, access, ancestor, fields, managed, stored

BODY = next(iter(wanted(access(), SITE).policies.values()))
MARK = "appliance.magicstick.dev/access-guard-spec"


def said(*ancestors: dict[str, Any], generation: int = 4) -> Resource:
    return stored(BODY, generation=generation, ancestors=ancestors)


def changed(**members: Any) -> dict[str, Any]:
    return {**copy.deepcopy(BODY["spec"]), **members}


@pytest.mark.req("MS-169")
@pytest.mark.parametrize(
    ("policy", "stands"),
    [
        (said(ancestor(generation=4)), True),
        (said(), False),
        (said(ancestor(generation=3)), False),
        (said(ancestor(generation=5)), False),
        (said(ancestor(generation=4, status="False")), False),
        (said(ancestor(generation=4, status="Unknown")), False),
        (said(ancestor(generation=4), ancestor(generation=4, gateway="other")), True),
        (said(ancestor(generation=4), ancestor(generation=4, status="False", gateway="other")), False),
        (said(ancestor(generation=4), ancestor(generation=3, gateway="other")), False),
        (said(ancestor(generation=4, gateway="other")), False),
        (said({**ancestor(generation=4), "conditions": []}), False),
        (
            said({**ancestor(generation=4), "ancestorRef": {"kind": "Service", "name": "identity-pilot"}}),
            False,
        ),
        (said(ancestor(generation=4, Overridden="True")), False),
        (said(ancestor(generation=4, Overridden="False")), True),
        (said(ancestor(generation=4, Merged="True")), True),
        (stored(BODY, dying=True), False),
        (stored(BODY), True),
    ],
    ids=[
        "accepted",
        "no verdict",
        "an earlier generation",
        "a later generation",
        "rejected",
        "undecided",
        "accepted by both",
        "rejected by one",
        "one lags behind",
        "another gateway alone",
        "an ancestor without a verdict",
        "no gateway",
        "overridden",
        "not overridden",
        "merged",
        "dying",
        "first generation",
    ],
)
def test_every_ancestor_has_to_accept_this_very_generation(policy: Resource, *, stands: bool) -> None:
    """E33, E34, E35."""
    assert accepted(policy, BODY, SITE) is stands


def test_two_verdicts_of_one_ancestor_both_count() -> None:
    verdict = ancestor(generation=4)
    verdict["conditions"].append({"type": "Accepted", "status": "False", "observedGeneration": 4})
    assert not accepted(said(verdict), BODY, SITE)


@pytest.mark.parametrize("junk", [None, 7, "x", [], {}, [7], [{"conditions": "x"}], [{"conditions": [7]}]])
def test_a_status_of_any_shape_is_no_acceptance(junk: Any) -> None:
    policy = msgspec.structs.replace(said(ancestor(generation=4)), status={"ancestors": junk})
    assert not accepted(policy, BODY, SITE)


FOREIGN = managed("kubectl-edit", "Update", fields({"cors": {}}))


@pytest.mark.req("MS-174")
@pytest.mark.parametrize(
    "policy",
    [
        stored(BODY, annotations={MARK: "0" * 64}),
        stored(BODY, annotations={}),
        stored(BODY, spec=changed(extAuth={**BODY["spec"]["extAuth"], "failOpen": True})),
        stored(BODY, spec=changed(targetRefs=BODY["spec"]["targetRefs"][:1])),
        stored(BODY, spec={name: part for name, part in BODY["spec"].items() if name != "authorization"}),
        stored(BODY, spec=changed(jwt={"providers": []})),
        stored(BODY, spec=changed(cors={}), edits=[FOREIGN]),
        stored(BODY, edits=[managed("magicstick-operator", "Update", fields({"oidc": {}}))]),
        stored(BODY, spec=changed(oidc={**BODY["spec"]["oidc"], "denyRedirect": {}}), managedFields=[]),
    ],
    ids=[
        "digest",
        "no digest",
        "fail open",
        "target gone",
        "role gone",
        "token check gone",
        "addition",
        "own name",
        "owners emptied",
    ],
)
def test_an_edited_policy_is_not_accepted_whatever_the_gateway_says(policy: Resource) -> None:
    """E36, and edits that leave the digest alone."""
    assert not accepted(policy, BODY, SITE)
    assert not accepted_as_it_is(policy)


def test_a_policy_without_sign_in_is_not_accepted_while_it_has_some_of_before() -> None:
    none = next(iter(wanted(access(authentication="none"), SITE).policies.values()))
    before = {**none["spec"], "oidc": BODY["spec"]["oidc"]}
    left = managed("magicstick-operator", "Apply", fields(before))
    assert accepted(stored(none), none, SITE)
    assert not accepted(stored(none, spec=before, managedFields=[left]), none, SITE)


def test_who_changes_labels_or_status_has_not_edited_the_policy() -> None:
    policy = stored(
        BODY,
        edits=[
            managed("kubectl-label", "Update", {"f:metadata": {"f:labels": {"f:team": {}}}}),
            managed("envoy-gateway", "Update", {"f:status": {"f:ancestors": {}}}, "status"),
        ],
    )
    assert accepted(policy, BODY, SITE)


def test_defaults_that_a_newer_server_adds_change_nothing() -> None:
    spec = copy.deepcopy(BODY["spec"])
    spec["extAuth"]["newer"] = 1
    spec["extAuth"]["http"]["backendRefs"][0]["newer"] = True
    assert accepted(stored(BODY, spec=spec), BODY, SITE)


def test_a_policy_stands_by_its_own_digest_alone_where_nobody_knows_what_is_wanted() -> None:
    other = next(iter(wanted(access(role="admin"), SITE).policies.values()))
    assert accepted_as_it_is(stored(other))
    assert not accepted(stored(other), BODY, SITE)
    assert not accepted_as_it_is(stored(other, ancestors=[]))
    assert not accepted_as_it_is(stored(other, ancestors=[ancestor(generation=1, status="False")]))


def test_the_targets_of_a_policy_are_routes_whatever_it_holds() -> None:
    names = ("kubeopencode-demo-local", "kubeopencode-demo-local-callback")
    assert targets(stored(BODY)) == {("identity-system", name) for name in names}
    assert targets(stored(BODY, spec={"targetRefs": "x"})) == frozenset()


def verdict(generation: int = 4, status: str = "False", **words: Any) -> dict[str, Any]:
    condition = {"type": "Accepted", "status": status, "observedGeneration": generation, **words}
    return {**ancestor(generation=generation), "conditions": [condition]}


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (said(verdict(message="no Service\n found\t")), "no Service found"),
        (said(verdict(reason="Invalid")), "Invalid"),
        (said(verdict(reason="Invalid", message="")), "Invalid"),
        (said(verdict(message=None)), ""),
        (said(verdict(message={"no": "text"})), "{'no': 'text'}"),
        (said(verdict(status="True", message="fine")), ""),
        (said(verdict(status="Unknown", message="wait")), ""),
        (said(verdict(3, message="said of an earlier generation")), ""),
        (said(verdict(status="True"), verdict(message="the second")), "the second"),
        (said(ancestor(generation=4)), ""),
        (said(), ""),
        (said({"conditions": "garbage"}), ""),
    ],
)
def test_what_the_gateway_has_against_a_policy_is_said_on_one_line(policy: Resource, told: str) -> None:
    assert refusal(policy) == told
