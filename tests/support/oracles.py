"""What must hold after any fault: a state that can be compared, sound objects, and silence."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hack.devcluster import DevCluster
from hack.devcluster.audit import AuditMark, AuditRecord
from magicstick.api.labels import MANAGED_BY, MODULE, OPERATOR
from magicstick.runtime.conditions import check_conditions
from tests.support.mirror import Object
from tests.support.world import World

QUIET_S = 1.5
"""Three resyncs of the operator as tests run it."""
SETTLE_S = 60.0
"""For a busy machine; nobody waits longer than it takes."""

Snapshot = Mapping[str, Any]


def snapshot(world: World) -> Snapshot:
    """All activations and Kustomizations of the corner, without what differs between two equal runs."""
    objects = {
        f"{path.rsplit('/', 1)[1]}/{name}": _essence(obj)
        for path in (world.activations, world.kustomizations)
        for name, obj in world.mirror.all(path).items()
    }
    text = json.dumps(objects, sort_keys=True)
    for namespace, stands_for in ((world.namespace, "OURS"), (world.flux_namespace, "FLUX")):
        text = text.replace(namespace, stands_for)
    return dict(json.loads(text))


def _essence(obj: Object) -> Mapping[str, Any]:
    metadata, status = obj["metadata"], obj.get("status", {})
    return {
        "labels": metadata.get("labels", {}),
        "annotations": metadata.get("annotations", {}),
        "finalizers": sorted(metadata.get("finalizers", [])),
        "dying": "deletionTimestamp" in metadata,
        "spec": obj["spec"],
        "current": status.get("observedGeneration") == metadata["generation"],
        "status": {
            name: value for name, value in status.items() if name not in {"conditions", "observedGeneration"}
        },
        "conditions": [
            {name: entry.get(name) for name in ("type", "status", "reason", "message")}
            for entry in status.get("conditions", [])
        ],
    }


def assert_sound(world: World) -> None:
    """Conditions are well formed; no module has two Kustomizations, and none is left without a module."""
    activations = world.mirror.all(world.activations)
    for name, activation in activations.items():
        assert not check_conditions(activation), (name, check_conditions(activation))
    ours = [
        child["metadata"]
        for child in world.mirror.all(world.kustomizations).values()
        if child["metadata"].get("labels", {}).get(MANAGED_BY) == OPERATOR
    ]
    owners = Counter(child["labels"][MODULE] for child in ours)
    assert all(count == 1 for count in owners.values()), f"duplicates: {owners}"
    wanted = {each["spec"].get("module", name) for name, each in activations.items()}
    assert set(owners) <= wanted, f"orphans: {set(owners) - wanted}"


async def silence(
    cluster: DevCluster,
    heard: Callable[[AuditMark], list[AuditRecord]],
    *,
    deadline_s: float = SETTLE_S,
) -> None:
    """Wait for a window in which nothing is `heard` of what is not to be; fails when none comes.

    `heard` tells what of it has been audited since a mark.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_s
    while True:
        mark = cluster.audit_mark()
        await asyncio.sleep(QUIET_S)  # that nothing happens can only be seen by looking for a while
        if not (found := heard(mark)):
            return
        assert loop.time() < deadline, f"it does not rest: {told(found)}"


async def quiet(world: World) -> None:
    """Wait until no operator writes anything in this corner any more."""
    await silence(world.cluster, world.operator_writes)


async def assert_settled(world: World) -> None:
    """The operator is done, and what it left is sound."""
    await quiet(world)
    assert_sound(world)


def told(records: list[AuditRecord]) -> list[str]:
    """Audit records, a line each."""
    return [
        f"{record.verb} {record.resource}/{record.name} {record.subresource} {record.code}"
        for record in records
    ]
