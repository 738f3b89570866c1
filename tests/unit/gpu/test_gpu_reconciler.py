"""What the reconciler `hardware` requests, and that it requests nothing else."""

from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from magicstick.api.kinds import APPLIANCE, KUSTOMIZATION, MODULE_ACTIVATION
from magicstick.gpu.reconciler import HOLDING_S, SETTLING_S
from magicstick.kube.errors import Rejected
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, ObjectKey
from magicstick.modules.facts import State
from magicstick.modules.status import ModulePhase
from tests.support.effort import examples
from tests.support.gpu_objects import AMD, INTEL, NVIDIA, node
from tests.support.module_objects import activation, appliance, kustomization, shipped_catalog
from tests.support.module_world import World, crd

pytestmark = pytest.mark.anyio

VENDORS = {NVIDIA: "gpu", AMD: "amd-gpu", INTEL: "intel-gpu"}


def world(*nodes: Any, objects: tuple[Any, ...] = ()) -> World:
    there = World(shipped_catalog(), appliance(), *objects)
    for each in nodes:
        there.put_node(each)
    return there


async def looked(there: World, seconds: float = 3.0) -> str:
    """Look, let time pass, look again; the outcome."""
    await there.look_at_hardware()
    there.clock.passed_s += seconds
    return (await there.look_at_hardware()).outcome


@pytest.mark.req("MS-106", "MS-031")
async def test_e22_a_vendor_is_requested_once_its_label_stood() -> None:
    there = world(node("n1", NVIDIA))
    assert (await there.look_at_hardware()).outcome == "Settling"
    assert there.writes == []
    assert await looked(there) == "AtRest"
    assert there.writes == [("create", "ModuleActivation", "gpu")]
    made = there.activation("gpu")
    assert made is not None
    assert made.spec == {
        "module": "gpu",
        "enabled": True,
        "applianceRef": {"name": "local", "namespace": "ai-system"},
    }
    assert made.metadata.annotations == {
        "appliance.magicstick.dev/auto-enabled": "true",
        "appliance.magicstick.dev/activation-source": "hardware-detection",
    }
    assert made.metadata.labels == {
        "app.kubernetes.io/managed-by": "magicstick-operator",
        "appliance.magicstick.dev/module": "gpu",
    }
    await looked(there)
    assert len(there.writes) == 1


@pytest.mark.req("MS-106", "MS-107")
@examples(20)
@given(st.sets(st.sampled_from(sorted(VENDORS))))
async def test_exactly_the_vendors_that_are_there_are_requested(present: set[str]) -> None:
    there = world(node("n1", *present))
    await looked(there)
    assert sorted(name for _, _, name in there.writes) == sorted(VENDORS[label] for label in present)


@pytest.mark.req("MS-105")
async def test_a_node_that_fails_the_preflight_requests_nothing() -> None:
    there = world(node("n1", NVIDIA, kubelet="v1.32.9"))
    await looked(there)
    assert there.writes == []


@pytest.mark.parametrize("options", [{"enabled": False}, {"dying": True, "finalizers": ["x"]}, {}])
async def test_an_activation_that_is_there_is_left_alone(options: dict[str, Any]) -> None:
    there = world(node("n1", NVIDIA), objects=(activation("gpu", **options),))
    await looked(there)
    assert there.writes == []


async def test_a_disabled_activation_under_an_alias_is_left_alone() -> None:
    there = world(node("n1", NVIDIA), objects=(activation("x", module="nvidia-gpu", enabled=False),))
    await looked(there)
    assert there.writes == []


async def test_an_activation_that_went_is_made_again() -> None:
    gone = activation("gpu")
    there = world(node("n1", NVIDIA), objects=(gone,))
    await looked(there)
    there.drop(gone)
    await looked(there)
    assert there.writes == [("create", "ModuleActivation", "gpu")]


@pytest.mark.req("MS-108")
async def test_e23_a_foreign_operator_is_never_joined_by_ours() -> None:
    there = world(node("n1", NVIDIA), node("n2", AMD))
    definitions = there.reads.stores[CUSTOM_RESOURCE_DEFINITION]
    definitions.replace([crd("clusterpolicies.nvidia.com", established=True)], next(there.versions))
    await looked(there)
    assert there.writes == [("create", "ModuleActivation", "amd-gpu")]


@pytest.mark.req("MS-107", "MS-109")
@pytest.mark.parametrize("period_s", [0.5, 1.0, 2.9])
async def test_f18_a_flap_requests_nothing_and_removes_nothing(period_s: float) -> None:
    there = world(node("n1", NVIDIA), objects=(activation("gpu"),))
    await looked(there)
    for turn in range(int(120 / period_s)):
        there.put_node(node("n1", *([NVIDIA] if turn % 2 else []), *([] if turn % 2 else [AMD])))
        await looked(there, period_s)
    assert there.writes == []


async def test_a_label_that_is_held_does_not_request_its_vendor() -> None:
    """A user who deletes the activation while labels are missing gets it again only with the label."""
    on = activation("gpu")
    there = world(node("n1", NVIDIA), objects=(on,))
    await looked(there)
    there.put_node(node("n1"))
    there.drop(on)
    await looked(there, 30)
    assert there.writes == []
    there.put_node(node("n1", NVIDIA))
    await looked(there)
    assert there.writes == [("create", "ModuleActivation", "gpu")]


async def test_outcomes_follow_the_label() -> None:
    there = world(node("n1", NVIDIA), objects=(activation("gpu"),))
    assert await looked(there) == "AtRest"
    there.put_node(node("n1"))
    assert (await there.look_at_hardware()).outcome == "Settling"
    assert await looked(there, 4) == "Holding"
    assert await looked(there, 60) == "AtRest"
    delays = there.hardware.declaration.requeue_s
    assert (delays["Settling"], delays["Holding"], delays["AtRest"]) == (SETTLING_S, HOLDING_S, 20.0)


async def test_without_an_appliance_nothing_is_requested() -> None:
    there = World(shipped_catalog())
    there.put_node(node("n1", NVIDIA))
    assert await looked(there) == "gone"
    assert there.writes == []


async def test_a_dying_appliance_requests_nothing() -> None:
    there = World(shipped_catalog(), appliance(dying=True, finalizers=["x"]))
    there.put_node(node("n1", NVIDIA))
    assert await looked(there) == "Leaving"
    assert there.writes == []


@pytest.mark.parametrize("kind", [NODE, MODULE_ACTIVATION, KUSTOMIZATION])
async def test_what_cannot_be_read_requests_nothing(kind: Any) -> None:
    there = world(node("n1", NVIDIA))
    there.reads.enter(kind, InformerState.FAILING)
    assert await looked(there) == "Blind"
    assert there.writes == []


async def test_definitions_that_cannot_be_read_request_nothing() -> None:
    there = world(node("n1", NVIDIA))
    there.reads.enter(CUSTOM_RESOURCE_DEFINITION, InformerState.FAILING)
    await looked(there)
    assert there.writes == []


async def test_without_a_catalog_nothing_is_requested_and_with_one_it_is() -> None:
    there = World(None, appliance())
    there.put_node(node("n1", NVIDIA))
    assert await looked(there) == "Blind"
    there.catalogs.put(shipped_catalog())
    await looked(there)
    assert there.writes == [("create", "ModuleActivation", "gpu")]


async def test_a_refused_activation_keeps_no_other_from_coming() -> None:
    there = world(node("n1", NVIDIA, AMD))
    there.refuse = lambda _kind, body: Rejected("not here") if body["metadata"]["name"] == "amd-gpu" else None
    with structlog.testing.capture_logs() as logs:
        assert await looked(there) == "Refused"
    assert there.writes == [("create", "ModuleActivation", "gpu")]
    assert [each["error"] for each in logs if "cannot be activated" in each["event"]] == ["not here"]


def test_it_writes_activations_alone_and_owns_no_status() -> None:
    declaration = world().hardware.declaration
    assert declaration.primary == APPLIANCE
    assert declaration.writes == {MODULE_ACTIVATION}
    assert declaration.owns_status is False


async def test_the_appliance_hears_of_what_time_brings_about() -> None:
    there = world(node("n1", NVIDIA))
    woken: list[ObjectKey] = []
    there.appliance.follow(woken.extend)
    await there.look_at_hardware()
    assert woken == []
    there.clock.passed_s += 3
    await there.look_at_hardware()
    assert woken == [ObjectKey("ai-system", "local")]


async def test_another_catalog_wakes_it() -> None:
    there, woken = world(), list[ObjectKey]()
    there.hardware.follow(woken.extend)
    there.catalogs.put(shipped_catalog())
    assert woken == []
    there.catalogs.modules = None
    there.catalogs.put(shipped_catalog())
    assert woken == [ObjectKey("ai-system", "local")]


# --- the vendors' modules --------------------------------------------------------------------------


@pytest.mark.req("MS-238")
@pytest.mark.parametrize("module", VENDORS.values())
async def test_the_kustomization_of_a_vendor_waits_for_the_whole_rollout(module: str) -> None:
    catalog = shipped_catalog()
    assert catalog.modules[module].wait_for_ready
    assert not any(
        definition.wait_for_ready
        for key, definition in catalog.modules.items()
        if key not in VENDORS.values()
    )
    there = World(catalog, appliance(), activation(module), *static_modules())
    await there.settle()
    made = there.kustomization(f"platform-{module}")
    assert made is not None
    assert made.spec["wait"] is True


@pytest.mark.req("MS-239")
@pytest.mark.parametrize("module", VENDORS.values())
async def test_a_vendors_module_is_ready_only_with_its_definitions(module: str) -> None:
    there = World(shipped_catalog(), appliance(), activation(module), *static_modules())
    await there.settle()
    told = there.activation(module)
    assert told is not None
    assert told.status["phase"] != ModulePhase.READY.value
    assert there.facts.readiness(module).state is State.NOT_READY
    there.definitions.names |= set(shipped_catalog().modules[module].required_crds)
    await there.settle()
    told = there.activation(module)
    assert told is not None
    assert told.status["phase"] == ModulePhase.READY.value


def static_modules() -> tuple[Any, ...]:
    return (
        kustomization("infrastructure-basis", ours=False),
        kustomization("hardware-discovery", ours=False),
    )
