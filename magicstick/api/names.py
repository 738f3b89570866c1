"""Legal names: checks that state the exact limit, and stable short forms of what is too long.

What a user named is never renamed: where it cannot be served under its own name it is refused with
the sentence of `dns_label_problem`. What we derive is shortened, with a hash of the whole, so that
distinct inputs stay distinct.
"""

import hashlib
import re
from typing import Final

DNS_LABEL_LIMIT: Final = 63
DNS_SUBDOMAIN_LIMIT: Final = 253
LABEL_VALUE_LIMIT: Final = 63
RELEASE_NAME_LIMIT: Final = 53
"""Of a Helm release, and therefore of an AppInstance."""
KUBEAI_MODEL_LIMIT: Final = 40
"""Of a KubeAI Model, and therefore of a ModelActivation that KubeAI serves."""

DNS_LABEL_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""As the schemas state it (spec: magicstick-api §2.1)."""

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_HASH_LENGTH: Final = 12
_LEAST_LIMIT: Final = _HASH_LENGTH + 2


def is_dns_label(text: str, limit: int = DNS_LABEL_LIMIT) -> bool:
    """Whether `text` is an RFC 1123 label of at most `limit` characters."""
    return len(text) <= limit and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str, limit: int = DNS_SUBDOMAIN_LIMIT) -> bool:
    """Whether `text` is a legal object name: RFC 1123 labels joined by dots."""
    return len(text) <= limit and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether `text` may stand as the value of a label; the empty text may."""
    return len(text) <= LABEL_VALUE_LIMIT and _LABEL_VALUE.fullmatch(text) is not None


def dns_label_problem(text: str, limit: int = DNS_LABEL_LIMIT) -> str | None:
    """What is wrong with `text` as a DNS label of at most `limit` characters; None if nothing is."""
    if len(text) > limit:
        return f"must be at most {limit} characters long, not {len(text)}"
    if not is_dns_label(text, limit):
        return (
            f"must be a DNS label of at most {limit} characters: lower-case letters, digits and '-', "
            "with a letter or digit at both ends"
        )
    return None


def shorten(name: str, limit: int = DNS_LABEL_LIMIT) -> str:
    """A DNS label of at most `limit` characters that stands for `name`.

    A name that is one already stays as it is. Any other keeps as much of its beginning as is legal
    and ends in 12 hex digits of the SHA-256 of the whole, so the result depends on nothing else.

    Raises:
        ValueError: `limit` leaves no room for the hash (below 14).
    """
    if is_dns_label(name, limit):
        return name
    return _with_hash(re.sub(r"[^a-z0-9]+", "-", name.lower()), name, limit)


def suffixed(name: str, suffix: str, limit: int = DNS_LABEL_LIMIT) -> str:
    """`<name>-<suffix>` as a DNS label of at most `limit` characters, `name` shortened at need.

    Raises:
        ValueError: `suffix` leaves too little room for a shortened name.
    """
    return f"{shorten(name, limit - len(suffix) - 1)}-{suffix}"


def label_value(text: str) -> str:
    """A legal label value that stands for `text`: itself, or its beginning and a hash of the whole.

    Where the result differs from `text`, the whole belongs in an annotation (`labels.FULL_NAME`).
    """
    if is_label_value(text):
        return text
    return _with_hash(re.sub(r"[^-A-Za-z0-9_.]+", "-", text), text, LABEL_VALUE_LIMIT)


def _with_hash(legal: str, whole: str, limit: int) -> str:
    """`legal`, cut so that `-` and the hash of `whole` fit; the hash alone if nothing is left."""
    if limit < _LEAST_LIMIT:
        raise ValueError(f"a shortened name needs at least {_LEAST_LIMIT} characters, not {limit}")
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    head = legal.strip("-_.")[: limit - _HASH_LENGTH - 1].rstrip("-_.")
    return f"{head}-{digest}" if head else digest
