"""Whose a generated object is, and the metadata that says so (spec: palena §1.1, §1.2).

In the owner's namespace an object carries an ownerReference; elsewhere one would have the garbage
collector take it for an orphan, so it carries an annotation, and the finalizer removes it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.palena.common import labels
from magicstick.palena.common.names import label_value

Object = dict[str, Any]
Describe = Callable[[str, str], Object]
"""From the name and the component of an object to its metadata."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A Palena object, as far as what it generates has to name it."""

    kind: Kind
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, kind: Kind, live: Resource) -> Self:
        """The owner that `live`, of this kind, is."""
        return cls(kind, live.metadata.namespace, live.metadata.name, live.metadata.uid)

    @property
    def path(self) -> str:
        """As it stands in the annotation of what lives elsewhere."""
        return f"{self.kind.kind}/{self.namespace}/{self.name}"

    @property
    def reference(self) -> Object:
        """As it stands in `ownerReferences`."""
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def labels_of(owner: Owner, component: str, role: str = "") -> dict[str, str]:
    """The labels of a generated object, and of its Pods; `role` is the component's if there is a clearer."""
    return {
        labels.NAME: component,
        labels.INSTANCE: label_value(owner.name),
        labels.COMPONENT: role or component,
        labels.PART_OF: labels.PALENA,
        labels.MANAGED_BY: labels.OPERATOR,
        labels.OWNER_LABELS[owner.kind]: label_value(owner.name),
        labels.OWNER_UID: owner.uid,
    }


def metadata(
    owner: Owner,
    name: str,
    component: str,
    *,
    role: str = "",
    namespace: str = "",
    annotations: Mapping[str, str] | None = None,
    extra_labels: Mapping[str, str] | None = None,
) -> Object:
    """The metadata of a generated object.

    Args:
        owner: whose it is.
        name: its own name.
        component: its value of `labels.NAME`.
        role: its value of `labels.COMPONENT`, if there is a clearer one.
        namespace: where it lives, if not beside its owner.
        annotations: further annotations.
        extra_labels: further labels.
    """
    elsewhere = bool(namespace) and namespace != owner.namespace
    notes = dict(annotations or {})
    if elsewhere:
        notes[labels.OWNER] = owner.path
    if label_value(owner.name) != owner.name:
        notes[labels.FULL_NAME] = owner.name
    return {
        "name": name,
        "namespace": namespace or owner.namespace,
        "labels": labels_of(owner, component, role) | dict(extra_labels or {}),
        **({"annotations": notes} if notes else {}),
        **({} if elsewhere else {"ownerReferences": [owner.reference]}),
    }


def manifest(kind: Kind, meta: Mapping[str, Any], spec: Mapping[str, Any]) -> Object:
    """A whole object: apiVersion and kind of `kind`, and metadata and spec as given."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": dict(meta),
        "spec": dict(spec),
    }


def part(kind: Kind, live: Resource, fields: Mapping[str, Any]) -> Object:
    """A partial object for `runtime.plan.ApplyPart`: these fields of exactly the object `live`, as it is.

    It carries the uid, so that a target that vanished is a conflict and never made anew from a part; and the
    version, so that a list that others extended meanwhile is read again instead of being replaced.
    """
    where = live.metadata
    place = {"namespace": where.namespace} if where.namespace else {}
    bound = {"uid": where.uid, "resourceVersion": where.resource_version}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": where.name, **place, **bound},
        **fields,
    }


def is_owned_by(live: View, owner: Owner) -> bool:
    """Whether we made the object for exactly this owner, by label, reference or annotation."""
    found = live.metadata
    if found.labels.get(labels.OWNER_UID) == owner.uid:
        return found.labels.get(labels.MANAGED_BY) == labels.OPERATOR
    return any(each.uid == owner.uid and each.controller for each in found.owner_references)


def is_retained(live: View) -> bool:
    """Whether the object outlived an owner on purpose, so that a successor may take it over."""
    found = live.metadata.labels
    return found.get(labels.MANAGED_BY) == labels.OPERATOR and found.get(labels.RETAINED) == labels.TRUE


def is_foreign(live: View | None, owner: Owner) -> bool:
    """Whether an object of a wanted name is somebody else's, and must neither be written nor deleted."""
    return live is not None and not is_owned_by(live, owner) and not is_retained(live)


def owner_key(live: View | None, kind: Kind) -> ObjectKey | None:
    """The key of the Palena object of this kind that the object belongs to; None if to none."""
    if live is None:
        return None
    for reference in live.metadata.owner_references:
        if (reference.api_version, reference.kind) == (kind.api_version, kind.kind) and reference.controller:
            return ObjectKey(live.metadata.namespace, reference.name)
    owner_kind, _, rest = live.metadata.annotations.get(labels.OWNER, "").partition("/")
    namespace, _, name = rest.partition("/")
    return ObjectKey(namespace, name) if owner_kind == kind.kind and name else None


def owner_keys(kind: Kind, *changed: View | None) -> Iterable[ObjectKey]:
    """The owners of this kind of an object before and after a change, each once."""
    found = (owner_key(each, kind) for each in changed)
    return dict.fromkeys(key for key in found if key is not None)
