"""Plans of instances for an empty cluster, in which the platform is taken to be there."""

from typing import Any

import pytest

from magicstick.plan.changes import Action
from magicstick.plan.rehearsal import Plan
from tests.unit.plan.conftest import Planned, body_of

pytestmark = pytest.mark.anyio

APPS = ("openclaw", "hermes", "paperclip", "kubeopencode", "odysseus")

SOURCE = {"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"}
APPLIANCE = body_of("Appliance", "local", spec={"source": SOURCE})


def instance(app: str, **spec: Any) -> dict[str, Any]:
    return body_of("AppInstance", f"{app}-demo", spec={"application": app, **spec})


def made(plan: Plan, kind: str) -> dict[str, Any]:
    """Objects of a kind that the operator would create, by name."""
    return {
        each.key.name: each.body
        for each in plan.derived
        if each.kind.kind == kind and each.action is Action.CREATE
    }


@pytest.mark.parametrize("app", APPS)
async def test_an_instance_is_planned_to_the_point_at_which_the_gateway_has_to_speak(
    planned: Planned, app: str
) -> None:
    plan = await planned(APPLIANCE, instance(app))
    (standing,) = [each for each in plan.standings if each.key.name == f"{app}-demo"]
    assert (standing.phase, standing.reason) == ("Reconciling", "WaitingForAccessGuard")
    release = made(plan, "HelmRelease")[f"{app}-demo"]
    assert release["spec"]["chart"]["spec"]["chart"] == f"./charts/{app}"
    assert release["spec"]["install"]["strategy"] == {"name": "RetryOnFailure", "retryInterval": "1m0s"}
    assert len(made(plan, "SecurityPolicy")) == 2
    routes = made(plan, "HTTPRoute")
    assert len(routes) == 4
    assert not any(rule["backendRefs"] for route in routes.values() for rule in route["spec"]["rules"])


async def test_without_its_modules_an_instance_waits_for_them_and_for_no_kind(planned: Planned) -> None:
    plan = await planned(APPLIANCE, instance("odysseus"), assume=())
    (standing,) = [each for each in plan.standings if each.key.name == "odysseus-demo"]
    assert standing.phase == "WaitingForModules"
    assert not made(plan, "HelmRelease")
    assert not made(plan, "HTTPRoute")
