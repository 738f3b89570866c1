"""Reading what may be of any shape, since what is stored may be older than its schema."""

from collections.abc import Mapping
from typing import Any


def maps(value: object) -> list[Mapping[str, Any]]:
    """The maps in a list; [] for anything else."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []
