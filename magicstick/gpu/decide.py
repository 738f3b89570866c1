"""The decision about hardware: activate the module of each vendor whose hardware is there."""

from dataclasses import dataclass
from typing import Final

from magicstick.gpu.sightings import Motion
from magicstick.gpu.status import Outcome
from magicstick.kube.objects import Resource
from magicstick.runtime.plan import Create, Plan

_OUTCOMES: Final = {
    Motion.NONE: Outcome.AT_REST,
    Motion.HOLDING: Outcome.HOLDING,
    Motion.SETTLING: Outcome.SETTLING,
}


@dataclass(frozen=True, slots=True)
class HardwareObservation:
    """What hardware wants at one moment."""

    appliance: Resource
    known: bool = True
    """False while anything that counts cannot be read; nothing is requested then."""
    missing: tuple[Create, ...] = ()
    """The activations that are to be made, as `modules.needs` gives them."""
    motion: Motion = Motion.NONE


def decide(o: HardwareObservation) -> Plan:
    """Creations of missing activations, and when to look again. Total."""
    if o.appliance.metadata.dying:
        return Plan(Outcome.LEAVING)
    if not o.known:
        return Plan(Outcome.BLIND)
    return Plan(_OUTCOMES[o.motion], o.missing, independent=True)
