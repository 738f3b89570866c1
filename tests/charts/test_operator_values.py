"""The charts take what the operator hands over, and answer where its routes lead."""

from collections.abc import Mapping
from typing import Any

import pytest

from magicstick.api.appliance import Source
from magicstick.apps.gateway.hosts import hosts_of, short_name
from magicstick.apps.objects import Release, helm_release
from magicstick.apps.ports import Domains
from tests.charts.rendering import APPS, CHARTS, ROOT, Object, named, one, parsed, text
from tests.charts.test_contract import DASHBOARD
from tests.support.shipped import APPLICATIONS

DOMAINS = Domains(mdns="example.local", public="example.com", dashboard="dashboard.example.com")

every_app = pytest.mark.parametrize("app", APPS)


def handed_over(app: str, name: str, values: Mapping[str, Any], target: str = "ai") -> Object:
    """`spec.values` of the HelmRelease that the operator makes for an instance."""
    release = Release(
        name=name,
        home="ai-system",
        target=target,
        application=app,
        chart_path=APPLICATIONS.applications[app].chart_path,
        source=Source(kind="GitRepository", name="flux-system"),
        hosts=hosts_of(short_name(name, app, values), app, DOMAINS),
        values=values,
    )
    made = helm_release(release)["spec"]
    assert ROOT / made["chart"]["spec"]["chart"] == CHARTS / app
    given: Object = made["values"]
    return given


def service_port(app: str, name: str, objects: list[Object]) -> tuple[str, int]:
    """Name and port of the Service that an instance is reached by, as far as its objects say."""
    match app:
        case "openclaw":  # the operator's own, of the instance's name and always this port
            return name, 18789
        case "hermes":
            ports = one(objects, "HermesInstance", name)["spec"]["networking"]["service"]["ports"]
            return name, named(ports, "dashboard")["port"]
        case "paperclip":
            return name, one(objects, "Instance", name)["spec"]["networking"]["service"]["port"]
        case "kubeopencode":  # the controller's, of the agent's name and by default this port
            return one(objects, "Agent")["metadata"]["name"], 4096
        case _:
            return name, one(objects, "Service", name)["spec"]["ports"][0]["port"]


@every_app
@pytest.mark.parametrize(
    ("name", "values"),
    [("{app}-demo", {}), ("{app}-demo", {"name": "Öther One"}), ("plain", {"name": "plain"}), ("{app}", {})],
)
def test_an_instance_is_reached_where_its_route_leads(app: str, name: str, values: Object) -> None:
    name = name.format(app=app)
    route = APPLICATIONS.applications[app].route
    short = short_name(name, app, values)
    objects = parsed(text(app, handed_over(app, name, {**DASHBOARD[app], **values})))
    service, port = service_port(app, name, objects)

    assert service == (short if route.service_name == "shortName" else name)
    assert port == route.port


@every_app
@pytest.mark.parametrize("target", ["ai", "team-a"])
def test_an_instance_lives_in_the_namespace_that_it_asks_for(app: str, target: str) -> None:
    objects = parsed(text(app, handed_over(app, f"{app}-demo", {}, target)))

    assert {obj["metadata"].get("namespace", target) for obj in objects} == {target}


@every_app
def test_an_ingress_of_a_user_is_closed_by_the_operator_and_ignored_by_the_chart(app: str) -> None:
    asked = {"ingress": {"enabled": True, "host": "mine.example.com"}}
    values = handed_over(app, f"{app}-demo", {**DASHBOARD[app], **asked})

    assert "mine.example.com" not in text(app, values)


def test_paperclip_knows_the_public_host_that_the_operator_fills_in() -> None:
    objects = parsed(text("paperclip", handed_over("paperclip", "paperclip-demo", {})))

    assert one(objects, "Instance")["spec"]["deployment"]["allowedHostnames"] == [
        "demo.paperclip.example.com",
        "demo.paperclip.example.local",
        "localhost",
        "127.0.0.1",
    ]
