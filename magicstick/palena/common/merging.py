"""Merging what a user gives into what is generated."""

import copy
from collections.abc import Mapping
from typing import Any


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`: maps by member, anything else whole. Neither is changed, nor shared."""
    merged = copy.deepcopy(dict(below))
    for name, value in above.items():
        under = merged.get(name)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[name] = deep_merge(under, value)
        else:
            merged[name] = copy.deepcopy(value)
    return merged
