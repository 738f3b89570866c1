"""Builders of what binds a namespace that Paperclip made. Values in, plain dicts out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.api import labels
from magicstick.apps.kinds import LIMIT_RANGE, NETWORK_POLICY, RESOURCE_QUOTA
from magicstick.kube.kinds import Kind

Object = dict[str, Any]

MANAGED_BY: Final = "paperclip.io/managed-by"
PLUGIN: Final = "paperclip-k8s-plugin"
"""The value of `MANAGED_BY` on what Paperclip itself makes, and by which it knows it again."""
COMPANY: Final = "paperclip.io/company-id"
ROLE: Final = "paperclip.io/role"

EGRESS: Final = "magicstick-paperclip-runtime-egress"
QUOTA: Final = "paperclip-quota"
LIMITS: Final = "paperclip-limits"

LITELLM_PORT: Final = 4000
SERVER_PORT: Final = 3100
DEFAULT_AGENTS: Final = 2
MOST_AGENTS: Final = 10


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace of Paperclip's, and the instance that it belongs to."""

    namespace: str
    company: str
    instance: str
    target: str
    """Where the instance runs."""
    litellm_namespace: str
    agents: int
    """How many may run at once."""


def concurrent_agents(values: Mapping[str, Any]) -> int:
    """How many agents the values of an instance allow: 1 to 10, 2 where they say nothing of use."""
    execution = values.get("agentExecution")
    given = execution.get("maxConcurrentAgents") if isinstance(execution, Mapping) else None
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return DEFAULT_AGENTS
    try:
        return min(max(int(given), 1), MOST_AGENTS)
    except (ValueError, OverflowError):
        return DEFAULT_AGENTS


def egress(tenant: Tenant) -> Object:
    """Agents reach LiteLLM and their own Paperclip server, and nothing else by our doing."""
    server = {
        "app.kubernetes.io/name": "paperclip",
        "app.kubernetes.io/instance": tenant.instance,
        "app.kubernetes.io/component": "server",
    }
    spec = {
        "podSelector": {"matchLabels": {ROLE: "agent"}},
        "policyTypes": ["Egress"],
        "egress": [
            _to(tenant.litellm_namespace, {"app": "litellm"}, LITELLM_PORT),
            _to(tenant.target, server, SERVER_PORT),
        ],
    }
    return _object(NETWORK_POLICY, EGRESS, tenant, spec)


def quota(tenant: Tenant) -> Object:
    """What all agents together may use."""
    count = tenant.agents
    hard = {
        "pods": str(count),
        "requests.cpu": f"{count * 500}m",
        "requests.memory": f"{count}Gi",
        "limits.cpu": str(2 * count),
        "limits.memory": f"{4 * count}Gi",
    }
    return _object(RESOURCE_QUOTA, QUOTA, tenant, {"hard": hard})


def limits(tenant: Tenant) -> Object:
    """What one container may use, and what it gets without asking."""
    most = {"cpu": "2", "memory": "4Gi"}
    container = {
        "type": "Container",
        "defaultRequest": {"cpu": "500m", "memory": "1Gi"},
        "default": most,
        "min": {"cpu": "100m", "memory": "128Mi"},
        "max": most,
    }
    return _object(LIMIT_RANGE, LIMITS, tenant, {"limits": [container]})


def _to(namespace: str, pods: Mapping[str, str], port: int) -> Object:
    return {
        "to": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "podSelector": {"matchLabels": dict(pods)},
            }
        ],
        "ports": [{"protocol": "TCP", "port": port}],
    }


def _object(kind: Kind, name: str, tenant: Tenant, spec: Object) -> Object:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": tenant.namespace,
            "labels": {
                labels.MANAGED_BY: labels.OPERATOR,
                labels.INSTANCE: tenant.instance,
                COMPANY: tenant.company,
                MANAGED_BY: PLUGIN,
            },
        },
        "spec": spec,
    }
