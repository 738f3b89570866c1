"""What reconcilers of Palena read from the caches, in the words of Palena."""

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common.prerequisites import Definitions, Prerequisites
from magicstick.palena.common.schemas import SchemaNode
from magicstick.runtime.reads import Reads


class UnknownError(Exception):
    """A kind cannot be read now, so nothing may be concluded from what its cache holds."""


class PalenaFacts:
    """Reads of one or several reconcilers. Nothing here is a request."""

    def __init__(self, reads: Reads, definitions: Definitions) -> None:
        self._reads = reads
        self._definitions = definitions

    def find(self, kind: Kind, namespace: str, name: str) -> Resource | None:
        """The object; None when it does not exist, by a complete list, or its kind is not served.

        Raises:
            UnknownError: its kind cannot be read now.
        """
        raise NotImplementedError

    def known(self, kind: Kind) -> bool:
        """Whether absence in the cache of the kind is absence in the cluster."""
        raise NotImplementedError

    def all(self, kind: Kind) -> tuple[Resource, ...]:
        """Every object of the kind; raises like `find`."""
        raise NotImplementedError

    def keys(self, kind: Kind) -> tuple[ObjectKey, ...]:
        """Where they are, as far as is known; for wake-ups."""
        raise NotImplementedError

    def prerequisites(self, *needed: Kind) -> Prerequisites:
        """Which of the kinds are served."""
        raise NotImplementedError

    def schema(self, kind: Kind) -> SchemaNode | None:
        """The schema that the kind is served with; None while it cannot be read."""
        raise NotImplementedError
