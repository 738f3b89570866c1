"""Hardware on a real API server: which vendor is requested, and what the Appliance says of it."""

import pytest

from hack.devcluster import DevCluster
from magicstick.api.labels import ACTIVATION_SOURCE, AUTO_ENABLED
from tests.support.faultproxy import Answer
from tests.support.gpu_objects import card, host
from tests.support.gpu_world import hardware, look, ready_gpu
from tests.support.operator import operator
from tests.support.oracles import assert_settled, quiet, told
from tests.support.rights import grant
from tests.support.scene import assert_honest_writes
from tests.support.world import AGENT, World, corner

pytestmark = pytest.mark.anyio


def vendors(world: World) -> set[str]:
    """The activations of the corner."""
    return set(world.mirror.all(world.activations))


@pytest.mark.req("MS-104", "MS-106", "MS-107", "MS-177", "MS-331")
async def test_e22_from_a_label_to_a_gpu_that_can_be_allocated(control_plane: DevCluster) -> None:
    mark = control_plane.audit_mark()
    async with corner(control_plane) as world, hardware(world) as gpus, operator(world):
        await gpus.until_entry("NotRequired")
        assert set(gpus.appliance["hardwareOperators"]) == {"gpu", "amd-gpu", "intel-gpu"}
        await gpus.node("n1", "amd-gpu")
        await gpus.until_entry("Installing", "amd-gpu")
        made = world.activation("amd-gpu")
        assert made is not None
        assert made["metadata"]["annotations"] == {
            AUTO_ENABLED: "true",
            ACTIVATION_SOURCE: "hardware-detection",
        }
        await gpus.define("amd-gpu")
        await world.until_phase("amd-gpu", "Ready")
        await world.mirror.until("that is told", lambda: gpus.entry("amd-gpu")["modulePhase"] == "Ready")
        assert gpus.entry("amd-gpu")["phase"] == "Installing"
        assert gpus.appliance["phase"] == "Reconciling"
        ready = {"type": "Ready", "status": "True"}
        await gpus.status("n1", {"allocatable": {gpus.resource("amd-gpu"): "2k"}, "conditions": [ready]})
        await gpus.until_entry("Ready", "amd-gpu")
        assert gpus.entry("amd-gpu")["allocatableResources"] == 2000
        await world.mirror.until("it is Ready", lambda: gpus.appliance["phase"] == "Ready")
        assert vendors(world) == {"amd-gpu"}
        await assert_settled(world)
    assert_honest_writes(world.operator_writes(mark))


@pytest.mark.req("MS-108")
async def test_e23_a_definition_from_outside_keeps_ours_away(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus, operator(world):
        await gpus.define("gpu")
        await gpus.until_entry("Unknown")
        await gpus.node("n1", "gpu")
        await gpus.until_entry("Conflict")
        assert (gpus.entry()["managedBy"], gpus.appliance["phase"]) == ("external", "Degraded")
        ready = {"type": "Ready", "status": "True"}
        await gpus.status("n1", {"allocatable": {gpus.resource("gpu"): "1"}, "conditions": [ready]})
        await gpus.until_entry("Ready")
        await assert_settled(world)
        assert vendors(world) == set()


async def test_a_vendor_that_was_switched_off_by_hand_stays_off(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus, operator(world):
        await world.activate("gpu", name="nvidia", enabled=False)
        await gpus.node("n1", "gpu", slots=1)
        await gpus.until_entry("Disabled")
        assert gpus.appliance["phase"] == "Degraded"
        await assert_settled(world)
        assert vendors(world) == {"nvidia"}
        assert (world.activation("nvidia") or {})["spec"]["enabled"] is False


@pytest.mark.req("MS-105")
async def test_a_node_that_fails_the_preflight_is_told_of_and_requests_nothing(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus, operator(world):
        await gpus.node("n1", "gpu", architecture="arm64", kubelet="v1.28.0")
        await gpus.until_entry("Unsupported")
        assert gpus.entry()["incompatibleNodes"] == {
            gpus.name("n1"): [
                "The architecture must be amd64 and is arm64.",
                "The kubelet must be 1.29.0 or newer and is v1.28.0.",
            ]
        }
        await assert_settled(world)
        assert vendors(world) == set()


@pytest.mark.req("MS-109")
async def test_f18_labels_vanish_for_minutes_and_return(control_plane: DevCluster) -> None:
    async with ready_gpu(control_plane) as (world, gpus, running, clock):
        mark = control_plane.audit_mark()

        await gpus.seen(running, "n1", await gpus.set_label("n1", "gpu", present=False))
        clock.passed_s += 10
        await world.mirror.until("that is told", lambda: "Labels are missing" in gpus.entry()["message"])
        assert (gpus.entry()["phase"], gpus.appliance["phase"]) == ("Ready", "Ready")
        clock.passed_s += 290
        await gpus.until_entry("Unknown")
        assert (gpus.entry()["operatorActive"], gpus.appliance["phase"]) == (True, "Ready")
        await gpus.seen(running, "n1", await gpus.set_label("n1", "gpu", present=True))
        await look(running)
        clock.passed_s += 3
        await gpus.until_entry("Ready")
        await assert_settled(world)
        writes = [each for each in world.operator_writes(mark) if each.resource != "appliances"]
        assert not writes, told(writes)


@pytest.mark.req("MS-109")
async def test_f18_a_node_that_is_replaced_under_its_name_is_the_same_hardware(
    control_plane: DevCluster,
) -> None:
    async with ready_gpu(control_plane) as (world, gpus, running, clock):
        mark = control_plane.audit_mark()

        await gpus.delete_node("n1")
        await gpus.until_entry("Installing")
        clock.passed_s += 30
        assert gpus.entry()["detectedNodes"] == [gpus.name("n1")]
        await gpus.node("n1", slots=0)
        await gpus.seen(running, "n1", await gpus.set_label("n1", "gpu", present=True))
        ready = {"type": "Ready", "status": "True"}
        await gpus.status("n1", {"allocatable": {gpus.resource("gpu"): "1"}, "conditions": [ready]})
        await gpus.until_entry("Ready")
        await assert_settled(world)
        writes = [each for each in world.operator_writes(mark) if each.resource != "appliances"]
        assert not writes, told(writes)


@pytest.mark.req("MS-109")
async def test_nodes_that_cannot_be_listed_are_not_gone(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus:
        await gpus.node("n1", "gpu", slots=1)
        await gpus.define("gpu")
        async with operator(world):
            await gpus.until_entry("Ready")
            await quiet(world)
        mark = control_plane.audit_mark()
        async with operator(world, wait=False) as running:
            with running.proxy.fault(Answer(500), when=lambda request: "/nodes" in request.path):
                await running.started()
                await world.mirror.until(
                    "that is told", lambda: gpus.entry()["message"].startswith("Nodes cannot be read now")
                )
                assert (gpus.entry()["phase"], gpus.entry()["needed"]) == ("Ready", True)
                assert gpus.entry()["detectedNodes"] == [gpus.name("n1")]
                assert gpus.appliance["phase"] == "Ready"
            await world.mirror.until(
                "it is told anew", lambda: "cannot be read" not in gpus.entry()["message"]
            )
            assert gpus.entry()["phase"] == "Ready"
            await assert_settled(world)
        writes = [each for each in world.operator_writes(mark) if each.resource != "appliances"]
        assert not writes, told(writes)


async def test_another_process_finds_everything_as_it_was_and_writes_nothing(
    control_plane: DevCluster,
) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus:
        await gpus.node("n1", "gpu", slots=1)
        await gpus.define("gpu")
        async with operator(world):
            await gpus.until_entry("Ready")
            await assert_settled(world)
        mark = control_plane.audit_mark()
        async with operator(world) as running:
            await look(running)
            await look(running, "appliance")
            await assert_settled(world)
        assert not told(world.operator_writes(mark))


@pytest.mark.req("MS-322")
async def test_cards_are_listed_as_the_server_takes_them(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus, operator(world):
        await gpus.node("n1", "gpu", slots=4)
        live = await world.client.get(f"/api/v1/nodes/{gpus.name('n1')}")
        said = host(
            gpus.name("n1"),
            card("10de"),
            card("1002", "0000:02:00.0", memoryTotalMi=None),
            nodeUid=live["metadata"]["uid"],
            generatedAt=live["metadata"]["creationTimestamp"],
        )
        await gpus.annotate("n1", said)
        await world.mirror.until("it is listed", lambda: gpus.entry().get("devices"))
        (device,) = gpus.entry()["devices"]
        assert device["id"] == f"{live['metadata']['uid']}/0000:01:00.0"
        assert device["memoryTotalMi"] == 24564
        assert [each["pciAddress"] for each in gpus.entry("amd-gpu")["devices"]] == ["0000:02:00.0"]
        await gpus.annotate("n1", None)
        await world.mirror.until("it is gone", lambda: "devices" not in gpus.entry())
        await assert_settled(world)


async def test_it_runs_with_the_rights_that_are_granted(control_plane: DevCluster) -> None:
    async with corner(control_plane) as world, hardware(world) as gpus:
        token = await grant(world)
        mark = control_plane.audit_mark()
        async with operator(world, token=token):
            await gpus.node("n1", "intel-gpu")
            await gpus.until_entry("Installing", "intel-gpu")
            await assert_settled(world)
        read = {"nodes", "customresourcedefinitions", "appinstances", "modelactivations"}
        asked = [
            each for each in control_plane.audit(AGENT, mark) if each.resource in read | {"moduleactivations"}
        ]
        assert read <= {each.resource for each in asked}
        refused = [each for each in asked if each.code == 403]
        assert not refused, told(refused)
