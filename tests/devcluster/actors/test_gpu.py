"""Node Feature Discovery and the vendors' operators, as the operator sees them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hack.devcluster.actors.gpu import CLUSTER_POLICIES, GpuActor
from hack.devcluster.actors.hardware import cards_of
from hack.devcluster.actors.helm import HelmActor
from tests.devcluster.actors.stage import NODES, RELEASES, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

NVIDIA, AMD, INTEL = (f"feature.node.kubernetes.io/pci-{each}.present" for each in ("10de", "1002", "8086"))
AMD_RULE = "feature.node.kubernetes.io/amd-gpu"
INTEL_RULE = "intel.feature.node.kubernetes.io/gpu"
PLUGINS = {
    "nvidia": ("gpu-operator", "gpu-operator"),
    "amd": ("amd-gpu-operator", "gpu-operator-charts"),
    "intel": ("intel-gpu-device-plugin", "intel-device-plugins-gpu"),
}
RESOURCES = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/i915",
    "intel-xe": "gpu.intel.com/xe",
}


@asynccontextmanager
async def played(stage: Stage) -> AsyncIterator[GpuActor]:
    async with HelmActor(stage.client).running(), GpuActor(stage.client).running() as actor:
        yield actor


async def discover(stage: Stage) -> None:
    """What the module hardware-discovery brings."""
    await stage.release("node-feature-discovery", chart="node-feature-discovery")


async def install(stage: Stage, vendor: str) -> None:
    name, chart = PLUGINS[vendor]
    await stage.release(name, chart=chart)
    await stage.until_ready(name, "True", "InstallSucceeded")


async def until_offered(stage: Stage, node: str, resource: str, amount: str, *, of: str) -> None:
    await stage.until(
        f"{node} to offer {amount} {resource}", lambda: stage.resource(node, resource) == (of, amount)
    )


async def test_hardware_is_hidden_until_it_is_discovered(stage: Stage) -> None:
    await stage.node("a", "nvidia=2")
    await stage.node("b", "")
    async with played(stage):
        await stage.release("other")
        await stage.until_ready("other", "True", "InstallSucceeded")
        assert not [label for label in stage.labels("a") if "feature.node" in label]
        await discover(stage)
        await stage.until("the label", lambda: stage.labels("a").get(NVIDIA) == "true")
        await stage.until(
            "the platform of b",
            lambda: "feature.node.kubernetes.io/system-os_release.ID" in stage.labels("b"),
        )
    assert not stage.labels("b").keys() & {NVIDIA, AMD, INTEL}
    assert stage.resource("a", "nvidia.com/gpu") == (None, None)


@pytest.mark.parametrize(
    ("card", "vendor", "rule"),
    [
        ("nvidia", "nvidia", ""),
        ("amd", "amd", AMD_RULE),
        ("intel", "intel", INTEL_RULE),
        ("intel-xe", "intel", INTEL_RULE),
    ],
)
async def test_cards_are_offered_once_the_vendors_release_stands(
    stage: Stage, card: str, vendor: str, rule: str
) -> None:
    await stage.node("a", f"{card}=3")
    await stage.node("b", "nvidia" if vendor != "nvidia" else "amd")
    async with played(stage):
        await discover(stage)
        await stage.until(
            "discovery", lambda: stage.labels("a").get("kubernetes.io/os") and _found(stage, "a")
        )
        assert rule not in stage.labels("a")
        await install(stage, vendor)
        await until_offered(stage, "a", RESOURCES[card], "3", of="3")
    assert not rule or stage.labels("a")[rule] == "true"
    assert stage.resource("b", RESOURCES[card]) == (None, None)


def _found(stage: Stage, node: str) -> bool:
    return bool(stage.labels(node).keys() & {NVIDIA, AMD, INTEL})


@pytest.mark.parametrize(("card", "vendor"), [("amd-rejected", "amd"), ("intel-rejected", "intel")])
async def test_a_card_that_the_vendor_rejects_is_detected_and_not_offered(
    stage: Stage, card: str, vendor: str
) -> None:
    await stage.node("a", card)
    await stage.node("b", vendor)
    async with played(stage):
        await discover(stage)
        await install(stage, vendor)
        await until_offered(stage, "b", RESOURCES[vendor], "1", of="1")
        await stage.until("a to be detected", lambda: _found(stage, "a"))
    assert not stage.labels("a").keys() & {AMD_RULE, INTEL_RULE}
    assert stage.resource("a", RESOURCES[vendor]) == (None, None)


async def test_nothing_is_offered_on_the_word_of_a_release_that_lies(stage: Stage) -> None:
    await stage.node("a", "nvidia")
    async with played(stage):
        await discover(stage)
        await stage.release(
            "gpu-operator", chart="gpu-operator", annotations={"devcluster.magicstick.dev/lie": "ready"}
        )
        await stage.until_ready("gpu-operator", "True", "InstallSucceeded")
        await stage.until("discovery", lambda: _found(stage, "a"))
    assert stage.resource("a", "nvidia.com/gpu") == (None, None)


async def test_nvidia_has_its_policy_and_its_labels(stage: Stage) -> None:
    await stage.node("a", "nvidia=2")
    async with played(stage):
        await discover(stage)
        await install(stage, "nvidia")
        await stage.until("its labels", lambda: stage.labels("a").get("nvidia.com/gpu.count") == "2")
        await stage.until("a policy", lambda: stage.resource("a", "nvidia.com/gpu") == ("2", "2"))
        policy = await stage.client.get(f"{CLUSTER_POLICIES}/cluster-policy")
        assert policy["kind"] == "ClusterPolicy"


async def test_a_plugin_that_stops_leaves_capacity_without_anything_allocatable(stage: Stage) -> None:
    await stage.node("a", "amd=2")
    async with played(stage) as actor:
        await discover(stage)
        actor.stop_plugin("amd")
        await install(stage, "amd")
        await stage.until("the rule", lambda: stage.labels("a").get(AMD_RULE) == "true")
        assert stage.resource("a", "amd.com/gpu") == (None, None), "it never ran"
        actor.start_plugin("amd")
        await until_offered(stage, "a", "amd.com/gpu", "2", of="2")
        await stage.annotate(NODES, "a", "", plugins="down")
        await until_offered(stage, "a", "amd.com/gpu", "0", of="2")
        await stage.annotate(NODES, "a", "", plugins=None)
        await until_offered(stage, "a", "amd.com/gpu", "2", of="2")


async def test_a_plugin_that_restarts_is_seen_gone(stage: Stage) -> None:
    await stage.node("a", "intel")
    async with played(stage) as actor:
        await discover(stage)
        await install(stage, "intel")
        await until_offered(stage, "a", "gpu.intel.com/i915", "1", of="1")
        seen = len(stage.mirror.history)
        await actor.restart_plugin("intel")
        await stage.until("it gone and back", lambda: _amounts(stage, seen)[-2:] == ["0", "1"])


def _amounts(stage: Stage, seen: int) -> list[str]:
    return [
        obj["status"]["allocatable"]["gpu.intel.com/i915"]
        for path, _, obj in stage.mirror.history[seen:]
        if path == NODES
    ]


async def test_labels_vanish_from_one_node_or_all_and_the_plugin_stays(stage: Stage) -> None:
    for name in ("a", "b"):
        await stage.node(name, "nvidia")
    async with played(stage) as actor:
        await discover(stage)
        await install(stage, "nvidia")
        for name in ("a", "b"):
            await until_offered(stage, name, "nvidia.com/gpu", "1", of="1")
        actor.lose_labels(["a"])
        await stage.until("a to lose its label", lambda: not _found(stage, "a"))
        assert _found(stage, "b")
        actor.lose_labels()
        await stage.until("b to lose its label", lambda: not _found(stage, "b"))
        assert stage.resource("a", "nvidia.com/gpu") == ("1", "1")
        assert stage.labels("a")["kubernetes.io/os"] == "linux", "the labels of others stay"
        actor.return_labels()
        await stage.until("both labels", lambda: _found(stage, "a") and _found(stage, "b"))


async def test_labels_come_back_by_themselves_after_a_while(stage: Stage) -> None:
    await stage.node("a", "nvidia")
    async with played(stage):
        await discover(stage)
        await stage.until("the label", lambda: _found(stage, "a"))
        await stage.annotate(NODES, "a", "", lose_labels="0.2")
        await stage.until("no label", lambda: not _found(stage, "a"))
        await stage.until("the label again", lambda: _found(stage, "a"))
        await stage.annotate(NODES, "a", "", lose_labels="forever")
        await stage.until("no label", lambda: not _found(stage, "a"))
        await stage.annotate(NODES, "a", "", lose_labels=None)
        await stage.until("the label again", lambda: _found(stage, "a"))


async def test_what_is_uninstalled_takes_its_labels_and_resources_with_it(stage: Stage) -> None:
    await stage.node("a", "nvidia")
    async with played(stage):
        await discover(stage)
        await install(stage, "nvidia")
        await until_offered(stage, "a", "nvidia.com/gpu", "1", of="1")
        await stage.delete_release("gpu-operator")
        await until_offered(stage, "a", "nvidia.com/gpu", "0", of="1")
        await stage.until("no GPU labels", lambda: "nvidia.com/gpu.count" not in stage.labels("a"))
        await stage.delete_release("node-feature-discovery")
        await stage.until("no label", lambda: not _found(stage, "a"))


async def test_labels_that_somebody_removes_come_back(stage: Stage) -> None:
    await stage.node("a", "nvidia")
    async with played(stage):
        await discover(stage)
        await stage.until("the label", lambda: _found(stage, "a"))
        await stage.client.merge(f"{NODES}/a", {"metadata": {"labels": {NVIDIA: None}}})
        await stage.until("it removed", lambda: len(_changes(stage, NVIDIA)) == 3)
        await stage.until("the label again", lambda: _found(stage, "a"))


def _changes(stage: Stage, label: str) -> list[bool]:
    seen = [
        label in obj["metadata"].get("labels", {}) for path, _, obj in stage.mirror.history if path == NODES
    ]
    return [here for number, here in enumerate(seen) if number == 0 or seen[number - 1] != here]


async def test_at_rest_nodes_are_not_written(stage: Stage) -> None:
    await stage.node("a", "nvidia,amd,intel-xe")
    async with played(stage):
        await discover(stage)
        for vendor in PLUGINS:
            await install(stage, vendor)
        for card in ("nvidia", "amd", "intel-xe"):
            await until_offered(stage, "a", RESOURCES[card], "1", of="1")
        await stage.until("NVIDIA's labels", lambda: "nvidia.com/gpu.count" in stage.labels("a"))
    before = stage.get(NODES, "a")["metadata"]["resourceVersion"]
    await stage.node("b", "nvidia")
    async with played(stage):  # another one begins with all there is
        await until_offered(stage, "b", "nvidia.com/gpu", "1", of="1")
    assert stage.get(NODES, "a")["metadata"]["resourceVersion"] == before


async def test_a_marker_that_makes_no_sense_harms_nobody_else(stage: Stage) -> None:
    await stage.node("a", "voodoo=3", lose_labels="soon")
    await stage.node("b", "nvidia")
    async with played(stage):
        await discover(stage)
        await stage.until("b to be detected", lambda: _found(stage, "b"))
    assert not _found(stage, "a")


@pytest.mark.parametrize("marker", ["voodoo", "nvidia=many", "nvidia,amd=x", "nvidia=0", "amd=-1", "amd=65"])
def test_a_wrong_marker_is_an_error(marker: str) -> None:
    node = {"metadata": {"name": "a", "annotations": {"devcluster.magicstick.dev/hardware": marker}}}
    with pytest.raises(ValueError, match=r"no card|invalid literal|a node has"):
        cards_of(node)


def test_a_marker_counts_cards() -> None:
    node = {"metadata": {"annotations": {"devcluster.magicstick.dev/hardware": "nvidia, amd=2"}}}
    assert cards_of(node) == {"nvidia": 1, "amd": 2}


async def test_a_lost_release_object_is_no_reason_to_take_labels_back(stage: Stage) -> None:
    """The release is suspended and fails: what stands, stands."""
    await stage.node("a", "nvidia")
    async with played(stage):
        await discover(stage)
        await stage.until("the label", lambda: _found(stage, "a"))
        await stage.annotate(RELEASES, "node-feature-discovery", fail="UpgradeFailed: no")
        await stage.until_ready("node-feature-discovery", "False", "UpgradeFailed")
        await stage.node("b", "amd")
        await stage.until("b to be detected", lambda: _found(stage, "b"))
    assert _found(stage, "a")
