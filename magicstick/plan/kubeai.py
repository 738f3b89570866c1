"""Plays KubeAI where its module is assumed to be ready: it runs with whatever profiles it was given.

Helm derives its configuration from the release and the profile store, and its Pods start with that.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from magicstick.api.kinds import HELM_RELEASE
from magicstick.kube.cache import Caches
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.models.kinds import DEPLOYMENT
from magicstick.models.kubeai_release import (
    CONFIG_KEY,
    CONFIG_NAME,
    CONFIG_VOLUME,
    DEPLOYMENT_NAME,
    NAMESPACE,
    PROFILES,
    RELEASE_NAME,
    STORE_NAME,
    KubeAi,
)
from magicstick.modules.flux import FluxState, verdict
from magicstick.plan.assumptions import Lay, ready

MODULE: Final = "kubeai"


class KubeAiPlayer:
    """See the module. `namespace` is Flux's."""

    def __init__(self, caches: Caches, lay: Lay, namespace: str) -> None:
        self._caches = caches
        self._lay = lay
        self._namespace = namespace

    async def act(self) -> bool:
        """Take what there is to take; whether there was anything."""
        release = self._get(HELM_RELEASE, self._namespace, RELEASE_NAME)
        if release is None:
            return False
        known = KubeAi.of(release, self._get(CONFIG_MAP, self._namespace, STORE_NAME))
        text = json.dumps({PROFILES: {**(known.installed or {}), **(known.store or {})}}, sort_keys=True)
        config = self._get(CONFIG_MAP, NAMESPACE, CONFIG_NAME)
        taken = config is not None and config.data.get(CONFIG_KEY) == text
        if taken and verdict(release).state is FluxState.READY:
            return False
        await self._lay(CONFIG_MAP, _object("v1", "ConfigMap", CONFIG_NAME, data={CONFIG_KEY: text}))
        deployment = self._get(DEPLOYMENT, NAMESPACE, DEPLOYMENT_NAME)
        await self._lay(DEPLOYMENT, _deployment(deployment.metadata.generation if deployment else 1))
        await self._lay(HELM_RELEASE, ready(release))
        return True

    def _get(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        found: Resource | None = self._caches.store(kind, namespace, name).get(ObjectKey(namespace, name))
        return found


def _object(api_version: str, kind: str, name: str, **content: Any) -> Mapping[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _deployment(generation: int) -> Mapping[str, Any]:
    volume = {"name": CONFIG_VOLUME, "configMap": {"name": CONFIG_NAME}}
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return _object(
        DEPLOYMENT.api_version,
        DEPLOYMENT.kind,
        DEPLOYMENT_NAME,
        spec={"replicas": 1, "template": {"spec": {"volumes": [volume]}}},
        status={"observedGeneration": generation, **dict.fromkeys(counts, 1)},
    )
