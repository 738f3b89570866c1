"""One life of a corner's hardware, told by states alone so that it can be lived under any fault.

A node with a GPU of NVIDIA joins → its vendor's module is requested → ready → another vendor's definition
comes from outside → the third vendor is switched off by hand → the first node is replaced under its name.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from hack.devcluster import DevCluster
from tests.support.gpu_world import GpuWorld, hardware
from tests.support.mirror import Object
from tests.support.operator import operator
from tests.support.oracles import assert_settled, snapshot
from tests.support.world import World, corner

LIFE_S: Final = 60.0
"""How long a step may take under faults; nothing here waits for a label to be lost."""
READY: Final = {"type": "Ready", "status": "True"}


async def live(gpus: GpuWorld, *, deadline_s: float = LIFE_S) -> None:
    """The whole life."""
    await installed(gpus, deadline_s=deadline_s)
    await gpus.define("intel-gpu")
    await gpus.node("n2", "intel-gpu")
    await gpus.until_entry("Conflict", "intel-gpu", deadline_s=deadline_s)
    await gpus.world.activate("amd-gpu", enabled=False)
    await gpus.node("n3", "amd-gpu", slots=1)
    await gpus.until_entry("Disabled", "amd-gpu", deadline_s=deadline_s)
    await replaced(gpus, deadline_s=deadline_s)


async def installed(gpus: GpuWorld, *, deadline_s: float = LIFE_S) -> None:
    """A node with two GPUs joins, and its vendor's operator gets ready."""
    world = gpus.world
    await gpus.node("n1", "gpu", slots=2)
    await world.mirror.until("NVIDIA is requested", lambda: world.activation("gpu"), deadline_s=deadline_s)
    await gpus.define("gpu")
    await gpus.until_entry("Ready", deadline_s=deadline_s)


async def replaced(gpus: GpuWorld, *, deadline_s: float = LIFE_S) -> None:
    """The node goes, and another comes under its name, with one GPU more."""
    await gpus.delete_node("n1")
    await gpus.until_entry("Installing", deadline_s=deadline_s)
    await gpus.node("n1", "gpu", slots=3)
    await gpus.world.mirror.until(
        "three GPUs are told",
        lambda: (gpus.entry().get("phase"), gpus.entry().get("allocatableResources")) == ("Ready", 3),
        deadline_s=deadline_s,
    )


def whole(gpus: GpuWorld) -> Mapping[str, Any]:
    """Activations, Kustomizations and the Appliance's status, without what differs between equal runs."""
    world = gpus.world
    text = json.dumps({**snapshot(world), "appliance": _timeless(gpus.appliance)}, sort_keys=True)
    return dict(json.loads(text.replace(gpus.suffix, "CORNER")))


def _timeless(status: Object) -> Object:
    conditions = [
        {name: value for name, value in each.items() if name != "lastTransitionTime"}
        for each in status.get("conditions", [])
    ]
    return {**status, "conditions": conditions}


async def until_as(gpus: GpuWorld, expected: Mapping[str, Any], *, deadline_s: float = LIFE_S) -> None:
    """Wait until the end is the expected one, and at rest; a label that is missing is told after seconds."""
    world = gpus.world
    await world.mirror.until("the same end", lambda: whole(gpus) == expected, deadline_s=deadline_s)
    await assert_settled(world)
    assert whole(gpus) == expected


async def undisturbed(cluster: DevCluster) -> Mapping[str, Any]:
    """What the life ends in when nothing goes wrong."""
    async with corner(cluster) as world, hardware(world) as gpus, operator(world):
        await live(gpus)
        await assert_settled(world)
        return whole(gpus)


def made_once(world: World) -> bool:
    """Whether no vendor was requested or installed twice."""
    made = [
        (path, obj["metadata"]["name"])
        for path, type_, obj in world.mirror.history
        if type_ == "ADDED" and path in (world.activations, world.kustomizations)
    ]
    return len(made) == len(set(made))
