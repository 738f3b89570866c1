"""What the rest of the operator may know of host operations. They are read, and never written."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Protocol

import structlog

from magicstick.api.kinds import HOST_OPERATION
from magicstick.hostops.gate import Gate, cache_cleanup, concerns_cache
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.kube.store import Store
from magicstick.runtime.reconciler import Edge

__all__ = ["Gate", "HostOperationFacts", "edge"]

log = structlog.get_logger(__name__)


class Reads(Protocol):
    """Where the store comes from, and whether it can be believed; `kube.cache.Caches` is the real one."""

    def store(self, kind: Kind, namespace: str = "", name: str | None = None) -> Store[Resource]:
        """The store of a kind in a scope."""
        ...

    def state(self, kind: Kind, namespace: str = "", name: str | None = None) -> InformerState:
        """Whether that store can be believed."""
        ...


def edge(
    namespace: str, wakes: Callable[[Resource | None, Resource | None], Iterable[ObjectKey]]
) -> Edge[Resource]:
    """The edge that whoever asks `HostOperationFacts` has to declare; only news of the gate wakes."""
    return Edge(
        HOST_OPERATION,
        wakes,
        "whether the model cache is being cleared, so that local models have to wait",
        concerns_cache,
        namespace=namespace,
    )


class HostOperationFacts:
    """Answers from the cache, and remembers the last answer for while the list cannot be read."""

    def __init__(self, reads: Reads, namespace: str) -> None:
        self._reads = reads
        self._namespace = namespace
        self._last_known: bool | None = None
        self._told: Mapping[str, str] = {}

    def cache_cleanup(self, now: datetime) -> Gate:
        """Whether local models have to wait at this moment: see `gate`.

        A definition that is not served means that nobody clears anything. A list that failed is not
        empty: the last known state holds, and the gate is closed if none is known.
        """
        operations = self._operations()
        gate = cache_cleanup(operations, self._last_known, now)
        if operations is not None:
            self._last_known = gate.active
            self._tell(gate)
        return gate

    def _operations(self) -> tuple[Resource, ...] | None:
        match self._reads.state(HOST_OPERATION, self._namespace):
            case InformerState.SYNCED:
                return self._reads.store(HOST_OPERATION, self._namespace).list()
            case InformerState.ABSENT:
                return ()
            case _:
                return None

    def _tell(self, gate: Gate) -> None:
        """Say once of each request that it is not waited for any more; forget those that went."""
        ignored = {uid: name for name, uid in gate.ignored}
        for uid, name in ignored.items():
            if uid not in self._told:
                log.warning("a request to clear the model cache was never accepted; it is ignored", name=name)
        self._told = ignored
