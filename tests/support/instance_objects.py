"""What tests build of instances: the instance, its release, what is observed, and what a plan says."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hack import yamls
from magicstick.api import labels
from magicstick.api.app_instance import AppInstanceSpec, AppInstanceStatus
from magicstick.api.appliance import Source
from magicstick.api.kinds import HELM_RELEASE
from magicstick.api.parse import parse, read_status
from magicstick.apps.decide import decide
from magicstick.apps.gateway.plan import wanted
from magicstick.apps.gateway.routes import closed_live
from magicstick.apps.kinds import HTTP_ROUTE
from magicstick.apps.observation import Entry, InstanceObservation, Place, RequiredModule
from magicstick.apps.ports import LiveAccess, Piece
from magicstick.apps.status import HEALTHY
from magicstick.apps.way_in import access
from magicstick.catalogs.applications import ApplicationCatalog
from magicstick.kube.objects import Resource
from magicstick.modules.facts import READY, Gap, not_ready
from magicstick.runtime.conditions import check_conditions, conditions_of, find
from magicstick.runtime.plan import Apply, Create, Delete, Plan, Step
from tests.support import gateway_objects
from tests.support.gateway_objects import DOMAINS, bodies
from tests.support.manifests import MANIFESTS
from tests.support.objects import resource

Object = dict[str, Any]

NAME: Final = "kubeopencode-demo"
HOME: Final = "ai-system"
SHIPPED: Final[Mapping[str, Any]] = yamls.load(
    (MANIFESTS.parent / "catalogs" / "applications.yaml").read_text()
)
APPLICATIONS: Final = ApplicationCatalog.parse(json.dumps(SHIPPED))
SOURCE: Final = Source(kind="GitRepository", name="flux-system", namespace="flux-system")

LOCAL: Final = "https://demo.kubeopencode.magicstick.local/"
PUBLIC: Final = "https://demo.kubeopencode.magicstick.example.com/"
OPEN: Final = (LOCAL, LOCAL, PUBLIC, "sso", "user", True)
"""What `served` says of a settled instance."""
BLANK: Final = ("", "", "", "", "", False)
WAITED: Final = (RequiredModule("litellm", not_ready(Gap.DISABLED)),)
"""A required module that is disabled."""
REPORTED: Final[dict[str, Any]] = {
    "phase": "Ready",
    "url": LOCAL,
    "localURL": LOCAL,
    "publicURL": PUBLIC,
    "authentication": "sso",
    "requiredRole": "user",
    "accessGuardReady": True,
}
ROUTES: Final = [f"{NAME}-local", f"{NAME}-local-callback", f"{NAME}-public", f"{NAME}-public-callback"]
CLOSING: Final = [f"apply HTTPRoute {each} closed" for each in ROUTES]
REMOVING: Final = [f"delete HTTPRoute {each}" for each in ROUTES]
"""What `steps` says where each open route of the instance is closed, or goes."""


def instance(
    name: str = NAME,
    application: str = "kubeopencode",
    *,
    dying: bool = False,
    generation: int = 1,
    finalizer: bool = True,
    created: str = "2026-01-01T00:00:00Z",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Resource:
    """An AppInstance as the server holds it."""
    metadata: Object = {
        "name": name,
        "namespace": HOME,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": generation,
        "creationTimestamp": created,
        "finalizers": [labels.INSTANCE_FINALIZER] if finalizer else [],
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    return resource(
        {
            "apiVersion": "appliance.magicstick.dev/v1alpha1",
            "kind": "AppInstance",
            "metadata": metadata,
            "spec": {"application": application, **spec},
            "status": dict(status or {}),
        }
    )


def release(
    name: str = NAME,
    *,
    instance_name: str | None = None,
    generation: int = 1,
    dying: bool = False,
    suspend: bool = False,
    conditions: object = None,
    foreign: bool = False,
    status: Mapping[str, Any] | None = None,
) -> Resource:
    """A HelmRelease as the server holds it; installed and Ready unless told otherwise."""
    metadata: Object = {
        "name": name,
        "namespace": HOME,
        "uid": f"uid-release-{name}",
        "resourceVersion": "1",
        "generation": generation,
        "labels": {}
        if foreign
        else {
            labels.MANAGED_BY: labels.OPERATOR,
            labels.INSTANCE: instance_name or name,
            labels.APPLICATION: "kubeopencode",
        },
    }
    if dying:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    told = [ready("True", "InstallSucceeded", generation)] if conditions is None else conditions
    return resource(
        {
            "apiVersion": HELM_RELEASE.api_version,
            "kind": HELM_RELEASE.kind,
            "metadata": metadata,
            "spec": {"interval": "10m0s", "releaseName": name, "suspend": suspend, "values": {"a": 1}},
            "status": {"observedGeneration": generation, "conditions": told}
            if status is None
            else dict(status),
        }
    )


def ready(status: str, reason: str = "", generation: int = 1, message: str = "said so") -> Object:
    """A condition Ready as Flux writes it."""
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def observation(live: Resource | None = None, /, **changes: Any) -> InstanceObservation:
    """An instance for which all is there but what is made for it."""
    found = live or instance()
    application = str(found.spec.get("application"))
    definition = APPLICATIONS.applications.get(application)
    required = definition.required_modules if definition is not None else ()
    o = InstanceObservation(
        found,
        parse(AppInstanceSpec, found),
        read_status(AppInstanceStatus, found),
        entry=Entry(definition),
        domains=DOMAINS,
        modules=tuple(RequiredModule(each, READY) for each in required),
        source=SOURCE,
        place=Place(),
    )
    return dataclasses.replace(o, **changes)


def settled(live: Resource | None = None, /, **changes: Any) -> InstanceObservation:
    """An instance of which everything is made, installed and accepted."""
    o = observation(live)
    return dataclasses.replace(o, **{"releases": (release(o.name),), "live": accepted(o), **changes})


def accepted(o: InstanceObservation) -> LiveAccess:
    """The whole way in as it is wanted, open and accepted."""
    assert isinstance(o.spec, AppInstanceSpec)
    assert o.definition is not None
    made = bodies(wanted(access(o, o.spec, o.definition), o.gateway))
    return gateway_objects.live(*map(gateway_objects.stored, made.values()))


def closed(piece: Piece) -> Piece:
    """The piece; a route leads nowhere."""
    if piece.kind != HTTP_ROUTE:
        return piece
    spec = closed_live(piece.live)["spec"]
    return dataclasses.replace(piece, live=msgspec.structs.replace(piece.live, spec=spec))


# --- what a plan says --------------------------------------------------------------------------------


def decided(o: InstanceObservation) -> Plan:
    """The plan, which never makes anything for an instance that nobody wants, nor deletes a wanted release."""
    plan = decide(o)
    if o.dying or not o.enabled:
        assert not [step for step in plan.steps if isinstance(step, Create)]
    if not o.dying:
        assert not [step for step in plan.steps if isinstance(step, Delete) and step.kind == HELM_RELEASE]
    return plan


def told(plan: Plan) -> tuple[str, str]:
    """(phase, reason) of the plan's status, which is well formed."""
    status = status_of(plan)
    conditions = [{**each, "lastTransitionTime": "x"} for each in status["conditions"]]
    generation = status["observedGeneration"]
    obj = {"metadata": {"generation": generation}, "status": {**status, "conditions": conditions}}
    assert check_conditions(obj) == []
    verdict = find(conditions_of(status), "Ready") or {}
    assert (verdict["status"] == "True") == (status["phase"] in HEALTHY)
    assert verdict["message"] == status["message"]
    return str(status["phase"]), str(verdict["reason"])


def status_of(plan: Plan) -> Mapping[str, Any]:
    assert plan.status is not None
    return plan.status


def message(plan: Plan) -> str:
    return str(status_of(plan)["message"])


def served(plan: Plan) -> tuple[object, ...]:
    """(url, localURL, publicURL, authentication, requiredRole, accessGuardReady) of the plan's status."""
    status = status_of(plan)
    fields = ("url", "localURL", "publicURL", "authentication", "requiredRole", "accessGuardReady")
    return tuple(status[field] for field in fields)


def steps(plan: Plan) -> list[str]:
    """What the plan does, a line a step: `apply HelmRelease demo`."""
    return [_step(each) for each in plan.steps]


def _step(step: Step) -> str:
    match step:
        case Delete():
            return f"delete {step.kind.kind} {step.key.name}"
        case Apply() | Create():
            verb = type(step).__name__.lower()
            name = step.body["metadata"]["name"]
            detail = _detail(step.body)
            return f"{verb} {step.kind.kind} {name}{detail}"
        case _:
            raise AssertionError(f"a plan for an instance holds {step}")


def _detail(body: Mapping[str, Any]) -> str:
    if body["kind"] == "HTTPRoute":
        return "" if any(rule["backendRefs"] for rule in body["spec"]["rules"]) else " closed"
    if body["kind"] == HELM_RELEASE.kind:
        return " suspended" if body["spec"]["suspend"] else ""
    return ""


def applied_release(plan: Plan) -> Mapping[str, Any]:
    """The HelmRelease that the plan applies."""
    (found,) = [each.body for each in plan.steps if isinstance(each, Apply) and each.kind == HELM_RELEASE]
    return found
