"""Default modules are activated once (spec: magicstick-api §4.3, §9)."""

from typing import Any

import pytest

from magicstick.api import labels
from magicstick.appliance.seeding import RECORD_LIMIT, seeding
from magicstick.kube.errors import Forbidden
from magicstick.kube.objects import Resource
from tests.support.module_objects import activation, appliance, catalog, shipped_catalog
from tests.support.module_world import World

pytestmark = pytest.mark.anyio

ON = {"enabled": True}


def world(modules: Any, *objects: Resource, **options: Any) -> World:
    return World(shipped_catalog(), appliance(modules, **options), *objects)


async def seeded(modules: Any, *objects: Resource, **options: Any) -> World:
    there = world(modules, *objects, **options)
    await there.look_at_appliance()
    return there


def made(there: World) -> set[str]:
    return {name for verb, _, name in there.writes if verb == "create"}


def record(there: World) -> list[str]:
    return list(there.local().status.get("seededModules", []))


@pytest.mark.req("MS-103")
async def test_row_1_the_default_modules_are_activated_and_recorded() -> None:
    there = await seeded({"basis": ON, "dashboard": ON, "litellm": ON, "model-catalog": ON})
    assert made(there) == {"litellm", "model-catalog"}
    assert record(there) == ["litellm", "model-catalog"]
    found = there.activation("litellm")
    assert found is not None
    assert found.metadata.annotations == {labels.AUTO_ENABLED: "true"}
    assert found.spec == {
        "module": "litellm",
        "enabled": True,
        "applianceRef": {"name": "local", "namespace": "ai-system"},
    }


async def test_the_activation_is_created_before_it_is_recorded() -> None:
    there = await seeded({"litellm": ON})
    assert [verb for verb, _, _ in there.writes] == ["create", "status"]


@pytest.mark.req("MS-226")
async def test_e9_an_activation_that_a_user_deletes_is_not_seeded_again() -> None:
    there = await seeded({"litellm": ON})
    found = there.activation("litellm")
    assert found is not None
    there.drop(found)
    await there.look_at_appliance()
    assert there.activation("litellm") is None
    assert record(there) == ["litellm"]


@pytest.mark.req("MS-226")
async def test_a_process_that_died_between_creating_and_recording_seeds_nothing_twice() -> None:
    there = await seeded({"litellm": ON}, activation("litellm"))
    assert made(there) == set()
    assert record(there) == ["litellm"]


@pytest.mark.req("MS-226")
async def test_another_appliance_object_of_the_name_seeds_anew() -> None:
    there = await seeded({"litellm": ON})
    found = there.activation("litellm")
    assert found is not None
    there.drop(found)
    there.drop(there.local())
    there.put(appliance({"litellm": ON}, uid="another"))
    await there.look_at_appliance()
    assert there.activation("litellm") is not None


@pytest.mark.req("MS-227")
async def test_row_3_a_disabled_activation_is_left_as_it_is() -> None:
    before = activation("litellm", enabled=False)
    there = await seeded({"litellm": ON}, before)
    after = there.activation("litellm")
    assert after is not None
    assert after.spec == before.spec
    assert made(there) == set()


async def test_row_4_an_activation_that_is_being_deleted_is_seeded_once_it_is_gone() -> None:
    dying = activation("litellm", dying=True, finalizers=["x"])
    there = await seeded({"litellm": ON}, dying)
    assert (made(there), record(there)) == (set(), [])
    there.drop(dying)
    await there.look_at_appliance()
    assert (made(there), record(there)) == ({"litellm"}, ["litellm"])


@pytest.mark.req("MS-102")
async def test_e7_row_5_aliases_of_one_module_make_one_activation() -> None:
    there = await seeded({"modelCatalog": ON, "model-catalog": ON})
    assert made(there) == {"model-catalog"}


async def test_e10_e11_row_6_static_and_unknown_modules_are_not_seeded() -> None:
    there = await seeded({"basis": ON, "dashboard": ON, "hardware-discovery": ON, "observability": ON})
    assert (made(there), record(there)) == (set(), [])


@pytest.mark.req("MS-103")
@pytest.mark.parametrize(
    "entry",
    [{}, {"enabled": False}, {"enabled": "true"}, {"enabled": 1}, {"enabled": None}, None, "on", True],
)
async def test_e8_row_7_only_the_literal_true_seeds(entry: Any) -> None:
    assert made(await seeded({"litellm": entry})) == set()


@pytest.mark.parametrize("modules", [None, [], "litellm", {"litellm": ON}])
async def test_modules_of_any_shape_are_survived(modules: Any) -> None:
    local = appliance()
    there = World(shipped_catalog())
    there.put(local)
    there.put(appliance_with(modules))
    result = await there.look_at_appliance()
    assert result.outcome in {"Ready", "Reconciling"}


def appliance_with(modules: Any) -> Resource:
    made_ = appliance()
    return type(made_)(made_.metadata, made_.api_version, made_.kind, {**made_.spec, "modules": modules})


async def test_e25_an_activation_of_another_name_counts() -> None:
    there = await seeded({"litellm": ON}, activation("mine", module="litellm"))
    assert made(there) == set()


async def test_a_dying_appliance_seeds_nothing() -> None:
    there = await seeded({"litellm": ON}, dying=True, finalizers=["x"])
    assert there.writes == []


async def test_without_a_catalog_nothing_is_seeded_and_the_record_stays() -> None:
    there = World(None, appliance({"litellm": ON}, status={"seededModules": ["gpu"]}))
    there.catalogs.usable = False
    await there.look_at_appliance()
    assert made(there) == set()
    assert record(there) == ["gpu"]


async def test_a_refused_creation_is_not_recorded() -> None:
    there = world({"litellm": ON})
    there.refuse = lambda _kind, _body: Forbidden("no", code=403)
    await there.look_at_appliance()
    assert record(there) == []
    assert there.local().status["phase"] == "Ready"


def test_what_cannot_be_recorded_is_not_seeded() -> None:
    many = catalog(**{f"m{number:03}": {} for number in range(RECORD_LIMIT + 10)})
    local = appliance(dict.fromkeys(many.modules, ON))
    wanted = seeding(local, World(many, local).facts)
    assert len(wanted.create) == RECORD_LIMIT
    full = appliance(
        {"m000": ON}, status={"seededModules": [f"x{number:03}" for number in range(RECORD_LIMIT)]}
    )
    assert seeding(full, World(many, full).facts).create == ()


def test_an_unreadable_record_is_an_empty_one() -> None:
    local = appliance({"litellm": ON}, status={"seededModules": [1, None, "gpu"]})
    assert seeding(local, World(shipped_catalog(), local).facts).seeded == ("gpu",)
    local = appliance({"litellm": ON}, status={"seededModules": "gpu"})
    assert seeding(local, World(shipped_catalog(), local).facts).seeded == ()
