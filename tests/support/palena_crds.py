"""Definitions of the kinds that Palena drives, reduced to what it uses (spec: palena §3, §15).

They are structural and list every field, so that one that the real kinds lack is refused here as well.
The definitions that their projects publish are not ours to keep; tests compare with them where the
environment variable `FOREIGN_CRDS` names a folder that has them.
"""

import asyncio
import copy
import functools
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from hack import yamls
from hack.devcluster import DevCluster
from hack.devcluster.actors.definitions import PALENA_CRDS
from hack.devcluster.rest import ApiError
from tests.support.polling import until

Object = dict[str, Any]

CLUSTERS: Final = "clusters.postgresql.cnpg.io"
DATABASES: Final = "databases.postgresql.cnpg.io"
INSTANCES: Final = "litellminstances.litellm.palena.ai"
MODELS: Final = "litellmmodels.litellm.palena.ai"
VIRTUAL_KEYS: Final = "litellmvirtualkeys.litellm.palena.ai"

GONE_S: Final = 60.0
"""For a busy machine; nobody waits longer than the server takes."""

_SEED_CALLBACKS: Final[Object] = {
    "type": "object",
    "properties": {
        "langfuse": {
            "type": "object",
            "properties": {
                "enabled": {"type": "boolean"},
                "secretRef": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "keys": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                },
            },
        }
    },
}


def definitions() -> Iterator[Object]:
    """All of them, by name of their file."""
    yield from copy.deepcopy(_read())


@functools.cache
def _read() -> tuple[Object, ...]:
    return tuple(yamls.load(file.read_text()) for file in sorted(PALENA_CRDS.glob("*.yaml")))


def definition(name: str) -> Object:
    """The definition of this name, `<plural>.<group>`. KeyError when there is none."""
    return {each["metadata"]["name"]: each for each in definitions()}[name]


def with_seed_callbacks() -> Object:
    """LiteLLMInstance with the callbacks that the seed shows (spec: palena §3.6, shape 1)."""
    made = copy.deepcopy(definition(INSTANCES))
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["callbacks"] = copy.deepcopy(_SEED_CALLBACKS)
    return made


async def remove(cluster: DevCluster, name: str) -> None:
    """Delete a definition, and wait until its kind is not served.

    A definition that comes back earlier meets what is left of it, and who watches then may watch what is
    about to end.
    """
    plural, _, group = name.partition(".")
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    version = definition(name)["spec"]["versions"][0]["name"]

    async def gone() -> bool:
        return not any([await _served(cluster, each) for each in (path, f"/apis/{group}/{version}/{plural}")])

    await asyncio.to_thread(cluster.rest.request, "DELETE", path)
    await until(f"{name} is gone", gone, deadline_s=GONE_S)


async def _served(cluster: DevCluster, path: str) -> bool:
    try:
        await asyncio.to_thread(cluster.rest.get, path)
    except ApiError as refused:
        if refused.code == HTTPStatus.NOT_FOUND:
            return False
        if refused.code != HTTPStatus.TOO_MANY_REQUESTS:  # it goes on asking to wait: it is not gone yet
            raise
    return True


def install(cluster: DevCluster) -> None:
    """Make all of them, as they are, and wait until they are served."""
    cluster.apply(sorted(PALENA_CRDS.glob("*.yaml")))
