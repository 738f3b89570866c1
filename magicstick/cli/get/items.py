"""Objects as they are read, and the lines that are made of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from magicstick.api.appearances import Appearance
from magicstick.cli.words import HARDWARE, Wanted
from magicstick.kube.kinds import ObjectKey
from magicstick.kube.objects import ObjectMeta, OwnerReference

DELETED: Final = "Deleted"


class WholeOwner(OwnerReference, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """`metadata.ownerReferences[]`, with all its fields."""

    block_owner_deletion: bool | msgspec.UnsetType = msgspec.UNSET


class WholeMeta(ObjectMeta, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """All metadata but the managed fields, which nobody wants to see."""

    owner_references: tuple[WholeOwner, ...] = ()
    generate_name: str = ""
    deletion_grace_period_seconds: int | None = None
    self_link: str = ""


class Whole(msgspec.Struct, frozen=True, rename="camel"):
    """An object of one of our kinds, with all that it can hold: their schemas know no further field."""

    metadata: WholeMeta
    api_version: str | msgspec.UnsetType = msgspec.UNSET
    kind: str | msgspec.UnsetType = msgspec.UNSET
    spec: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET
    status: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Item:
    """One line: an object, or a part of one that is shown like an object."""

    appearance: Appearance
    key: ObjectKey
    version: str
    """The resourceVersion of the object."""
    document: Mapping[str, Any]
    """The object as plain data, as it stands in the API."""

    @property
    def name(self) -> str:
        """The name as it is written alone."""
        return self.key.name

    @property
    def full_name(self) -> str:
        """As `kubectl get -o name` says it: kind, group, name."""
        kind = self.appearance.kind
        return f"{self.appearance.singular}{'.' if kind.group else ''}{kind.group}/{self.name}"

    @property
    def created(self) -> str:
        """When it was created, as the API says it; "" for what is no object."""
        return str(_mapping(self.document.get("metadata")).get("creationTimestamp") or "")

    @property
    def phase(self) -> str:
        """Its phase, wherever the kind has it."""
        status = self.document if self.appearance is HARDWARE else _mapping(self.document.get("status"))
        return str(status.get("phase") or "")


def items_of(wanted: Wanted, obj: Whole) -> Iterable[Item]:
    """The lines that an object is good for: itself, or its hardware."""
    document: Mapping[str, Any] = msgspec.to_builtins(obj)
    key, version = obj.metadata.key, obj.metadata.resource_version
    if wanted.appearance is not HARDWARE:
        if not wanted.names or key.name in wanted.names:
            yield Item(wanted.appearance, key, version, document)
        return
    operators = _mapping(_mapping(document.get("status")).get("hardwareOperators"))
    for module, entry in sorted(operators.items()):
        if not wanted.names or module in wanted.names:
            yield Item(HARDWARE, ObjectKey(key.namespace, module), version, _mapping(entry))


def _mapping(value: object) -> Mapping[str, Any]:
    """The value where it is a mapping; nothing where a hand made something else of it."""
    return value if isinstance(value, dict) else {}
