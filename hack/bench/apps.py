"""Hundreds of instances from nothing to Ready, and what single changes cost then."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from hack.bench import app_objects as objects
from hack.bench.app_world import activate_modules, app_world, make_instances, playing
from hack.bench.convergence import Goal, beside_replay, converge
from hack.bench.passes import CALM, passes
from hack.bench.process import Operator, operator
from hack.bench.report import Figure
from hack.bench.world import World
from hack.devcluster.audit import AuditRecord

__all__ = ["CALM", "apps", "subject"]  # whoever runs the operator against instances runs it with CALM

MOST_WRITES: Final = 13.0
"""Of an instance on average: its finalizer, its release, three to seven objects of its way in, whose routes
are closed at first, and what is reported of it meanwhile."""
PIECE: Final = re.compile(r"-(?:(?:local|public)(?:-callback|-sso)?|route-access)$")
"""What the names of an instance's way in end with."""


async def apps(directory: Path, *, count: int = 300) -> list[Figure]:
    """Convergence beside a replay of all its writes, and the passes that single changes cause."""
    async with app_world(directory / "operator") as bench, playing(bench.client) as players:
        log = directory / "operator.log"
        async with operator(bench.cluster.kubeconfig, log, environment=dict(CALM)) as running:
            await activate_modules(bench)
            records = await converge(bench, players, make_instances(bench.client, count), count)
            single = await _single_changes(bench, running)
    goal = Goal(count, f"{count} instances to Ready", "writes per instance", MOST_WRITES)
    first = await beside_replay(goal, records, app_world(directory / "replay"), subject)
    return [*first, *single]


def subject(record: AuditRecord) -> str:
    """The instance that a request is about, or else the object."""
    if record.resource == "events":  # an event is called after its object, with a point behind
        return record.name.partition(".")[0]
    return PIECE.sub("", record.name)


async def _single_changes(bench: World, running: Operator) -> list[Figure]:
    """Instances that are looked at after a change of one, or of what is made for one."""
    client, name = bench.client, objects.instance_name(0)
    told = {"metadata": {"annotations": {"example.com/note": "seen"}}}

    async def of(what: str, change: Callable[[], Awaitable[object]], most: float) -> Figure:
        before = await passes(running, "instances")
        await change()
        return Figure(what, await passes(running, "instances") - before, "", 1.0, limit=most)

    return [
        await of(
            "instances looked at after a note on a route",
            lambda: client.merge(f"{objects.ROUTES}/{name}-local", told),
            1.0,
        ),
        await of("after a note on a release", lambda: client.merge(f"{objects.RELEASES}/{name}", told), 1.0),
    ]
