"""What those around a gateway have to know of the names of its objects (spec: palena §4.4).

The infix keeps them apart from everything else in the namespace.
"""

from typing import Final

POSTGRES_PORT: Final = 5432
REDIS_PORT: Final = 6379

CNPG_CLUSTER: Final = "cnpg.io/cluster"
"""On every Pod that CloudNativePG makes for a Cluster."""

_CLUSTER: Final = "-palena-pg"
_INSTANCE: Final = "-palena-litellm"


def cluster(gateway: str) -> str:
    """The CloudNativePG Cluster."""
    return f"{gateway}{_CLUSTER}"


def redis(gateway: str) -> str:
    """Redis: its StatefulSet, its Service and its Secret."""
    return f"{gateway}-palena-redis"


def instance(gateway: str) -> str:
    """The LiteLLMInstance, and therefore LiteLLM's Deployment and Service."""
    return f"{gateway}{_INSTANCE}"


def gateway_of(name: str) -> str:
    """The gateway whose Cluster or LiteLLMInstance is called so; "" for any other name."""
    for suffix in (_CLUSTER, _INSTANCE):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return ""
