"""Reading what others wrote: nothing here raises for what it is given."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

Object = Mapping[str, object]

CHAT: Final = "chat"
EMBEDDING: Final = "embedding"
REALTIME: Final = "realtime"

HASH_LENGTH: Final = 16
_LONGEST_NUMBER: Final = 18
_OUTSIDE_SLUG: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def section(parent: object, name: str) -> Object:
    """The object under `name`; an empty one where there is none."""
    found = parent.get(name) if isinstance(parent, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def items(parent: object, name: str) -> tuple[object, ...]:
    """The list under `name`; an empty one where there is none."""
    found = parent.get(name) if isinstance(parent, Mapping) else None
    return tuple(found) if isinstance(found, list | tuple) else ()


def text(value: object) -> str:
    """Text without the space around it; "" for anything else."""
    return value.strip() if isinstance(value, str) else ""


def first_text(*values: object) -> str:
    """The first that is text and not empty; "" when none is."""
    return next((found for value in values if (found := text(value))), "")


def positive(value: object) -> int | None:
    """A whole number above 0, also as digits; None for anything else (spec: companions §1.5)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        digits = value.strip()
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _LONGEST_NUMBER:
            return None
        value = int(digits)
    return value if isinstance(value, int) and value > 0 else None


def first_positive(*values: object) -> int | None:
    """The first that is a whole number above 0."""
    return next((found for value in values if (found := positive(value)) is not None), None)


def is_name(value: str) -> bool:
    """Whether it can name a model: something, on one line, since it becomes a line of `defaults.env`."""
    return bool(value) and value.isprintable()


def is_unicode(value: object) -> bool:
    """Whether all text in it can be sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def slug(name: str) -> str:
    """The part of a route's id that stands for a name (spec: models §16)."""
    return _OUTSIDE_SLUG.sub("-", name).strip("-").lower() or "model"


def kind_of_model(features: Iterable[object], name: str) -> str:
    """`chat` or `embedding`, by what the model can do, else by its name (spec: models §16)."""
    known = [feature.lower() for feature in features if isinstance(feature, str)]
    if any(EMBEDDING in feature for feature in known):
        return EMBEDDING
    if any("generation" in feature or CHAT in feature for feature in known):
        return CHAT
    return EMBEDDING if EMBEDDING in name.lower() else CHAT


def canonical(value: object) -> bytes:
    """JSON that is the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def short_hash(value: object) -> str:
    """The first 16 hex digits of SHA-256 over JSON with sorted keys (spec: companions §1.6)."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:HASH_LENGTH]
