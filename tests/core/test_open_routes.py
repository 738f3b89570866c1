"""The checker of open routes finds what it is for, and excuses only what nobody could have prevented."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hack.devcluster.audit import AuditRecord
from tests.support.gateway_log import writes
from tests.support.open_routes import OpenRoutes

Object = dict[str, Any]

OPERATOR, GATEWAY, USER = "magicstick/0.1", "envoy-gateway/v1", "kubectl/v1"
NAMESPACE = "identity-system"
ROUTE, POLICY = "demo-local", "demo-local-sso"
START = datetime(2026, 1, 1, tzinfo=UTC)
GROUPS = {
    "httproutes": "gateway.networking.k8s.io",
    "securitypolicies": "gateway.envoyproxy.io",
    "referencegrants": "gateway.networking.k8s.io",
    "appinstances": "appliance.magicstick.dev",
}


class Story:
    """Writes of an audit log, each a tenth of a second after the one before, unless time passes."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []
        self.now = START
        self._versions = itertools.count(1)
        self._objects: dict[tuple[str, str], Object] = {}

    # --- what people and programs do -------------------------------------------------------------------

    def route(self, *, leads: bool, by: str = OPERATOR, name: str = ROUTE, instance: str = "demo") -> None:
        """Make or change a route."""
        backends = [{"name": "demo", "port": 80}] if leads else []
        spec = {
            "parentRefs": [{"name": "identity-pilot"}],
            "hostnames": ["demo.example.local"],
            "rules": [{"matches": [{"path": {"value": "/"}}], "backendRefs": backends}],
        }
        self._write("httproutes", name, spec, by, instance)

    def policy(self, *, by: str = OPERATOR, instance: str = "demo", **spec: Any) -> None:
        """Make or change the policy."""
        path = {"http": {"path": f"/internal/instance-access/{instance}/uid-{instance}"}}
        wanted = {"targetRefs": [{"name": ROUTE}], "extAuth": path, **spec}
        self._write("securitypolicies", POLICY, wanted, by, instance)

    def verdict(self, status: str = "True", *, lag: int = 0, gateway: str = "identity-pilot") -> None:
        """The gateway's verdict on the policy."""
        held = self._objects["securitypolicies", POLICY]
        generation = held["metadata"]["generation"] - lag
        condition = {"type": "Accepted", "status": status, "observedGeneration": generation}
        ancestor = {"ancestorRef": {"name": gateway, "namespace": NAMESPACE}, "conditions": [condition]}
        body = {**held, "status": {"ancestors": [ancestor]}}
        self._keep("securitypolicies", POLICY, body, GATEWAY, "update", "status")

    def grant(self) -> None:
        """The operator makes the grant."""
        spec = {"from": [{"namespace": NAMESPACE}]}
        self._write("referencegrants", "demo-route-access", spec, OPERATOR, "demo")

    def status(self, name: str = "demo") -> None:
        """The operator reports of an instance."""
        body = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}}
        self._keep("appinstances", name, body, OPERATOR, "patch", "status")

    def delete(self, plural: str, name: str, by: str = USER, *, dry: bool = False) -> None:
        """Delete an object."""
        body = self._objects[plural, name]
        self._record(plural, name, by, "delete", body=body, query="?dryRun=All" if dry else "")
        if not dry:
            del self._objects[plural, name]

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += timedelta(seconds=seconds)

    # --- the log -----------------------------------------------------------------------------------------

    def _write(self, plural: str, name: str, spec: Object, by: str, instance: str) -> None:
        held = self._objects.get((plural, name))
        generation = 1 if held is None else held["metadata"]["generation"] + (held["spec"] != spec)
        marks = {
            "app.kubernetes.io/managed-by": "magicstick-operator",
            "appliance.magicstick.dev/appinstance": instance,
        }
        metadata = {"name": name, "namespace": NAMESPACE, "generation": generation, "labels": marks}
        body = {"metadata": metadata, "spec": spec, "status": (held or {}).get("status", {})}
        self._keep(plural, name, body, by, "patch", "", code=200 if held else 201)

    def _keep(
        self, plural: str, name: str, body: Object, by: str, verb: str, subresource: str, code: int = 200
    ) -> None:
        metadata = {**body["metadata"], "resourceVersion": str(next(self._versions))}
        self._objects[plural, name] = {**body, "metadata": metadata}
        self._record(plural, name, by, verb, subresource, self._objects[plural, name], code)

    def _record(
        self,
        plural: str,
        name: str,
        by: str,
        verb: str,
        subresource: str = "",
        body: Object | None = None,
        code: int = 200,
        query: str = "",
    ) -> None:
        self.wait(0.1)
        record = AuditRecord(
            id=str(len(self.records)),
            user_agent=by,
            user=by,
            verb=verb,
            group=GROUPS[plural],
            version="v1",
            resource=plural,
            namespace="ai-system" if plural == "appinstances" else NAMESPACE,
            name=name,
            subresource=subresource,
            code=code,
            uri=f"/apis/{plural}/{name}{query}",
            received=self.now - timedelta(seconds=0.05),
            answered=self.now,
            request_object=None,
            response_object=body,
        )
        self.records.append(record)

    def watched(self) -> OpenRoutes:
        """What the checker makes of it."""
        watch = OpenRoutes()
        watch.feed(self.records)
        watch.end()
        return watch

    def violations(self) -> str:
        """What the checker says, as one text."""
        return "; ".join(self.watched().violations)


@pytest.fixture
def served() -> Story:
    """The proper order: policy, closed route, verdict, grant, open route, report; long ago."""
    story = Story()
    story.policy()
    story.route(leads=False)
    story.verdict()
    story.grant()
    story.route(leads=True)
    story.status()
    story.wait(60)
    return story


# --- what the operator may not do --------------------------------------------------------------------


def test_the_proper_order_is_fine(served: Story) -> None:
    assert served.violations() == ""


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_route_that_is_opened_on_a_refused_policy_is_found(status: str) -> None:
    story = Story()
    story.policy()
    story.route(leads=False)
    story.verdict(status)
    story.route(leads=True)
    assert "demo-local was exposed by patch httproutes" in story.violations()


def test_a_route_that_is_opened_without_a_verdict_is_found() -> None:
    story = Story()
    story.policy()
    story.route(leads=True)
    assert "was exposed by" in story.violations()


def test_a_verdict_on_an_earlier_generation_is_none() -> None:
    story = Story()
    story.policy()
    story.policy(cors={})
    story.verdict(lag=1)
    story.route(leads=True)
    assert "was exposed by" in story.violations()


def test_a_verdict_of_another_gateway_is_none() -> None:
    story = Story()
    story.policy()
    story.verdict(gateway="other")
    story.route(leads=True)
    assert "was exposed by" in story.violations()


def test_the_policy_of_another_instance_protects_nothing() -> None:
    story = Story()
    story.policy(instance="other")
    story.verdict()
    story.route(leads=True)
    assert "was exposed by" in story.violations()


def test_a_policy_for_another_route_protects_nothing() -> None:
    story = Story()
    story.policy(targetRefs=[{"name": "demo-public"}])
    story.verdict()
    story.route(leads=True)
    assert "was exposed by" in story.violations()


def test_an_accepted_policy_of_somebody_else_s_making_is_none() -> None:
    story = Story()
    story.policy()
    story.policy(by=USER, extAuth={"failOpen": True})
    story.verdict()
    story.wait(60)
    story.route(leads=True)
    assert "was exposed by" in story.violations()


def test_a_verdict_a_moment_ago_excuses_nothing() -> None:
    """What others do shortly before counts only if it made the route less safe."""
    story = Story()
    story.policy()
    story.verdict("False")
    story.route(leads=True)
    assert "was exposed by" in story.violations()


def test_an_operator_that_changes_the_policy_of_an_open_route_is_found(served: Story) -> None:
    served.policy(cors={})
    served.route(leads=False)
    assert "demo-local was exposed by patch securitypolicies" in served.violations()


def test_an_operator_that_deletes_the_policy_of_an_open_route_is_found(served: Story) -> None:
    served.delete("securitypolicies", POLICY, OPERATOR)
    served.delete("httproutes", ROUTE, OPERATOR)
    assert "demo-local was exposed by delete securitypolicies" in served.violations()


def test_removal_in_the_proper_order_is_fine(served: Story) -> None:
    served.delete("httproutes", ROUTE, OPERATOR)
    served.delete("referencegrants", "demo-route-access", OPERATOR)
    served.delete("securitypolicies", POLICY, OPERATOR)
    assert served.violations() == ""


def test_a_grant_that_comes_before_the_verdict_is_found() -> None:
    story = Story()
    story.policy()
    story.grant()
    assert "demo-route-access was made while policy" in story.violations()


def test_the_routes_of_others_are_none_of_its_business() -> None:
    story = Story()
    story.route(leads=True, by=USER)
    assert story.violations() == ""


# --- what others do ------------------------------------------------------------------------------------


def edit(story: Story) -> None:
    story.policy(by=USER, extAuth={"failOpen": True})


def delete(story: Story) -> None:
    story.delete("securitypolicies", POLICY)


def refuse(story: Story) -> None:
    story.verdict("False")


EXPOSING = [edit, delete, refuse]


@pytest.mark.parametrize("exposing", EXPOSING)
def test_closing_at_once_what_others_exposed_is_fine(served: Story, exposing: Any) -> None:
    exposing(served)
    served.route(leads=False)
    served.status()
    served.policy()
    served.verdict()
    served.route(leads=True)
    assert served.violations() == ""


@pytest.mark.parametrize("exposing", EXPOSING)
def test_closing_late_as_the_first_thing_is_fine_for_an_operator_that_was_away(
    served: Story, exposing: Any
) -> None:
    exposing(served)
    served.wait(3600)
    served.route(leads=False)
    assert served.violations() == ""


@pytest.mark.parametrize("exposing", EXPOSING)
def test_reporting_before_closing_is_found(served: Story, exposing: Any) -> None:
    exposing(served)
    served.wait(3)
    served.status()
    served.route(leads=False)
    assert "demo-local was left open by patch appinstances/status" in served.violations()


@pytest.mark.parametrize("waited_s", [0, 3])
@pytest.mark.parametrize("exposing", EXPOSING)
def test_repairing_before_closing_is_found(served: Story, exposing: Any, waited_s: float) -> None:
    exposing(served)
    served.wait(waited_s)
    served.policy()
    served.route(leads=False)
    assert "demo-local was left open by patch securitypolicies" in served.violations()


@pytest.mark.parametrize("exposing", EXPOSING)
def test_never_closing_is_found(served: Story, exposing: Any) -> None:
    exposing(served)
    assert "demo-local was still open at the end" in served.violations()


@pytest.mark.parametrize("exposing", EXPOSING)
def test_work_for_others_excuses_no_delay(served: Story, exposing: Any) -> None:
    exposing(served)
    served.wait(11)
    served.route(leads=False, name="other-local", instance="other")
    served.route(leads=False)
    assert "demo-local was open for more than 10 s" in served.violations()


@pytest.mark.parametrize("exposing", EXPOSING)
def test_opening_on_the_strength_of_what_was_just_taken_away_is_excused_for_a_moment(
    served: Story, exposing: Any
) -> None:
    served.route(leads=False)
    exposing(served)
    served.route(leads=True)
    served.route(leads=False)
    assert served.violations() == ""


@pytest.mark.parametrize("exposing", EXPOSING)
def test_opening_on_the_strength_of_what_was_long_taken_away_is_found(served: Story, exposing: Any) -> None:
    served.route(leads=False)
    exposing(served)
    served.wait(3)
    served.route(leads=True)
    assert "demo-local was exposed by patch httproutes" in served.violations()


def test_a_route_that_somebody_opens_by_hand_must_be_closed() -> None:
    story = Story()
    story.policy()
    story.route(leads=False)
    story.wait(60)
    story.route(leads=True, by=USER)
    assert "was still open at the end, because of patch httproutes" in story.violations()


def test_of_several_exposed_routes_each_write_must_close_one(served: Story) -> None:
    served.policy(targetRefs=[{"name": ROUTE}, {"name": "demo-callback"}])
    served.verdict()
    served.route(leads=True, name="demo-callback")
    served.wait(60)
    before = served.violations()
    served.delete("securitypolicies", POLICY)
    served.wait(3)
    served.route(leads=False)
    served.status()
    served.route(leads=False, name="demo-callback")
    assert (
        served.violations()
        .removeprefix(before)
        .startswith("; httproutes identity-system/demo-callback was left")
    )


# --- reading the log -----------------------------------------------------------------------------------


def test_what_was_not_carried_out_does_not_count(served: Story) -> None:
    served.delete("securitypolicies", POLICY, dry=True)
    assert served.violations() == ""


def test_writes_count_in_the_order_in_which_they_took_effect(served: Story) -> None:
    """The verdict was answered last, and yet it was there before the route was opened."""
    log = served.records
    log[2], log[4] = log[4], log[2]
    assert [each.resource for each in writes(log)][:3] == [
        "securitypolicies",
        "httproutes",
        "securitypolicies",
    ]
    assert served.violations() == ""


def test_a_log_without_bodies_is_an_error(served: Story) -> None:
    served._record("httproutes", ROUTE, OPERATOR, "patch")
    with pytest.raises(ValueError, match="no body of patch httproutes"):
        served.watched()


def test_a_log_can_be_read_piece_by_piece(served: Story) -> None:
    served.delete("securitypolicies", POLICY)
    watch = OpenRoutes()
    for record in served.records:
        watch.feed([record])
    assert [name for _, _, name in watch.exposed] == [ROUTE]


def test_a_host_that_leads_to_two_instances_is_known(served: Story) -> None:
    assert served.watched().doubly_served() == set()
    served.route(leads=True, name="rival-local", instance="rival")
    assert served.watched().doubly_served() == {(NAMESPACE, "demo.example.local", "/")}
