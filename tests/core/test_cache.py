"""All informers together: kinds that come, go and fail, and write-through into every view."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec
import pytest

from magicstick.kube.cache import Caches, NotCachedError, NotSyncedError
from magicstick.kube.client import Client
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.informer import InformerState, InitialList, Tuning
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import MetadataOnly, ObjectMeta, Resource
from magicstick.kube.scope import Scope
from tests.support.apiserver import Answer, Hang, ScriptedServer, Stream, listing, status
from tests.support.objects import GADGET, WIDGET, widget, widget_body
from tests.support.waiting import SkippingClock, dice, eventually

pytestmark = pytest.mark.anyio

WIDGETS = "/apis/example.com/v1/widgets"
GADGETS = "/apis/example.com/v1/gadgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NOT_SERVED = Answer(404, "404 page not found\n")
A = ObjectKey("default", "a")


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
def caches(client: Client, clock: SkippingClock) -> Caches:
    return Caches(client, tuning=Tuning(), clock=clock, chance=dice())


@pytest.fixture
async def run(caches: Caches) -> AsyncIterator[Callable[[], None]]:
    """Runs the caches until the end of the test."""
    tasks: list[asyncio.Task[None]] = []
    yield lambda: tasks.append(asyncio.ensure_future(caches.run()))
    for task in tasks:
        assert not task.done(), "the caches ended by themselves"
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def listed(server: ScriptedServer, path: str, version: int, *objects: dict[str, object]) -> Stream:
    stream = await server.stream(path)
    for obj in objects:
        await stream.send("ADDED", obj)
    await stream.bookmark(str(version), initial_events_end=True)
    return stream


def definition(version: int, *, established: bool = True) -> dict[str, object]:
    return {
        "metadata": {"name": "widgets.example.com", "uid": "crd", "resourceVersion": str(version)},
        "spec": {"versions": [{"name": "v1", "served": True}]},
        "status": {"conditions": [{"type": "Established", "status": str(established)}]},
    }


# --- what is watched -----------------------------------------------------------------------------


async def test_asking_for_the_same_place_again_gives_the_same_informer(caches: Caches) -> None:
    informer = caches.add(WIDGET, namespace="one")
    assert caches.add(WIDGET, namespace="one") is informer
    assert caches.store(WIDGET, "one") is informer.store
    assert caches.state(WIDGET, "one") is InformerState.SYNCING
    assert list(caches.informers()) == [informer]


async def test_a_scope_has_one_view(caches: Caches) -> None:
    caches.add(WIDGET)
    with pytest.raises(ValueError, match="another view"):
        caches.add(WIDGET, view=MetadataOnly)


async def test_of_several_selectors_at_one_place_one_has_to_be_named(caches: Caches) -> None:
    whole, web = caches.add(WIDGET), caches.add(WIDGET, label_selector="app=web")
    assert caches.informer_of(Scope(WIDGET)) is whole
    assert caches.informer_of(Scope(WIDGET, label_selector="app=web")) is web
    with pytest.raises(KeyError, match="watched by several selectors"):
        caches.informer(WIDGET)
    with pytest.raises(KeyError, match="not watched"):
        caches.informer_of(Scope(WIDGET, label_selector="app=db"))


async def test_a_place_that_nobody_added_is_named_in_the_error(caches: Caches) -> None:
    caches.add(WIDGET)
    with pytest.raises(KeyError, match=r"widgets.example.com in one/a is not watched"):
        caches.store(WIDGET, "one", "a")


async def test_an_informer_that_is_added_later_runs_too(
    server: ScriptedServer, caches: Caches, run: Callable[[], None]
) -> None:
    caches.add(GADGET)
    run()
    await listed(server, GADGETS, 5)
    caches.add(WIDGET, namespace="one", name="a", label_selector="app=web")
    stream = await server.stream("/apis/example.com/v1/namespaces/one/widgets")
    assert stream.request.query["fieldSelector"] == "metadata.name=a"
    assert stream.request.query["labelSelector"] == "app=web"


# --- syncing -------------------------------------------------------------------------------------


async def test_waiting_ends_when_every_kind_that_is_served_has_synced(
    server: ScriptedServer, caches: Caches, run: Callable[[], None], clock: SkippingClock
) -> None:
    caches.add(WIDGET)
    caches.add(GADGET)
    server.answer("WATCH", GADGETS, NOT_SERVED)
    clock.hold()
    run()
    waiting = asyncio.ensure_future(caches.wait_synced(30))
    await eventually(lambda: caches.state(GADGET) is InformerState.ABSENT)
    assert not waiting.done()
    await listed(server, WIDGETS, 7, widget_body("a", 5))
    async with asyncio.timeout(5):
        await waiting
    assert len(caches.store(WIDGET)) == 1


async def test_waiting_in_vain_names_what_is_missing_and_why(
    server: ScriptedServer, client: Client, clock: SkippingClock
) -> None:
    caches = Caches(client)
    caches.add(WIDGET)
    caches.add(GADGET)
    server.answer("WATCH", WIDGETS, status(403, "Forbidden", "widgets is forbidden"))
    task = asyncio.ensure_future(caches.run())
    try:
        await listed(server, GADGETS, 7)
        with pytest.raises(NotSyncedError) as raised:
            await caches.wait_synced(3600)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert raised.value.missing == ("widgets.example.com (failing: Forbidden: widgets is forbidden)",)
    assert "not synced within " in str(raised.value)


async def test_waiting_for_a_server_that_says_nothing_ends_in_time(
    server: ScriptedServer, client: Client
) -> None:
    caches = Caches(client)
    caches.add(WIDGET)
    server.answer("WATCH", WIDGETS, Hang())
    task = asyncio.ensure_future(caches.run())
    try:
        with pytest.raises(NotSyncedError) as raised:
            await caches.wait_synced(0.2)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert raised.value.missing == ("widgets.example.com (syncing)",)


async def test_a_kind_that_fails_holds_up_no_other(
    server: ScriptedServer, caches: Caches, run: Callable[[], None]
) -> None:
    caches.add(WIDGET)
    caches.add(GADGET)
    server.answer("WATCH", WIDGETS, status(500, "InternalError", "conversion webhook failed"))
    run()
    stream = await listed(server, GADGETS, 7, widget_body("g", 5))
    await eventually(lambda: caches.state(WIDGET) is InformerState.FAILING)
    await stream.send("MODIFIED", widget_body("g", 9))
    await eventually(lambda: caches.store(GADGET).resource_version == 9)
    assert caches.state(GADGET) is InformerState.SYNCED


async def test_states_are_told_and_a_handler_that_raises_harms_nobody(
    server: ScriptedServer, caches: Caches, run: Callable[[], None]
) -> None:
    heard: list[tuple[Kind, InformerState]] = []

    def fails(_kind: Kind, _state: InformerState) -> None:
        raise RuntimeError("a bug in a controller")

    caches.subscribe_state(fails)
    caches.subscribe_state(lambda kind, state: heard.append((kind, state)))
    caches.add(WIDGET)
    run()
    await listed(server, WIDGETS, 7)
    await eventually(lambda: heard == [(WIDGET, InformerState.SYNCED)])


# --- definitions that come and go ----------------------------------------------------------------


@pytest.fixture
def followed(caches: Caches) -> Caches:
    caches.follow(Discovery(caches.add(CUSTOM_RESOURCE_DEFINITION, view=CrdView).store))
    return caches


async def test_a_kind_starts_with_its_definition_without_polling(
    server: ScriptedServer, followed: Caches, run: Callable[[], None], clock: SkippingClock
) -> None:
    followed.add(WIDGET)
    server.answer("WATCH", WIDGETS, NOT_SERVED)
    clock.hold()
    run()
    definitions = await listed(server, CRDS, 5)
    await eventually(lambda: followed.state(CUSTOM_RESOURCE_DEFINITION) is InformerState.SYNCED)
    await eventually(lambda: followed.state(WIDGET) is InformerState.ABSENT)
    await eventually(lambda: 30.0 in clock.waits)
    asked = len(server.seen("WATCH", WIDGETS))
    assert asked <= 1, "the first look may come before the definitions are known"
    server.unscript("WATCH", WIDGETS)
    await definitions.send("ADDED", definition(6, established=False))
    await definitions.send("MODIFIED", definition(7))
    await listed(server, WIDGETS, 9, widget_body("a", 8))
    await eventually(lambda: followed.state(WIDGET) is InformerState.SYNCED)
    assert len(server.seen("WATCH", WIDGETS)) == asked + 1


async def test_a_kind_stops_with_its_definition_and_returns_with_it(
    server: ScriptedServer, followed: Caches, run: Callable[[], None], clock: SkippingClock
) -> None:
    followed.add(WIDGET)
    clock.hold()
    run()
    definitions = await listed(server, CRDS, 5, definition(4))
    stream = await listed(server, WIDGETS, 7, widget_body("a", 6))
    await eventually(lambda: followed.state(WIDGET) is InformerState.SYNCED)
    await definitions.send("DELETED", definition(9))
    server.answer("WATCH", WIDGETS, NOT_SERVED)
    await stream.bookmark("9")
    await stream.end()
    await eventually(lambda: followed.state(WIDGET) is InformerState.ABSENT)
    assert followed.store(WIDGET).list() == ()
    server.unscript("WATCH", WIDGETS)
    await definitions.send("ADDED", definition(12))
    await listed(server, WIDGETS, 14, widget_body("b", 13))
    await eventually(lambda: followed.state(WIDGET) is InformerState.SYNCED)
    assert followed.store(WIDGET).keys() == (ObjectKey("default", "b"),)


async def test_definitions_that_cannot_be_read_stop_nothing(
    server: ScriptedServer, followed: Caches, run: Callable[[], None]
) -> None:
    followed.add(WIDGET)
    server.answer("WATCH", CRDS, status(403, "Forbidden", "no"))
    run()
    await listed(server, WIDGETS, 7)
    await eventually(lambda: followed.state(WIDGET) is InformerState.SYNCED)
    assert followed.state(CUSTOM_RESOURCE_DEFINITION) is InformerState.FAILING


# --- write-through -------------------------------------------------------------------------------


class Slim(msgspec.Struct, frozen=True, gc=False):
    class Spec(msgspec.Struct, frozen=True, rename="camel", gc=False):
        node_name: str = ""

    metadata: ObjectMeta
    spec: Spec = Spec()


class WithImmutable(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta
    immutable: str = ""


class Grace(ObjectMeta, frozen=True, rename="camel", gc=False):
    deletion_grace_period_seconds: int | None = None


class WithGrace(msgspec.Struct, frozen=True, gc=False):
    metadata: Grace


async def test_a_write_reaches_every_store_that_it_belongs_to(caches: Caches) -> None:
    whole = caches.add(WIDGET).store
    near = caches.add(WIDGET, namespace="default").store
    far = caches.add(WIDGET, namespace="far").store
    other = caches.add(GADGET).store
    written = widget("a", 5)
    caches.written(WIDGET, written)
    assert whole.get(A) is written
    assert near.get(A) is written
    assert len(far) == 0
    assert len(other) == 0
    caches.deleted(WIDGET, A, "uid-a")
    assert len(whole) == 0
    assert len(near) == 0


async def test_a_write_that_labels_keep_out_of_a_list_is_kept_out_of_its_store(caches: Caches) -> None:
    store = caches.add(WIDGET, label_selector="app=web").store
    caches.written(WIDGET, widget("a", 5, labels={"app": "db"}))
    assert len(store) == 0
    caches.written(WIDGET, widget("a", 6, labels={"app": "web"}))
    assert len(store) == 1


async def test_a_write_that_fields_keep_out_of_a_list_is_kept_out_of_its_store(caches: Caches) -> None:
    store = caches.add(WIDGET, field_selector="type!=large").store
    caches.written(WIDGET, msgspec.structs.replace(widget("a", 5), type="large"))
    assert len(store) == 0
    caches.written(WIDGET, msgspec.structs.replace(widget("b", 6), type="small"))
    assert len(store) == 1


async def test_what_a_list_by_fields_lacks_may_exist_all_the_same(
    server: ScriptedServer, caches: Caches, run: Callable[[], None]
) -> None:
    caches.add(WIDGET, field_selector="type!=large")
    run()
    stream = await listed(server, WIDGETS, 7, widget_body("a", 5))
    assert stream.request.query["fieldSelector"] == "type!=large"
    await eventually(lambda: caches.state(WIDGET) is InformerState.SYNCED)
    assert caches.live(WIDGET, A) is not None
    with pytest.raises(NotCachedError):
        caches.live(WIDGET, ObjectKey("default", "b"))


async def test_lists_of_one_place_by_different_fields_are_told_apart(caches: Caches) -> None:
    scope = Scope(WIDGET, field_selector="type!=large")
    whole, small = caches.add(WIDGET), caches.add(WIDGET, field_selector="type!=large")
    assert caches.informer_of(Scope(WIDGET)) is whole
    assert caches.informer_of(scope) is small
    assert caches.store_of(scope) is small.store
    assert caches.watch(scope, Resource) is small


async def test_a_write_reaches_slim_views_as_the_watch_would_decode_it(caches: Caches) -> None:
    slim = caches.add(WIDGET, view=Slim).store
    metadata = caches.add(WIDGET, namespace="default", view=MetadataOnly).store
    body = widget_body(
        "a", 5, spec={"nodeName": "n1", "more": [1]}, managed_fields=[{"manager": "x", "fieldsV1": {}}]
    )
    caches.written(
        WIDGET, widget("a", 5, spec=body["spec"], managed_fields=body["metadata"]["managedFields"])
    )
    assert slim.get(A) == msgspec.json.decode(msgspec.json.encode(body), type=Slim)
    assert metadata.get(A) == msgspec.json.decode(msgspec.json.encode(body), type=MetadataOnly)


@pytest.mark.parametrize("view", [WithImmutable, WithGrace])
async def test_a_view_of_more_than_a_write_returns_waits_for_the_watch(
    caches: Caches, view: type[WithImmutable | WithGrace]
) -> None:
    store = caches.add(WIDGET, view=view).store
    caches.written(WIDGET, widget("a", 5))
    assert len(store) == 0


async def test_the_live_object_is_known_only_from_a_synced_list_of_whole_objects(
    server: ScriptedServer, caches: Caches, run: Callable[[], None]
) -> None:
    caches.add(WIDGET, label_selector="app=web")
    caches.add(GADGET, view=MetadataOnly)
    with pytest.raises(NotCachedError):
        caches.live(WIDGET, A)
    caches.add(WIDGET, namespace="default")
    with pytest.raises(NotCachedError):
        caches.live(WIDGET, A)
    run()
    await listed(server, "/apis/example.com/v1/namespaces/default/widgets", 7, widget_body("a", 5))
    await listed(server, GADGETS, 7)
    await listed(server, WIDGETS, 7)
    await eventually(lambda: all(one.state is InformerState.SYNCED for one in caches.informers()))
    live = caches.live(WIDGET, A)
    assert isinstance(live, Resource)
    assert live.metadata.resource_version == "5"
    assert caches.live(WIDGET, ObjectKey("default", "b")) is None
    with pytest.raises(NotCachedError):
        caches.live(WIDGET, ObjectKey("elsewhere", "a"))
    with pytest.raises(NotCachedError):
        caches.live(GADGET, A)


async def test_what_a_list_limited_by_labels_holds_is_known_and_what_it_lacks_is_not(
    server: ScriptedServer, caches: Caches, run: Callable[[], None]
) -> None:
    caches.add(WIDGET, label_selector="app=web")
    run()
    await listed(server, WIDGETS, 7, widget_body("a", 5, labels={"app": "web"}))
    await eventually(lambda: all(one.state is InformerState.SYNCED for one in caches.informers()))
    live = caches.live(WIDGET, A)
    assert live is not None
    assert live.metadata.resource_version == "5"
    with pytest.raises(NotCachedError):
        caches.live(WIDGET, ObjectKey("default", "b"))


async def test_the_way_of_listing_is_one_for_all(server: ScriptedServer, client: Client) -> None:
    caches = Caches(client, tuning=Tuning(initial_list=InitialList.PAGES))
    caches.add(WIDGET)
    server.answer("GET", WIDGETS, listing([widget_body("a", 5)], "7"))
    task = asyncio.ensure_future(caches.run())
    try:
        await caches.wait_synced(5)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert len(caches.store(WIDGET)) == 1
