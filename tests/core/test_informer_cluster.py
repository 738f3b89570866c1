"""Informers on the real API server: both ways of listing, definitions that go, and a lost history."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest

from hack.devcluster import DevCluster
from magicstick.kube.cache import Caches
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.errors import NotFound
from magicstick.kube.informer import InformerState, InitialList, Tuning
from magicstick.kube.kinds import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD, Kind, ObjectKey
from magicstick.kube.objects import MetadataOnly, ObjectMeta, Resource
from magicstick.kube.scope import matches_labels
from tests.support.waiting import dice, eventually

pytestmark = pytest.mark.anyio


class Container(msgspec.Struct, frozen=True, gc=False):
    name: str


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    containers: tuple[Container, ...] | None = ()
    """null in bookmarks"""
    node_name: str = ""


class SlimPod(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()


@pytest.fixture
async def client(control_plane: DevCluster) -> AsyncIterator[Client]:
    config = await ClusterConfig.load(control_plane.kubeconfig)
    async with Client(config, user_agent="magicstick/test", field_manager="magicstick") as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"informer-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACE, {"metadata": {"name": name}})
    return name


@pytest.fixture
async def run() -> AsyncIterator[Callable[[Caches], None]]:
    tasks: list[asyncio.Task[None]] = []
    yield lambda caches: tasks.append(asyncio.ensure_future(caches.run()))
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


Run = Callable[[Caches], None]


def config_map(
    namespace: str, name: str, labels: dict[str, str] | None = None, **data: str
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "data": data,
    }


def pod(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }


# --- the two ways of listing ---------------------------------------------------------------------


@pytest.mark.parametrize("way", [InitialList.STREAM, InitialList.PAGES])
async def test_both_ways_of_listing_give_the_server_s_content_and_follow_it(
    client: Client, namespace: str, run: Run, way: InitialList
) -> None:
    for number in range(7):
        await client.create(CONFIG_MAP, config_map(namespace, f"m{number}", n=str(number)))
    caches = Caches(client, tuning=Tuning(initial_list=way, page_size=3), chance=dice())
    store = caches.add(CONFIG_MAP, namespace=namespace).store
    run(caches)
    await caches.wait_synced(20)
    assert {entry.metadata.name: entry.data for entry in store.list()} == {
        f"m{number}": {"n": str(number)} for number in range(7)
    }
    await client.merge_patch(CONFIG_MAP, ObjectKey(namespace, "m1"), {"data": {"n": "x"}})
    await client.delete(CONFIG_MAP, ObjectKey(namespace, "m2"))
    await eventually(lambda: ObjectKey(namespace, "m2") not in store)
    changed = store.get(ObjectKey(namespace, "m1"))
    assert changed is not None
    assert changed.data == {"n": "x"}
    assert caches.informer(CONFIG_MAP, namespace).counters.lists == 1


async def test_bookmarks_of_any_kind_decode_in_slim_views(client: Client, namespace: str, run: Run) -> None:
    """The bookmark that ends a streamed list is an empty object of the kind, with nulls where it can."""
    await client.create(POD, pod(namespace, "p"))
    caches = Caches(client, tuning=Tuning(initial_list=InitialList.STREAM))
    pods = caches.add(POD, namespace=namespace, view=SlimPod).store
    caches.add(CUSTOM_RESOURCE_DEFINITION, view=CrdView)
    caches.add(NAMESPACE, view=MetadataOnly)
    run(caches)
    await caches.wait_synced(20)
    assert [entry.spec.containers for entry in pods.list()] == [(Container("c"),)]


async def test_one_name_is_watched_alone(client: Client, namespace: str, run: Run) -> None:
    for name in ("a", "b"):
        await client.create(CONFIG_MAP, config_map(namespace, name))
    caches = Caches(client)
    store = caches.add(CONFIG_MAP, namespace=namespace, name="a").store
    run(caches)
    await caches.wait_synced(20)
    assert store.keys() == (ObjectKey(namespace, "a"),)


@pytest.mark.parametrize(
    "selector",
    [
        "app=web",
        "app==web",
        "app!=web",
        "app",
        "!app",
        "app in (web, db)",
        "app notin (web)",
        "app=web,tier!=front",
        "empty=",
        "!other, app",
    ],
)
async def test_selectors_mean_what_the_server_takes_them_to_mean(
    client: Client, namespace: str, selector: str
) -> None:
    labels = [
        {},
        {"app": "web"},
        {"app": "db", "tier": "front"},
        {"app": "web", "tier": "front", "empty": ""},
    ]
    for number, some in enumerate(labels):
        await client.create(CONFIG_MAP, config_map(namespace, f"m{number}", some))
    async for page in client.pages(CONFIG_MAP, namespace=namespace, view=Resource, label_selector=selector):
        found = {obj.metadata.name for obj in page.items}
    assert found == {f"m{number}" for number, some in enumerate(labels) if matches_labels(selector, some)}


# --- selecting by fields -------------------------------------------------------------------------

SECRET = Kind("", "v1", "Secret", "secrets")
LARGE = "helm.sh/release.v1"
NOT_LARGE = f"type!={LARGE},type!=kubernetes.io/service-account-token"


def secret(namespace: str, name: str, type_: str, pretended: str = "") -> dict[str, Any]:
    """A Secret that pretends in every place but its type to be of another."""
    fake = {"type": pretended} if pretended else {}
    metadata = {"name": name, "namespace": namespace, "labels": {"type": "x"}, "annotations": fake}
    return {"metadata": metadata, "type": type_, "stringData": fake}


@pytest.mark.parametrize("way", [InitialList.STREAM, InitialList.PAGES])
async def test_what_is_outside_of_a_selection_by_fields_never_reaches_the_store(
    client: Client, namespace: str, run: Run, way: InitialList
) -> None:
    await client.create(SECRET, secret(namespace, "before", "Opaque", pretended=LARGE))
    await client.create(SECRET, secret(namespace, "large", LARGE, pretended="Opaque"))
    caches = Caches(client, tuning=Tuning(initial_list=way))
    store = caches.add(SECRET, namespace=namespace, field_selector=NOT_LARGE).store
    heard = set[str]()
    store.subscribe(lambda old, new: heard.update(each.metadata.name for each in (old, new) if each))
    run(caches)
    await caches.wait_synced(20)
    assert {each.metadata.name for each in store.list()} == {"before"}
    for name, type_ in (("later-large", LARGE), ("later", "Opaque")):
        body = secret(namespace, name, type_, pretended="Opaque" if type_ == LARGE else LARGE)
        caches.written(SECRET, await client.create(SECRET, body))
    touched = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "later-large", "namespace": namespace, "labels": {"touched": "yes"}},
    }
    written = await client.apply(SECRET, touched)
    caches.written(SECRET, written)
    await client.create(SECRET, secret(namespace, "last", "Opaque"))
    await eventually(lambda: ObjectKey(namespace, "last") in store)
    assert heard == {"before", "later", "last"}
    assert {each.type for each in store.list()} == {"Opaque"}


async def test_a_successor_outside_of_the_selection_is_a_deletion(
    client: Client, namespace: str, run: Run
) -> None:
    caches, key = Caches(client), ObjectKey(namespace, "a")
    store = caches.add(SECRET, namespace=namespace, field_selector=NOT_LARGE).store
    run(caches)
    await caches.wait_synced(20)
    for number, (type_, there) in enumerate((("Opaque", True), (LARGE, False), ("example.com/own", True))):
        with suppress(NotFound):
            await client.delete(SECRET, key)
        created = await client.create(SECRET, secret(namespace, "a", type_))
        mark = await client.create(SECRET, secret(namespace, f"mark-{number}", "Opaque"))
        await eventually(partial(store.get, mark.metadata.key))
        assert (key in store) is there
        assert not there or store.get(key) == created


# --- what lists and events say of a version ------------------------------------------------------


async def test_events_and_answers_of_one_write_carry_the_same_version(
    client: Client, namespace: str, run: Run
) -> None:
    caches = Caches(client)
    store = caches.add(CONFIG_MAP, namespace=namespace).store
    heard: list[tuple[str, str] | None] = []
    store.subscribe(
        lambda _, new: heard.append((new.metadata.name, new.metadata.resource_version) if new else None)
    )
    run(caches)
    await caches.wait_synced(20)
    for number in range(30):
        written = await client.apply(CONFIG_MAP, config_map(namespace, "a", n=str(number)))
        caches.written(CONFIG_MAP, written)
    version = int(written.metadata.resource_version)
    await eventually(lambda: store.resource_version >= version)
    assert len(heard) == 30, "each write is told once, whether the answer or the event came first"
    assert caches.informer(CONFIG_MAP, namespace).counters.expired == 0


async def test_a_deletion_and_its_successor_arrive_in_order(client: Client, namespace: str, run: Run) -> None:
    caches = Caches(client)
    store = caches.add(CONFIG_MAP, namespace=namespace).store
    run(caches)
    await caches.wait_synced(20)
    key = ObjectKey(namespace, "a")
    for _ in range(10):
        written = await client.create(CONFIG_MAP, config_map(namespace, "a"))
        caches.written(CONFIG_MAP, written)
        await client.delete(CONFIG_MAP, key, uid=written.metadata.uid)
        caches.deleted(CONFIG_MAP, key, written.metadata.uid)
        assert key not in store
    last = await client.create(CONFIG_MAP, config_map(namespace, "a"))
    caches.written(CONFIG_MAP, last)
    await eventually(lambda: store.resource_version >= int(last.metadata.resource_version))
    entry = store.get(key)
    assert entry is not None
    assert entry.metadata.uid == last.metadata.uid


async def test_a_resumed_version_of_the_future_is_noticed(client: Client, namespace: str, run: Run) -> None:
    """A server that was restored from a backup: it would leave a resumed watch silent for ever."""
    await client.create(CONFIG_MAP, config_map(namespace, "a", n="1"))
    caches = Caches(client, tuning=Tuning(idle_timeout_s=0.3), chance=dice())
    store = caches.add(CONFIG_MAP, namespace=namespace).store
    run(caches)
    await caches.wait_synced(20)
    store.bookmark(store.resource_version + 1_000_000)
    await client.merge_patch(CONFIG_MAP, ObjectKey(namespace, "a"), {"data": {"n": "2"}})
    await eventually(lambda: [entry.data["n"] for entry in store.list()] == ["2"])
    assert store.resource_version < 1_000_000


# --- definitions that come and go ----------------------------------------------------------------


def definition(kind: Kind) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "kind": kind.kind},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


@pytest.mark.parametrize("discovered", [True, False], ids=["with discovery", "without discovery"])
async def test_a_kind_follows_its_definition_while_others_go_on(
    client: Client, namespace: str, run: Run, *, discovered: bool
) -> None:
    number = uuid.uuid4().hex[:6]
    kind = Kind(f"g{number}.example.com", "v1", "Fad", "fads")
    crd = ObjectKey("", kind.crd_name)
    caches = Caches(client, tuning=Tuning(recheck_absent_s=0.5), chance=dice())
    if discovered:
        caches.follow(Discovery(caches.add(CUSTOM_RESOURCE_DEFINITION, view=CrdView).store))
    fads, others = caches.add(kind).store, caches.add(CONFIG_MAP, namespace=namespace).store
    told: list[tuple[str | None, str | None]] = []
    fads.subscribe(
        lambda old, new: told.append((old.metadata.name if old else None, new.metadata.name if new else None))
    )
    run(caches)
    await caches.wait_synced(20)
    assert caches.state(kind) is InformerState.ABSENT

    fad = {"apiVersion": kind.api_version, "kind": "Fad", "metadata": {"name": "f", "namespace": namespace}}
    for _ in range(2):
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition(kind))
        await eventually(lambda: caches.state(kind) is InformerState.SYNCED, deadline_s=40)
        assert len(fads) == 0
        await client.apply(kind, fad)
        await eventually(lambda: len(fads) == 1)
        await client.delete(CUSTOM_RESOURCE_DEFINITION, crd)
        await eventually(lambda: caches.state(kind) is InformerState.ABSENT, deadline_s=40)
        assert not fads.synced
        assert len(fads) == 0
        await eventually(lambda: caches.state(CONFIG_MAP, namespace) is InformerState.SYNCED)
    await client.create(CONFIG_MAP, config_map(namespace, "still-watched"))
    await eventually(lambda: ObjectKey(namespace, "still-watched") in others)
    assert caches.informer(CONFIG_MAP, namespace).counters.lists == 1
    assert told.count((None, "f")) >= 1
