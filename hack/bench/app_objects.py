"""The synthetic instances that are measured, and what the cluster says of what is made for them.

The five applications take turns, and for each of them the five ways in which people are let in.
"""

from collections.abc import Mapping
from typing import Any, Final

from hack.bench.objects import GROUP, OPERATOR_NAMESPACE

SPACE: Final = "ai"
IDENTITY: Final = "identity-system"
INSTANCES: Final = f"/apis/{GROUP}/namespaces/{OPERATOR_NAMESPACE}/appinstances"
RELEASES: Final = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{OPERATOR_NAMESPACE}/helmreleases"
ROUTES: Final = f"/apis/gateway.networking.k8s.io/v1/namespaces/{IDENTITY}/httproutes"
POLICIES: Final = f"/apis/gateway.envoyproxy.io/v1alpha1/namespaces/{IDENTITY}/securitypolicies"
GRANTS: Final = f"/apis/gateway.networking.k8s.io/v1beta1/namespaces/{SPACE}/referencegrants"
WAY_IN: Final = (ROUTES, POLICIES, GRANTS)
INSTANCE_LABEL: Final = "appliance.magicstick.dev/appinstance"

APPLICATIONS: Final = ("kubeopencode", "odysseus", "openclaw", "hermes", "paperclip")
ACCESS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"exposure": "local", "role": "operator"},
    {"authentication": "none"},
    {"authentication": "none", "exposure": "local"},
    {"sharing": {"mode": "selected", "users": ["person-1"], "groups": ["team"]}},
)
NOW: Final = "2026-01-01T00:00:00Z"


def instance_name(number: int) -> str:
    """Of the n-th instance."""
    return f"{APPLICATIONS[number % len(APPLICATIONS)]}-{number:05d}"


def instance(number: int, **spec: Any) -> dict[str, Any]:
    """The AppInstance of this number."""
    turn = number // len(APPLICATIONS) % len(ACCESS)
    content = {
        "application": APPLICATIONS[number % len(APPLICATIONS)],
        "targetNamespace": SPACE,
        "access": dict(ACCESS[turn]),
        "values": {"model": "openai/CHANGEME"},
        **spec,
    }
    return {
        "apiVersion": GROUP,
        "kind": "AppInstance",
        "metadata": {"name": instance_name(number), "namespace": OPERATOR_NAMESPACE},
        "spec": content,
    }


def installed(release: Mapping[str, Any]) -> dict[str, Any]:
    """What Flux says of a release that is installed as it is now."""
    generation = release["metadata"]["generation"]
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "InstallSucceeded",
        "message": "Helm install succeeded",
        "observedGeneration": generation,
        "lastTransitionTime": NOW,
    }
    return {"status": {"observedGeneration": generation, "conditions": [condition]}}


def accepted(policy: Mapping[str, Any]) -> dict[str, Any]:
    """What the gateway says of a policy that it has accepted as it is now."""
    condition = {
        "type": "Accepted",
        "status": "True",
        "reason": "Accepted",
        "message": "Policy has been accepted.",
        "observedGeneration": policy["metadata"]["generation"],
        "lastTransitionTime": NOW,
    }
    gateway = {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": "identity-pilot",
        "namespace": IDENTITY,
    }
    controller = "gateway.envoyproxy.io/gatewayclass-controller"
    ancestor = {"ancestorRef": gateway, "controllerName": controller, "conditions": [condition]}
    return {"status": {"ancestors": [ancestor]}}
