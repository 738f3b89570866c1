"""What installs an instance, compared as a whole for every application that is shipped (spec: §8.5)."""

import copy
import dataclasses
from typing import Any

import pytest
import yaml

from magicstick.api.appliance import Source
from magicstick.apps.objects import with_suspension
from tests.support.golden import check
from tests.support.instance_objects import APPLICATIONS, applied_release, decided, instance, observation
from tests.support.objects import resource


@pytest.mark.req("MS-234", "MS-211", "MS-212", "MS-016")
@pytest.mark.parametrize("application", sorted(APPLICATIONS.applications))
def test_each_application_has_a_release_in_the_exact_shape(application: str) -> None:
    values = {"name": "demo", "model": "openai/example"}
    live = instance(f"{application}-demo", application, values=values)

    check(f"apps/{application}", applied_release(decided(observation(live))))


def test_the_shape_is_that_of_the_specification() -> None:
    body = applied_release(decided(observation(instance(values={"name": "demo"}))))

    assert body["spec"]["install"] == {
        "createNamespace": True,
        "strategy": {"name": "RetryOnFailure", "retryInterval": "1m0s"},
    }
    assert body["spec"]["chart"]["spec"] == {
        "chart": "./charts/kubeopencode",
        "interval": "10m0s",
        "reconcileStrategy": "Revision",
        "sourceRef": {"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"},
    }
    assert {"version", "dependsOn", "valuesFrom"}.isdisjoint(body["spec"])
    assert "annotations" not in body["metadata"]


def test_a_flux_that_cannot_retry_is_not_asked_to() -> None:
    spec = applied_release(decided(observation(retries=False)))["spec"]

    assert spec["install"] == {"createNamespace": True}
    assert spec["upgrade"] == {"cleanupOnFail": True}


@pytest.mark.req("MS-212")
def test_the_chart_comes_from_the_appliances_source() -> None:
    source = Source(kind="GitRepository", name="mine", namespace="elsewhere")
    chart = applied_release(decided(observation(source=source)))["spec"]["chart"]["spec"]

    assert chart["sourceRef"] == {"kind": "GitRepository", "name": "mine", "namespace": "elsewhere"}


INGRESSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing is given": (
        {},
        {"ingress": {"enabled": False, "host": "H"}, "server": {"ingress": {"enabled": False, "host": "H"}}},
    ),
    "hosts and more are given": (
        {
            "ingress": {"enabled": True, "host": "mine.example.com", "className": "nginx"},
            "server": {"replicas": 2, "ingress": {"enabled": True, "host": "mine.example.com"}},
        },
        {
            "ingress": {"enabled": False, "host": "H", "className": "nginx"},
            "server": {"replicas": 2, "ingress": {"enabled": False, "host": "H"}},
        },
    ),
    "what should be an object is none": (
        {"ingress": True, "server": ["x"]},
        {"ingress": {"enabled": False, "host": "H"}, "server": {"ingress": {"enabled": False, "host": "H"}}},
    ),
}


@pytest.mark.req("MS-216")
@pytest.mark.parametrize("case", INGRESSES)
def test_e39_no_chart_opens_a_way_in_of_its_own(case: str) -> None:
    given, expected = INGRESSES[case]
    live = instance(values=given, access={"exposure": "local"})
    before = copy.deepcopy(live.spec)
    made = applied_release(decided(observation(live)))["spec"]["values"]["instance"]

    assert yaml.safe_dump(made["values"]).replace(made["publicHost"], "H") == yaml.safe_dump(expected)
    assert live.spec == before, "E51: the instance is never changed"
    assert made["publicHost"] == "demo.kubeopencode.magicstick.example.com"


@pytest.mark.parametrize("suspend", [True, False])
def test_a_suspension_changes_nothing_else(*, suspend: bool) -> None:
    made = applied_release(decided(observation()))
    live = resource({**made, "metadata": {**made["metadata"], "uid": "u"}})

    assert with_suspension(live, suspend=suspend) == {**made, "spec": {**made["spec"], "suspend": suspend}}


def test_a_release_is_made_from_its_values_alone() -> None:
    o = observation()
    first, second = applied_release(decided(o)), applied_release(decided(dataclasses.replace(o)))

    assert first == second
