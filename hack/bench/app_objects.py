"""The synthetic instances that are measured, and what the cluster says of what is made for them.

The five applications take turns, and for each of them the five ways in which people are let in.
"""

from collections.abc import Mapping
from typing import Any, Final

from hack.bench.objects import AI_NAMESPACE, GROUP, HELM, IDENTITY_NAMESPACE, OPERATOR_NAMESPACE, STAMP

INSTANCES: Final = f"/apis/{GROUP}/namespaces/{OPERATOR_NAMESPACE}/appinstances"
RELEASES: Final = f"/apis/{HELM}/namespaces/{OPERATOR_NAMESPACE}/helmreleases"
ROUTES: Final = f"/apis/gateway.networking.k8s.io/v1/namespaces/{IDENTITY_NAMESPACE}/httproutes"
POLICIES: Final = f"/apis/gateway.envoyproxy.io/v1alpha1/namespaces/{IDENTITY_NAMESPACE}/securitypolicies"
GRANTS: Final = f"/apis/gateway.networking.k8s.io/v1beta1/namespaces/{AI_NAMESPACE}/referencegrants"
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


def instance_name(number: int) -> str:
    """Of the n-th instance."""
    return f"{APPLICATIONS[number % len(APPLICATIONS)]}-{number:05d}"


def instance(number: int, **spec: Any) -> dict[str, Any]:
    """The AppInstance of this number."""
    turn = number // len(APPLICATIONS) % len(ACCESS)
    content = {
        "application": APPLICATIONS[number % len(APPLICATIONS)],
        "targetNamespace": AI_NAMESPACE,
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
        "lastTransitionTime": STAMP,
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
        "lastTransitionTime": STAMP,
    }
    gateway = {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": "identity-pilot",
        "namespace": IDENTITY_NAMESPACE,
    }
    controller = "gateway.envoyproxy.io/gatewayclass-controller"
    ancestor = {"ancestorRef": gateway, "controllerName": controller, "conditions": [condition]}
    return {"status": {"ancestors": [ancestor]}}
