"""Writes the catalog's ConfigMap: when its content differs, and not else (spec: models §16).

The ConfigMap is ours from the first publication on. What else is on it (labels of whoever installed it,
say) stays; keys that are not the catalog's go. The annotation about a restart that is owed is part of the
same write, so that no crash loses it.
"""

import json
from collections.abc import Mapping
from typing import Final

import structlog

from magicstick.kube.cache import Caches
from magicstick.kube.client import Client
from magicstick.kube.errors import AlreadyExists, Conflict, NotFound
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.model_catalog.documents import CATALOG, Document
from magicstick.runtime.clock import Clock

log = structlog.get_logger(__name__)

HASH: Final = "ai-appliance.io/catalog-hash"
LAST_SYNC: Final = "ai-appliance.io/last-sync"
LAST_ERROR: Final = "ai-appliance.io/last-error"
RESTART_PENDING: Final = "ai-appliance.io/restart-pending"
"""The hash of the publication of which consumers do not know yet."""
LABELS: Final = {"app": "ai-model-catalog"}
ATTEMPTS: Final = 3
ERROR_LENGTH: Final = 1000

Annotations = Mapping[str, str | None]
"""Changes: None removes one."""


class Publisher:
    """One ConfigMap. See the module."""

    def __init__(self, client: Client, caches: Caches, key: ObjectKey, clock: Clock) -> None:
        self._client = client
        self._caches = caches
        self._key = key
        self._clock = clock
        self._informer = caches.add(CONFIG_MAP, namespace=key.namespace, name=key.name)

    @property
    def owed(self) -> str:
        """The hash of the publication for which consumers still have to be restarted; "" for none."""
        live = self._informer.store.get(self._key)
        return live.metadata.annotations.get(RESTART_PENDING, "") if live is not None else ""

    @property
    def lists_models(self) -> bool:
        """Whether the published catalog has any model; True where that cannot be told."""
        live = self._informer.store.get(self._key)
        if live is None:
            return self._informer.state is not InformerState.SYNCED
        try:
            return bool(json.loads(live.data.get(CATALOG, "{}")).get("models"))
        except (ValueError, AttributeError, RecursionError):
            return True

    async def publish(self, document: Document, *, restarts: bool) -> bool:
        """Make the ConfigMap equal to the document; whether anything was written.

        Raises:
            ApiError: it could not be written.
        """
        live = await self._live()
        for attempt in range(1, ATTEMPTS + 1):
            if live is not None and is_published(live, document):
                return False
            try:
                await self._write(live, document, restarts=restarts)
            except (Conflict, NotFound):
                if attempt == ATTEMPTS:
                    raise
                live = await self._read()
            else:
                log.info("catalog published", hash=document.hash)
                return True
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def annotate(self, changes: Annotations) -> None:
        """Change annotations that differ; nothing where the ConfigMap does not exist.

        Raises:
            ApiError: it could not be written.
        """
        live = await self._live()
        for attempt in range(1, ATTEMPTS + 1):
            if live is None:
                return
            present = live.metadata.annotations
            differing = {name: value for name, value in changes.items() if present.get(name) != value}
            if not differing:
                return
            try:
                await self._patch(live, {"annotations": differing}, {})
            except (Conflict, NotFound):
                if attempt == ATTEMPTS:
                    raise
                live = await self._read()
            else:
                return

    async def report(self, text: str) -> None:
        """Say in an annotation what is wrong; "" for nothing."""
        await self.annotate({LAST_ERROR: text[:ERROR_LENGTH] or None})

    # -- requests --------------------------------------------------------------------------------------

    async def _live(self) -> Resource | None:
        if self._informer.state is InformerState.SYNCED:
            return self._informer.store.get(self._key)
        return await self._read()

    async def _read(self) -> Resource | None:
        try:
            return await self._client.get(CONFIG_MAP, self._key)
        except NotFound:
            return None

    async def _write(self, live: Resource | None, document: Document, *, restarts: bool) -> None:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        annotations: dict[str, object] = {HASH: document.hash, LAST_SYNC: now}
        if restarts:
            annotations[RESTART_PENDING] = document.hash
        if live is not None:
            foreign: dict[str, str | None] = dict.fromkeys(live.data.keys() - document.data.keys())
            await self._patch(
                live, {"annotations": annotations, "labels": LABELS}, {**foreign, **document.data}
            )
            return
        place = {"name": self._key.name, "namespace": self._key.namespace}
        body = {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": {**place, "annotations": annotations, "labels": LABELS},
            "data": dict(document.data),
        }
        try:
            self._caches.written(CONFIG_MAP, await self._client.create(CONFIG_MAP, body))
        except AlreadyExists as error:
            raise Conflict(error.message, code=error.code, reason=error.reason) from None

    async def _patch(
        self, live: Resource, metadata: Mapping[str, object], data: Mapping[str, str | None]
    ) -> None:
        """Bound to the version that was decided on."""
        identity = {"resourceVersion": live.metadata.resource_version, "uid": live.metadata.uid}
        body: dict[str, object] = {"metadata": {**identity, **metadata}}
        if data:
            body["data"] = data
        written = await self._client.merge_patch(CONFIG_MAP, self._key, body)
        self._caches.written(CONFIG_MAP, written)


def is_published(live: Resource, document: Document) -> bool:
    """Whether the ConfigMap is as it should be."""
    labels = {name: live.metadata.labels.get(name) for name in LABELS}
    return (
        dict(live.data) == dict(document.data)
        and labels == LABELS
        and live.metadata.annotations.get(HASH) == document.hash
    )
