"""When a status is worth a write, and what is written."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from magicstick.runtime.conditions import conditions_of, merge_conditions

Status = Mapping[str, Any]


def merge_status(old: Status, new: Status, now: datetime) -> dict[str, Any]:
    """`new` with the transition times of its conditions filled in from `old`.

    Nothing else of `old` survives: a status is always computed whole.
    """
    merged = dict(new)
    if "conditions" in new:
        merged["conditions"] = merge_conditions(conditions_of(old), new["conditions"], now)
    return merged


def same_meaning(old: object, new: object) -> bool:
    """Whether two statuses tell the same.

    Transition times make no difference, nor does whether a field is absent or null: the API server
    stores neither null nor our opinion of when we said something.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = {*old, *new} - {"lastTransitionTime"}
        return all(same_meaning(old.get(key), new.get(key)) for key in keys)
    if isinstance(old, list | tuple) and isinstance(new, list | tuple):
        return len(old) == len(new) and all(map(same_meaning, old, new))
    if isinstance(old, bool) is not isinstance(new, bool):
        return False
    return old == new
