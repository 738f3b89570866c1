"""The ordered end of an object: each stage goes only when the one before is gone (spec: palena §2, §4.7).

A stage of a kind that is not served any more is done; one whose kind cannot be read is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from magicstick.kube.kinds import Kind
from magicstick.kube.objects import Resource
from magicstick.palena.common.phases import Outcome
from magicstick.palena.common.verdicts import deleting
from magicstick.runtime.plan import Delete, Finalizer, Notice, Plan, Step

STUCK_AFTER_S: Final = 600.0
TEARDOWN_STUCK: Final = "TeardownStuck"


@dataclass(frozen=True, slots=True)
class Target:
    """An object that has to go."""

    kind: Kind
    live: Resource


@dataclass(frozen=True, slots=True)
class Stage:
    """Objects that go at once, or fields that have to be given back; done when nothing of it is left."""

    what: str
    """For people, as `LiteLLMInstance gw-palena-litellm`."""
    targets: Sequence[Target] = ()
    steps: tuple[Step, ...] = ()
    """Writes to be made before the targets are deleted; () once they are made."""
    unknown: str = ""
    """Why it is not known what is left; "" when it is known. Never taken for nothing."""

    @property
    def done(self) -> bool:
        """Whether nothing of it is left."""
        return not self.targets and not self.steps and not self.unknown


def teardown(live: Resource, stages: Sequence[Stage], order: Sequence[str], now: datetime) -> Plan:
    """The plan for a dying object: the first stage that is not done, or else the release.

    Deletes carry the uid. The status says Deleting and what is waited for; after ten minutes a warning
    `TeardownStuck` says so as well. `order`: the types of the kind's conditions.
    """
    stage = next((each for each in stages if not each.done), None)
    if stage is None:
        return Plan(Outcome.RELEASED, finalizer=Finalizer.REMOVE)
    message = f"waits until {stage.what} is gone"
    if stage.unknown:
        message = f"waits until it is known whether {stage.what} is gone: {stage.unknown}"
    notices = (Notice(TEARDOWN_STUCK, message),) if _stuck(live, now) else ()
    steps = () if stage.unknown else stage.steps or _deletions(stage.targets)
    return Plan(Outcome.DELETING, steps, status=deleting(live, order, message), notices=notices)


def _deletions(targets: Sequence[Target]) -> tuple[Step, ...]:
    return tuple(
        Delete(each.kind, each.live.metadata.key, each.live.metadata.uid)
        for each in targets
        if not each.live.metadata.dying
    )


def _stuck(live: Resource, now: datetime) -> bool:
    """Whether the deletion has taken too long; without a readable time it has not."""
    try:
        begun = datetime.fromisoformat(live.metadata.deletion_timestamp or "")
    except ValueError:
        return False
    return begun.tzinfo is not None and (now - begun).total_seconds() > STUCK_AFTER_S
