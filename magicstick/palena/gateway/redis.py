"""The Redis of a gateway: one replica behind a password, on a volume (spec: palena §4.4).

The password reaches the server by its configuration, which the shell writes to its standard input: on a
command line everybody on the node could read it, and `$(NAME)` is not expanded in the commands of probes.
redis-cli ends with 0 even when it was refused, so the probes compare its answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.api.kinds import PALENA_GATEWAY
from magicstick.palena.common import labels
from magicstick.palena.common.workloads import (
    Port,
    User,
    claim_template,
    exec_probe,
    resources,
    restricted,
    secret_env,
    selector,
    service,
    stateful_set,
    unprivileged,
)
from magicstick.palena.gateway import names

Object = dict[str, Any]

COMPONENT: Final = "redis"
PASSWORD_VARIABLE: Final = "REDIS_PASSWORD"  # noqa: S105 - the name of a variable
DATA: Final = "data"
DATA_PATH: Final = "/data"
USER: Final = User(uid=999, gid=1000, fs_group=1000)
REQUESTS: Final = {"cpu": "50m", "memory": "128Mi"}
LIMITS: Final = {"cpu": "500m", "memory": "512Mi"}
PROBE: Final = (
    "sh",
    "-c",
    f'[ "$(REDISCLI_AUTH="${PASSWORD_VARIABLE}" redis-cli -p {names.REDIS_PORT} ping)" = PONG ]',
)
LOADING_FAILURES: Final = 90
"""A large append-only file may take a quarter of an hour to load before the first PONG."""


def configuration() -> str:
    """What Redis is started with; the shell puts the password in. Langfuse's queues must not be evicted."""
    return "\n".join(
        (
            f"port {names.REDIS_PORT}",
            f"dir {DATA_PATH}",
            "appendonly yes",
            "maxmemory-policy noeviction",
            f'requirepass "${PASSWORD_VARIABLE}"',
        )
    )


def start_command() -> tuple[str, ...]:
    """`exec` lets Redis take the shell's place, so that it hears when it is to end."""
    return ("sh", "-c", f"exec redis-server - <<CONFIGURATION\n{configuration()}\nCONFIGURATION\n")


@dataclass(frozen=True, slots=True)
class RedisShape:
    """How a gateway's Redis is to be."""

    gateway: str
    image: str
    size: str
    storage_class: str
    resources: Mapping[str, Any] | None
    secret_hash: str
    """Of the password: another one restarts Redis."""
    retain: bool
    """Whether the volume outlives the StatefulSet."""


def redis_stateful_set(shape: RedisShape, metadata: Object) -> Object:
    """Its StatefulSet."""
    container: Object = {
        "name": COMPONENT,
        "image": shape.image,
        "command": list(start_command()),
        "env": [secret_env(PASSWORD_VARIABLE, names.redis(shape.gateway), names.PASSWORD)],
        "ports": [{"name": COMPONENT, "containerPort": names.REDIS_PORT, "protocol": "TCP"}],
        "startupProbe": exec_probe(PROBE, failures=LOADING_FAILURES),
        "livenessProbe": exec_probe(PROBE, failures=6),
        "readinessProbe": exec_probe(PROBE),
        "resources": resources(shape.resources, REQUESTS, LIMITS),
        "securityContext": unprivileged(),
        "volumeMounts": [{"name": DATA, "mountPath": DATA_PATH}],
    }
    pod: Object = {
        "automountServiceAccountToken": False,
        "securityContext": restricted(USER),
        "containers": [container],
    }
    claim = claim_template(DATA, shape.size, storage_class=shape.storage_class, labels=claim_labels(metadata))
    return stateful_set(
        metadata,
        pod,
        service=names.redis_headless(shape.gateway),
        claims=[claim],
        retain=shape.retain,
        annotations={labels.SECRET_HASH: shape.secret_hash},
    )


def claim_labels(metadata: Object) -> dict[str, str]:
    """What the volume is found by. Only what never changes: a StatefulSet's claims cannot be changed."""
    own = (labels.PART_OF, labels.MANAGED_BY, labels.OWNER_LABELS[PALENA_GATEWAY])
    return {**selector(metadata["labels"]), **{name: metadata["labels"][name] for name in own}}


def redis_services(headless: Object, reachable: Object) -> tuple[Object, Object]:
    """Its two Services, from the metadata of each: for the StatefulSet, and for those who use it."""
    port = Port(COMPONENT, names.REDIS_PORT)
    return service(headless, port, headless=True), service(reachable, port)
