"""Objects that are to be there or not, next to what there is under their names (spec: palena §1.2).

An object of a wanted name that is somebody else's is neither written nor deleted.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common.owners import Owner, is_foreign
from magicstick.palena.common.retention import taken_over
from magicstick.runtime.plan import Delete, Step
from magicstick.runtime.rollout import rolled

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Desired:
    """An object that is to be there, and what is there."""

    kind: Kind
    body: Object
    live: Resource | None = None


def applied(owner: Owner, wanted: Iterable[Desired]) -> tuple[Step, ...]:
    """What makes them true, those of others left alone; what was retained is taken over."""
    return tuple(
        step
        for each in wanted
        if not is_foreign(each.live, owner)
        for step in (*rolled(each.kind, each.body, each.live), *taken_over(each.kind, each.live, owner))
    )


def conflict(owner: Owner, wanted: Iterable[Desired]) -> str:
    """Which of them are somebody else's, as a sentence; "" when none is."""
    foreign = [
        f"{each.kind.kind} {ObjectKey(each.body['metadata']['namespace'], each.body['metadata']['name'])}"
        for each in wanted
        if is_foreign(each.live, owner)
    ]
    if not foreign:
        return ""
    verb = "exists and is" if len(foreign) == 1 else "exist and are"
    return f"{', '.join(foreign)} {verb} somebody else's: rename this object, or remove what is in its way"


def removed(owner: Owner, present: Iterable[tuple[Kind, Resource | None]]) -> tuple[Step, ...]:
    """What deletes those of them that are this owner's, or were left to it, and not going already."""
    return tuple(
        Delete(kind, live.metadata.key, live.metadata.uid)
        for kind, live in present
        if live is not None and not is_foreign(live, owner) and not live.metadata.dying
    )
