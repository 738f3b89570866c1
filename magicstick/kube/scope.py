"""Which objects a list is about: a kind, perhaps one namespace, one name, some labels."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import ObjectMeta

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


@dataclass(frozen=True, slots=True)
class Scope:
    """What one informer lists and watches. The defaults widen: every namespace, name and label.

    `label_selector` is in the API's own syntax; ValueError for one that is not.
    """

    kind: Kind
    namespace: str = ""
    name: str | None = None
    label_selector: str = ""

    def __post_init__(self) -> None:
        matches_labels(self.label_selector, {})

    @property
    def field_selector(self) -> str:
        """The selector that limits a list to the one name; "" without a name."""
        return "" if self.name is None else f"metadata.name={self.name}"

    def covers_key(self, key: ObjectKey) -> bool:
        """Whether an object at this place belongs to the list, whatever its labels."""
        return (not self.namespace or self.namespace == key.namespace) and self.name in (None, key.name)

    def covers(self, metadata: ObjectMeta) -> bool:
        """Whether this very object belongs to the list."""
        return self.covers_key(metadata.key) and matches_labels(self.label_selector, metadata.labels)

    def __str__(self) -> str:
        place = "/".join(part for part in (self.namespace, self.name) if part)
        labels = f" ({self.label_selector})" if self.label_selector else ""
        return f"{self.kind}{' in ' if place else ''}{place}{labels}"


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
