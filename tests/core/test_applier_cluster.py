"""The applier on the real API server: what it takes for converged really is, and binding holds."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from hack.devcluster import DevCluster
from magicstick.kube.applier import MANAGED_BY, Applier
from magicstick.kube.cache import Caches
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import AlreadyExists, Conflict, NameConflict, NotFound, Rejected
from magicstick.kube.kinds import CONFIG_MAP, NAMESPACE, Kind, ObjectKey
from magicstick.kube.objects import Resource
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

OURS = "magicstick"
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
SERVICE = Kind("", "v1", "Service", "services")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
COG = Kind("applier-test.example.com", "v1", "Cog", "cogs")
KINDS = (CONFIG_MAP, DEPLOYMENT, SERVICE, NETWORK_POLICY, COG)
Json = dict[str, Any]

COG_DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": COG.crd_name},
    "spec": {
        "group": COG.group,
        "scope": "Namespaced",
        "names": {"plural": "cogs", "singular": "cog", "kind": "Cog", "listKind": "CogList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {
                                "type": "object",
                                "properties": {"phase": {"type": "string"}, "url": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}


@dataclass
class Stage:
    """A namespace of its own, caches over it, and an applier."""

    client: Client
    other: Client
    """Another field manager."""
    caches: Caches
    applier: Applier
    namespace: str

    def key(self, name: str = "a") -> ObjectKey:
        return ObjectKey(self.namespace, name)

    def body(self, kind: Kind, content: Mapping[str, Any], name: str = "a", **metadata: Any) -> Json:
        return {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {MANAGED_BY: OURS},
                **metadata,
            },
            **content,
        }

    def live(self, kind: Kind, name: str = "a") -> Resource:
        found = self.caches.live(kind, self.key(name))
        assert found is not None
        return found

    async def stored(self, kind: Kind, name: str = "a") -> Resource:
        return await self.client.get(kind, self.key(name), view=Resource)

    async def caught_up(self, kind: Kind, name: str = "a") -> Resource:
        """Wait until the watch has told what the server has."""
        version = int((await self.stored(kind, name)).metadata.resource_version)
        store = self.caches.store(kind, self.namespace)
        await eventually(lambda: int(self.live(kind, name).metadata.resource_version) >= version)
        assert store.synced
        return self.live(kind, name)

    def fresh(self) -> Applier:
        """The applier of a process that has just started."""
        return Applier(self.client, self.caches, manager=OURS)


@pytest.fixture(scope="module")
def cluster(control_plane: DevCluster) -> DevCluster:
    control_plane.apply(COG_DEFINITION)
    return control_plane


@pytest.fixture
async def stage(cluster: DevCluster) -> AsyncIterator[Stage]:
    config = await ClusterConfig.load(cluster.kubeconfig)
    namespace = f"applier-{uuid.uuid4().hex[:8]}"
    async with (
        Client(config, user_agent="magicstick/test", field_manager=OURS) as client,
        Client(config, user_agent="other/test", field_manager="other") as other,
    ):
        await client.create(NAMESPACE, {"metadata": {"name": namespace}})
        caches = Caches(client)
        for kind in KINDS:
            caches.add(kind, namespace=namespace)
        task = asyncio.ensure_future(caches.run())
        try:
            await caches.wait_synced(20)
            yield Stage(client, other, caches, Applier(client, caches, manager=OURS), namespace)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


# --- what is converged ---------------------------------------------------------------------------

POD: Json = {
    "containers": [
        {
            "name": "web",
            "image": "example.com/web:1",
            "args": ["--port", "80"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 # a mount, no file of ours
        }
    ],
    "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
    "nodeSelector": {"example.com/kind": "gpu"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "securityContext": {"runAsNonRoot": True},
}
DEPLOYED: Json = {
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD},
    }
}
CONVERGED: Mapping[str, tuple[Kind, Json]] = {
    "ConfigMap": (CONFIG_MAP, {"data": {"a": "1", "b": ""}}),
    "Deployment": (DEPLOYMENT, DEPLOYED),
    "Service": (
        SERVICE,
        {
            "spec": {
                "selector": {"app": "web"},
                "ports": [
                    {"name": "dns", "port": 53, "targetPort": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "targetPort": "dns"},
                ],
            }
        },
    ),
    "NetworkPolicy": (
        NETWORK_POLICY,
        {
            "spec": {
                "podSelector": {"matchLabels": {"app": "web"}},
                "policyTypes": ["Ingress"],
                "ingress": [
                    {
                        "from": [{"podSelector": {"matchLabels": {"app": "x"}}}],
                        "ports": [{"port": 80, "protocol": "TCP"}],
                    }
                ],
            }
        },
    ),
    "custom": (
        COG,
        {"spec": {"teeth": 12, "deep": {"a": [1, {"b": "c"}], "m": {"x": True}}, "list": ["z", "y"]}},
    ),
}


@pytest.mark.parametrize("name", CONVERGED)
async def test_what_was_applied_is_converged_for_a_fresh_process(stage: Stage, name: str) -> None:
    kind, content = CONVERGED[name]
    owner = await stage.client.get(NAMESPACE, ObjectKey("", stage.namespace), view=Resource)
    body = stage.body(
        kind,
        content,
        annotations={"example.com/note": "x"},
        ownerReferences=[
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": stage.namespace,
                "uid": owner.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    )
    assert await stage.applier.apply(kind, body)
    await stage.caught_up(kind)
    fresh = stage.fresh()
    assert not await fresh.apply(kind, body)
    assert fresh.counters.sent == 0


async def test_a_write_is_in_the_caches_when_it_returns(stage: Stage) -> None:
    for size in range(20):
        assert await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": size}}))
        assert stage.live(COG).spec == {"size": size}
    await stage.applier.delete(COG, stage.key(), stage.live(COG).metadata.uid)
    assert stage.caches.live(COG, stage.key()) is None
    await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": -1}}, name="last"))
    await stage.caught_up(COG, "last")
    store = stage.caches.store(COG, stage.namespace)
    last = int(stage.live(COG, "last").metadata.resource_version)
    await eventually(lambda: store.resource_version >= last)
    assert stage.caches.live(COG, stage.key()) is None, "the events of before brought it back"


async def test_a_field_that_is_no_longer_wanted_is_removed(stage: Stage) -> None:
    await stage.applier.apply(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "1", "b": "2"}}))
    assert await stage.fresh().apply(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "1"}}))
    assert (await stage.stored(CONFIG_MAP)).data == {"a": "1"}


async def test_an_item_that_is_no_longer_wanted_is_removed(stage: Stage) -> None:
    await stage.applier.apply(DEPLOYMENT, stage.body(DEPLOYMENT, DEPLOYED))
    fewer = _with_env(DEPLOYED, [{"name": "A", "value": "1"}])
    assert await stage.fresh().apply(DEPLOYMENT, stage.body(DEPLOYMENT, fewer))
    assert _env(await stage.stored(DEPLOYMENT)) == ["A"]
    assert not await stage.fresh().apply(DEPLOYMENT, stage.body(DEPLOYMENT, fewer))


async def test_items_are_put_into_the_wanted_order(stage: Stage) -> None:
    await stage.applier.apply(DEPLOYMENT, stage.body(DEPLOYMENT, DEPLOYED))
    turned = _with_env(DEPLOYED, [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}])
    assert await stage.fresh().apply(DEPLOYMENT, stage.body(DEPLOYMENT, turned))
    assert _env(await stage.stored(DEPLOYMENT)) == ["B", "A"]
    assert not await stage.fresh().apply(DEPLOYMENT, stage.body(DEPLOYMENT, turned))


async def test_what_another_manager_added_is_left_alone(stage: Stage) -> None:
    body = stage.body(CONFIG_MAP, {"data": {"a": "1"}})
    await stage.applier.apply(CONFIG_MAP, body)
    theirs = stage.body(CONFIG_MAP, {"data": {"theirs": "x"}}, annotations={"theirs": "x"})
    await stage.other.apply(CONFIG_MAP, theirs)
    await stage.caught_up(CONFIG_MAP)
    fresh = stage.fresh()
    assert not await fresh.apply(CONFIG_MAP, body)
    assert fresh.counters.sent == 0
    assert await fresh.apply(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "2"}}))
    stored = await stage.stored(CONFIG_MAP)
    assert stored.data == {"a": "2", "theirs": "x"}
    assert stored.metadata.annotations == {"theirs": "x"}


@pytest.mark.parametrize("how", ["patched", "taken", "taken alike", "removed"])
async def test_what_another_manager_did_to_our_field_is_undone(stage: Stage, how: str) -> None:
    body = stage.body(CONFIG_MAP, {"data": {"a": "1", "b": "2"}})
    await stage.applier.apply(CONFIG_MAP, body)
    if how == "patched":
        await stage.other.merge_patch(CONFIG_MAP, stage.key(), {"data": {"a": "9"}})
    elif how == "removed":
        await stage.other.merge_patch(CONFIG_MAP, stage.key(), {"data": {"a": None}})
    else:
        await stage.other.apply(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "9"}}))
    if how == "taken alike":
        await stage.other.apply(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "1"}}))
    await stage.caught_up(CONFIG_MAP)
    fresh = stage.fresh()
    assert await fresh.apply(CONFIG_MAP, body)
    assert (await stage.stored(CONFIG_MAP)).data == {"a": "1", "b": "2"}
    await stage.caught_up(CONFIG_MAP)
    assert not await stage.fresh().apply(CONFIG_MAP, body)


async def test_a_quantity_that_the_server_rewrites_is_sent_once(stage: Stage) -> None:
    container = {**POD["containers"][0], "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}
    odd = stage.body(DEPLOYMENT, _with_containers(DEPLOYED, [container]))
    assert await stage.applier.apply(DEPLOYMENT, odd)
    await stage.client.apply(
        DEPLOYMENT,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a", "namespace": stage.namespace},
            "status": {"observedGeneration": 1},
        },
        subresource="status",
    )
    await stage.caught_up(DEPLOYMENT)
    sent = stage.applier.counters.sent
    assert not await stage.applier.apply(DEPLOYMENT, odd)
    assert stage.applier.counters.sent == sent


# --- whose it is ---------------------------------------------------------------------------------


async def test_an_object_of_someone_else_is_not_touched(stage: Stage) -> None:
    theirs = {"metadata": {"name": "a", "namespace": stage.namespace}, "data": {"x": "1"}}
    await stage.other.create(CONFIG_MAP, theirs)
    await eventually(lambda: stage.caches.live(CONFIG_MAP, stage.key()))
    before = await stage.stored(CONFIG_MAP)
    with pytest.raises(NameConflict):
        await stage.applier.apply(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"x": "2"}}))
    assert await stage.stored(CONFIG_MAP) == before


async def test_an_object_that_appears_at_that_very_moment_is_not_taken_over(stage: Stage) -> None:
    await stage.other.create(
        CONFIG_MAP, {"metadata": {"name": "a", "namespace": stage.namespace}, "data": {"x": "1"}}
    )
    before = await stage.stored(CONFIG_MAP)
    await eventually(lambda: stage.caches.live(CONFIG_MAP, stage.key()))
    stage.caches.deleted(CONFIG_MAP, stage.key(), before.metadata.uid)  # the caches do not know it yet
    with pytest.raises(Conflict):
        await stage.applier.apply(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"x": "2"}}))
    assert await stage.stored(CONFIG_MAP) == before


async def test_an_object_that_was_replaced_is_a_conflict(stage: Stage) -> None:
    await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": 1}}))
    old = stage.live(COG)
    await stage.other.delete(COG, stage.key())
    await stage.other.apply(COG, stage.body(COG, {"spec": {"size": 5}}))
    successor = await stage.stored(COG)
    stale = _Stale(stage.caches, old)
    applier = Applier(stage.client, stale, manager=OURS)
    with pytest.raises(Conflict):
        await applier.apply(COG, stage.body(COG, {"spec": {"size": 2}}))
    with pytest.raises(Conflict):
        await applier.apply_status(COG, old, {"phase": "Ready"})
    with pytest.raises(Conflict):
        await applier.add_finalizer(COG, old, "example.com/ours")
    assert not await applier.delete(COG, stage.key(), old.metadata.uid)
    assert await stage.stored(COG) == successor


async def test_an_object_that_is_gone_is_a_conflict_for_an_apply_and_done_for_the_rest(stage: Stage) -> None:
    await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": 1}}, finalizers=["example.com/ours"]))
    old = stage.live(COG)
    await stage.other.merge_patch(COG, stage.key(), {"metadata": {"finalizers": None}})
    await stage.other.delete(COG, stage.key())
    applier = Applier(stage.client, _Stale(stage.caches, old), manager=OURS)
    with pytest.raises(Conflict):
        await applier.apply(COG, stage.body(COG, {"spec": {"size": 2}}, finalizers=["example.com/ours"]))
    assert not await applier.delete(COG, stage.key(), old.metadata.uid)
    assert not await applier.remove_finalizer(COG, old, "example.com/ours")
    with pytest.raises(NotFound):
        await stage.stored(COG)


async def test_create_leaves_what_is_there(stage: Stage) -> None:
    assert await stage.applier.create(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "1"}}))
    assert not await stage.applier.create(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "2"}}))
    blind = Applier(stage.client, Caches(stage.client), manager=OURS)
    assert not await blind.create(CONFIG_MAP, stage.body(CONFIG_MAP, {"data": {"a": "2"}}))
    assert (await stage.stored(CONFIG_MAP)).data == {"a": "1"}
    with pytest.raises(AlreadyExists):
        await stage.client.create(CONFIG_MAP, stage.body(CONFIG_MAP, {}))


@pytest.mark.parametrize("kind", [CONFIG_MAP, SERVICE, COG])
async def test_a_deletion_is_seen_at_once(stage: Stage, kind: Kind) -> None:
    """Some kinds answer with a Status, some with the object that was removed."""
    content: Json = {"spec": {"ports": [{"port": 80}]}} if kind == SERVICE else {}
    await stage.applier.apply(kind, stage.body(kind, content))
    live = stage.live(kind)
    assert not await stage.applier.delete(kind, stage.key(), "another-uid")
    assert (await stage.stored(kind)).metadata.uid == live.metadata.uid
    await stage.caught_up(kind)
    assert await stage.applier.delete(kind, stage.key(), live.metadata.uid)
    assert stage.caches.live(kind, stage.key()) is None


async def test_a_deletion_of_an_older_version_is_a_conflict_and_deletes_nothing(stage: Stage) -> None:
    await stage.applier.apply(CONFIG_MAP, stage.body(CONFIG_MAP, {}))
    live = stage.live(CONFIG_MAP)
    with pytest.raises(Conflict):
        await stage.applier.delete(CONFIG_MAP, stage.key(), live.metadata.uid, "1")
    assert (await stage.stored(CONFIG_MAP)).metadata.uid == live.metadata.uid
    assert await stage.applier.delete(
        CONFIG_MAP, stage.key(), live.metadata.uid, live.metadata.resource_version
    )


# --- finalizers ----------------------------------------------------------------------------------


async def test_finalizers_of_others_survive_any_race(stage: Stage) -> None:
    await stage.applier.apply(COG, stage.body(COG, {"spec": {}}))
    stale = stage.live(COG)
    await stage.other.merge_patch(COG, stage.key(), {"metadata": {"finalizers": ["example.com/theirs"]}})
    with pytest.raises(Conflict):
        await stage.applier.add_finalizer(COG, stale, "example.com/ours")
    live = await stage.caught_up(COG)
    assert await stage.applier.add_finalizer(COG, live, "example.com/ours")
    assert stage.live(COG).metadata.finalizers == ("example.com/theirs", "example.com/ours")
    stale = stage.live(COG)
    three = ["example.com/theirs", "example.com/ours", "example.com/third"]
    await stage.other.merge_patch(COG, stage.key(), {"metadata": {"finalizers": three}})
    with pytest.raises(Conflict):
        await stage.applier.remove_finalizer(COG, stale, "example.com/ours")
    assert await stage.applier.remove_finalizer(COG, await stage.caught_up(COG), "example.com/ours")
    assert (await stage.stored(COG)).metadata.finalizers == ("example.com/theirs", "example.com/third")
    await stage.other.merge_patch(COG, stage.key(), {"metadata": {"finalizers": None}})


async def test_a_dying_object_is_only_released_and_then_gone_at_once(stage: Stage) -> None:
    await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": 1}}))
    await stage.applier.add_finalizer(COG, stage.live(COG), "example.com/ours")
    uid = stage.live(COG).metadata.uid
    assert await stage.applier.delete(COG, stage.key(), uid)
    assert stage.live(COG).metadata.dying
    assert not await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": 2}}))
    assert not await stage.applier.add_finalizer(COG, stage.live(COG), "example.com/more")
    assert not await stage.applier.delete(COG, stage.key(), uid)
    assert await stage.applier.apply_status(COG, stage.live(COG), {"phase": "Deleting"})
    assert await stage.applier.remove_finalizer(COG, stage.live(COG), "example.com/ours")
    assert stage.caches.live(COG, stage.key()) is None
    with pytest.raises(NotFound):
        await stage.stored(COG)


# --- status --------------------------------------------------------------------------------------


async def test_a_status_is_whole_and_written_only_when_it_changes(stage: Stage) -> None:
    await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": 1}}))
    full = {"phase": "Ready", "url": "https://example.com"}
    assert await stage.applier.apply_status(COG, stage.live(COG), full)
    assert stage.live(COG).status == full
    fresh = stage.fresh()
    assert not await fresh.apply_status(COG, stage.live(COG), full)
    assert not await fresh.apply(COG, stage.body(COG, {"spec": {"size": 1}}))
    assert fresh.counters.sent == 0
    assert await stage.applier.apply_status(COG, stage.live(COG), {"phase": "Failed"})
    assert (await stage.stored(COG)).status == {"phase": "Failed"}


async def test_a_status_field_that_the_schema_does_not_know_is_refused_not_dropped(stage: Stage) -> None:
    await stage.applier.apply(COG, stage.body(COG, {"spec": {"size": 1}}))
    with pytest.raises(Rejected, match="colour"):
        await stage.applier.apply_status(COG, stage.live(COG), {"colour": "red"})


def _with_containers(deployed: Json, containers: Sequence[Json]) -> Json:
    spec = deployed["spec"]
    pod = {**spec["template"]["spec"], "containers": list(containers)}
    return {"spec": {**spec, "template": {**spec["template"], "spec": pod}}}


def _with_env(deployed: Json, env: Sequence[Json]) -> Json:
    return _with_containers(deployed, [{**POD["containers"][0], "env": list(env)}])


def _env(deployment: Resource) -> list[str]:
    return [variable["name"] for variable in deployment.spec["template"]["spec"]["containers"][0]["env"]]


class _Stale:
    """Caches that have not heard of what became of an object."""

    def __init__(self, caches: Caches, old: Resource) -> None:
        self._old = old
        self.written = caches.written
        self.deleted = caches.deleted

    def live(self, kind: Kind, key: ObjectKey) -> Resource | None:
        assert (kind, key) == (COG, self._old.metadata.key)
        return self._old
