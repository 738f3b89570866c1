"""Names and label values that are made from others, within their limits (spec: palena §1.1)."""

import hashlib
from typing import Final

LABEL_LIMIT: Final = 63
_KEPT: Final = 54
_HEX: Final = 8


def label_value(text: str) -> str:
    """A label value of at most 63 characters: `text`, or its first 54, a dash and 8 hex digits.

    `text` is the name of an object, so that all its characters are legal in a label value; the digits
    are the beginning of the SHA-256 of the whole, so that distinct names stay distinct.
    """
    return text if len(text) <= LABEL_LIMIT else f"{text[:_KEPT].rstrip('-.')}-{_digest(text)}"


def joined(*parts: str, limit: int = LABEL_LIMIT) -> str:
    """The parts joined by dashes; beyond `limit` characters the beginning and 8 hex digits of the whole.

    Raises:
        ValueError: `limit` leaves no room for the digits.
    """
    name = "-".join(parts)
    if len(name) <= limit:
        return name
    if limit < _HEX + 2:
        raise ValueError(f"a shortened name needs at least {_HEX + 2} characters, not {limit}")
    return f"{name[: limit - _HEX - 1].rstrip('-.')}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HEX]
