"""Kustomizations that nobody stands behind (spec: modules-and-apps §5.5)."""

import pytest

from magicstick.api.kinds import KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.kube.errors import Forbidden
from magicstick.kube.informer import InformerState
from magicstick.kube.objects import Resource
from tests.support.module_objects import activation, catalog, kustomization
from tests.support.module_world import World

pytestmark = pytest.mark.anyio

CATALOG = catalog(leaf={"requires": ["basis"], "aliases": ["blatt"]})


async def looked(live: Resource, *others: Resource, there: World | None = None) -> World:
    """A world after one pass over `live`."""
    there = there or World(CATALOG, *others)
    there.put(live)
    await there.look_for_orphan(live.metadata.name)
    return there


@pytest.mark.req("MS-121")
@pytest.mark.parametrize("module", ["leaf", "left-the-catalog", None])
async def test_e24_row_12_an_orphan_is_deleted_whatever_its_module(module: str | None) -> None:
    there = await looked(kustomization("app-old", module=module))
    assert there.writes == [("delete", "Kustomization", "app-old")]


@pytest.mark.req("MS-117", "MS-121")
async def test_a_suspended_orphan_is_resumed_first() -> None:
    there = await looked(kustomization("app-old", module="leaf", suspend=True, finalizers=["flux"]))
    assert [verb for verb, _, _ in there.writes] == ["apply", "delete"]
    assert there.bodies[0]["spec"]["suspend"] is False


async def test_an_orphan_that_is_being_deleted_is_left_to_flux() -> None:
    there = await looked(
        kustomization("app-old", module="leaf", suspend=True, dying=True, finalizers=["flux"])
    )
    assert there.writes == []


@pytest.mark.req("MS-122")
async def test_what_is_not_labelled_as_ours_is_never_touched() -> None:
    there = await looked(kustomization("app-leaf", ours=False))
    assert there.writes == []


@pytest.mark.parametrize("name", ["infrastructure-basis", "apps", "magicstick-operator"])
async def test_the_flux_graph_in_git_is_never_touched_whatever_its_labels(name: str) -> None:
    there = await looked(kustomization(name, module="leaf"))
    assert there.writes == []


@pytest.mark.parametrize(
    "claimant",
    [
        activation("leaf"),
        activation("leaf", enabled=False),
        activation("leaf", dying=True, finalizers=["x"]),
        activation("mine", module="blatt"),
        activation("leaf", spec={"applianceRef": {"name": "other"}}),
    ],
)
async def test_whoever_has_an_activation_is_no_orphan(claimant: Resource) -> None:
    there = await looked(kustomization("app-leaf", module="leaf"), claimant)
    assert there.writes == []


async def test_a_kustomization_is_claimed_by_its_name_though_its_label_is_gone() -> None:
    there = await looked(kustomization("app-leaf"), activation("leaf"))
    assert there.writes == []


async def test_an_unknown_module_keeps_what_its_status_names() -> None:
    forgotten = activation("mine", module="forgotten", status={"kustomization": "app-old"})
    there = await looked(kustomization("app-old", module="old"), forgotten)
    assert there.writes == []


async def test_a_known_module_does_not_keep_what_its_status_names() -> None:
    moved = activation("leaf", status={"kustomization": "app-old"})
    there = await looked(kustomization("app-old", module="old"), moved)
    assert there.writes == [("delete", "Kustomization", "app-old")]


@pytest.mark.parametrize("state", [InformerState.ABSENT, InformerState.SYNCING, InformerState.FAILING])
async def test_while_activations_cannot_be_read_there_are_no_orphans(state: InformerState) -> None:
    there = World(CATALOG)
    there.reads.enter(MODULE_ACTIVATION, state)
    await looked(kustomization("app-old", module="leaf"), there=there)
    assert there.writes == []


async def test_without_a_catalog_there_are_no_orphans() -> None:
    there = await looked(kustomization("app-old", module="leaf"), there=World(None))
    assert there.writes == []


async def test_a_refused_removal_is_tried_again() -> None:
    there = World(CATALOG)
    there.refuse = lambda _kind, _body: Forbidden("no", code=403)
    live = kustomization("app-old", module="leaf", suspend=True)
    there.put(live)
    result = await there.look_for_orphan("app-old")
    assert (result.outcome, result.after_s) == ("Failed", 20.0)


async def test_a_kustomization_that_is_gone_is_forgotten() -> None:
    there = World(CATALOG)
    assert (await there.look_for_orphan("app-old")).outcome == "gone"


def test_who_is_looked_at_after_a_change() -> None:
    there = World(
        CATALOG, kustomization("app-leaf", module="leaf"), kustomization("app-old"), kustomization("app-x")
    )
    (edge,) = there.orphans.declaration.edges
    before = activation("leaf", status={"kustomization": "app-old"})
    assert {key.name for key in edge.wakes(before, None)} == {"app-leaf", "app-old"}
    woken: list[str] = []
    there.orphans.follow(lambda keys: woken.extend(key.name for key in keys))
    there.catalogs.put(catalog())
    there.reads.enter(MODULE_ACTIVATION, InformerState.SYNCED)
    assert sorted(woken) == sorted(["app-leaf", "app-old", "app-x"] * 2)
    assert there.orphans.declaration.writes == {KUSTOMIZATION}
