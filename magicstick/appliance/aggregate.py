"""One phase and one status over all entries (spec: magicstick-api §2.2, modules-and-apps §12)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from magicstick.appliance.entries import (
    ENTRY_LIMIT,
    Fields,
    HardwareEntry,
    InstanceEntry,
    ModelEntry,
    ModuleEntry,
    bounded,
    by_application,
)
from magicstick.appliance.status import CATALOGS_VALID, Phase, Reason
from magicstick.catalogs.loader import Problem
from magicstick.runtime.conditions import condition, summarise

LISTED_NAMES: Final = 5
"""How many names a message lists before it only counts."""

DEGRADED: Final = "Degraded"

SIZE_LIMIT: Final = 900_000
"""Bytes of all maps as JSON. The store takes 1.5 MiB, and which fields are ours takes room as well."""

HARDWARE_SIZE_LIMIT: Final = SIZE_LIMIT // 3
"""Bytes of all hardware: what hosts write about themselves leaves room for everything else."""

Entry = ModuleEntry | InstanceEntry | ModelEntry | HardwareEntry


@dataclass(frozen=True, slots=True)
class Entries:
    """Everything that an Appliance's status is made of."""

    modules: Sequence[ModuleEntry] = ()
    instances: Sequence[InstanceEntry] = ()
    models: Sequence[ModelEntry] = ()
    hardware: Sequence[HardwareEntry] = ()

    @property
    def failed(self) -> list[Entry]:
        """What makes the Appliance Degraded. An instance never does: it counts as waiting only."""
        return [
            *(each for each in self.modules if each.phase == DEGRADED),
            *(each for each in self.models if each.phase == DEGRADED),
            *(each for each in self.hardware if each.failed),
        ]

    @property
    def waiting(self) -> list[Entry]:
        """What makes the Appliance Reconciling, while nothing makes it Degraded."""
        return [
            *(each for each in self.modules if not each.healthy),
            *(each for each in self.instances if not each.healthy),
            *(each for each in self.models if not each.healthy),
            *(each for each in self.hardware if each.on_its_way),
        ]

    @property
    def fields(self) -> Fields:
        """The maps of the status, with as many entries as fit into the store.

        A map without an entry is left out: the server takes an apply of an empty map, where ours had
        entries before, for one of null.
        """
        hardware = _fitting(self._hardware, HARDWARE_SIZE_LIMIT)
        others = _fitting(self._others, SIZE_LIMIT - _size(hardware))
        maps = {**others, "hardwareOperators": hardware}
        return {name: entries for name, entries in maps.items() if entries}

    def _hardware(self, limit: int) -> Fields:
        return {each.module: each.fields(limit) for each in self.hardware}

    def _others(self, limit: int) -> Fields:
        return {
            "modules": {each.module: each.fields() for each in bounded(self.modules, limit)},
            "instances": by_application(bounded(self.instances, limit)),
            "models": {each.name: each.fields() for each in bounded(self.models, limit)},
        }


def _fitting(made: Callable[[int], Fields], size: int) -> Fields:
    """What is made for the largest limit of entries, halved from `ENTRY_LIMIT` on, that has this size."""
    limits = (ENTRY_LIMIT >> halvings for halvings in range(ENTRY_LIMIT.bit_length()))
    return next(fitting for limit in limits if _size(fitting := made(limit)) <= size or limit == 1)


def _size(fields: Fields) -> int:
    return len(msgspec.json.encode(fields))


def appliance_status(
    generation: int,
    entries: Entries,
    seeded: Sequence[str],
    problems: Mapping[str, Problem],
    *,
    catalogs_usable: bool,
) -> Fields:
    """The complete status of an Appliance, still without transition times."""
    phase, reason, message = _summary(entries, problems, catalogs_usable=catalogs_usable)
    ready = summarise(
        "True" if phase is Phase.READY else "False",
        str(reason),
        message,
        generation,
        reconciling=phase is Phase.RECONCILING,
    )
    return {
        "phase": phase.value,
        "observedGeneration": generation,
        **entries.fields,
        "seededModules": list(seeded),
        "conditions": [*ready, _catalogs_valid(problems, generation)],
    }


def _summary(
    entries: Entries, problems: Mapping[str, Problem], *, catalogs_usable: bool
) -> tuple[Phase, str, str]:
    """Give phase, reason of Ready, message of Ready."""
    if not catalogs_usable:
        return Phase.DEGRADED, Reason.CATALOG_UNAVAILABLE, _problem_message(problems)
    if failed := entries.failed:
        return Phase.DEGRADED, Phase.DEGRADED, f"Not working: {_listed(failed)}"
    if waiting := entries.waiting:
        return Phase.RECONCILING, Phase.RECONCILING, f"Waiting for: {_listed(waiting)}"
    return Phase.READY, Phase.READY, f"Everything works that is switched on: {_counted(entries)}."


def _listed(entries: Sequence[Entry]) -> str:
    """Each once: a vendor's module and its hardware have one name, and often fail together."""
    told = list(dict.fromkeys(f"{each.name} ({each.phase})" for each in entries))
    names, more = ", ".join(told[:LISTED_NAMES]), len(told) - LISTED_NAMES
    return f"{names} and {more} more" if more > 0 else names


def _counted(entries: Entries) -> str:
    counts = {
        "module": sum(each.phase == "Ready" for each in entries.modules),
        "instance": sum(each.phase == "Ready" for each in entries.instances),
        "model": sum(each.phase == "Ready" for each in entries.models),
    }
    told = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count]
    return ", ".join(told) or "nothing"


def _catalogs_valid(problems: Mapping[str, Problem], generation: int) -> Fields:
    if not problems:
        return condition(CATALOGS_VALID, "True", Reason.CATALOGS_VALID, "All catalogs are valid.", generation)
    first = problems[min(problems)]
    return condition(CATALOGS_VALID, "False", first.reason.value, _problem_message(problems), generation)


def _problem_message(problems: Mapping[str, Problem]) -> str:
    return " ".join(problems[name].message for name in sorted(problems))
