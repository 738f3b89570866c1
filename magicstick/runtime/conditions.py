"""Conditions that kstatus, `kubectl wait` and people read the same way.

`Ready` is always there. `Reconciling` and `Stalled` are there only while they are true: the first says
that the operator is at work or waits for something that will come by itself, the second that only a
person can go on. Both at once never happens, and neither together with `Ready=True`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
ABNORMAL: Final = frozenset({RECONCILING, STALLED})
"""Conditions that are there only while they are true."""
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


def conditions_of(status: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The conditions of a stored status; whatever else stands in their place is left out.

    The server also holds objects that were stored before the schema said what a condition is.
    """
    stored = status.get("conditions")
    entries = stored if isinstance(stored, list | tuple) else ()
    return tuple(each for each in entries if isinstance(each, Mapping) and isinstance(each.get("type"), str))


def find(conditions: Iterable[Mapping[str, Any]], type_: str) -> Mapping[str, Any] | None:
    """The first condition of a type."""
    return next((entry for entry in conditions if entry.get("type") == type_), None)


def is_true(conditions: Iterable[Mapping[str, Any]], type_: str, generation: int) -> bool:
    """Whether the condition is True and speaks of this generation (where it says of which it speaks).

    A True from an earlier generation says nothing of what was asked for since.
    """
    entry = find(conditions, type_)
    if entry is None or entry.get("status") != "True":
        return False
    return bool(entry.get("observedGeneration", generation) == generation)


def merge_conditions(
    old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]], now: datetime
) -> list[Condition]:
    """`new` with transition times: kept while the status stays the same, `now` otherwise.

    The order is that of `new`; what only `old` has is dropped, and so are `Reconciling` and `Stalled`
    that are not True. A stored time that is none is not kept: the server would refuse it.
    """
    before = {entry.get("type"): entry for entry in old}
    merged = []
    for entry in new:
        if entry["type"] in ABNORMAL and entry["status"] != "True":
            continue
        known = before.get(entry["type"], {})
        kept = known.get("lastTransitionTime") if known.get("status") == entry["status"] else None
        merged.append({**entry, "lastTransitionTime": kept if _is_time(kept) else timestamp(now)})
    return merged


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def check_conditions(obj: Mapping[str, Any]) -> list[str]:
    """What is wrong with an object's conditions by the rules of Flux and kstatus; empty when nothing is.

    An oracle for tests, on an object as JSON gives it. In two points it is milder than Flux: `Ready` may
    be Unknown while `Reconciling` is True, and a status may speak of the present generation while
    `Reconciling` does, since ours is observed and waited for in the same pass.
    """
    status = obj.get("status", {})
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions", [])
    generation = int(obj["metadata"].get("generation", 0))
    faults = [fault for entry in conditions for fault in _check_entry(entry, generation)]
    types = [str(entry.get("type")) for entry in conditions]
    faults += [f"{type_}: stands more than once" for type_ in dict.fromkeys(types) if types.count(type_) > 1]
    if status.get("observedGeneration", 0) > generation:
        faults.append("status.observedGeneration is ahead of metadata.generation")
    ready = find(conditions, READY)
    if ready is None:
        return [*faults, "Ready is missing"]
    return faults + _check_ready(ready, conditions, status.get("observedGeneration", generation), generation)


def _check_entry(entry: Mapping[str, Any], generation: int) -> Iterator[str]:
    """Rules for each condition on its own."""
    name = entry.get("type")
    for field in ("type", "status", "reason", "lastTransitionTime"):
        if not entry.get(field):
            yield f"{name}: {field} is empty"
    if "message" not in entry:
        yield f"{name}: message is missing"
    if entry.get("status") not in ("True", "False", "Unknown"):
        yield f"{name}: status is neither True, False nor Unknown"
    observed = entry.get("observedGeneration", 0)
    if observed < 1:
        yield f"{name}: observedGeneration is missing"
    if observed > generation:
        yield f"{name}: observedGeneration is ahead of metadata.generation"
    if name in ABNORMAL and entry.get("status") != "True":
        yield f"{name} is present but not True"


def _check_ready(
    ready: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]], observed: int, generation: int
) -> list[str]:
    """Rules for `Ready` together with the others; `observed` is the status' own generation."""
    present = [entry["type"] for entry in conditions if entry.get("type") in ABNORMAL]
    faults = []
    if len(set(present)) > 1:
        faults.append("Reconciling and Stalled are both present")
    if ready.get("status") == "Unknown" and RECONCILING not in present:
        faults.append("Ready is Unknown without Reconciling")
    if ready.get("status") == "Unknown" and STALLED in present:
        faults.append("Ready is Unknown although Stalled is present")
    if ready.get("status") != "True":
        return faults
    faults += [f"Ready is True although {type_} is present" for type_ in present]
    if observed < generation:
        faults.append("Ready is True although the status is about an earlier generation")
    faults += [
        f"{entry.get('type')}: observedGeneration is not the status' own although Ready is True"
        for entry in conditions
        if entry.get("observedGeneration", observed) != observed
    ]
    return faults
