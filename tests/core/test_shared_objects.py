"""Two controllers on one object, each under a name of its own: parts are merged, given back, never made."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from hack.devcluster import DevCluster
from magicstick.kube.applier import Applier
from magicstick.kube.cache import Caches
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.kinds import CONFIG_MAP, NAMESPACE, ObjectKey
from magicstick.kube.objects import Resource

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

LABELS = {"app.kubernetes.io/managed-by": "together"}


@dataclass
class Shared:
    """One ConfigMap that `maker` makes and `guest` adds to."""

    client: Client
    caches: Caches
    namespace: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, "shared")

    def applier(self, name: str) -> Applier:
        return Applier(self.client.speaking_as(name), self.caches, manager=name, managed_by="together")

    def whole(self, **data: str) -> dict[str, Any]:
        metadata = {"name": "shared", "namespace": self.namespace, "labels": LABELS}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def part(self, uid: str, **data: str) -> dict[str, Any]:
        metadata = {"name": "shared", "namespace": self.namespace, "uid": uid}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    async def stored(self) -> Resource:
        return await self.client.get(CONFIG_MAP, self.key)

    async def uid(self) -> str:
        return (await self.stored()).metadata.uid


@pytest.fixture
async def shared(control_plane: DevCluster) -> AsyncIterator[Shared]:
    config = await ClusterConfig.load(control_plane.kubeconfig)
    namespace = f"shared-{uuid.uuid4().hex[:8]}"
    async with Client(config, user_agent="magicstick/test", field_manager="test") as client:
        await client.create(NAMESPACE, {"metadata": {"name": namespace}})
        caches = Caches(client)
        caches.add(CONFIG_MAP, namespace=namespace)
        task = asyncio.ensure_future(caches.run())
        try:
            await caches.wait_synced(20)
            yield Shared(client, caches, namespace)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_both_keep_their_fields_whoever_writes_last(shared: Shared) -> None:
    maker, guest = shared.applier("maker"), shared.applier("guest")
    assert await maker.apply(CONFIG_MAP, shared.whole(a="1"))
    part = shared.part(await shared.uid(), b="2")
    assert await guest.apply_part(CONFIG_MAP, part)
    assert await maker.apply(CONFIG_MAP, shared.whole(a="3"))
    found = await shared.stored()
    assert dict(found.data) == {"a": "3", "b": "2"}
    assert {each.manager for each in found.metadata.managed_fields} == {"maker", "guest"}
    assert not await guest.apply_part(CONFIG_MAP, part), "nothing is sent where the part is true already"
    assert not await shared.applier("guest").apply_part(CONFIG_MAP, part), (
        "nor by a process that has just started"
    )


async def test_a_part_that_is_no_longer_wanted_is_given_back_and_nothing_else_with_it(shared: Shared) -> None:
    await shared.applier("maker").apply(CONFIG_MAP, shared.whole(a="1"))
    uid, guest = await shared.uid(), shared.applier("guest")
    await guest.apply_part(CONFIG_MAP, shared.part(uid, b="2", c="3"))
    assert await guest.apply_part(CONFIG_MAP, shared.part(uid, c="3"))
    assert dict((await shared.stored()).data) == {"a": "1", "c": "3"}
    assert await guest.apply_part(CONFIG_MAP, shared.part(uid))
    assert dict((await shared.stored()).data) == {"a": "1"}


async def test_no_object_is_ever_made_of_a_part(shared: Shared) -> None:
    await shared.applier("maker").apply(CONFIG_MAP, shared.whole(a="1"))
    uid, guest = await shared.uid(), shared.applier("guest")
    await shared.client.delete(CONFIG_MAP, shared.key)
    blind = Applier(
        shared.client.speaking_as("guest"), Caches(shared.client), manager="guest", managed_by="together"
    )
    assert not await blind.apply_part(CONFIG_MAP, shared.part(uid, b="2")), "it is gone"
    await shared.applier("maker").create(CONFIG_MAP, shared.whole(a="successor"))
    assert not await blind.apply_part(CONFIG_MAP, shared.part(uid, b="2")), "it is another"
    assert dict((await shared.stored()).data) == {"a": "successor"}
    with pytest.raises(ValueError, match="names no uid"):
        await guest.apply_part(CONFIG_MAP, shared.whole(b="2"))
