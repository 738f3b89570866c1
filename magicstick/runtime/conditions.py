"""Conditions that kstatus, `kubectl wait` and people read the same way.

`Ready` is always there. `Reconciling` and `Stalled` are there only while they are true: the first says
that the operator is at work or waits for something that will come by itself, the second that only a
person can go on. Both at once never happens, and neither together with `Ready=True`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
MESSAGE_LIMIT: Final = 1024

Condition = dict[str, Any]
State = Literal["True", "False", "Unknown"]


def timestamp(moment: datetime) -> str:
    """As the API writes times: UTC, whole seconds, `Z` (spec: magicstick-api §1.4)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text, shortened visibly where it is too long."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def condition(type_: str, status: State, reason: str, message: str, generation: int) -> Condition:
    """One condition, still without `lastTransitionTime`."""
    return {
        "type": type_,
        "status": status,
        "observedGeneration": generation,
        "reason": reason,
        "message": cut(message),
    }


def summarise(
    ready: State,
    reason: str,
    message: str,
    generation: int,
    *,
    reconciling: bool = False,
    stalled: bool = False,
) -> list[Condition]:
    """`Ready` and, while they hold, `Reconciling` or `Stalled`, all with one reason and message."""
    conditions = [condition(READY, ready, reason, message, generation)]
    if stalled:
        conditions.append(condition(STALLED, "True", reason, message, generation))
    elif reconciling:
        conditions.append(condition(RECONCILING, "True", reason, message, generation))
    return conditions


def find(conditions: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    """The first condition of a type."""
    return next((entry for entry in conditions if entry.get("type") == type_), None)


def is_true(conditions: Iterable[Mapping[str, Any]], type_: str, generation: int) -> bool:
    """Whether the condition is True and speaks of this generation (where it says of which it speaks)."""
    entry = find(conditions, type_)
    if entry is None or entry.get("status") != "True":
        return False
    return int(entry.get("observedGeneration", generation)) >= generation


def merge_conditions(
    old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]], now: datetime
) -> list[Condition]:
    """`new` with transition times: kept while the status stays the same, `now` otherwise."""
    before = {entry.get("type"): entry for entry in old}
    merged = []
    for entry in new:
        known = before.get(entry["type"])
        same = known is not None and known.get("status") == entry["status"]
        kept = known.get("lastTransitionTime") if same and known is not None else None
        merged.append({**entry, "lastTransitionTime": kept or timestamp(now)})
    return merged


def check_conditions(obj: Mapping[str, Any]) -> list[str]:
    """What is wrong with an object's conditions by the rules of kstatus and Flux; empty when nothing is."""
    status = obj.get("status", {})
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions", [])
    generation = obj["metadata"].get("generation", 0)
    faults = [
        f"{entry.get('type')}: {field} is empty"
        for entry in conditions
        for field in ("type", "status", "reason", "lastTransitionTime")
        if not entry.get(field)
    ]
    types = [str(entry.get("type")) for entry in conditions]
    faults += [
        f"{type_}: stands more than once" for type_ in sorted({t for t in types if types.count(t) > 1})
    ]
    if status.get("observedGeneration", 0) > generation:
        faults.append("status.observedGeneration is ahead of metadata.generation")
    faults += [
        f"{entry.get('type')}: observedGeneration is ahead of metadata.generation"
        for entry in conditions
        if entry.get("observedGeneration", 0) > generation
    ]
    return faults + _check_ready(status, conditions, generation)


def _check_ready(
    status: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]], generation: int
) -> list[str]:
    ready = find(conditions, READY)
    if ready is None:
        return ["Ready is missing"]
    faults = []
    present = [type_ for type_ in (RECONCILING, STALLED) if find(conditions, type_) is not None]
    faults += [
        f"{type_} is present but not True"
        for type_ in present
        if (find(conditions, type_) or {}).get("status") != "True"
    ]
    if len(present) > 1:
        faults.append("Reconciling and Stalled are both present")
    if ready.get("status") == "True":
        if present:
            faults.append(f"Ready is True although {present[0]} is present")
        if ready.get("observedGeneration", generation) != status.get("observedGeneration", generation):
            faults.append("Ready is True for another generation than the status")
    if ready.get("status") == "Unknown" and RECONCILING not in present:
        faults.append("Ready is Unknown without Reconciling")
    return faults
