"""What the Appliance's reconciler sees, and when it looks."""

import time
from typing import Any

import pytest
import structlog

from magicstick.api.kinds import APPLIANCE, MODULE_ACTIVATION
from magicstick.appliance.entries import KEY_LIMIT
from magicstick.appliance.sources import module_entries
from magicstick.catalogs.loader import Problem, ProblemReason
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.modules.status import ModulePhase, module_status
from magicstick.runtime.conditions import find
from magicstick.runtime.reconciler import Edge
from tests.support.module_objects import activation, appliance, catalog, kustomization, shipped_catalog
from tests.support.module_world import World

pytestmark = pytest.mark.anyio

ON = {"enabled": True}


def reported(name: str, phase: ModulePhase, *, module: str | None = None, **options: Any) -> Resource:
    """An activation with a current status."""
    status = module_status(1, phase, phase.value, "said", f"app-{name}")
    return activation(name, module=module, status=status, **options)


@pytest.mark.req("MS-019", "MS-175")
async def test_every_module_with_an_activation_has_an_entry() -> None:
    auto = {"appliance.magicstick.dev/auto-enabled": "true"}
    there = World(
        shipped_catalog(),
        appliance(),
        reported("litellm", ModulePhase.READY, annotations=auto),
        reported("mine", ModulePhase.DISABLED, module="modelCatalog"),
    )
    await there.look_at_appliance()
    assert there.local().status["modules"] == {
        "litellm": {"phase": "Ready", "kustomization": "app-litellm", "autoEnabled": True, "message": "said"},
        "model-catalog": {
            "phase": "Disabled",
            "kustomization": "app-mine",
            "autoEnabled": False,
            "message": "said",
        },
    }


async def test_a_name_of_any_length_is_a_key_that_the_server_takes() -> None:
    names = ["m" * 200_000 + end for end in ("a", "b")]
    there = World(
        shipped_catalog(),
        appliance(),
        *(reported(f"odd-{name[-1]}", ModulePhase.DEGRADED, module=name) for name in names),
        reported("litellm", ModulePhase.DEGRADED),
    )
    await there.look_at_appliance()
    status = there.local().status
    assert len(status["modules"]) == 3
    assert max(map(len, status["modules"])) <= KEY_LIMIT
    ready = find(status["conditions"], "Ready") or {}
    assert all(key in ready["message"] for key in status["modules"])


async def test_an_entry_goes_with_its_activation() -> None:
    gone = reported("litellm", ModulePhase.READY)
    there = World(shipped_catalog(), appliance(), gone)
    await there.look_at_appliance()
    there.drop(gone)
    await there.look_at_appliance()
    assert "modules" not in there.local().status


async def test_a_duplicate_does_not_speak_for_its_module() -> None:
    there = World(
        shipped_catalog(),
        appliance(),
        reported("litellm", ModulePhase.READY),
        reported("aaa", ModulePhase.DEGRADED, module="litellm"),
    )
    await there.look_at_appliance()
    assert there.local().status["phase"] == "Ready"


async def test_an_activation_of_another_appliance_has_no_entry() -> None:
    theirs = reported("litellm", ModulePhase.DEGRADED, spec={"applianceRef": {"name": "other"}})
    there = World(shipped_catalog(), appliance(), theirs)
    await there.look_at_appliance()
    assert "modules" not in there.local().status


async def test_f07_a_status_of_an_earlier_generation_is_not_believed() -> None:
    there = World(shipped_catalog(), appliance(), reported("litellm", ModulePhase.READY, generation=2))
    await there.look_at_appliance()
    assert there.local().status["modules"]["litellm"]["phase"] == "Reconciling"


@pytest.mark.req("MS-097")
async def test_the_spec_of_the_appliance_is_never_written() -> None:
    there = World(shipped_catalog(), appliance({"litellm": ON}))
    before = there.local().spec
    await there.look_at_appliance()
    assert there.local().spec == before
    assert {verb for verb, kind, _ in there.writes if kind == "Appliance"} == {"status"}
    assert there.appliance.declaration.writes == {MODULE_ACTIVATION}


@pytest.mark.req("MS-096")
async def test_another_appliance_is_not_looked_at() -> None:
    there = World(shipped_catalog(), appliance(name="other"), appliance())
    assert await there.appliance.observe(ObjectKey("ai-system", "other")) is None


async def test_without_an_appliance_nothing_is_written() -> None:
    there = World(shipped_catalog(), activation("litellm"))
    assert (await there.look_at_appliance()).outcome == "gone"
    assert there.writes == []


async def test_f01_a_second_look_writes_nothing() -> None:
    there = World(shipped_catalog(), appliance({"litellm": ON}))
    await there.look_at_appliance()
    there.writes.clear()
    await there.look_at_appliance()
    assert there.writes == []


@pytest.mark.parametrize("state", [InformerState.ABSENT, InformerState.SYNCING, InformerState.FAILING])
async def test_while_activations_cannot_be_read_nothing_is_seeded_and_the_status_stays(
    state: InformerState,
) -> None:
    there = World(shipped_catalog(), appliance({"litellm": ON}))
    there.reads.enter(MODULE_ACTIVATION, state)
    assert (await there.look_at_appliance()).outcome == "Held"
    assert there.writes == []


async def test_while_catalogs_are_not_known_nothing_is_said_of_them() -> None:
    there = World(None, appliance({"litellm": ON}))
    there.catalogs.known, there.catalogs.usable = False, False
    await there.look_at_appliance()
    assert there.writes == []


async def test_without_any_good_catalog_it_is_degraded() -> None:
    there = World(None, appliance({"litellm": ON}))
    there.catalogs.usable = False
    there.catalogs.problems = {"modules": Problem(ProblemReason.MISSING, "It does not exist.")}
    await there.look_at_appliance()
    ready = find(there.local().status["conditions"], "Ready") or {}
    assert (there.local().status["phase"], ready["reason"]) == ("Degraded", "CatalogUnavailable")


async def test_unknown_modules_are_told_once() -> None:
    there = World(shipped_catalog(), appliance({"observability": ON}))
    with structlog.testing.capture_logs() as told:
        await there.look_at_appliance()
        await there.look_at_appliance()
    assert [each["modules"] for each in told if "unknown modules" in each["event"]] == [["observability"]]


def test_what_wakes_the_appliance() -> None:
    there = World(shipped_catalog(), appliance())
    edge = edge_to(there, MODULE_ACTIVATION)
    old = reported("litellm", ModulePhase.READY)
    assert edge.changed(None, old)
    assert edge.changed(old, None)
    assert edge.changed(old, reported("litellm", ModulePhase.DEGRADED))
    assert edge.changed(old, activation("litellm", status=old.status, generation=2, enabled=False))
    assert not edge.changed(old, reported("litellm", ModulePhase.READY, finalizers=["x"]))
    assert list(edge.wakes(old, None)) == [ObjectKey("ai-system", "local")]
    woken: list[ObjectKey] = []
    there.appliance.follow(woken.extend)
    there.catalogs.put(catalog())
    there.reads.enter(MODULE_ACTIVATION, InformerState.SYNCED)
    there.reads.enter(APPLIANCE, InformerState.SYNCED)
    assert woken == [ObjectKey("ai-system", "local")] * 2


def edge_to(there: World, kind: Kind) -> Edge[Any]:
    """The one edge of the Appliance to a kind."""
    (edge,) = (each for each in there.appliance.declaration.edges if each.kind == kind)
    return edge


def test_many_changes_make_one_status_a_second() -> None:
    assert World(shipped_catalog()).appliance.declaration.coalesce_s == 1.0


async def test_the_appliance_is_ready_with_its_modules() -> None:
    there = World(
        shipped_catalog(),
        appliance({"litellm": ON}),
        kustomization("infrastructure-basis", ours=False),
    )
    there.flux.verdicts["app-litellm"] = "False"
    await there.settle()
    assert there.local().status["phase"] == "Degraded"
    there.flux.verdicts.clear()
    await there.settle()
    assert there.local().status["phase"] == "Ready"


def entries_s(count: int) -> float:
    """Seconds that the entries of so many modules take, the best of some tries."""
    many = catalog(**{f"m{number}": {} for number in range(count)})
    there = World(many, appliance(), *(reported(f"m{number}", ModulePhase.READY) for number in range(count)))
    took_s = []
    for _ in range(5):
        begun = time.process_time()
        assert len(list(module_entries(there.facts))) == count
        took_s.append(time.process_time() - begun)
    return min(took_s)


def test_the_cost_of_entries_grows_with_their_number_and_no_faster() -> None:
    assert entries_s(2000) < 2 * 10 * entries_s(200)
