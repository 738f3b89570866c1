"""What tests read of an observability that was decided on, and do to what is around it."""

from typing import Any, Final

from magicstick.api.kinds import CNPG_CLUSTER, CNPG_DATABASE_ROLE, LANGFUSE_INSTANCE, PALENA_OBSERVABILITY
from tests.support.palena_consumers import ObservabilityScene, observability
from tests.support.palena_objects import GATEWAY, HOME

NAME: Final = "obs-langfuse"
KEYS: Final = "obs-langfuse-apikeys"
CLUSTER: Final = f"{GATEWAY}-palena-pg"
INSTANCE: Final = f"{GATEWAY}-palena-litellm"
THREE: Final = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_HOST")
OWN_ENV: Final = {"name": "OTEL_ENDPOINT", "value": "http://collector.example.com"}


def variables(secret_name: str = KEYS) -> list[Any]:
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name, "key": name}}} for name in THREE
    ]


LISTS: Final = {"types": ["langfuse"], "envVars": variables()}


def without_roles(scene: ObservabilityScene) -> None:
    """The Cluster's own list is the only place for roles."""
    scene.world.absent(CNPG_DATABASE_ROLE)


def roles(scene: ObservabilityScene) -> Any:
    return scene.must(CNPG_CLUSTER, CLUSTER, HOME).spec.get("managed", {}).get("roles")


def langfuse(scene: ObservabilityScene) -> Any:
    return scene.must(LANGFUSE_INSTANCE, NAME).spec


def rival(scene: ObservabilityScene, name: str, *, made: str, namespace: str = HOME, **spec: Any) -> None:
    body = observability(name, namespace=namespace, **spec)
    body["metadata"]["creationTimestamp"] = made
    scene.world.put(PALENA_OBSERVABILITY, body)
