"""Data that outlives its owner, and how a successor of the same name takes it over (spec: palena §4.7, §6.2).

What is kept loses our ownerReference, or the garbage collector would take it, and is marked; whoever takes
it over takes the mark off. References and labels of others stay as they are.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.kinds import PERSISTENT_VOLUME_CLAIM, STATEFUL_SET
from magicstick.palena.common.labels import RETAINED, TRUE
from magicstick.palena.common.owners import Owner, is_owned_by
from magicstick.runtime.plan import Patch, Step

KEPT: Final = {"whenDeleted": "Retain", "whenScaled": "Retain"}
"""What has a StatefulSet leave its volumes behind."""
RETENTION: Final = "persistentVolumeClaimRetentionPolicy"


def released(owner: Owner, found: Iterable[tuple[Kind, Resource | None]]) -> Iterator[Step]:
    """What lets those of them that are the owner's outlive it; nothing once they do."""
    for kind, live in found:
        if live is None or not is_owned_by(live, owner) or live.metadata.dying:
            continue
        if live.metadata.labels.get(RETAINED) != TRUE or _refers(live, owner.uid):
            marked = {"labels": {RETAINED: TRUE}, **_without(live, owner.uid)}
            yield Patch(kind, live.metadata.key, live.metadata.uid, {"metadata": marked})


def spared(owner: Owner, workload: Resource | None, claim: Resource | None) -> Iterator[Step]:
    """What has a volume outlive the owner's StatefulSet, also when it was to be kept only at the last moment.

    The StatefulSet is told first, or else it would put its reference back on the volume.
    """
    if workload is None or not is_owned_by(workload, owner):
        return
    if workload.spec.get(RETENTION) != KEPT:
        body = {"spec": {RETENTION: KEPT}}
        yield Patch(STATEFUL_SET, workload.metadata.key, workload.metadata.uid, body)
    if claim is not None and _refers(claim, workload.metadata.uid):
        body = {"metadata": _without(claim, workload.metadata.uid)}
        yield Patch(PERSISTENT_VOLUME_CLAIM, claim.metadata.key, claim.metadata.uid, body)


def taken_over(kind: Kind, live: Resource | None, owner: Owner) -> tuple[Step, ...]:
    """Takes the mark off what belongs to a living owner again: whoever clears up goes by it."""
    if live is None or not is_owned_by(live, owner) or RETAINED not in live.metadata.labels:
        return ()
    return (Patch(kind, live.metadata.key, live.metadata.uid, {"metadata": {"labels": {RETAINED: None}}}),)


def _refers(live: Resource, uid: str) -> bool:
    return any(each.uid == uid for each in live.metadata.owner_references)


def _without(live: Resource, uid: str) -> dict[str, Any]:
    """The references of others; none of them is named where there is nothing to take out."""
    if not _refers(live, uid):
        return {}
    others = [msgspec.to_builtins(each) for each in live.metadata.owner_references if each.uid != uid]
    return {"ownerReferences": others or None}
