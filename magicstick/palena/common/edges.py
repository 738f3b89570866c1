"""Edges that several kinds declare alike (spec: palena §9)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from magicstick.kube.discovery import CrdView
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.palena.common import labels
from magicstick.palena.common.kinds import NETWORK_POLICY, SERVICE, STATEFUL_SET
from magicstick.palena.common.owners import owner_keys
from magicstick.palena.common.schemas import SchemaView
from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.conditions import READY, conditions_of, find
from magicstick.runtime.reconciler import Edge

WakesAll = Callable[[], Iterable[ObjectKey]]

READ_SECRETS: Final = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token"
"""The Secrets that anybody may name. Those that Helm and the API server keep for themselves are many, and
Helm's are large: none of them is even sent to us."""

FEW: Final = frozenset({NETWORK_POLICY, SERVICE, STATEFUL_SET})
"""Kinds of which a cluster has few and small objects. With all of them at hand nobody has to be asked, before
one is made, whether its name is taken."""


def owned(kind: Kind, primary: Kind, why: str, *, labelled: bool = True) -> Edge[Any]:
    """Objects of `kind` that were made for objects of `primary`: a change or a deletion wakes the owner.

    `labelled`: only what Palena generates is watched. Foreign kinds of which others are read as well are
    watched whole, and so are Secrets, but for `READ_SECRETS`, and the kinds of `FEW`.
    """
    return Edge(
        kind,
        lambda old, new: owner_keys(primary, old, new),
        why,
        label_selector=labels.OURS if labelled and kind not in FEW else "",
        field_selector=READ_SECRETS if kind == SECRET else "",
    )


def read_secrets(wakes: Callable[[View | None, View | None], Iterable[ObjectKey]], why: str) -> Edge[Any]:
    """Secrets that others make and an object names, or that are made for it elsewhere."""
    return Edge(SECRET, wakes, why, field_selector=READ_SECRETS)


def definitions(needed: Sequence[Kind], wakes_all: WakesAll, why: str) -> Edge[CrdView]:
    """The definitions of the kinds that a controller needs: one that comes or goes wakes every object."""

    def changed(old: CrdView | None, new: CrdView | None) -> bool:
        return any(_serves(old, kind) != _serves(new, kind) for kind in needed)

    return Edge(
        CUSTOM_RESOURCE_DEFINITION, lambda _old, _new: wakes_all(), why, changed=changed, view=CrdView
    )


def schema(kind: Kind, wakes_all: WakesAll) -> Edge[SchemaView]:
    """The schema that a foreign kind is served with; another one wakes every object."""

    def changed(old: SchemaView | None, new: SchemaView | None) -> bool:
        return (old.spec if old is not None else None) != (new.spec if new is not None else None)

    return Edge(
        CUSTOM_RESOURCE_DEFINITION,
        lambda _old, _new: wakes_all(),
        f"which fields a {kind.kind} has",
        changed=changed,
        name=kind.crd_name,
        view=SchemaView,
    )


def gateway_changed(old: Resource | None, new: Resource | None) -> bool:
    """Predicate for consumers of a gateway: readiness, endpoint, instance, master key, spec, end.

    Other changes of its status pass by: one that was told of its database concerns no consumer.
    """
    return _seen(old) != _seen(new)


def _serves(definition: View | None, kind: Kind) -> bool:
    if not isinstance(definition, CrdView) or definition.metadata.name != kind.crd_name:
        return False
    return definition.defines(kind) and definition.serves(kind.version)


def _seen(gateway: Resource | None) -> object:
    """What a consumer sees of a gateway."""
    if gateway is None:
        return None
    ready = find(conditions_of(gateway.status), READY) or {}
    told = ("endpoint", "litellmInstanceRef", "masterKeySecretRef")
    return (
        gateway.metadata.uid,
        gateway.metadata.generation,
        gateway.metadata.dying,
        ready.get("status"),
        ready.get("observedGeneration"),
        *(gateway.status.get(name) for name in told),
    )
