"""Identifiers of users and groups, in grants and from the identity provider (spec: companions §2.2)."""

import re
from typing import Final

_FORM: Final = re.compile(r"[A-Za-z0-9._:-]{1,160}")
_STEPS: Final = frozenset({".", ".."})


def is_well_formed(text: str) -> bool:
    """Whether it may stand in a grant."""
    return _FORM.fullmatch(text) is not None


def is_askable(text: str) -> bool:
    """Whether it may stand in a path as well, and leads nowhere else there."""
    return is_well_formed(text) and text not in _STEPS
