"""What reconcilers of Palena read from the caches, in the words of Palena."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.palena.common.prerequisites import Definitions, Prerequisites, check
from magicstick.palena.common.schemas import SchemaNode, SchemaView
from magicstick.runtime.reads import Reads

EVERYWHERE = ("",)


class UnknownError(Exception):
    """A kind cannot be read now, so nothing may be concluded from what its cache holds."""


class PalenaFacts:
    """Reads of one or several reconcilers. Nothing here is a request.

    `namespaces`: those that are watched; objects elsewhere do not exist for us.
    """

    def __init__(
        self, reads: Reads, definitions: Definitions, namespaces: Sequence[str] = EVERYWHERE
    ) -> None:
        self._reads = reads
        self._definitions = definitions
        self._namespaces = tuple(namespaces)

    def find(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """The object; None when it does not exist, by a complete list, or its kind is not served.

        Raises:
            UnknownError: its kind cannot be read now.
        """
        self._check(kind)
        scope = self._scope_of(namespace)
        found: Resource | None = None
        if scope is not None:
            found = self._reads.store(kind, scope).get(ObjectKey(namespace, name))
        return found

    def known(self, kind: Kind) -> bool:
        """Whether absence in the cache of the kind is absence in the cluster."""
        settled = (InformerState.SYNCED, InformerState.ABSENT)
        return all(self._reads.state(kind, namespace) in settled for namespace in self._namespaces)

    def blind(self, kinds: Iterable[Kind]) -> str:
        """Which of the kinds cannot be read, for people; "" when all can: for `frame.Subject.blind`."""
        unread = [str(kind) for kind in kinds if not self.known(kind)]
        return f"cannot be read now: {', '.join(unread)}; nothing is changed meanwhile" if unread else ""

    def all(self, kind: Kind) -> tuple[Resource, ...]:
        """Every object of the kind; raises like `find`."""
        self._check(kind)
        return tuple(each for store in self.stores(kind) for each in store.list())

    def keys(self, kind: Kind) -> tuple[ObjectKey, ...]:
        """Where they are, as far as is known; for wake-ups."""
        return tuple(itertools.chain.from_iterable(store.keys() for store in self.stores(kind)))

    def stores(self, kind: Kind) -> Iterable[Store[Any]]:
        """The stores that hold the kind: one, or one for each namespace that is watched."""
        return (self._reads.store(kind, namespace) for namespace in self._namespaces)

    def prerequisites(self, *needed: Kind) -> Prerequisites:
        """Which of the kinds are served."""
        return check(self._definitions, needed)

    def schema(self, kind: Kind) -> SchemaNode | None:
        """The schema that the kind is served with; None while it cannot be read."""
        name = kind.crd_name
        if self._reads.state(CUSTOM_RESOURCE_DEFINITION, "", name) is not InformerState.SYNCED:
            return None
        view: SchemaView | None = self._reads.store(CUSTOM_RESOURCE_DEFINITION, "", name).get(
            ObjectKey("", name)
        )
        return view.schema_of(kind) if view is not None else None

    def _check(self, kind: Kind) -> None:
        if not self.known(kind):
            raise UnknownError(f"{kind} cannot be read now")

    def _scope_of(self, namespace: str) -> str | None:
        """The namespace of the watch that covers this one; None when none does."""
        if self._namespaces == EVERYWHERE:
            return ""
        return namespace if namespace in self._namespaces else None
