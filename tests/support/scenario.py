"""One life of a module, as a user drives it, told by states alone so that it can be lived under any fault.

created with dependencies → ready → parameter changed → disabled → deleted
"""

from collections.abc import Awaitable, Callable

from hack.devcluster import DevCluster
from tests.support.operator import operator
from tests.support.oracles import Snapshot, assert_settled, snapshot
from tests.support.world import World, corner

LIFE_S = 60.0
"""How long a step may take under faults."""
STORAGE = "STORAGE"


async def live(world: World, *, deadline_s: float = LIFE_S) -> None:
    """The whole life of `gamma`, whose requirements `alpha` and `beta` come, and stay, with it."""
    await world.activate("gamma", parameters={"storage": "10Gi"})
    await world.until_phase("gamma", "Ready", deadline_s=deadline_s)
    await change(world, "20Gi", deadline_s=deadline_s)
    await world.activate("gamma", enabled=False)
    await world.until_phase("gamma", "Disabled", deadline_s=deadline_s)
    assert world.child("app-gamma") is None
    await world.delete(world.activations, "gamma")
    await world.mirror.until(
        "gamma is gone", lambda: world.activation("gamma") is None, deadline_s=deadline_s
    )
    for module in ("alpha", "beta"):
        await world.until_phase(module, "Ready", deadline_s=deadline_s)


async def change(world: World, storage: str, *, deadline_s: float = LIFE_S) -> None:
    """Another value of a parameter, until it has arrived everywhere."""
    await world.activate("gamma", parameters={"storage": storage})
    await world.mirror.until(
        f"gamma is Ready with {storage}",
        lambda: substitution(world) == storage and world.phase("gamma") == "Ready",
        deadline_s=deadline_s,
    )


def substitution(world: World, child: str = "app-gamma") -> str | None:
    """The value of the parameter that stands in the Kustomization."""
    found = world.child(child) or {}
    value = found.get("spec", {}).get("postBuild", {}).get("substitute", {}).get(STORAGE)
    return value if isinstance(value, str) else None


async def undisturbed(cluster: DevCluster, story: Callable[[World], Awaitable[None]] = live) -> Snapshot:
    """What the story ends in when nothing goes wrong."""
    async with corner(cluster) as world, operator(world):
        await story(world)
        await assert_settled(world)
        return snapshot(world)


class Calm:
    """The undisturbed ends of stories, each lived once."""

    def __init__(self, cluster: DevCluster) -> None:
        self._cluster = cluster
        self._ends: dict[Callable[[World], Awaitable[None]], Snapshot] = {}

    async def end(self, story: Callable[[World], Awaitable[None]] = live) -> Snapshot:
        """What the story ends in when nothing goes wrong."""
        if story not in self._ends:
            self._ends[story] = await undisturbed(self._cluster, story)
        return self._ends[story]
