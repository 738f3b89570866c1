"""The ways for Langfuse through the walls of its gateway (spec: palena §4.5).

A policy that only lets somebody in would close the Pods that it selects to everybody else, so there is none
where the gateway has no walls.
"""

from typing import Any, Final

from magicstick.api.palena.gateway import PalenaGatewaySpec
from magicstick.api.palena.observability import PalenaObservabilitySpec
from magicstick.palena.common import gateway_names, labels
from magicstick.palena.common.desired import Desired
from magicstick.palena.common.kinds import NETWORK_POLICY
from magicstick.palena.common.names import label_value
from magicstick.palena.common.owners import metadata
from magicstick.palena.observability.names import LANGFUSE
from magicstick.palena.observability.observation import ObservabilityObservation

Object = dict[str, Any]

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


def ways_in(
    o: ObservabilityObservation, spec: PalenaObservabilitySpec, gateway: PalenaGatewaySpec
) -> tuple[Desired, ...]:
    """The NetworkPolicies that there are to be beside the gateway."""
    if not gateway.network_policy.enabled:
        return ()
    made = []
    if spec.database.mode == "shared" and gateway.database.mode == "managed":
        postgres = {gateway_names.CNPG_CLUSTER: gateway_names.cluster(o.gateway.name)}
        made.append(_policy(o, o.names.to_postgres, postgres, gateway_names.POSTGRES_PORT))
    if spec.redis.mode == "shared" and gateway.redis.mode == "managed":
        redis = {labels.NAME: "redis", labels.INSTANCE: label_value(o.gateway.name)}
        made.append(_policy(o, o.names.to_redis, redis, gateway_names.REDIS_PORT))
    return tuple(made)


def _policy(o: ObservabilityObservation, name: str, selected: dict[str, str], port: int) -> Desired:
    langfuse = {labels.NAME: LANGFUSE, labels.INSTANCE: o.names.langfuse}
    peer: Object = {"podSelector": {"matchLabels": langfuse}}
    if o.elsewhere:
        peer["namespaceSelector"] = {"matchLabels": {NAMESPACE_NAME: o.namespace}}
    spec = {
        "podSelector": {"matchLabels": selected},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [peer], "ports": [{"protocol": "TCP", "port": port}]}],
    }
    described = metadata(o.owner, name, LANGFUSE, role="network-policy", namespace=o.gateway.namespace)
    body = {
        "apiVersion": NETWORK_POLICY.api_version,
        "kind": NETWORK_POLICY.kind,
        "metadata": described,
        "spec": spec,
    }
    return Desired(NETWORK_POLICY, body, o.at_gateway(NETWORK_POLICY, name))
