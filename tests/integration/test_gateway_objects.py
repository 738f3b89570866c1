"""An instance's way in on a real API server with the real kinds of Gateway API and Envoy Gateway."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster, DevClusterError
from magicstick.apps.gateway.acceptance import accepted, accepted_as_it_is, edited
from magicstick.apps.gateway.hosts import hosts_of, hosts_problem, short_name
from magicstick.apps.gateway.plan import close, plan, wanted
from magicstick.apps.gateway.routes import closed
from magicstick.apps.kinds import HTTP_ROUTE, SECURITY_POLICY
from magicstick.apps.ports import Access, Backend, GatewaySite
from magicstick.kube.differ import differs
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Apply
from tests.support.gateway_objects import DOMAINS, OPERATOR, SITE, Object, access, ancestor, bodies, live
from tests.support.objects import resource

pytestmark = pytest.mark.cluster

MERGE_PATCH = "application/merge-patch+json"
CASES = {
    "default": access("i-default"),
    "local": access("i-local", exposure="local"),
    "open to all": access("i-none", authentication="none"),
    "hermes": access("i-hermes", application="hermes", role="admin", strip_cookies=True),
    "bounded": access("i-bounded", request_timeout=None, backend=Backend("demo", "lab", 65535)),
    "longest name": access("i" * 53, backend=Backend("b" * 63, "lab", 1)),
}

TOO_LONG = 64
NAMES = (
    *("demo", "Demo", " demo ", "my demo", "a.b", "a_b", "a--b", "-demo-", ".demo.", "demo.", "1", "007"),
    *("M\u00fcller", "Stra\u00dfe", "Zoe\u0308", "\u0130zmir", "d\u0131no", "\ufb01ne", "\u2116 5", "\u00b2"),
    *(
        "\u6771\u4eac",
        "\u0434\u0435\u043c\u043e",
        "\U0001f642",
        "\u6771\u4eac-demo",
        "!!!",
        "---",
        "",
        "x\u0000y",
        "a/b?c=d",
        "<b>",
    ),
    *("a" * 62, "a" * 63, "a" * 64, "a" * 253, f"{'a' * 30}-{'b' * 32}", f"{'a' * 31}-{'b' * 32}"),
)
"""What people call things: accents, scripts without a plain form, symbols, and lengths at the limits."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane with the gateway's kinds and the namespaces that routes and grants live in."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        cluster.apply([*cluster.crd_files("gateway"), *cluster.crd_files("envoy")])
        for name in (SITE.namespace, "ai", "lab"):
            cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
        yield cluster


def all_of(given: Access, site: GatewaySite = SITE) -> list[Object]:
    """Everything that an instance has at one time or another."""
    objects = list(bodies(wanted(given, site)).values())
    return [*objects, *(closed(each) for each in objects if each["kind"] == HTTP_ROUTE.kind)]


def dry_run(cluster: DevCluster, objects: list[Object]) -> None:
    """Server-side, with strict field validation."""
    listing = {"apiVersion": "v1", "kind": "List", "items": objects}
    cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-", stdin=json.dumps(listing)
    )  # fmt: skip


def applied(cluster: DevCluster, body: Object) -> Resource:
    """What the server answers to our apply."""
    return resource(cluster.rest.apply(body, field_manager=OPERATOR))


def judged(cluster: DevCluster, policy: Resource, body: Object) -> Resource:
    """The policy after the gateway has accepted it in its present generation."""
    verdict = ancestor(generation=policy.metadata.generation)
    for condition in verdict["conditions"]:
        condition |= {"reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    path = f"{cluster.rest.path_of(body)}/status"
    return resource(cluster.rest.request("PATCH", path, {"status": {"ancestors": [verdict]}}, MERGE_PATCH))


def patched(cluster: DevCluster, body: Object, change: Object) -> Resource:
    """What becomes of an object that somebody edits."""
    path = f"{cluster.rest.path_of(body)}?fieldManager=kubectl-edit"
    return resource(cluster.rest.request("PATCH", path, change, MERGE_PATCH))


def policy_of(given: Access) -> Object:
    return next(iter(wanted(given, SITE).policies.values()))


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_every_object_satisfies_the_server_strictly(cluster: DevCluster, given: Access) -> None:
    dry_run(cluster, all_of(given))
    dry_run(cluster, all_of(given, GatewaySite(section="https")))


def test_whatever_an_instance_is_called_it_has_a_host_that_the_server_takes_or_is_refused(
    cluster: DevCluster,
) -> None:
    """Fault F11, and F10 at its limits."""
    routes, refused = list[Object](), set[str]()
    for number, text in enumerate(NAMES):
        short = short_name(f"hermes-{number}", "hermes", {"name": text})
        hosts = hosts_of(short, "hermes", DOMAINS)
        if hosts_problem(hosts) is not None:
            refused.add(text)
            continue
        routes += wanted(access(f"n-{number}", application="hermes", hosts=hosts), SITE).routes.values()
    assert refused == {text for text in NAMES if len(text) >= TOO_LONG}
    assert len(routes) == 4 * (len(NAMES) - len(refused))
    dry_run(cluster, routes)


@pytest.mark.parametrize("given", [CASES["default"]], ids=["default"])
def test_the_check_sees_a_field_that_a_kind_does_not_have(cluster: DevCluster, given: Access) -> None:
    for body in all_of(given):
        with pytest.raises(DevClusterError, match="noSuchField"):
            dry_run(cluster, [{**body, "spec": {**body["spec"], "noSuchField": 1}}])


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_what_the_server_holds_of_an_object_is_what_we_want(cluster: DevCluster, given: Access) -> None:
    """So a process that has just started sends nothing."""
    for body in all_of(given):
        assert differs(body, applied(cluster, body), OPERATOR) == ()


@pytest.mark.parametrize("given", CASES.values(), ids=CASES)
def test_an_accepted_policy_is_known_again_with_and_without_what_is_wanted(
    cluster: DevCluster, given: Access
) -> None:
    body = policy_of(given)
    before = applied(cluster, body)
    assert not accepted(before, body, SITE)
    after = judged(cluster, before, body)
    assert accepted(after, body, SITE)
    assert accepted_as_it_is(after)


@pytest.mark.req("MS-174")
def test_an_edit_ends_the_acceptance_and_what_was_added_goes_with_the_policy_made_anew(
    cluster: DevCluster,
) -> None:
    body = policy_of(access("i-edited"))
    judged(cluster, applied(cluster, body), body)
    added = patched(cluster, body, {"spec": {"cors": {"allowOrigins": ["*"]}}})
    for policy in (added, judged(cluster, added, body)):
        assert not accepted(policy, body, SITE)
        assert not accepted_as_it_is(policy)
    kept = applied(cluster, body)
    assert "cors" in kept.spec
    assert edited(kept)
    cluster.rest.request("DELETE", cluster.rest.path_of(body))
    anew = applied(cluster, body)
    assert anew.spec == body["spec"]
    assert not edited(anew)


def test_an_addition_is_seen_also_where_its_trace_was_wiped(cluster: DevCluster) -> None:
    body = policy_of(access("i-wiped"))
    judged(cluster, applied(cluster, body), body)
    patched(cluster, body, {"spec": {"oidc": {"passThroughAuthHeader": True}}})
    wiped = patched(cluster, body, {"metadata": {"managedFields": [{}]}})
    assert wiped.metadata.managed_fields == ()
    assert not accepted(judged(cluster, wiped, body), body, SITE)
    assert edited(wiped)


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"extAuth": {"failOpen": True}}},
        {"spec": {"authorization": None}},
        {"spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "x"}]}},
        {"metadata": {"annotations": {"appliance.magicstick.dev/access-guard-spec": "0" * 64}}},
    ],
    ids=["fail open", "role gone", "another target", "digest"],
)
def test_one_apply_repairs_a_value_that_was_changed(cluster: DevCluster, change: Object) -> None:
    body = policy_of(access("i-changed"))
    judged(cluster, applied(cluster, body), body)
    policy = patched(cluster, body, change)
    assert not accepted(judged(cluster, policy, body), body, SITE)
    repaired = applied(cluster, body)
    assert accepted(judged(cluster, repaired, body), body, SITE)


def test_labels_and_verdicts_of_others_are_no_edits(cluster: DevCluster) -> None:
    body = policy_of(access("i-labelled"))
    judged(cluster, applied(cluster, body), body)
    policy = patched(cluster, body, {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}})
    assert accepted(policy, body, SITE)


def test_a_policy_loses_its_sign_in_by_one_apply(cluster: DevCluster) -> None:
    body = policy_of(access("i-switched"))
    applied(cluster, body)
    none = policy_of(access("i-switched", authentication="none"))
    policy = applied(cluster, none)
    assert policy.spec == none["spec"]
    assert accepted(judged(cluster, policy, none), none, SITE)
    assert not accepted(policy, body, SITE)


def test_a_route_can_be_closed_from_what_the_server_holds_of_it_and_opened_again(cluster: DevCluster) -> None:
    given = access("i-closed", strip_cookies=True)
    want = bodies(wanted(given, SITE))
    there = {place: applied(cluster, body) for place, body in want.items()}
    steps = close(live(*there.values()))
    assert len(steps) == 4
    for step in steps:
        assert isinstance(step, Apply)
        dry_run(cluster, [dict(step.body)])
        shut = applied(cluster, dict(step.body))
        assert all(rule["backendRefs"] == [] for rule in shut.spec["rules"])
        assert differs(step.body, shut, OPERATOR) == ()
    for place, body in want.items():
        assert applied(cluster, body).spec == there[place].spec


def test_what_there_is_after_all_steps_needs_no_further_one(cluster: DevCluster) -> None:
    """The whole way, with every answer of the real server."""
    given, there = access("i-whole"), dict[str, Resource]()
    for _ in range(4):
        made = plan(given, live(*there.values()), SITE)
        for step in made.steps:
            assert isinstance(step, Apply)
            there[step.body["metadata"]["name"]] = applied(cluster, dict(step.body))
        for name, each in there.items():
            if each.kind == SECURITY_POLICY.kind:
                body: dict[str, Any] = {
                    "apiVersion": each.api_version,
                    "kind": each.kind,
                    "metadata": {"name": name, "namespace": SITE.namespace},
                }
                there[name] = judged(cluster, each, body)
    made = plan(given, live(*there.values()), SITE)
    assert made.ready
    for step in made.steps:
        assert isinstance(step, Apply)
        assert differs(step.body, there[step.body["metadata"]["name"]], OPERATOR) == ()
