"""Which objects a list is about: a kind, perhaps one namespace, one name, some labels, some fields."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource

_REQUIREMENT = re.compile(
    r"""\s*(?:
        (?P<absent>!)\s*(?P<missing>[^\s!=,()]+)
        |(?P<key>[^\s!=,()]+)\s*(?:
            (?P<operator>==|=|!=)\s*(?P<value>[^\s!=,()]*)
            |\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)
_TERM: Final = re.compile(
    r"\s*(?P<path>[^\s!=,]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=,\\]*)\s*(?:,|$)"
)

FIELDS: Final[Mapping[str, Callable[[Resource], str]]] = {
    "metadata.name": lambda obj: obj.metadata.name,
    "metadata.namespace": lambda obj: obj.metadata.namespace,
    "type": lambda obj: obj.type,
}
"""What can be selected by: fields that the server selects by for some kind, and that `Resource` carries, so
that it can be told of what a write returned whether it belongs to a list. Which of them a kind has, only the
server knows; it refuses others."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What one informer lists and watches. The defaults widen: every namespace, name, label and field.

    Both selectors are in the API's own syntax; ValueError for one that is not, or with a field that is not
    one of `FIELDS`.
    """

    kind: Kind
    namespace: str = ""
    name: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    """Beside the name, which is selected by itself."""

    def __post_init__(self) -> None:
        matches_labels(self.label_selector, {})
        _terms(self.field_selector)

    @property
    def selects(self) -> bool:
        """Whether objects at places that it covers may be left out of the list."""
        return bool(self.label_selector or self.field_selector)

    @property
    def asked_fields(self) -> str:
        """The field selector that the server is asked with: the one name, and what else is selected by."""
        named = "" if self.name is None else f"metadata.name={self.name}"
        return ",".join(part for part in (named, self.field_selector) if part)

    def covers_key(self, key: ObjectKey) -> bool:
        """Whether an object at this place belongs to the list, whatever its labels and fields."""
        return (not self.namespace or self.namespace == key.namespace) and self.name in (None, key.name)

    def covers(self, obj: Resource) -> bool:
        """Whether this very object belongs to the list."""
        return (
            self.covers_key(obj.metadata.key)
            and matches_labels(self.label_selector, obj.metadata.labels)
            and matches_fields(self.field_selector, obj)
        )

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name) if part)
        chosen = ", ".join(part for part in (self.label_selector, self.field_selector) if part)
        return f"{self.kind}{' in ' if place else ''}{place}{f' ({chosen})' if chosen else ''}"


def matches_fields(selector: str, obj: Resource) -> bool:
    """Whether fields satisfy a selector (`type!=a,metadata.name=b`), as the server decides: absent is "".

    Raises:
        ValueError: the text is no selector, or names a field that is not one of `FIELDS`.
    """
    found = _terms(selector)
    return all((FIELDS[path](obj) == value) == equal for path, equal, value in found)


def _terms(selector: str) -> list[tuple[str, bool, str]]:
    """The requirements: field, whether it has to be equal, value."""
    terms, position = [], 0
    while position < len(selector):
        found = _TERM.match(selector, position)
        if found is None:
            raise ValueError(f"not a field selector: {selector!r}")
        if found["path"] not in FIELDS:
            raise ValueError(f"{selector!r} selects by {found['path']}; possible are {', '.join(FIELDS)}")
        terms.append((found["path"], found["operator"] != "!=", found["value"]))
        position = found.end()
    return terms


def matches_labels(selector: str, labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy a selector (`a=b,c!=d,e,!f,g in (x,y),h notin (z)`), as the server decides.

    Raises:
        ValueError: the text is no selector.
    """
    matches, position = True, 0
    while position < len(selector):
        found = _REQUIREMENT.match(selector, position)
        if found is None:
            raise ValueError(f"not a label selector: {selector!r}")
        matches = _satisfies(found, labels) and matches
        position = found.end()
    return matches


def _satisfies(requirement: re.Match[str], labels: Mapping[str, str]) -> bool:
    if requirement["absent"]:
        return requirement["missing"] not in labels
    key = requirement["key"]
    if requirement["operator"]:
        return (labels.get(key) == requirement["value"]) == (requirement["operator"] != "!=")
    if requirement["set"]:
        values = {value.strip() for value in requirement["values"].split(",")}
        return (labels.get(key) in values) == (requirement["set"] == "in")
    return key in labels
