"""What reconcilers of Palena read from the caches, in the words of Palena."""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.palena.common.prerequisites import Definitions, Prerequisites, check
from magicstick.palena.common.schemas import SchemaNode, SchemaView
from magicstick.runtime.reads import Reads

SETTLED: Final = frozenset({InformerState.SYNCED, InformerState.ABSENT})
"""States in which an empty store says something: there is nothing, or the kind is not served."""


Place = tuple[Kind, str]
"""An object in a namespace that is known, by its kind and name."""


class UnknownError(Exception):
    """A kind cannot be read now, so nothing may be concluded from what its cache holds."""


class PalenaFacts:
    """Reads of one or several reconcilers. Nothing here is a request.

    Where only some namespaces are watched, objects elsewhere do not exist for us.
    """

    def __init__(self, reads: Reads, definitions: Definitions) -> None:
        self._reads = reads
        self._definitions = definitions

    def find(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """The object; None when it does not exist, by a complete list, or its kind is not served.

        Raises:
            UnknownError: its kind cannot be read now.
        """
        self._check(kind)
        key = ObjectKey(namespace, name)
        for store in self._reads.stores(kind, namespace):
            found: Resource | None = store.get(key)
            if found is not None:
                return found
        return None

    def present(self, namespace: str, places: Iterable[Place]) -> dict[Place, Resource]:
        """Those that exist, of the kinds and names that are asked for in a namespace; raises like `find`."""
        found = {place: self.find(place[0], namespace, place[1]) for place in places}
        return {place: live for place, live in found.items() if live is not None}

    def known(self, kind: Kind) -> bool:
        """Whether absence in the cache of the kind is absence in the cluster."""
        return SETTLED.issuperset(self._reads.states(kind))

    def blind(self, kinds: Iterable[Kind]) -> str:
        """Which of the kinds cannot be read, for people; "" when all can: for `frame.Subject.blind`."""
        unread = [str(kind) for kind in kinds if not self.known(kind)]
        return f"cannot be read now: {', '.join(unread)}; nothing is changed meanwhile" if unread else ""

    def all(self, kind: Kind) -> tuple[Resource, ...]:
        """Every object of the kind, each once; raises like `find`."""
        self._check(kind)
        found = {each.metadata.key: each for store in self._reads.stores(kind) for each in store.list()}
        return tuple(found.values())

    def keys(self, kind: Kind) -> tuple[ObjectKey, ...]:
        """Where they are, as far as is known; for wake-ups."""
        return tuple(dict.fromkeys(chain.from_iterable(map(Store.keys, self._reads.stores(kind)))))

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
