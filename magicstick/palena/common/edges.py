"""Edges that several kinds declare alike (spec: palena §9)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.runtime.reconciler import Edge


def owned(kind: Kind, primary: Kind, why: str, *, labelled: bool = True) -> Edge[Any]:
    """Objects of `kind` that were made for objects of `primary`: a change or a deletion wakes the owner.

    `labelled`: only what Palena generates is watched. Foreign kinds of which others are read as well,
    and Secrets, are watched whole.
    """
    raise NotImplementedError


def definitions(needed: Sequence[Kind], wakes_all: Callable[[], Iterable[ObjectKey]], why: str) -> Edge[Any]:
    """The definitions of the kinds that a controller needs: one that comes or goes wakes every object."""
    raise NotImplementedError


def schema(kind: Kind, wakes_all: Callable[[], Iterable[ObjectKey]]) -> Edge[Any]:
    """The schema that a foreign kind is served with; another one wakes every object."""
    raise NotImplementedError


def gateway_changed(old: View | None, new: View | None) -> bool:
    """Predicate for consumers of a gateway: readiness, endpoint, instance, master key, permission, end.

    Other changes of its status pass by.
    """
    raise NotImplementedError
