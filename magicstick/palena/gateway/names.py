"""What the objects of a gateway are called (spec: palena §4.4, §4.5, §10).

The infix keeps them apart from everything else in the namespace. A gateway's name has at most 30
characters, so that none of these, and nothing that operators derive from them, becomes too long.
"""

from typing import Final

from magicstick.palena.common.gateway_names import (
    CNPG_CLUSTER,
    POSTGRES_PORT,
    REDIS_PORT,
    cluster,
    instance,
    redis,
)

__all__ = [
    "CNPG_CLUSTER",
    "POSTGRES_PORT",
    "REDIS_PORT",
    "cluster",
    "instance",
    "redis",
]

INSTANCE_MANAGER_PORT: Final = 8000
"""Where CloudNativePG asks each of its Pods how it is."""
LITELLM_PORT: Final = 4000

LITELLM_INSTANCE: Final = "litellm.palena.ai/instance"
"""On every Pod that the LiteLLM operator makes for an instance, migration Jobs included."""

PASSWORD: Final = "password"  # noqa: S105 - the name of a key
URL: Final = "url"
HOST: Final = "host"
PORT: Final = "port"
MASTER_KEY: Final = "master-key"
SALT_KEY: Final = "salt-key"
KEYS_SUFFIX: Final = "-keys"
CONNECTION_URI: Final = "uri"
"""The key of a Cluster's Secret that LiteLLM reads."""


def connection_secret(gateway: str) -> str:
    """The Secret in which CloudNativePG says how to connect."""
    return f"{cluster(gateway)}-app"


def redis_headless(gateway: str) -> str:
    """The Service that gives the StatefulSet's Pod its name."""
    return f"{redis(gateway)}-headless"


def redis_claim(gateway: str) -> str:
    """The volume that the StatefulSet makes for its one Pod."""
    return f"data-{redis(gateway)}-0"


def redis_host(gateway: str, namespace: str) -> str:
    """Under which name Redis is reached from everywhere in the cluster."""
    return f"{redis(gateway)}.{namespace}.svc"


def keys_secret(gateway: str) -> str:
    """The Secret of LiteLLM's master key and salt."""
    return f"{instance(gateway)}{KEYS_SUFFIX}"


def policy(gateway: str, path: str) -> str:
    """The NetworkPolicy for one path."""
    return f"{gateway}-palena-{path}"
