"""Last good copies: what the loader concludes from every state that a ConfigMap can be in."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
import pytest

from magicstick.catalogs.loader import MESSAGE_LIMIT, Catalogs, Parsed, ProblemReason
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.catalogs.presets import PresetCatalog
from magicstick.kube.cache import Caches
from magicstick.kube.errors import Forbidden
from magicstick.kube.informer import BOOKMARK, INITIAL_EVENTS_END, InformerState, Tuning
from magicstick.kube.kinds import CONFIG_MAP, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.wire import ListMeta, ListPage, WatchEvent
from tests.support.shipped import text_of

pytestmark = pytest.mark.anyio

NAMESPACE = "ai-system"
MODULES, APPLICATIONS = "magicstick-module-catalog", "magicstick-app-catalog"
TARGETS, PRESETS = "magicstick-compute-target-catalog", "magicstick-model-presets"
DATA = {
    MODULES: {"modules.json": text_of("module-catalog")},
    APPLICATIONS: {"applications.json": text_of("app-catalog")},
    TARGETS: {"targets.json": text_of("compute-target-catalog")},
    PRESETS: {"presets.json": text_of("model-presets")},
}
DEADLINE_S = 10.0


@dataclass(frozen=True)
class Places:
    module_catalog_namespace: str = NAMESPACE
    module_catalog_name: str = MODULES
    app_catalog_namespace: str = NAMESPACE
    app_catalog_name: str = APPLICATIONS
    compute_target_catalog_namespace: str = NAMESPACE
    compute_target_catalog_name: str = TARGETS
    model_presets_namespace: str = NAMESPACE
    model_presets_name: str = PRESETS


class ConfigMaps:
    """A server that holds ConfigMaps, each watched by its name, and refuses those that it is told to."""

    def __init__(self, data: dict[str, dict[str, str]]) -> None:
        self._versions = itertools.count(1)
        self._objects = {name: self._object(name, content) for name, content in data.items()}
        self._refused: set[str] = set()
        self._watches: dict[str, asyncio.Queue[WatchEvent[Any] | Exception]] = {}

    def put(self, name: str, content: dict[str, str]) -> None:
        known = name in self._objects
        self._objects[name] = self._object(name, content)
        self._send(name, WatchEvent("MODIFIED" if known else "ADDED", self._objects[name]))

    def remove(self, name: str) -> None:
        del self._objects[name]
        self._send(name, WatchEvent("DELETED", self._object(name, {})))

    def refuse(self, name: str) -> None:
        self._refused.add(name)
        if name in self._watches:
            self._watches[name].put_nowait(Forbidden("not allowed", code=403))

    def admit(self, name: str) -> None:
        self._refused.discard(name)

    async def pages(self, kind: Kind, *, field_selector: str = "", **_: Any) -> AsyncIterator[ListPage[Any]]:
        name = self._checked(kind, field_selector)
        items = [self._objects[name]] if name in self._objects else []
        yield ListPage(ListMeta(str(next(self._versions))), items)

    async def watch(
        self, kind: Kind, *, field_selector: str = "", send_initial_events: bool = False, **_: Any
    ) -> AsyncIterator[WatchEvent[Any]]:
        name = self._checked(kind, field_selector)
        queue = self._watches[name] = asyncio.Queue()
        if send_initial_events:
            if name in self._objects:
                yield WatchEvent("ADDED", self._objects[name])
            yield WatchEvent(BOOKMARK, self._object(name, {}, {INITIAL_EVENTS_END: "true"}))
        while True:
            event = await queue.get()
            if isinstance(event, Exception):
                raise event
            yield event

    def _checked(self, kind: Kind, field_selector: str) -> str:
        assert kind == CONFIG_MAP
        name = field_selector.removeprefix("metadata.name=")
        if name in self._refused:
            raise Forbidden("not allowed", code=403)
        return name

    def _send(self, name: str, event: WatchEvent[Any]) -> None:
        if name in self._watches:
            self._watches[name].put_nowait(event)

    def _object(self, name: str, data: dict[str, str], annotations: dict[str, str] | None = None) -> Resource:
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "resourceVersion": str(next(self._versions)),
            "annotations": annotations or {},
        }
        return msgspec.convert({"metadata": metadata, "data": data}, Resource)


class World:
    """A server, caches of it, and the catalogs in them; remembers what handlers were told."""

    def __init__(self, data: dict[str, dict[str, str]]) -> None:
        self.server = ConfigMaps(data)
        self.caches = Caches(self.server, tuning=Tuning(heal_after_s=0.0))
        self.catalogs = Catalogs(self.caches, Places())
        self.told: list[tuple[str, Parsed | None, Parsed | None]] = []
        self._news = asyncio.Event()
        self.catalogs.subscribe(lambda *news: self.told.append(news))
        self.catalogs.subscribe(lambda *_: self._news.set())
        self.caches.subscribe_state(lambda *_: self._news.set())

    def modules(self) -> ModuleCatalog:
        assert self.catalogs.modules is not None
        return self.catalogs.modules

    def reason(self, catalog: str) -> ProblemReason | None:
        problem = self.catalogs.problems.get(catalog)
        return problem.reason if problem else None

    def state(self, name: str) -> InformerState:
        return self.caches.state(CONFIG_MAP, NAMESPACE, name)

    async def until(self, condition: Callable[[], object]) -> None:
        with anyio.fail_after(DEADLINE_S):
            while not condition():
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def running(data: dict[str, dict[str, str]] = DATA, *, refused: str = "") -> AsyncIterator[World]:
    """A world whose caches run and have heard of every catalog."""
    world = World(data)
    if refused:
        world.server.refuse(refused)
    async with anyio.create_task_group() as group:
        group.start_soon(world.caches.run)
        await world.until(lambda: world.catalogs.known)
        yield world
        group.cancel_scope.cancel()


def catalog_text(*names: str) -> dict[str, str]:
    entries = {name: {"path": f"manifests/{name}", "kustomizationName": name} for name in names}
    return {"modules.json": json.dumps({"modules": entries})}


def without(name: str) -> dict[str, dict[str, str]]:
    return {key: value for key, value in DATA.items() if key != name}


async def test_before_the_caches_have_synced_nothing_is_known_and_nothing_is_wrong() -> None:
    catalogs = World(DATA).catalogs

    assert (catalogs.modules, catalogs.applications, catalogs.compute_targets, catalogs.presets) == (
        None,
    ) * 4
    assert catalogs.problems == {}
    assert not catalogs.known
    assert not catalogs.usable


@pytest.mark.req("MS-101")
async def test_catalogs_come_from_their_config_maps() -> None:
    async with running() as world:
        catalogs = world.catalogs
        assert catalogs.problems == {}
        assert catalogs.usable
        assert "litellm" in world.modules().modules
        assert catalogs.applications is not None
        assert "hermes" in catalogs.applications.applications
        assert catalogs.compute_targets is not None
        assert "cpu" in catalogs.compute_targets.targets
        assert catalogs.presets is not None
        assert "qwen3827b" in catalogs.presets.presets


@pytest.mark.req("MS-101")
async def test_a_changed_config_map_is_in_force_at_once_and_handlers_see_both_copies() -> None:
    async with running() as world:
        before = world.modules()
        world.told.clear()

        world.server.put(MODULES, catalog_text("one"))
        await world.until(lambda: "one" in world.modules().modules)

        assert world.told == [("modules", before, world.modules())]


async def test_a_write_that_changes_no_text_tells_nobody() -> None:
    async with running() as world:
        copy = world.modules()
        world.told.clear()

        world.server.put(MODULES, DATA[MODULES])
        world.server.put(APPLICATIONS, {"applications.json": '{"applications": {}}'})
        await world.until(lambda: world.told)

        assert [name for name, _, _ in world.told] == ["applications"]
        assert world.modules() is copy


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"modules.json": "{"}, ProblemReason.MALFORMED),
        ({"modules.json": '{"modules": []}'}, ProblemReason.MALFORMED),
        ({"other.json": "{}"}, ProblemReason.MALFORMED),
        ({}, ProblemReason.MALFORMED),
        (None, ProblemReason.MISSING),
    ],
)
async def test_what_replaces_a_good_catalog_by_a_bad_one_changes_nothing_but_is_reported(
    content: dict[str, str] | None, reason: ProblemReason
) -> None:
    async with running() as world:
        copy = world.modules()
        world.told.clear()

        if content is None:
            world.server.remove(MODULES)
        else:
            world.server.put(MODULES, content)
        await world.until(lambda: world.catalogs.problems)

        assert world.modules() is copy
        assert world.catalogs.usable
        problem = world.catalogs.problems["modules"]
        assert problem.reason is reason
        assert f"ConfigMap {NAMESPACE}/{MODULES}" in problem.message
        assert problem.message.endswith("Its last good copy stays in force.")
        assert world.told == [("modules", copy, copy)]


async def test_a_catalog_that_is_good_again_clears_its_problem() -> None:
    async with running() as world:
        world.server.remove(MODULES)
        await world.until(lambda: world.catalogs.problems)

        world.server.put(MODULES, DATA[MODULES])
        await world.until(lambda: not world.catalogs.problems)

        assert "litellm" in world.modules().modules


@pytest.mark.parametrize(
    ("name", "catalog"), [(MODULES, "modules"), (APPLICATIONS, "applications"), (TARGETS, "compute-targets")]
)
async def test_without_any_good_copy_of_a_needed_catalog_nothing_is_usable(name: str, catalog: str) -> None:
    async with running(without(name)) as world:
        assert world.reason(catalog) is ProblemReason.MISSING
        assert world.catalogs.problems[catalog].message.endswith("Nothing is generated until it is good.")
        assert not world.catalogs.usable

        world.server.put(name, DATA[name])
        await world.until(lambda: world.catalogs.usable)


async def test_a_catalog_that_may_not_be_read_is_unreadable_and_its_copy_stays() -> None:
    async with running() as world:
        copy = world.modules()

        world.server.refuse(MODULES)
        await world.until(lambda: world.catalogs.problems)

        assert world.reason("modules") is ProblemReason.UNREADABLE
        assert "not allowed" in world.catalogs.problems["modules"].message
        assert world.modules() is copy
        assert world.catalogs.usable

        world.server.admit(MODULES)
        world.caches.informer(CONFIG_MAP, NAMESPACE, MODULES).recheck()
        await world.until(lambda: not world.catalogs.problems)


async def test_a_catalog_that_never_could_be_read_is_no_absent_one() -> None:
    async with running(refused=PRESETS) as world:
        assert world.reason("model-presets") is ProblemReason.UNREADABLE
        assert world.catalogs.presets is None
        assert world.catalogs.usable


async def test_no_presets_are_no_problem_but_presets_that_vanish_are() -> None:
    async with running(without(PRESETS)) as world:
        assert world.catalogs.presets == PresetCatalog()
        assert world.catalogs.problems == {}

    async with running() as world:
        copy = world.catalogs.presets
        world.server.remove(PRESETS)
        await world.until(lambda: world.catalogs.problems)

        assert world.reason("model-presets") is ProblemReason.MISSING
        assert world.catalogs.presets is copy


async def test_a_bad_entry_is_reported_and_the_others_are_in_force() -> None:
    content = {
        "modules.json": json.dumps({"modules": {"good": {"path": "a", "kustomizationName": "a"}, "bad": 5}})
    }
    async with running({**DATA, MODULES: content}) as world:
        assert set(world.modules().modules) == {"good"}
        problem = world.catalogs.problems["modules"]
        assert problem.reason is ProblemReason.INVALID_ENTRIES
        assert "bad (entry: must be an object)" in problem.message
        assert world.catalogs.usable


async def test_a_message_stays_short_however_much_is_wrong() -> None:
    entries = {f"{'long' * 15}-{number}": {"path": "x"} for number in range(500)}
    content = {"modules.json": json.dumps({"modules": entries})}
    async with running({**DATA, MODULES: content}) as world:
        message = world.catalogs.problems["modules"].message

        assert len(message) <= MESSAGE_LIMIT
        assert "and 495 more" in message


async def test_a_handler_that_raises_keeps_no_other_from_being_told() -> None:
    world = World(DATA)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    told: list[str] = []
    world.catalogs.subscribe(fail)
    world.catalogs.subscribe(lambda name, *_: told.append(name))
    async with anyio.create_task_group() as group:
        group.start_soon(world.caches.run)
        await world.until(lambda: world.catalogs.known)
        group.cancel_scope.cancel()

    assert sorted(told) == ["applications", "compute-targets", "model-presets", "modules"]


async def test_a_server_that_serves_no_config_maps_for_a_while_takes_no_copy_away() -> None:
    async with running() as world:
        copy = world.modules()
        store = world.caches.store(CONFIG_MAP, NAMESPACE, MODULES)

        store.withdraw()

        assert not store.synced
        assert world.modules() is copy
        assert store.get(ObjectKey(NAMESPACE, MODULES)) is None
