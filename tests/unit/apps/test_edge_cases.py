"""Edge cases that need the catalog and the decision together (spec: modules-and-apps §16)."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from magicstick.api.kinds import APP_INSTANCE
from magicstick.apps.observation import Entry, InstanceObservation
from magicstick.apps.way_in import hosts
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.runtime.plan import Apply
from tests.support.instance_objects import (
    APPLICATIONS,
    SHIPPED,
    accepted,
    applied_release,
    decided,
    instance,
    message,
    observation,
    release,
    settled,
    told,
)
from tests.support.instance_world import InstanceWorld


def applied(o: InstanceObservation, kind: str) -> dict[str, Mapping[str, Any]]:
    """What the plan wants of this kind, by name."""
    steps = [each for each in decided(o).steps if isinstance(each, Apply) and each.kind.kind == kind]
    return {each.body["metadata"]["name"]: each.body for each in steps}


def backends(o: InstanceObservation) -> set[tuple[str, str, int]]:
    """(Service, namespace, port) of every rule of every route that is wanted."""
    rules = [rule for route in applied(o, "HTTPRoute").values() for rule in route["spec"]["rules"]]
    return {(to["name"], to["namespace"], to["port"]) for rule in rules for to in rule["backendRefs"]}


def catalog(**changes: Any) -> ApplicationCatalog:
    """The shipped catalog, with another route of kubeopencode."""
    entry = SHIPPED["applications"]["kubeopencode"]
    changed = {**entry, "route": {**entry["route"], **changes}}
    return ApplicationCatalog.parse(json.dumps({"applications": {"kubeopencode": changed}}))


# --- where routes lead ------------------------------------------------------------------------------


@pytest.mark.req("MS-156")
@pytest.mark.parametrize(
    ("application", "service", "port"),
    [
        ("openclaw", "openclaw-demo", 18789),
        ("hermes", "hermes-demo", 9119),
        ("paperclip", "paperclip-demo", 3100),
        ("kubeopencode", "demo", 4096),
        ("odysseus", "odysseus-demo", 7000),
    ],
)
def test_each_application_is_reached_at_the_service_and_port_of_its_entry(
    application: str, service: str, port: int
) -> None:
    o = settled(instance(f"{application}-demo", application))

    assert len(applied(o, "HTTPRoute")) == 4
    assert backends(o) == {(service, "ai", port)}
    (grant,) = applied(o, "ReferenceGrant").values()
    assert grant["spec"]["to"] == [{"group": "", "kind": "Service", "name": service}]


@pytest.mark.req("MS-156")
@pytest.mark.parametrize(("named", "service"), [("instance", "kubeopencode-demo"), ("shortName", "demo")])
def test_another_entry_leads_the_same_instance_elsewhere(named: str, service: str) -> None:
    definition = catalog(serviceName=named, port=4711).applications["kubeopencode"]
    o = observation(entry=Entry(definition), releases=(release(),))

    assert backends(dataclasses.replace(o, live=accepted(o))) == {(service, "ai", 4711)}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"requestTimeout": "30s"}, "route.requestTimeout"),
        ({"requestTimeout": "0"}, "route.requestTimeout"),
        ({"port": 0}, "route.port"),
        ({"port": 65536}, "route.port"),
        ({"port": "http"}, "route.port"),
        ({"serviceName": "other"}, "route.serviceName"),
    ],
)
def test_e30_a_route_that_cannot_be_built_disables_its_application_alone(
    changes: dict[str, Any], field: str
) -> None:
    live, seen = instance(), InstanceWorld()
    seen.put(APP_INSTANCE, live)
    seen.catalogs.bring("applications", catalog(**changes))
    plan = decided(seen.observed(live))

    assert told(plan) == ("Degraded", "InvalidApplicationDefinition")
    assert field in message(plan)
    assert plan.steps == ()


# --- what an instance is called ---------------------------------------------------------------------


def test_e26_an_instance_that_says_nothing_has_four_routes_two_policies_and_one_grant() -> None:
    o = settled()
    routes, policies = applied(o, "HTTPRoute"), applied(o, "SecurityPolicy")

    assert (len(routes), len(policies), len(applied(o, "ReferenceGrant"))) == (4, 2, 1)
    assert routes["kubeopencode-demo-local"]["spec"]["hostnames"] == ["demo.kubeopencode.magicstick.local"]
    callback = routes["kubeopencode-demo-local-callback"]["spec"]
    path = callback["rules"][0]["matches"][0]["path"]
    assert callback["hostnames"] == ["magicstick.local"]
    assert path == {"type": "Exact", "value": "/oauth2/callback/kubeopencode-demo-local"}
    oidc = policies["kubeopencode-demo-local-sso"]["spec"]["oidc"]
    assert oidc["redirectURL"] == f"https://{callback['hostnames'][0]}{path['value']}"


@pytest.mark.parametrize(
    ("name", "application", "values", "short"),
    [
        pytest.param("kubeopencode-demo", "kubeopencode", {"name": "demo"}, "demo", id="E40 given"),
        pytest.param("kubeopencode-demo", "kubeopencode", {}, "demo", id="E40 derived"),
        pytest.param("paperclip", "paperclip", {}, "paperclip", id="E41"),
        pytest.param("hermes-a", "hermes", {"name": "Zoës Büro"}, "zoes-buro", id="accents"),
        pytest.param("hermes-a", "hermes", {"name": "büro.süd"}, "buro-sud", id="dots"),
        pytest.param("hermes-a", "hermes", {"name": "東京"}, "a", id="no plain form"),
    ],
)
def test_e40_e41_routes_release_and_status_agree_on_the_short_name(
    name: str, application: str, values: dict[str, object], short: str
) -> None:
    o = settled(instance(name, application, values=values))
    local = f"{short}.{application}.magicstick.local"

    assert hosts(o).local == local
    assert applied(o, "HTTPRoute")[f"{name}-local"]["spec"]["hostnames"] == [local]
    assert applied_release(decided(o))["spec"]["values"]["instance"]["localHost"] == local
    assert (decided(o).status or {})["url"] == f"https://{local}/"


def test_an_application_of_the_shipped_catalog_is_never_invalid() -> None:
    assert not APPLICATIONS.invalid
    assert set(APPLICATIONS.applications) == set(SHIPPED["applications"])
