"""What LibreChat keeps its data in: MongoDB for conversations, MeiliSearch to find them.

(spec: palena §6.3)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicstick.palena.common import labels
from magicstick.palena.common.owners import Describe, Object
from magicstick.palena.common.workloads import (
    Port,
    User,
    claim,
    claim_template,
    deployment,
    http_probe,
    plain_env,
    resources,
    restricted,
    secret_env,
    selector,
    service,
    stateful_set,
    tcp_probe,
    unprivileged,
)
from magicstick.palena.ui import secrets
from magicstick.palena.ui.names import (
    MEILISEARCH,
    MEILISEARCH_PORT,
    MONGODB,
    MONGODB_PORT,
    Names,
)
from magicstick.runtime.rollout import RECREATE

DATA: Final = "data"
MONGODB_SIZE: Final = "8Gi"
MONGODB_PATH: Final = "/data/db"
MONGODB_USER: Final = User(uid=999, gid=999, fs_group=999)
MEILISEARCH_SIZE: Final = "5Gi"
MEILISEARCH_PATH: Final = "/meili_data"
MEILISEARCH_USER: Final = User(uid=1000, gid=1000, fs_group=1000)
_REQUESTS: Final = {"cpu": "100m", "memory": "256Mi"}
_LIMITS: Final = {"cpu": "1", "memory": "1Gi"}
_MINOR: Final = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class StoreShape:
    """How one of the two is to be."""

    names: Names
    image: str
    size: str
    storage_class: str
    resources: Mapping[str, Any]
    owner_path: str = ""
    """Names the UI, on volumes that have no ownerReference."""
    retain: bool = False
    """Whether the volume outlives the UI."""


def mongodb_service(names: Names, describe: Describe) -> Object:
    """The Service that gives MongoDB's one Pod its name, and LibreChat an address."""
    return service(describe(names.mongodb, MONGODB), Port(MONGODB, MONGODB_PORT), headless=True)


def mongodb_stateful_set(shape: StoreShape, describe: Describe) -> Object:
    """MongoDB. It takes its root user from its environment at the very first start, and never again.

    Until then it listens on the loopback alone, so that it is not taken for ready too early.
    """
    names = shape.names
    container: Object = {
        "name": MONGODB,
        "image": shape.image,
        "ports": [{"name": MONGODB, "containerPort": MONGODB_PORT, "protocol": "TCP"}],
        "env": [
            secret_env("MONGO_INITDB_ROOT_USERNAME", names.secrets, secrets.MONGO_ROOT_USERNAME),
            secret_env("MONGO_INITDB_ROOT_PASSWORD", names.secrets, secrets.MONGO_ROOT_PASSWORD),
        ],
        "startupProbe": tcp_probe(MONGODB, failures=60),
        "readinessProbe": tcp_probe(MONGODB),
        "livenessProbe": tcp_probe(MONGODB, period_s=20, failures=6),
        "resources": resources(shape.resources, _REQUESTS, _LIMITS),
        "securityContext": unprivileged(),
        "volumeMounts": [{"name": DATA, "mountPath": MONGODB_PATH}],
    }
    metadata = describe(names.mongodb, MONGODB)
    return stateful_set(
        metadata,
        _pod(container, MONGODB_USER),
        service=names.mongodb,
        claims=[_mongodb_claim(shape, metadata)],
        retain=shape.retain,
    )


def _mongodb_claim(shape: StoreShape, metadata: Object) -> Object:
    """The claim says whose it is, by what never changes: a StatefulSet's claims cannot be changed."""
    owned = {labels.PART_OF: labels.PALENA, labels.MANAGED_BY: labels.OPERATOR}
    return claim_template(
        DATA,
        shape.size,
        storage_class=shape.storage_class,
        labels={**selector(metadata["labels"]), **owned},
        annotations={labels.OWNER: shape.owner_path},
    )


def meilisearch_claim(shape: StoreShape, describe: Describe) -> Object:
    """The volume of the search index, which can always be built anew."""
    return claim(
        describe(shape.names.meilisearch, MEILISEARCH), shape.size, storage_class=shape.storage_class
    )


def meilisearch_service(names: Names, describe: Describe) -> Object:
    """The Service in front of MeiliSearch."""
    return service(describe(names.meilisearch, MEILISEARCH), Port(MEILISEARCH, MEILISEARCH_PORT))


def meilisearch_deployment(shape: StoreShape, describe: Describe) -> Object:
    """MeiliSearch. Minor versions cannot read the index of one another, so each has a folder of its own."""
    names = shape.names
    settings = {
        "MEILI_ENV": "production",
        "MEILI_NO_ANALYTICS": "true",
        "MEILI_DB_PATH": f"{MEILISEARCH_PATH}/{index_folder(shape.image)}",
    }
    container: Object = {
        "name": MEILISEARCH,
        "image": shape.image,
        "ports": [{"name": MEILISEARCH, "containerPort": MEILISEARCH_PORT, "protocol": "TCP"}],
        "env": [
            secret_env(secrets.MEILI_MASTER_KEY, names.secrets, secrets.MEILI_MASTER_KEY),
            *plain_env(settings),
        ],
        "readinessProbe": http_probe("/health", MEILISEARCH),
        "livenessProbe": http_probe("/health", MEILISEARCH, delay_s=30, period_s=20, failures=6),
        "resources": resources(shape.resources, _REQUESTS, _LIMITS),
        "securityContext": unprivileged(),
        "volumeMounts": [{"name": DATA, "mountPath": MEILISEARCH_PATH}],
    }
    pod = _pod(container, MEILISEARCH_USER)
    pod["volumes"] = [{"name": DATA, "persistentVolumeClaim": {"claimName": names.meilisearch}}]
    return deployment(describe(names.meilisearch, MEILISEARCH), pod, strategy={**RECREATE})


def index_folder(image: str) -> str:
    """Where the index of this image's version is kept: `v1.12.ms`; `data.ms` for one that tells none."""
    found = _MINOR.fullmatch(".".join(image.rpartition(":")[2].split(".")[:2]))
    return f"v{found[1]}.{found[2]}.ms" if found else "data.ms"


def _pod(container: Object, user: User) -> Object:
    return {
        "automountServiceAccountToken": False,
        "securityContext": restricted(user),
        "containers": [container],
    }
