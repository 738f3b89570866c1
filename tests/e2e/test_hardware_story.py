"""The life of an appliance's hardware, step by step, on a whole cluster.

Flux's kustomize-controller, the shipped modules, the API server and the operator's process are real. Played
are kubelets, Helm releases, Node Feature Discovery and the vendors' device plugins. After each step the
whole of `Appliance.status` is compared, and the operator has to be at rest.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from hack.dev.appliance import OURS
from magicstick.api.labels import ACTIVATION_SOURCE, SOURCE_HARDWARE
from tests.e2e.hardware import APPLIANCE, Stage
from tests.e2e.stand import Stand
from tests.support.appliance_page import Module, Page, Vendor

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEEDED: Final = ("litellm", "model-catalog")
CATALOG: Final = "/api/v1/namespaces/ai-system/configmaps/magicstick-module-catalog"
NVIDIA_LABEL: Final = "feature.node.kubernetes.io/pci-10de.present"
NVIDIA_KIND: Final = "clusterpolicies.nvidia.com"
INTEL_KIND: Final = "gpudeviceplugins.deviceplugin.intel.com"
INTEL_RESOURCE: Final = "gpu.intel.com/i915"
VENDORS: Final = ("gpu", "amd-gpu", "intel-gpu")
OLD: Final = "v1.30.0"
TOO_OLD: Final = {"nvidia-0": (f"The kubelet must be 1.33.0 or newer and is {OLD}.",)}
OURS_READY: Final = {"managed_by": "magicstick", "module": "Ready"}
ONE: Final = Vendor("Ready", ("nvidia-0",), allocatable=2, managed_by="magicstick", module="Ready")
BOTH: Final = replace(ONE, nodes=("nvidia-0", "nvidia-1"), allocatable=3)
LOST: Final = "Labels are missing on {}; they are not taken for lost yet."
AWAY: Final = Vendor("Unknown", managed_by="magicstick", module="Ready")
INSTALLING: Final = replace(BOTH, phase="Installing", allocatable=0)


@pytest.fixture
def stage(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """An operator that looks at everything twice a second, so that a second of rest means something."""
    monkeypatch.setenv("REQUEUE_SECONDS", "0.5")
    modules = dict.fromkeys(SEEDED, Module())
    return Stage(stand, tmp_path / "operator.log", Page(modules=modules, seeded=SEEDED))


def a_fresh_appliance_has_no_gpu(stage: Stage) -> None:
    stage.step("a fresh appliance without GPU gets its default modules, and needs no vendor")
    stage.stand.start_operator()
    stage.tells(stage.page)

    stage.step("the operator is restarted, and finds everything as it left it")
    stage.stand.stop_operator()
    stage.stand.start_operator()
    stage.stays()

    stage.step("another node without GPU joins")
    stage.join("node-1")
    stage.stays()


def an_nvidia_node_joins(stage: Stage) -> None:
    stage.step("an NVIDIA node joins, but its kubelet is too old: that is said, and nothing installed")
    stage.join("nvidia-0", "nvidia=2", kubelet=OLD, plugins="down")
    refused = Vendor("Unsupported", ("nvidia-0",), TOO_OLD)
    stage.tells(stage.page.turned("Degraded", "gpu (Unsupported)", gpu=refused), writes=())

    stage.step("its kubelet is upgraded: exactly NVIDIA's module is requested, and waits for the driver")
    stage.patch_node("nvidia-0/status", {"status": {"nodeInfo": {"kubeletVersion": "v1.36.3"}}})
    waiting = replace(ONE, phase="Installing", allocatable=0)
    stage.tells(stage.page.turned("Reconciling", "gpu (Installing)", modules={"gpu": Module()}, gpu=waiting))
    annotations = stage.stand.activation("gpu")["metadata"]["annotations"]
    assert annotations[ACTIVATION_SOURCE] == SOURCE_HARDWARE

    stage.step("the device plugin offers the GPUs: NVIDIA is Ready")
    stage.direct("nvidia-0", plugins=None)
    stage.tells(stage.page.turned(gpu=ONE), writes=())

    stage.step("a second NVIDIA node joins, and only the count changes")
    stage.join("nvidia-1", "nvidia")
    stage.tells(stage.page.turned(gpu=BOTH), writes=())


def nodes_and_plugins_falter(stage: Stage) -> None:
    stage.step("a node is cordoned: what it offers can still be allocated later, nothing changes")
    stage.patch_node("nvidia-1", {"spec": {"unschedulable": True}})
    stage.stays()

    stage.step("it is uncordoned")
    stage.patch_node("nvidia-1", {"spec": {"unschedulable": None}})
    stage.stays()

    stage.step("the device plugins are down: capacity stays, and does not count")
    stage.direct("nvidia-0", "nvidia-1", plugins="down")
    stage.tells(stage.page.turned("Reconciling", "gpu (Installing)", gpu=INSTALLING), writes=())

    stage.step("the device plugins are back")
    stage.direct("nvidia-0", "nvidia-1", plugins=None)
    stage.tells(stage.page.turned(gpu=BOTH), writes=())


def labels_vanish_and_return(stage: Stage) -> None:
    stage.step("Node Feature Discovery restarts: the labels vanish, which is said, and NVIDIA stays Ready")
    before = stage.kept("gpu")
    stage.direct("nvidia-0", "nvidia-1", lose_labels="forever")
    missing = replace(BOTH, says=LOST.format("nvidia-0, nvidia-1"))
    stage.tells(stage.page.turned(gpu=missing), writes=())

    stage.step("it is back, and so are the labels")
    stage.direct("nvidia-0", "nvidia-1", lose_labels=None)
    stage.tells(stage.page.turned(gpu=BOTH), writes=())

    stage.step("only one of two nodes loses its labels")
    stage.direct("nvidia-1", lose_labels="forever")
    stage.tells(stage.page.turned(gpu=replace(BOTH, says=LOST.format("nvidia-1"))), writes=())

    stage.step("the operator crashes meanwhile, and its successor still holds the node")
    stage.stand.kill_operator()
    stage.stand.start_operator()
    stage.tells(stage.page, writes=())

    stage.step("the other loses them as well, for longer than a minute: no hardware is seen, all of it stays")
    stage.direct("nvidia-0", lose_labels="forever")
    stage.tells(stage.page.turned(gpu=AWAY), writes=())

    stage.step("the labels return on both")
    stage.direct("nvidia-0", "nvidia-1", lose_labels=None)
    stage.tells(stage.page.turned(gpu=BOTH), writes=())

    stage.step("a node is deleted: it is missed, and what it offered is gone")
    stage.leave("nvidia-1")
    missed = replace(BOTH, allocatable=2, says=LOST.format("nvidia-1"))
    stage.tells(stage.page.turned(gpu=missed), writes=())

    stage.step("a new machine joins under the same name: nothing is installed or removed")
    stage.join("nvidia-1", "nvidia")
    stage.tells(stage.page.turned(gpu=BOTH), writes=())
    assert stage.kept("gpu") == before


def a_second_vendor_comes_from_outside(stage: Stage) -> None:
    stage.step("a definition of Intel's operator appears from outside, without hardware")
    stage.define(INTEL_KIND)
    foreign = Vendor("Unknown", managed_by="external", says="somebody else installed the vendor's operator")
    stage.tells(stage.page.turned(intel_gpu=foreign), writes=())

    stage.step("an Intel node joins: somebody else's operator offers nothing, and ours stays away")
    stage.join("intel-0", "intel")
    conflict = Vendor("Conflict", ("intel-0",), supported=(), managed_by="external")
    stage.tells(stage.page.turned("Degraded", "intel-gpu (Conflict)", intel_gpu=conflict), writes=())

    stage.step("the other operator offers a GPU, and is accepted")
    stage.offer("intel-0", INTEL_RESOURCE, "1")
    says = "An operator that somebody else installed offers 1 GPU."
    accepted = replace(conflict, phase="Ready", allocatable=1, says=says)
    stage.tells(stage.page.turned(intel_gpu=accepted), writes=())

    stage.step("the other operator is removed with all that it brought: ours takes its place")
    stage.offer("intel-0", INTEL_RESOURCE, None)
    stage.tells(stage.page.turned("Degraded", "intel-gpu (Conflict)", intel_gpu=conflict), writes=())
    stage.undefine(INTEL_KIND)
    ours = Vendor("Ready", ("intel-0",), allocatable=1, managed_by="magicstick", module="Ready")
    stage.tells(stage.page.turned(modules={"intel-gpu": Module()}, intel_gpu=ours))


def a_third_vendor_rejects_its_card(stage: Stage) -> None:
    stage.step("an AMD node joins whose card AMD's own rule rejects: the operator runs, in vain")
    stage.join("amd-0", "amd-rejected")
    says = "it does not support this GPU"
    rejected = Vendor("Unsupported", ("amd-0",), supported=(), **OURS_READY, says=says)  # type: ignore[arg-type] # a table
    modules = {"amd-gpu": Module()}
    stage.tells(stage.page.turned("Degraded", "amd-gpu (Unsupported)", modules=modules, amd_gpu=rejected))

    stage.step("the card is exchanged for one that AMD supports")
    stage.direct("amd-0", hardware="amd")
    ready = replace(rejected, phase="Ready", supported=None, allocatable=1, says="")
    stage.tells(stage.page.turned(amd_gpu=ready), writes=())


def a_module_is_disabled_by_hand(stage: Stage) -> None:
    stage.step("NVIDIA's module is disabled by hand: its operator goes")
    stage.stand.activate("gpu", enabled=False)
    disabled = replace(BOTH, phase="Disabled", allocatable=0, module="Disabled")
    off = {"gpu": Module("Disabled")}
    stage.tells(stage.page.turned("Degraded", "gpu (Disabled)", modules=off, gpu=disabled))
    assert stage.stand.kustomization("platform-gpu") == {}

    stage.step("another NVIDIA node joins, and the module stays disabled")
    stage.join("nvidia-2", "nvidia")
    more = replace(disabled, nodes=("nvidia-0", "nvidia-1", "nvidia-2"))
    stage.tells(stage.page.turned("Degraded", "gpu (Disabled)", gpu=more), writes=())

    stage.step("the labels flap and the operator is restarted, and the module stays disabled")
    stage.direct("nvidia-0", "nvidia-1", "nvidia-2", lose_labels="1")
    stage.stand.stop_operator()
    stage.stand.start_operator()
    stage.tells(stage.page, writes=())
    assert stage.stand.activation("gpu")["spec"]["enabled"] is False

    stage.step("it is enabled again by hand")
    stage.stand.activate("gpu", enabled=True)
    ready = replace(more, phase="Ready", module="Ready", allocatable=4)
    stage.tells(stage.page.turned(modules={"gpu": Module()}, gpu=ready))

    stage.step("its activation is deleted: what is left of it is nobody's, and not installed anew")
    stage.stand.delete(f"{OURS}/moduleactivations/gpu")
    left = replace(ready, phase="Conflict", allocatable=0, module="", managed_by="external")
    stage.tells(stage.page.turned("Degraded", "gpu (Conflict)", modules={"gpu": None}, gpu=left))

    stage.step("what is left is removed by hand: the hardware brings NVIDIA's module back")
    stage.stand.until_gone("/api/v1/namespaces/gpu-operator")  # Flux applies nothing into one that ends
    stage.undefine(NVIDIA_KIND)
    stage.tells(stage.page.turned(modules={"gpu": Module()}, gpu=ready))


def the_catalog_breaks(stage: Stage) -> None:
    stage.step("the module catalog is broken: the last good copy stays in force, and that is said")
    rest = stage.stand.cluster.rest
    good = rest.get(CATALOG)["data"]
    rest.request("PATCH", CATALOG, {"data": {"modules.json": "{"}}, "application/merge-patch+json")
    stage.tells(replace(stage.page, invalid="modules.json"), writes=())

    stage.step("it is mended")
    rest.request("PATCH", CATALOG, {"data": good}, "application/merge-patch+json")
    stage.tells(replace(stage.page, invalid=""), writes=())


def everything_is_deleted(stage: Stage) -> None:
    stage.step("every node with a GPU is deleted: after a minute no hardware is seen, the operators stay")
    stage.leave("nvidia-0", "nvidia-1", "nvidia-2", "amd-0", "intel-0")
    stage.tells(stage.page.turned(gpu=AWAY, amd_gpu=AWAY, intel_gpu=AWAY), writes=())

    stage.step("the vendors' modules are disabled, and their operators go")
    for module in VENDORS:
        stage.stand.activate(module, enabled=False)
    off = Vendor(managed_by="magicstick", module="Disabled")
    modules: dict[str, Module | None] = dict.fromkeys(VENDORS, Module("Disabled"))
    stage.tells(stage.page.turned(modules=modules, gpu=off, amd_gpu=off, intel_gpu=off))

    stage.step("their activations are deleted: only definitions are left, which nobody owns")
    for module in VENDORS:
        stage.stand.delete(f"{OURS}/moduleactivations/{module}")
    says = "somebody else installed the vendor's operator"
    left = Vendor("Unknown", managed_by="external", says=says)
    gone: dict[str, Module | None] = dict.fromkeys(VENDORS)
    stage.tells(stage.page.turned(modules=gone, gpu=left, amd_gpu=left, intel_gpu=left))

    stage.step("the definitions are deleted: the appliance is as it was")
    stage.undefine(NVIDIA_KIND, "deviceconfigs.amd.com", INTEL_KIND)
    none = Vendor()
    stage.tells(stage.page.turned(gpu=none, amd_gpu=none, intel_gpu=none), writes=())

    stage.step("the default modules are deleted, and not seeded again")
    for module in SEEDED:
        stage.stand.delete(f"{OURS}/moduleactivations/{module}")
    stage.tells(stage.page.turned(modules=dict.fromkeys(SEEDED)))

    stage.step(
        "an NVIDIA node joins and the Appliance is deleted: nothing of ours is left, and nothing comes"
    )
    stage.stand.delete(APPLIANCE)
    stage.stand.until_gone(APPLIANCE)
    stage.join("nvidia-0", "nvidia=2")
    stage.until_labelled("nvidia-0", NVIDIA_LABEL)
    stage.is_empty()


@pytest.mark.req("MS-104", "MS-105", "MS-106", "MS-107", "MS-108", "MS-109", "MS-331")
def test_the_life_of_an_appliances_hardware_step_by_step(stage: Stage) -> None:
    a_fresh_appliance_has_no_gpu(stage)
    an_nvidia_node_joins(stage)
    nodes_and_plugins_falter(stage)
    labels_vanish_and_return(stage)
    a_second_vendor_comes_from_outside(stage)
    a_third_vendor_rejects_its_card(stage)
    a_module_is_disabled_by_hand(stage)
    the_catalog_breaks(stage)
    everything_is_deleted(stage)
    assert len(stage.steps) >= 30
