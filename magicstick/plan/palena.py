"""Plays those on whom Palena depends, where they are assumed to be there: each makes what it is given ready.

Guarantees
    Only what the operator applies in this plan is answered: what else is in a cluster stays as it was read.

Assumptions
    CloudNativePG, the operators of LiteLLM and Langfuse, and Kubernetes for workloads do what they are asked
    to. Schemas of kinds that are not served are not known, so nothing is left out because of them.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from magicstick.api import kinds
from magicstick.kube.cache import Caches
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common import labels
from magicstick.palena.common.children import condition_holds, number, text
from magicstick.palena.common.kinds import DEPLOYMENT, STATEFUL_SET
from magicstick.palena.common.secrets import SECRET
from magicstick.palena.gateway.cluster import HEALTHY
from magicstick.palena.gateway.names import CONNECTION_URI
from magicstick.palena.ui.names import GATEWAY_KEY
from magicstick.plan.assumptions import Lay, definition
from magicstick.plan.documents import Body
from magicstick.plan.hands import seen
from magicstick.plan.named_secrets import named_secrets
from magicstick.plan.unknown import GENERATED

FOREIGN: Final = (
    kinds.CNPG_CLUSTER,
    kinds.CNPG_DATABASE,
    kinds.LITELLM_INSTANCE,
    kinds.LITELLM_MODEL,
    kinds.LITELLM_VIRTUAL_KEY,
    kinds.LANGFUSE_INSTANCE,
)
"""The kinds that are then served."""

Status = dict[str, Any]


async def lay_definitions(lay: Lay, served: Iterable[Kind]) -> None:
    """Have these kinds served."""
    for kind in served:
        await lay(CUSTOM_RESOURCE_DEFINITION, definition(kind.crd_name, kind), if_missing=True)


async def lay_secrets(
    lay: Lay, caches: Caches, named: Iterable[tuple[Kind, Resource]], *, known: str
) -> tuple[str, ...]:
    """Have the Secrets be there that these objects name and that are nowhere; what was assumed, as sentences.

    Args:
        lay: as `plan.server`.
        caches: which hold what there is.
        named: the objects.
        known: where such a Secret was looked for, in words.
    """
    told: list[str] = []
    for kind, live in named:
        for key, values in named_secrets(kind, live).items():
            if seen(caches, SECRET, key) is None:
                await lay(SECRET, _secret(key, values))
                keys = ", ".join(sorted(values))
                told.append(f"Secret {key} is not {known}: it is assumed to be there, with {keys}")
    return tuple(told)


class PalenaPlayer:
    """See the module. `written` are the places of what the operator applied so far."""

    def __init__(
        self, caches: Caches, lay: Lay, written: Callable[[], Iterable[tuple[Kind, ObjectKey]]]
    ) -> None:
        self._caches = caches
        self._lay = lay
        self._written = written

    async def act(self) -> bool:
        """Answer what is not answered; whether anything was."""
        acted = False
        for kind, key in self._written():
            live = seen(self._caches, kind, key) if kind in _ANSWERS else None
            if live is not None and _is_palenas(live) and not _is_answered(kind, live):
                for secret in _made_secrets(kind, live):
                    await self._lay(SECRET, secret, if_missing=True)
                await self._lay(kind, _answered(live, _ANSWERS[kind](live)))
                acted = True
        return acted


def _is_palenas(live: Resource) -> bool:
    """Whether Palena made it, and wants it."""
    return live.metadata.labels.get(labels.MANAGED_BY) == labels.OPERATOR and not live.metadata.dying


def _is_answered(kind: Kind, live: Resource) -> bool:
    wanted = _ANSWERS[kind](live)
    return all(live.status.get(name) == value for name, value in wanted.items())


def _answered(live: Resource, status: Status) -> Body:
    metadata = {"name": live.metadata.name, "namespace": live.metadata.namespace}
    return {
        "apiVersion": live.api_version,
        "kind": live.kind,
        "metadata": metadata,
        "spec": live.spec,
        "status": {**live.status, **status},
    }


# --- what each says ------------------------------------------------------------------------------------


def _workload(live: Resource) -> Status:
    wanted = number(live.spec, "replicas")
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return {
        "observedGeneration": live.metadata.generation,
        **dict.fromkeys(counts, 1 if wanted is None else wanted),
    }


def _cluster(live: Resource) -> Status:
    instances = number(live.spec, "instances") or 1
    return {"phase": HEALTHY, "instances": instances, "readyInstances": instances}


def _database(live: Resource) -> Status:
    return {"observedGeneration": live.metadata.generation, "applied": True}


def _litellm(live: Resource) -> Status:
    replicas = number(live.spec, "replicas") or 1
    return {"ready": True, "replicas": replicas, "readyReplicas": replicas, **_told(live, "Ready")}


def _synced(live: Resource) -> Status:
    return {"synced": True, **_told(live, "Synced")}


def _langfuse(live: Resource) -> Status:
    return {"ready": True, "phase": "Running", **_told(live, "Ready")}


def _told(live: Resource, type_: str) -> Status:
    """A condition; one that says so of this generation already stays."""
    if condition_holds(live, type_):
        return {"conditions": live.status["conditions"]}
    condition = {
        "type": type_,
        "status": "True",
        "reason": "Assumed",
        "message": "Assumed to be ready.",
        "observedGeneration": live.metadata.generation,
    }
    return {"conditions": [condition]}


_ANSWERS: Final[Mapping[Kind, Callable[[Resource], Status]]] = {
    DEPLOYMENT: _workload,
    STATEFUL_SET: _workload,
    kinds.CNPG_CLUSTER: _cluster,
    kinds.CNPG_DATABASE: _database,
    kinds.LITELLM_INSTANCE: _litellm,
    kinds.LITELLM_MODEL: _synced,
    kinds.LITELLM_VIRTUAL_KEY: _synced,
    kinds.LANGFUSE_INSTANCE: _langfuse,
}


# --- Secrets that they make ----------------------------------------------------------------------------


def _made_secrets(kind: Kind, live: Resource) -> Iterator[Body]:
    namespace, name = live.metadata.key
    if kind == kinds.CNPG_CLUSTER:
        uri = f"postgresql://app:{GENERATED}@{name}-rw.{namespace}:5432/app"
        yield _secret(ObjectKey(namespace, f"{name}-app"), {CONNECTION_URI: uri})
    elif kind == kinds.LITELLM_VIRTUAL_KEY:
        wanted = text(live.spec, "keySecretName")
        if wanted:
            yield _secret(ObjectKey(namespace, wanted), {GATEWAY_KEY: f"sk-{GENERATED}"})


def _secret(key: ObjectKey, values: Mapping[str, str]) -> Body:
    data = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    metadata = {"name": key.name, "namespace": key.namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
