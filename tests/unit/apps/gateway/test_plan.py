"""The way in step by step (spec: modules-and-apps §9.7, §16)."""

from typing import Any

import pytest

from magicstick.apps.gateway.plan import close, hold, plan, remove, wanted
from magicstick.apps.gateway.routes import closed
from magicstick.apps.kinds import HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY
from magicstick.apps.ports import Access, AccessPlan, Admitted, Backend
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Apply, Delete
from tests.support.gateway_objects import (
    SITE,
    access,
    ancestor,
    bodies,
    fields,
    live,
    managed,
    standing,
    stored,
    told,
)
from tests.support.gateway_world import GatewayWorld

LOCAL, LOCAL_CALLBACK = "kubeopencode-demo-local", "kubeopencode-demo-local-callback"
PUBLIC, PUBLIC_CALLBACK = "kubeopencode-demo-public", "kubeopencode-demo-public-callback"
LOCAL_POLICY, PUBLIC_POLICY = "kubeopencode-demo-local-sso", "kubeopencode-demo-public-sso"
GRANT = "kubeopencode-demo-route-access"
ROUTES = [LOCAL, LOCAL_CALLBACK, PUBLIC, PUBLIC_CALLBACK]
POLICIES = [LOCAL_POLICY, PUBLIC_POLICY]


def planned(given: Access, *objects: Resource, **others: Any) -> AccessPlan:
    return plan(given, live(*objects, **others), SITE)


def judged(name: str, **verdict: Any) -> dict[str, Resource]:
    """A served instance, with another verdict on one policy."""
    body = next(each for place, each in wanted(access(), SITE).policies.items() if place.key.name == name)
    return {**standing(access()), name: stored(body, generation=3, ancestors=[ancestor(**verdict)])}


def built(name: str, given: Access | None = None) -> dict[str, Any]:
    (body,) = [
        each for place, each in bodies(wanted(given or access(), SITE)).items() if place.key.name == name
    ]
    return body


# --- coming to be --------------------------------------------------------------------------------------


@pytest.mark.req("MS-167")
@pytest.mark.req("MS-168")
def test_a_new_instance_gets_its_policies_first_and_routes_that_lead_nowhere() -> None:
    """E33. The grant waits too: nothing needs it yet."""
    made = planned(access())
    assert told(made.steps) == [f"apply {name}" for name in POLICIES] + [f"close {name}" for name in ROUTES]
    assert not made.ready


@pytest.mark.req("MS-168")
def test_routes_stay_closed_while_the_gateway_has_not_judged() -> None:
    objects = [
        stored(closed(body) if place.kind == HTTP_ROUTE else body, ancestors=[])
        for place, body in bodies(wanted(access(), SITE)).items()
        if place.kind != REFERENCE_GRANT
    ]
    made = planned(access(), *objects)
    assert not made.ready
    assert not [word for word in told(made.steps) if word.startswith("open")]


@pytest.mark.req("MS-169")
def test_with_both_policies_accepted_the_grant_comes_before_the_routes_open() -> None:
    policies = [each for each in standing(access()).values() if each.kind == SECURITY_POLICY.kind]
    made = planned(access(), *policies)
    assert made.ready
    assert told(made.steps) == [
        *[f"apply {name}" for name in POLICIES],
        f"apply {GRANT}",
        *[f"open {name}" for name in ROUTES],
    ]


@pytest.mark.req("MS-174")
def test_a_served_instance_wants_nothing_but_what_there_is() -> None:
    made = planned(access(), *standing(access()).values())
    assert made.ready
    assert {step.body["metadata"]["name"]: step.body for step in made.steps if isinstance(step, Apply)} == {
        place.key.name: body for place, body in bodies(wanted(access(), SITE)).items()
    }
    assert not [step for step in made.steps if isinstance(step, Delete)]


# --- policies that do not stand ----------------------------------------------------------------------------


@pytest.mark.req("MS-168")
@pytest.mark.req("MS-169")
@pytest.mark.parametrize(
    "verdict",
    [{"generation": 3, "status": "False"}, {"generation": 2}, {"generation": 3, "Overridden": "True"}],
    ids=["rejected", "of an earlier generation", "overridden"],
)
def test_one_policy_that_is_not_accepted_closes_all_routes_and_nothing_else_is_touched(
    verdict: dict[str, Any],
) -> None:
    """E34. What the policy protects is closed first."""
    made = planned(access(), *judged(PUBLIC_POLICY, **verdict).values())
    assert not made.ready
    assert told(made.steps) == [f"close {name}" for name in [PUBLIC, PUBLIC_CALLBACK, LOCAL, LOCAL_CALLBACK]]


def test_a_deleted_policy_closes_the_routes_before_it_is_made_again() -> None:
    objects = standing(access())
    del objects[LOCAL_POLICY]
    assert told(planned(access(), *objects.values()).steps) == [f"close {name}" for name in ROUTES]
    for name in ROUTES:
        objects[name] = stored(closed(built(name)))
    assert told(planned(access(), *objects.values()).steps)[:2] == [f"apply {name}" for name in POLICIES]


@pytest.mark.req("MS-169")
def test_an_edited_policy_closes_the_routes_before_it_is_repaired() -> None:
    """E36."""
    body = built(LOCAL_POLICY)
    edited = {**body["spec"], "extAuth": {**body["spec"]["extAuth"], "failOpen": True}}
    objects = {**standing(access()), LOCAL_POLICY: stored(body, spec=edited)}
    made = planned(access(), *objects.values())
    assert not made.ready
    assert told(made.steps) == [f"close {name}" for name in ROUTES]


def test_a_policy_that_somebody_added_to_is_made_anew_once_the_routes_are_closed() -> None:
    """An apply of ours would leave the addition where it is."""
    body = built(LOCAL_POLICY)
    addition = managed("kubectl-edit", "Update", fields({"cors": {}}))
    objects = {
        **standing(access()),
        LOCAL_POLICY: stored(body, spec={**body["spec"], "cors": {}}, edits=[addition]),
    }
    assert told(planned(access(), *objects.values()).steps) == [f"close {name}" for name in ROUTES]
    for name in ROUTES:
        objects[name] = stored(closed(built(name)))
    made = planned(access(), *objects.values())
    assert told(made.steps)[:2] == [f"delete {LOCAL_POLICY}", f"apply {LOCAL_POLICY}"]
    (deletion,) = [step for step in made.steps if isinstance(step, Delete)]
    assert deletion.uid == objects[LOCAL_POLICY].metadata.uid


def test_a_dying_policy_closes_the_routes() -> None:
    objects = {**standing(access()), LOCAL_POLICY: stored(built(LOCAL_POLICY), dying=True)}
    assert told(planned(access(), *objects.values()).steps) == [f"close {name}" for name in ROUTES]


def test_a_new_uid_changes_digest_and_policy_and_closes_the_routes_before() -> None:
    """E38."""
    made = planned(access(uid="another"), *standing(access()).values())
    assert not made.ready
    assert told(made.steps) == [f"close {name}" for name in ROUTES]


# --- changes of what is wanted ---------------------------------------------------------------------------------


def settle(world: GatewayWorld, given: Access) -> None:
    """Operator and gateway, until there is nothing left to do."""
    for _ in range(6):
        for step in plan(given, world.observed(given.instance, given.backend.namespace), SITE).steps:
            world.carry_out(step)
        world.judge_all()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"authentication": "none"}),
        ({"authentication": "none"}, {}),
        ({}, {"exposure": "local"}),
        ({"exposure": "local"}, {}),
        ({}, {"role": "admin"}),
        ({}, {"uid": "another"}),
        ({}, {"backend": Backend("demo", "lab", 4096)}),
        ({"backend": Backend("demo", "lab", 4096)}, {"authentication": "none", "exposure": "local"}),
    ],
)
def test_after_a_change_there_is_exactly_what_is_wanted(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """E28, E29, and grants in a former namespace."""
    world = GatewayWorld()
    settle(world, access(**before))
    assert world.specs() == {
        place: body["spec"] for place, body in bodies(wanted(access(**before), SITE)).items()
    }
    settle(world, access(**after))
    assert world.specs() == {
        place: body["spec"] for place, body in bodies(wanted(access(**after), SITE)).items()
    }


def test_without_sign_in_callbacks_go_first_and_the_policies_keep_their_names() -> None:
    """E28."""
    none = access(authentication="none")
    made = planned(none, *standing(access()).values())
    assert sorted(told(made.steps)) == sorted(
        [f"close {LOCAL}", f"close {PUBLIC}", f"delete {LOCAL_CALLBACK}", f"delete {PUBLIC_CALLBACK}"]
    )
    rest = [each for name, each in standing(access()).items() if not name.endswith("callback")]
    rest = [
        stored(closed(built(each.metadata.name, none))) if each.kind == "HTTPRoute" else each for each in rest
    ]
    steps = planned(none, *rest).steps
    policies = [step for step in steps if step.kind == SECURITY_POLICY]
    assert told(policies) == [f"apply {name}" for name in POLICIES]
    for step in policies:
        assert isinstance(step, Apply)
        assert step.body["spec"].keys() == {"extAuth", "targetRefs"}


@pytest.mark.req("MS-165")
def test_without_the_public_host_its_routes_go_before_its_policy_and_the_local_one_stays_open() -> None:
    """E29."""
    local = access(exposure="local")
    objects = standing(access())
    made = planned(local, *objects.values())
    assert made.ready
    assert told(made.steps) == [f"delete {PUBLIC}", f"delete {PUBLIC_CALLBACK}"]
    left = [each for name, each in objects.items() if name not in {PUBLIC, PUBLIC_CALLBACK}]
    assert told(planned(local, *left).steps) == [
        f"apply {LOCAL_POLICY}",
        f"apply {GRANT}",
        f"open {LOCAL}",
        f"open {LOCAL_CALLBACK}",
        f"delete {PUBLIC_POLICY}",
    ]


def test_a_policy_stays_while_a_route_that_it_protects_lingers() -> None:
    local = access(exposure="local")
    objects = standing(access())
    objects[PUBLIC] = stored(built(PUBLIC), dying=True)
    objects[PUBLIC_CALLBACK] = stored(built(PUBLIC_CALLBACK), dying=True)
    assert f"delete {PUBLIC_POLICY}" not in told(planned(local, *objects.values()).steps)

    none = access(authentication="none")
    objects = {name: each for name, each in standing(access()).items() if name not in ROUTES}
    objects[LOCAL_CALLBACK] = stored(built(LOCAL_CALLBACK), dying=True)
    steps = told(planned(none, *objects.values()).steps)
    assert f"apply {LOCAL_POLICY}" not in steps
    assert f"apply {PUBLIC_POLICY}" in steps


@pytest.mark.parametrize(("accepted", "changed"), [("True", False), ("False", True)])
def test_a_policy_that_stands_is_not_changed_before_a_dying_route_is_gone(
    accepted: str, *, changed: bool
) -> None:
    """One that does not stand is: it cannot get worse."""
    objects = {
        **{name: stored(closed(built(name))) for name in ROUTES},
        LOCAL: stored(built(LOCAL), dying=True),
        LOCAL_POLICY: stored(built(LOCAL_POLICY), ancestors=[ancestor(generation=1, status=accepted)]),
    }
    steps = told(planned(access(role="admin"), *objects.values()).steps)
    assert (f"apply {LOCAL_POLICY}" in steps) is changed
    assert f"apply {PUBLIC_POLICY}" in steps


def test_grants_in_former_namespaces_go_after_the_routes_have_left() -> None:
    moved = access(backend=Backend("demo", "lab", 4096))
    made = planned(moved, *standing(access()).values())
    assert made.ready
    words = told(made.steps)
    assert words.index(f"apply {GRANT}") < words.index(f"open {LOCAL}") < words.index(f"delete {GRANT}")
    (deletion,) = [step for step in made.steps if isinstance(step, Delete)]
    assert deletion.key == ("ai", GRANT)


def test_another_gateway_has_to_accept_before_the_routes_that_move_there_open() -> None:
    elsewhere = type(SITE)(gateway="other")
    objects = standing(access())
    made = plan(access(), live(*objects.values()), elsewhere)
    assert not made.ready
    assert told(made.steps) == [f"close {name}" for name in ROUTES]


def test_what_is_left_in_a_former_namespace_of_the_gateway_goes_and_its_namesakes_stay_guarded() -> None:
    former = standing(access(), type(SITE)(namespace="former"))
    routes = [each for each in former.values() if each.kind == HTTP_ROUTE.kind]
    closings = planned(access(), *former.values()).steps
    assert {step.key for step in closings if isinstance(step, Delete)} == {
        each.metadata.key for each in routes
    }
    both = [*former.values(), *judged(PUBLIC_POLICY, generation=3, status="False").values()]
    words = told(planned(access(), *both).steps)
    assert sorted(words) == sorted([f"{verb} {name}" for verb in ("close", "delete") for name in ROUTES])
    left = [each for each in former.values() if each.kind != HTTP_ROUTE.kind]
    made = planned(access(), *left, *standing(access()).values())
    assert made.ready
    assert {step.key for step in made.steps if isinstance(step, Delete)} >= {
        ("former", name) for name in POLICIES
    }


# --- others -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LOCAL_POLICY, PUBLIC_CALLBACK, GRANT])
@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"appliance.magicstick.dev/appinstance": "kubeopencode-demo"},
        {
            "app.kubernetes.io/managed-by": "magicstick-operator",
            "appliance.magicstick.dev/appinstance": "another",
        },
    ],
    ids=["nobody's", "mark of ours gone", "another instance's"],
)
def test_an_object_of_somebody_else_in_the_way_is_a_conflict_and_closes_what_is_open(
    name: str, labels: dict[str, str]
) -> None:
    objects = standing(access())
    taken = stored(built(name), labels=labels)
    del objects[name]
    made = planned(access(), *objects.values(), foreign=[taken])
    assert name in made.conflict
    assert "does not belong to this instance" in made.conflict
    assert not made.ready
    closings = [f"close {each}" for each in ROUTES if each != name]
    assert told(made.steps) == [*closings, *([] if name == GRANT else [f"delete {GRANT}"])]


def test_what_stands_at_a_place_that_is_not_wanted_is_no_conflict() -> None:
    local = access(exposure="local")
    made = planned(local, *standing(local).values(), foreign=[stored(built(PUBLIC), labels={})])
    assert not made.conflict
    assert made.ready
    assert f"delete {PUBLIC}" not in told(made.steps)


@pytest.mark.parametrize(
    ("now", "lost"), [({"exposure": "local"}, PUBLIC), ({"authentication": "none"}, LOCAL_CALLBACK)]
)
def test_a_policy_stays_while_a_route_relies_on_it_that_has_lost_our_mark(
    now: dict[str, Any], lost: str
) -> None:
    objects = standing(access())
    del objects[lost]
    made = planned(access(**now), *objects.values(), foreign=[stored(built(lost), labels={})])
    assert lost in made.conflict
    touched = [each for each in told(made.steps) if any(name in each for name in POLICIES)]
    assert (touched, made.ready) == ([], False)


def test_nothing_opens_beside_an_open_route_of_another_instance_on_the_same_host() -> None:
    old = built("kubeopencode-old-local", access("kubeopencode-old"))
    rival = stored(old)
    made = planned(access(), *standing(access()).values(), rivals=[rival])
    assert not made.ready
    assert told(made.steps) == [f"close {name}" for name in ROUTES]
    assert planned(access(), *standing(access()).values(), rivals=[stored(closed(old))]).ready


# --- hold, close, remove -------------------------------------------------------------------------------------------


def test_while_nothing_is_known_of_the_application_a_guarded_way_in_stays() -> None:
    assert hold(live(*standing(access(role="admin")).values()), Admitted(role="admin")) == ()


@pytest.mark.parametrize(
    ("stands", "admitted", "stays"),
    [
        ({"authentication": "none"}, Admitted(), False),
        ({"authentication": "none"}, Admitted("none"), True),
        ({}, Admitted("none"), True),
        ({}, Admitted(role="viewer"), False),
        ({"role": "admin"}, Admitted(role="viewer"), True),
        ({}, Admitted(exposure="local"), False),
        ({"exposure": "local"}, Admitted(exposure="local"), True),
        ({"exposure": "local"}, Admitted(), True),
    ],
)
def test_what_admits_more_than_the_instance_does_by_now_is_closed_whatever_else_is_unknown(
    stands: dict[str, Any], admitted: Admitted, *, stays: bool
) -> None:
    there = standing(access(**stands))
    routes = [f"close {name}" for name in there if name in ROUTES]

    assert told(hold(live(*there.values()), admitted)) == ([] if stays else routes)


@pytest.mark.parametrize(
    "verdict", [{"generation": 3, "status": "False"}, {"generation": 2}], ids=["rejected", "earlier"]
)
def test_and_is_closed_once_a_policy_does_not_stand(verdict: dict[str, Any]) -> None:
    assert told(hold(live(*judged(LOCAL_POLICY, **verdict).values()), Admitted())) == [
        f"close {name}" for name in ROUTES
    ]


def test_and_is_closed_once_a_policy_is_gone_what_it_protected_first() -> None:
    objects = standing(access())
    del objects[PUBLIC_POLICY]
    closings = [f"close {name}" for name in [PUBLIC, PUBLIC_CALLBACK, LOCAL, LOCAL_CALLBACK]]
    assert told(hold(live(*objects.values()), Admitted())) == closings


def test_closing_keeps_what_a_route_is_and_takes_everything_by_which_it_leads_somewhere() -> None:
    body = built(LOCAL, access(strip_cookies=True))
    mirror = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "spy", "port": 1}}}
    (rule,) = body["spec"]["rules"]
    edited = {
        **body["spec"],
        "rules": [{**rule, "backendRefs": [], "filters": [mirror]}, {"backendRefs": []}],
    }
    (step,) = close(
        live(stored(body, spec=edited, annotations={**body["metadata"]["annotations"], "note": "x"}))
    )
    assert isinstance(step, Apply)
    assert step.body["metadata"] == body["metadata"]
    assert step.body["spec"] == {
        **body["spec"],
        "rules": [
            {"matches": rule["matches"], "timeouts": {"request": "0s"}, "backendRefs": []},
            {"backendRefs": []},
        ],
    }
    assert close(live(stored(step.body))) == ()
    assert close(live(stored(body, dying=True))) == ()


@pytest.mark.parametrize("rules", [None, [], "x", [7], [{}], [{"backendRefs": []}], [{"filters": "x"}]])
def test_a_route_without_a_backend_is_closed_whatever_its_shape(rules: Any) -> None:
    assert close(live(stored(built(LOCAL), spec={"rules": rules}))) == ()


@pytest.mark.req("MS-165")
def test_removal_takes_routes_then_grants_then_policies_and_waits_for_each() -> None:
    """E45, E46: it needs nothing but what there is."""
    objects = standing(access())
    assert sorted(told(remove(live(*objects.values())))) == sorted(f"delete {name}" for name in ROUTES)
    objects = {name: each for name, each in objects.items() if name not in ROUTES[1:]}
    objects[LOCAL] = stored(built(LOCAL), dying=True)
    assert remove(live(*objects.values())) == ()
    del objects[LOCAL]
    steps = remove(live(*objects.values()))
    assert told(steps) == [f"delete {GRANT}", *[f"delete {name}" for name in POLICIES]]
    assert {step.uid for step in steps if isinstance(step, Delete)} == {
        each.metadata.uid for each in objects.values()
    }
    assert remove(live()) == ()


def test_a_route_that_others_hold_is_closed_before_it_is_deleted() -> None:
    """A dying object takes no change, and would lead somewhere for as long as they like."""
    held = stored(built(LOCAL), finalizers=["example.com/held"])
    assert told(remove(live(held))) == [f"close {LOCAL}"]
    assert told(remove(live(stored(closed(built(LOCAL)), finalizers=["example.com/held"])))) == [
        f"delete {LOCAL}"
    ]
    objects = {**standing(access()), PUBLIC: stored(built(PUBLIC), finalizers=["example.com/held"])}
    made = planned(access(exposure="local"), *objects.values())
    assert told(made.steps) == [f"close {PUBLIC}", f"delete {PUBLIC_CALLBACK}"]


# --- what the gateway says ------------------------------------------------------------------------------


def test_the_first_refusal_of_a_wanted_policy_is_handed_on() -> None:
    body = built(PUBLIC_POLICY)
    refused = ancestor(generation=3, status="False")
    refused["conditions"][0]["message"] = "the Secret is missing"
    objects = {**standing(access()), PUBLIC_POLICY: stored(body, generation=3, ancestors=[refused])}
    assert planned(access(), *objects.values()).refusal == "the Secret is missing"
    assert planned(access(), *standing(access()).values()).refusal == ""
    assert planned(access()).refusal == ""
