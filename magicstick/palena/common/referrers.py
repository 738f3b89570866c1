"""Which Palena objects refer to what: from a thing that changed to those whom it concerns, at once."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.store import Store
from magicstick.runtime.reads import Reads

INDEX: Final = "palena-referrers"

Reference = tuple[Kind, str, str]
"""What is referred to: kind, namespace, name."""


class Referrers:
    """An index of the objects of `primary` by what they refer to.

    `references` must be pure, and says of a stored object, as it is, what it names; it is asked with each
    change of that object alone.
    """

    def __init__(
        self, reads: Reads, primary: Kind, references: Callable[[Resource], Iterable[Reference]]
    ) -> None:
        self._reads = reads
        self._primary = primary
        self._index = lambda live: tuple(_text(each) for each in references(live))
        self._name = f"{INDEX}-{id(self):x}"  # several may look at one kind, each with an index of its own

    def of(self, kind: Kind, namespace: str, name: str) -> tuple[ObjectKey, ...]:
        """The objects that refer to this one, as far as they are known."""
        return tuple(self._of(_text((kind, namespace, name))))

    def _of(self, reference: str) -> Iterator[ObjectKey]:
        store: Store[Resource]
        for store in self._reads.stores(self._primary):
            store.index(self._name, self._index)
            yield from (each.metadata.key for each in store.by_index(self._name, reference))

    def wakes(self, kind: Kind) -> Callable[[View | None, View | None], Iterable[ObjectKey]]:
        """For an edge to `kind`: whoever refers to the object that changed."""

        def woken(old: View | None, new: View | None) -> Iterable[ObjectKey]:
            changed = new or old
            return () if changed is None else self.of(kind, *changed.metadata.key)

        return woken


def _text(reference: Reference) -> str:
    kind, namespace, name = reference
    return f"{kind} {namespace}/{name}"
