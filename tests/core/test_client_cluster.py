"""The client against the real API server: what it answers, and what we take it to mean."""

import asyncio
import gc
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from hack.devcluster import DevCluster
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KindNotServed,
    NamespaceTerminating,
    NotFound,
    Rejected,
    Unauthorized,
    Unavailable,
)
from magicstick.kube.kinds import CONFIG_MAP, NAMESPACE, NODE, Kind, ObjectKey
from magicstick.kube.objects import MetadataOnly, Resource
from tests.support.certificates import AUTHORITY

pytestmark = pytest.mark.anyio

DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
GIZMO = Kind("client-test.example.com", "v1", "Gizmo", "gizmos")
UNSERVED = Kind("client-test.example.com", "v2", "Gizmo", "gizmos")
ABSENT_GROUP = Kind("absent.example.com", "v1", "Gizmo", "gizmos")
ABSENT_PLURAL = Kind("client-test.example.com", "v1", "Widget", "widgets")
ABSENT_BUILT_IN = Kind("apps", "v1", "Widget", "widgets")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
GIZMO_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": GIZMO.crd_name},
    "spec": {
        "group": GIZMO.group,
        "scope": "Namespaced",
        "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
        "versions": [
            {
                "name": name,
                "served": name == "v1",
                "storage": name == "v1",
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
            for name in ("v1", "v2")
        ],
    },
}


@pytest.fixture(scope="module")
def cluster(control_plane: DevCluster) -> DevCluster:
    control_plane.apply(GIZMO_DEFINITION)
    return control_plane


@pytest.fixture
async def client(cluster: DevCluster) -> AsyncIterator[Client]:
    config = await ClusterConfig.load(cluster.kubeconfig)
    async with Client(config, user_agent="magicstick/test", field_manager="magicstick") as client:
        yield client


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"client-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACE, {"metadata": {"name": name}})
    return name


@pytest.fixture
async def terminating(client: Client, namespace: str) -> str:
    """A namespace that is being deleted, and stays so: no controller empties it here, a finalizer besides."""
    key = ObjectKey("", namespace)
    await client.merge_patch(NAMESPACE, key, {"metadata": {"finalizers": ["example.com/hold"]}})
    held = await client.delete(NAMESPACE, key)
    assert held is not None
    assert held.metadata.dying
    return namespace


def config_map(namespace: str, name: str = "a", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def gizmo(namespace: str, **content: Any) -> dict[str, Any]:
    return {
        "apiVersion": GIZMO.api_version,
        "kind": "Gizmo",
        "metadata": {"name": "a", "namespace": namespace},
        **content,
    }


def deployment(namespace: str, env: list[Mapping[str, object]]) -> dict[str, Any]:
    labels = {"app": "a"}
    pod = {"containers": [{"name": "a", "image": "example.com/a", "env": env}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


# -- verbs -------------------------------------------------------------------------------------------


async def test_an_object_lives_through_all_verbs(client: Client, namespace: str) -> None:
    key = ObjectKey(namespace, "a")
    created = await client.create(CONFIG_MAP, config_map(namespace, x="1"))
    assert (created.data, created.metadata.key) == ({"x": "1"}, key)
    applied = await client.apply(CONFIG_MAP, config_map(namespace, y="2"))
    assert applied.data == {"x": "1", "y": "2"}
    assert {fields.manager for fields in applied.metadata.managed_fields} == {"magicstick"}
    merged = await client.merge_patch(CONFIG_MAP, key, {"data": {"x": None}})
    assert merged.data == {"y": "2"}
    test = {"op": "test", "path": "/data/y", "value": "2"}
    patched = await client.json_patch(CONFIG_MAP, key, [test, {"op": "add", "path": "/data/z", "value": "3"}])
    assert patched.data == {"y": "2", "z": "3"}
    replaced = await client.replace(CONFIG_MAP, config_map(namespace, only="4"))
    assert (await client.get(CONFIG_MAP, key)).data == replaced.data == {"only": "4"}
    assert created.metadata.uid == replaced.metadata.uid
    assert await client.delete(CONFIG_MAP, key, uid=created.metadata.uid) is None
    with pytest.raises(NotFound) as caught:
        await client.get(CONFIG_MAP, key)
    assert type(caught.value) is NotFound


async def test_an_apply_without_news_keeps_the_version(client: Client, namespace: str) -> None:
    first = await client.apply(CONFIG_MAP, config_map(namespace, x="1"))
    again = await client.apply(CONFIG_MAP, config_map(namespace, x="1"))
    assert again.metadata.resource_version == first.metadata.resource_version


async def test_status_is_applied_on_its_own(client: Client, namespace: str) -> None:
    await client.apply(GIZMO, gizmo(namespace, spec={"size": 2}, status={"phase": "Ignored"}))
    written = await client.apply(GIZMO, gizmo(namespace, status={"phase": "Ready"}), subresource="status")
    assert (written.spec, written.status) == ({"size": 2}, {"phase": "Ready"})
    assert written.metadata.generation == 1


async def test_a_held_object_is_given_when_it_is_deleted(client: Client, namespace: str) -> None:
    body = config_map(namespace)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await client.create(CONFIG_MAP, body)
    held = await client.delete(CONFIG_MAP, ObjectKey(namespace, "a"))
    assert held is not None
    assert held.metadata.dying
    await client.merge_patch(CONFIG_MAP, held.metadata.key, {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, held.metadata.key)


async def test_pages_make_one_consistent_list(client: Client, namespace: str) -> None:
    names = [f"c{number}" for number in range(5)]
    for name in names:
        await client.create(CONFIG_MAP, config_map(namespace, name))
    found, versions = [], set()
    async for page in client.pages(CONFIG_MAP, namespace=namespace, page_size=2, view=MetadataOnly):
        versions.add(page.resource_version)
        found += [item.metadata.name for item in page.items]
        if len(found) == 2:
            await client.delete(CONFIG_MAP, ObjectKey(namespace, "c4"))
    assert (found, len(versions)) == (names, 1)


# -- refusals ----------------------------------------------------------------------------------------


async def test_what_is_there_cannot_be_created(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map(namespace))
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAP, config_map(namespace))


async def test_an_unknown_field_is_refused(client: Client, namespace: str) -> None:
    wrong = gizmo(namespace, spec={"size": 1, "colour": "red"})
    key = ObjectKey(namespace, "a")
    await client.create(GIZMO, gizmo(namespace, spec={"size": 1}))
    for attempt in (
        client.create(GIZMO, wrong),
        client.apply(GIZMO, wrong),
        client.merge_patch(GIZMO, key, {"spec": {"colour": "red"}}),
        client.replace(GIZMO, wrong),
        client.create(CONFIG_MAP, {**config_map(namespace), "dta": {}}),
    ):
        with pytest.raises(Rejected, match=r"colour|dta"):
            await attempt
    assert (await client.get(GIZMO, key)).spec == {"size": 1}


async def test_a_value_that_breaks_a_rule_is_told_by_field(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.apply(GIZMO, gizmo(namespace, spec={"size": 0}))
    assert [field for field, _ in caught.value.causes] == ["spec.size"]


@pytest.mark.parametrize(
    "env", [[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], [{"name": "A", "value": 1}]]
)
async def test_an_apply_that_can_never_succeed_is_a_refusal(
    client: Client, namespace: str, env: list[Mapping[str, object]]
) -> None:
    with pytest.raises(Rejected):
        await client.apply(DEPLOYMENT, deployment(namespace, env))


async def test_an_immutable_field_is_a_refusal(client: Client, namespace: str) -> None:
    await client.apply(DEPLOYMENT, deployment(namespace, []))
    changed = deployment(namespace, [])
    changed["spec"]["selector"]["matchLabels"] = {"app": "b"}
    changed["spec"]["template"]["metadata"]["labels"] = {"app": "b"}
    with pytest.raises(Invalid):
        await client.apply(DEPLOYMENT, changed)


async def test_a_precondition_that_does_not_hold_is_a_conflict(client: Client, namespace: str) -> None:
    key = ObjectKey(namespace, "a")
    old = await client.create(CONFIG_MAP, config_map(namespace, x="1"))
    live = await client.apply(CONFIG_MAP, config_map(namespace, x="2"))
    stale = config_map(namespace, x="3")
    stale["metadata"]["resourceVersion"] = old.metadata.resource_version
    for attempt in (
        client.delete(CONFIG_MAP, key, uid=str(uuid.uuid4())),
        client.delete(CONFIG_MAP, key, resource_version=old.metadata.resource_version),
        client.replace(CONFIG_MAP, stale),
        client.merge_patch(CONFIG_MAP, key, stale),
    ):
        with pytest.raises(Conflict) as caught:
            await attempt
        assert not isinstance(caught.value, AlreadyExists)
    with pytest.raises(Invalid):
        await client.json_patch(CONFIG_MAP, key, [{"op": "test", "path": "/data/x", "value": "1"}])
    assert (await client.get(CONFIG_MAP, key)).metadata == live.metadata


@pytest.mark.parametrize("kind", [CONFIG_MAP, GIZMO], ids=str)
async def test_an_apply_with_the_uid_of_a_predecessor_is_a_conflict(
    client: Client, namespace: str, kind: Kind
) -> None:
    body = {CONFIG_MAP: config_map(namespace), GIZMO: gizmo(namespace)}[kind]
    replaced = (await client.apply(kind, body)).metadata
    body["metadata"]["uid"] = replaced.uid
    assert (await client.apply(kind, body)).metadata.uid == replaced.uid
    await client.delete(kind, replaced.key)
    with pytest.raises(Conflict):  # nothing is there: it is not created anew
        await client.apply(kind, body)
    del body["metadata"]["uid"]
    successor = (await client.apply(kind, body)).metadata
    body["metadata"]["uid"] = replaced.uid
    with pytest.raises(Conflict):
        await client.apply(kind, body)
    assert (await client.get(kind, successor.key)).metadata.uid == successor.uid


async def test_a_status_is_bound_to_its_object_by_the_version_not_by_the_uid(
    client: Client, namespace: str
) -> None:
    """The server ignores the uid there: a status meant for a predecessor would go to the successor."""
    key = ObjectKey(namespace, "a")
    before = (await client.apply(GIZMO, gizmo(namespace, spec={"size": 1}))).metadata
    await client.delete(GIZMO, key)
    await client.apply(GIZMO, gizmo(namespace, spec={"size": 1}))
    late = gizmo(namespace, status={"phase": "Late"})
    late["metadata"] |= {"uid": before.uid, "resourceVersion": before.resource_version}
    with pytest.raises(Conflict):
        await client.apply(GIZMO, late, subresource="status")
    assert (await client.get(GIZMO, key)).status == {}
    del late["metadata"]["resourceVersion"]
    assert (await client.apply(GIZMO, late, subresource="status")).status == {"phase": "Late"}


async def test_a_field_of_another_manager_is_a_conflict_unless_forced(
    client: Client, cluster: DevCluster, namespace: str
) -> None:
    cluster.rest.apply(config_map(namespace, x="theirs"), field_manager="somebody")
    with pytest.raises(Conflict) as caught:
        await client.apply(CONFIG_MAP, config_map(namespace, x="ours"), force=False)
    assert [field for field, _ in caught.value.causes] == [".data.x"]
    assert (await client.apply(CONFIG_MAP, config_map(namespace, x="ours"))).data == {"x": "ours"}


async def test_a_terminating_namespace_takes_nothing_and_lets_everything_go(
    client: Client, cluster: DevCluster, terminating: str
) -> None:
    for attempt in (
        client.create(CONFIG_MAP, config_map(terminating)),
        client.apply(CONFIG_MAP, config_map(terminating)),
        client.apply(GIZMO, gizmo(terminating)),
    ):
        with pytest.raises(NamespaceTerminating):
            await attempt
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAP, ObjectKey(terminating, "a"))


async def test_a_missing_namespace_takes_nothing(client: Client) -> None:
    for attempt in (
        client.create(CONFIG_MAP, config_map("missing-namespace")),
        client.apply(CONFIG_MAP, config_map("missing-namespace")),
        client.apply(GIZMO, gizmo("missing-namespace")),
    ):
        with pytest.raises(NamespaceTerminating):
            await attempt


@pytest.mark.parametrize("kind", [ABSENT_GROUP, ABSENT_PLURAL, ABSENT_BUILT_IN, UNSERVED], ids=str)
async def test_a_kind_that_is_not_served_is_told_from_a_missing_object(
    client: Client, namespace: str, kind: Kind
) -> None:
    body = {**gizmo(namespace), "apiVersion": kind.api_version, "kind": kind.kind}
    key = ObjectKey(namespace, "a")
    for attempt in (
        client.get(kind, key),
        anext(client.pages(kind)),
        anext(client.pages(kind, namespace=namespace)),
        anext(client.watch(kind, timeout_s=5)),
        client.create(kind, body),
        client.apply(kind, body),
        client.apply(kind, body, subresource="status"),
        client.merge_patch(kind, key, {}),
        client.delete(kind, key),
    ):
        with pytest.raises(KindNotServed):
            await attempt


async def test_a_missing_object_is_not_a_missing_kind(client: Client, namespace: str) -> None:
    key = ObjectKey(namespace, "missing")
    for kind in (CONFIG_MAP, GIZMO):
        for attempt in (
            client.get(kind, key),
            client.merge_patch(kind, key, {}),
            client.delete(kind, key),
            client.json_patch(kind, key, []),
        ):
            with pytest.raises(NotFound) as caught:
                await attempt
            assert type(caught.value) is NotFound


# -- who we are --------------------------------------------------------------------------------------


async def test_a_service_account_without_rights_is_forbidden(
    client: Client, cluster: DevCluster, namespace: str
) -> None:
    accounts = Kind("", "v1", "ServiceAccount", "serviceaccounts")
    await client.create(accounts, {"metadata": {"name": "nobody", "namespace": namespace}})
    token = cluster.service_account_token(namespace, "nobody")
    config = ClusterConfig.plain(cluster.url, token=token, ca_file=cluster.ca_file)
    async with Client(config, user_agent="t", field_manager="t") as nobody:
        for attempt in (nobody.get(NODE, ObjectKey("", "n")), anext(nobody.watch(NODE, timeout_s=5))):
            with pytest.raises(Forbidden, match="nobody"):
                await attempt


async def test_a_wrong_token_is_unauthorized(cluster: DevCluster) -> None:
    config = ClusterConfig.plain(cluster.url, token="wrong", ca_file=cluster.ca_file)
    async with Client(config, user_agent="t", field_manager="t") as stranger:
        for attempt in (stranger.get(NODE, ObjectKey("", "n")), anext(stranger.watch(NODE, timeout_s=5))):
            with pytest.raises(Unauthorized):
                await attempt


async def test_a_server_with_another_authority_is_not_spoken_to(cluster: DevCluster, tmp_path: Any) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(AUTHORITY)
    config = ClusterConfig.plain(cluster.url, token=cluster.admin_token, ca_file=authority)
    asked: list[int] = []
    async with Client(
        config, user_agent="t", field_manager="t", observer=lambda *what: asked.append(what[2])
    ) as client:
        with pytest.raises(Unavailable, match="CertificateError"):
            await client.get(NODE, ObjectKey("", "n"))
    assert asked == [0]


# -- watches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CONFIG_MAP, GIZMO], ids=str)
async def test_a_list_is_streamed_up_to_its_bookmark_and_goes_on(
    client: Client, namespace: str, kind: Kind
) -> None:
    bodies = {CONFIG_MAP: config_map(namespace), GIZMO: gizmo(namespace)}
    await client.apply(kind, bodies[kind])
    events = client.watch(
        kind, namespace=namespace, view=MetadataOnly, send_initial_events=True, timeout_s=60
    )
    async with asyncio.timeout(20), aclosing(events):
        first, bookmark = await anext(events), await anext(events)
        assert (first.type, first.object.metadata.key) == ("ADDED", ObjectKey(namespace, "a"))
        assert bookmark.type == "BOOKMARK"
        assert bookmark.object.metadata.annotations["k8s.io/initial-events-end"] == "true"
        await client.delete(kind, ObjectKey(namespace, "a"))
        last = await anext(events)
        assert (last.type, last.object.metadata.uid) == ("DELETED", first.object.metadata.uid)
        assert int(last.object.metadata.resource_version) > int(bookmark.object.metadata.resource_version)


async def test_a_watch_goes_on_from_a_version_and_ends_in_time(client: Client, namespace: str) -> None:
    start = (await client.create(CONFIG_MAP, config_map(namespace, "a"))).metadata.resource_version
    await client.create(CONFIG_MAP, config_map(namespace, "b", blob="x" * 1_000_000))
    events = [
        event
        async for event in client.watch(CONFIG_MAP, namespace=namespace, resource_version=start, timeout_s=1)
        if event.type != "BOOKMARK"
    ]
    assert [(event.type, event.object.metadata.name) for event in events] == [("ADDED", "b")]
    assert len(events[0].object.data["blob"]) == 1_000_000


async def test_a_version_that_is_too_old_is_gone(client: Client, namespace: str) -> None:
    with pytest.raises(Gone):
        await anext(client.watch(GIZMO, namespace=namespace, resource_version="1", timeout_s=5))


async def test_a_version_from_the_future_is_no_absence(client: Client, namespace: str) -> None:
    """As after the restore of a backup: the server waits for it, then says so."""
    with pytest.raises(ApiError, match="Too large resource version") as caught:
        async with asyncio.timeout(20):
            await anext(client.pages(GIZMO, namespace=namespace, view=Resource, resource_version="9" * 15))
    assert not isinstance(caught.value, NotFound)


# -- the end -----------------------------------------------------------------------------------------


async def leave_a_watch(client: Client) -> None:
    events = client.watch(NAMESPACE, send_initial_events=True, timeout_s=60)
    async with aclosing(events):
        await anext(events)


async def cancel_a_request(client: Client) -> None:
    asked = asyncio.create_task(client.get(NAMESPACE, ObjectKey("", "default")))
    await client.get(NAMESPACE, ObjectKey("", "default"))  # by now the other one is on its way or answered
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)


@pytest.mark.parametrize("leave", [leave_a_watch, cancel_a_request])
def test_nothing_is_left_of_a_client_whatever_it_was_doing(
    cluster: DevCluster, leave: Callable[[Client], Awaitable[None]]
) -> None:
    """A connection that still says goodbye in TLS when the loop ends would warn as it is collected."""

    async def run() -> None:
        config = ClusterConfig.plain(cluster.url, token=cluster.admin_token, ca_file=cluster.ca_file)
        async with Client(config, user_agent="t", field_manager="t") as client:
            await leave(client)
        assert len(asyncio.all_tasks()) == 1

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(5):
            asyncio.run(run())
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
