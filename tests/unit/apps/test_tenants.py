"""Namespaces that Paperclip makes: whose they are, and what is put into them (spec: modules-and-apps §11)."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.api.kinds import APP_INSTANCE
from magicstick.apps.kinds import LIMIT_RANGE, NETWORK_POLICY, RESOURCE_QUOTA
from magicstick.apps.tenant_objects import EGRESS, concurrent_agents
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import NAMESPACE
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Apply, Delete
from tests.support.golden import check
from tests.support.instance_objects import instance
from tests.support.instance_world import InstanceWorld, namespace
from tests.support.objects import resource

pytestmark = pytest.mark.anyio

SPACE = "paperclip-demo-acme"


def paperclip(name: str = "paperclip-demo", **spec: Any) -> Resource:
    return instance(name, "paperclip", **spec)


def tenant(name: str = SPACE, company: str = "acme", *, dying: bool = False) -> Resource:
    marks = {"paperclip.io/managed-by": "paperclip-k8s-plugin", "paperclip.io/company-id": company}
    return namespace(name, dying=dying, labels=marks)


def policy(*, ours: bool = True) -> Resource:
    metadata = {
        "name": EGRESS,
        "namespace": SPACE,
        "uid": "uid-policy",
        "resourceVersion": "1",
        "labels": {labels.MANAGED_BY: labels.OPERATOR} if ours else {},
    }
    return resource({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata})


def world(*objects: Resource) -> InstanceWorld:
    made = InstanceWorld()
    for each in objects:
        made.put(APP_INSTANCE if each.kind == "AppInstance" else NAMESPACE, each)
    return made


async def test_a_namespace_of_an_instance_is_bounded_and_closed_but_for_two_ways_out() -> None:
    plan = await world(paperclip(), tenant()).bound(SPACE)

    assert (plan.outcome, plan.status, plan.independent) == ("Bound", None, True)
    assert [each.kind for each in plan.steps if isinstance(each, Apply)] == [
        NETWORK_POLICY,
        RESOURCE_QUOTA,
        LIMIT_RANGE,
    ]
    for each in plan.steps:
        if isinstance(each, Apply):
            check(f"tenants/{each.kind.plural}", each.body)


UNOWNED: dict[str, tuple[Resource, Resource]] = {
    "an instance of almost that name": (paperclip("paperclip-dem"), tenant()),
    "an instance that is switched off": (paperclip(enabled=False), tenant()),
    "an instance that goes": (instance("paperclip-demo", "paperclip", dying=True), tenant()),
    "an instance of another application": (instance("paperclip-demo", "odysseus"), tenant()),
    "an instance of another Appliance": (paperclip(applianceRef={"name": "other"}), tenant()),
    "a namespace of another company": (paperclip(), tenant(company="other")),
    "a namespace without a company": (paperclip(), tenant(company="")),
}


@pytest.mark.parametrize("case", UNOWNED)
async def test_e49_without_an_owner_only_the_way_out_is_taken_away(case: str) -> None:
    seen = world(*UNOWNED[case])
    assert (await seen.bound(SPACE)).steps == ()
    seen.put(NETWORK_POLICY, policy())
    plan = await seen.bound(SPACE)

    assert plan.outcome == "Unowned"
    assert plan.steps == (Delete(NETWORK_POLICY, policy().metadata.key, "uid-policy"),)


async def test_a_policy_of_somebody_else_is_never_deleted() -> None:
    seen = world(tenant())
    seen.put(NETWORK_POLICY, policy(ours=False))

    assert (await seen.bound(SPACE)).steps == ()


async def test_what_is_not_paperclips_or_is_going_is_not_touched() -> None:
    seen = world(paperclip(), tenant(dying=True), namespace("ai"))

    assert (await seen.bound(SPACE)).outcome == "NotOurs"
    assert (await seen.bound("ai")).outcome == "NotOurs"


@pytest.mark.parametrize("kind", [APP_INSTANCE, NETWORK_POLICY])
async def test_a_read_that_failed_takes_nothing_away(kind: Any) -> None:
    seen = world(tenant())
    seen.put(NETWORK_POLICY, policy())
    seen.places.become(kind, InformerState.FAILING)

    plan = await seen.bound(SPACE)
    assert (plan.outcome, plan.steps) == ("Held", ())


@pytest.mark.parametrize(
    ("given", "agents"),
    [
        (2, 2),
        (0, 1),
        (-5, 1),
        (99, 10),
        ("3", 3),
        ("x", 2),
        (None, 2),
        (True, 2),
        (4.9, 4),
        (float("inf"), 2),
        ([], 2),
        ({}, 2),
    ],
)
def test_e50_the_number_of_agents_is_bounded_and_two_where_nothing_of_use_is_said(
    given: object, agents: int
) -> None:
    assert concurrent_agents({"agentExecution": {"maxConcurrentAgents": given}}) == agents


@pytest.mark.parametrize("values", [{}, {"agentExecution": None}, {"agentExecution": "x"}])
def test_without_a_section_of_agents_there_are_two(values: dict[str, Any]) -> None:
    assert concurrent_agents(values) == 2


def test_an_instance_wakes_the_namespaces_that_are_named_after_it() -> None:
    seen = world(paperclip(), tenant(), tenant("paperclip-other-acme"), namespace("ai"))

    assert seen.wakes(APP_INSTANCE, None, paperclip(), tenants=True) == [SPACE]
    assert seen.wakes(APP_INSTANCE, paperclip(), None, tenants=True) == [SPACE]
    assert seen.wakes(APP_INSTANCE, None, instance("odysseus-demo", "odysseus"), tenants=True) == []
    assert seen.wakes(NETWORK_POLICY, policy(), None, tenants=True) == [SPACE]
