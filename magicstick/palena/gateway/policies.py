"""The NetworkPolicies of a gateway: nothing is let in, save on the paths that it needs (spec: palena §4.5).

Only ingress is restricted: LiteLLM has to reach providers, the name service and the API server. Each rule
opens exactly one path; policies add up, so none may be wider than its path.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.palena.common.owners import Describe, Object
from magicstick.palena.gateway import names

OPERATOR_OF_CLUSTERS: Final = {"app.kubernetes.io/name": "cloudnative-pg"}
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Reach:
    """What decides which paths there are."""

    gateway: str
    namespace: str
    gateway_labels: Mapping[str, str]
    """On all Pods of the gateway; what the default-deny selects."""
    whole_namespace: bool = False
    """The default-deny reaches every Pod in the namespace, not the gateway's alone."""
    database: bool = True
    """The gateway has a Cluster of its own."""
    redis: bool = True
    """The gateway has a Redis of its own."""
    redis_labels: Mapping[str, str] | None = None
    """What selects Redis; needed with `redis`."""
    ingress_from: tuple[Mapping[str, Any], ...] = ()
    """Who may use LiteLLM; empty for anyone."""
    cnpg_namespace: str = "cnpg-system"
    litellm_operator_namespace: str = "litellm-operator-system"


def policies(reach: Reach, describe: Describe) -> tuple[Object, ...]:
    """All NetworkPolicies that there are to be, the one that denies first."""
    made = [_default_deny(reach, describe), _ingress_to_litellm(reach, describe)]
    if reach.database:
        made += [_litellm_to_postgres(reach, describe), _cnpg_internal(reach, describe)]
    if reach.redis:
        made.append(_litellm_to_redis(reach, describe))
    return tuple(made)


def policy_names(gateway: str) -> frozenset[str]:
    """Of every policy that a gateway may ever have."""
    return frozenset(
        names.policy(gateway, path)
        for path in (
            DEFAULT_DENY,
            INGRESS_TO_LITELLM,
            LITELLM_TO_POSTGRES,
            CNPG_INTERNAL,
            LITELLM_TO_REDIS,
        )
    )


DEFAULT_DENY: Final = "default-deny"
INGRESS_TO_LITELLM: Final = "ingress-to-litellm"
LITELLM_TO_POSTGRES: Final = "litellm-to-postgres"
CNPG_INTERNAL: Final = "cnpg-internal"
LITELLM_TO_REDIS: Final = "litellm-to-redis"


def _default_deny(reach: Reach, describe: Describe) -> Object:
    selector = {} if reach.whole_namespace else _labels(reach.gateway_labels)
    return _policy(describe(names.policy(reach.gateway, DEFAULT_DENY), "network-policy"), selector)


def _litellm_to_postgres(reach: Reach, describe: Describe) -> Object:
    return _policy(
        describe(names.policy(reach.gateway, LITELLM_TO_POSTGRES), "network-policy"),
        _postgres(reach),
        _rule([{"podSelector": _litellm(reach)}], names.POSTGRES_PORT),
    )


def _cnpg_internal(reach: Reach, describe: Describe) -> Object:
    """Without it neither replication nor the health checks of CloudNativePG get through."""
    operator = {
        "namespaceSelector": _labels({NAMESPACE_NAME: reach.cnpg_namespace}),
        "podSelector": _labels(OPERATOR_OF_CLUSTERS),
    }
    ports = (names.POSTGRES_PORT, names.INSTANCE_MANAGER_PORT)
    return _policy(
        describe(names.policy(reach.gateway, CNPG_INTERNAL), "network-policy"),
        _postgres(reach),
        _rule([{"podSelector": _postgres(reach)}], *ports),
        _rule([operator], *ports),
    )


def _litellm_to_redis(reach: Reach, describe: Describe) -> Object:
    return _policy(
        describe(names.policy(reach.gateway, LITELLM_TO_REDIS), "network-policy"),
        _labels(reach.redis_labels or {}),
        _rule([{"podSelector": _litellm(reach)}], names.REDIS_PORT),
    )


def _ingress_to_litellm(reach: Reach, describe: Describe) -> Object:
    """Whoever may, and always its own namespace and LiteLLM's operator, which syncs the models."""
    peers: list[Mapping[str, Any]] = []
    if reach.ingress_from:
        near: Object = {"podSelector": {}}
        operator = {"namespaceSelector": _labels({NAMESPACE_NAME: reach.litellm_operator_namespace})}
        peers = [*reach.ingress_from, near, operator]
    return _policy(
        describe(names.policy(reach.gateway, INGRESS_TO_LITELLM), "network-policy"),
        _litellm(reach),
        _rule(peers, names.LITELLM_PORT),
    )


def _policy(metadata: Object, selector: Object, *rules: Object) -> Object:
    spec: Object = {"podSelector": selector, "policyTypes": ["Ingress"]}
    if rules:
        spec["ingress"] = list(rules)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def _rule(peers: Iterable[Mapping[str, Any]], *ports: int) -> Object:
    rule: Object = {"ports": [{"protocol": "TCP", "port": port} for port in ports]}
    if sources := list(peers):
        rule["from"] = sources
    return rule


def _labels(labels: Mapping[str, str]) -> Object:
    return {"matchLabels": dict(labels)}


def _litellm(reach: Reach) -> Object:
    return _labels({names.LITELLM_INSTANCE: names.instance(reach.gateway)})


def _postgres(reach: Reach) -> Object:
    return _labels({names.CNPG_CLUSTER: names.cluster(reach.gateway)})
