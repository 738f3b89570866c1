"""Stands in for Flux's source-controller for the sources of Helm charts: all are there, and Ready.

Nothing is fetched, and nothing is served at the address of an artifact: `helm`, which would read it, does
not. GitRepositories are another actor's (`git_source`), which delivers real files.

After `source.toolkit.fluxcd.io/v1` of fluxcd/source-controller: finalizer, `Ready` and `ArtifactInStorage`
with `observedGeneration`, an artifact with a revision; `spec.suspend` freezes the status; a HelmRepository
of `type: oci` gets no finalizer, and loses what status it has, since its charts are fetched one by one.

Direction, as an annotation of a source: `devcluster.magicstick.dev/fail: message`.
"""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from hack.bare import BareClient
from hack.devcluster.actors.following import (
    Collection,
    Key,
    Object,
    Workers,
    direction,
    in_background,
    key_of,
)
from hack.devcluster.actors.writing import Told, Writer, condition_of, has_finalizer, present, stamp

API: Final = "/apis/source.toolkit.fluxcd.io/v1"
NOWHERE: Final = "http://source-controller.example.local"


def status_of(source: Object, now: datetime) -> dict[str, Any]:
    """The whole status that a source should have; times are kept where nothing changed."""
    error = direction(source, "fail")
    artifact = _artifact(source, now)
    if error:
        told: list[Told] = [("Ready", "False", "Failed", error)]
        artifact = source.get("status", {}).get("artifact", {})
    else:
        message = f"stored artifact: revision '{artifact['revision']}'"
        told = [(type_, "True", "Succeeded", message) for type_ in ("Ready", "ArtifactInStorage")]
    generation = source["metadata"]["generation"]
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "conditions": [condition_of(source, each, now) for each in told],
    }
    return status | ({"artifact": artifact} if artifact else {})


def _artifact(source: Object, now: datetime) -> dict[str, Any]:
    """One for each address and version that is asked for."""
    namespace, name = key_of(source)
    spec = source["spec"]
    asked = repr((spec["url"], sorted((spec.get("ref") or {}).items())))
    digest = f"sha256:{hashlib.sha256(asked.encode()).hexdigest()}"
    path = f"{source['kind'].lower()}/{namespace}/{name}/{digest.removeprefix('sha256:')}"
    tag = (spec.get("ref") or {}).get("tag")
    described = {
        "digest": digest,
        "path": path,
        "revision": f"{tag}@{digest}" if tag else digest,
        "url": f"{NOWHERE}/{path}",
    }
    old = source.get("status", {}).get("artifact", {})
    same = all(old.get(each) == value for each, value in described.items())
    return {**described, "lastUpdateTime": old["lastUpdateTime"] if same else stamp(now)}


class SourceActor:
    """Acts on all sources of one kind (`helmrepositories`, `ocirepositories`) until cancelled."""

    def __init__(
        self,
        client: BareClient,
        plural: str = "helmrepositories",
        *,
        clock: Callable[[], datetime] = present,
    ) -> None:
        self._writer = Writer(client, API, plural, "source-controller")
        self._clock = clock
        self._workers = Workers(self._reconcile)
        self._known = Collection(client, self._writer.collection, self._see)

    async def run(self) -> None:
        """Follow the sources. Never returns."""
        await self._workers.run(self._known.follow())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SourceActor"]:
        """Run in the background within the block."""
        async with in_background(self.run()):
            yield self

    def _see(self, _: str, source: Object) -> None:
        self._workers.wake(key_of(source))

    async def _reconcile(self, key: Key) -> None:
        source = self._known.items.get(key)
        if source is None:
            return
        if source["spec"].get("type") == "oci":
            await self._writer.clear_status(source)  # its definition gives it one at first
            return
        if "deletionTimestamp" in source["metadata"]:
            if has_finalizer(source):
                await self._writer.remove_finalizer(source)
        elif not has_finalizer(source):
            await self._writer.add_finalizer(source)  # its event brings us back
        elif not source["spec"].get("suspend"):
            await self._writer.status(source, status_of(source, self._clock()))
