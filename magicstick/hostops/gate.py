"""Whether the model cache is being cleared, so that no local model runtime may be made or changed.

    Gate             local, enabled models          disabled or deleting models     external models
    active           wait: no runtime is created    runtime is removed as usual     unaffected
                     or updated, none is deleted
    not active       as usual                       as usual                        as usual

(spec: modules-and-apps §13, models §9). The worker looks for itself whether models are gone before it
deletes anything, so removal must stay open, and a worker that died must not block models for ever.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from magicstick.api.host_operation import FINISHED_PHASES
from magicstick.kube.objects import Resource, View

CLEAR_MODEL_CACHE: Final = "clear-model-cache"

ACCEPTANCE_LIMIT: Final = timedelta(minutes=10)
"""A request without any phase for so long was never accepted and never will be: the worker takes none
that is older than five minutes (spec: modules-and-apps §13)."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What the host operations say at one moment.

    Attributes:
        active: whether local models have to wait.
        operations: names of the operations they wait for, sorted; empty also where the list failed.
        ignored: (name, uid) of requests that were never accepted and count no more, sorted.
    """

    active: bool
    operations: tuple[str, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()

    @property
    def message(self) -> str:
        """The reason in a sentence; "" while not active."""
        if not self.active:
            return ""
        if not self.operations:
            return "Host operations cannot be read now; the model cache may be being cleared."
        return f"The model cache is being cleared: {', '.join(self.operations)}."


def cache_cleanup(
    operations: Iterable[Resource] | None,
    last_known: bool | None,  # noqa: FBT001 - a state that may be unknown, not a switch
    now: datetime,
) -> Gate:
    """The gate over all HostOperations, of whatever node.

    Args:
        operations: every HostOperation; none where the kind is not served. None when the list failed.
        last_known: the last state of the gate while the list could be read; None when there was none.
        now: the present, aware of its zone.

    Guarantees: total; what cannot be read or understood closes the gate rather than opens it.
    """
    if operations is None:
        return Gate(active=last_known is not False)
    open_ = [each for each in operations if _unfinished_cleanup(each)]
    ignored = [each for each in open_ if _never_accepted(each, now)]
    names = sorted(each.metadata.name for each in open_ if each not in ignored)
    told = sorted((each.metadata.name, each.metadata.uid) for each in ignored)
    return Gate(bool(names), tuple(names), tuple(told))


def concerns_cache(old: View | None, new: View | None) -> bool:
    """Predicate of edges: whether a change of a HostOperation can change the gate."""
    before, after = (_meaning(each) for each in (old, new))
    return before != after


def _meaning(operation: View | None) -> tuple[str, object] | None:
    if not isinstance(operation, Resource) or not _unfinished_cleanup(operation):
        return None
    return operation.metadata.uid, bool(operation.status.get("phase"))


def _unfinished_cleanup(operation: Resource) -> bool:
    if operation.spec.get("action") != CLEAR_MODEL_CACHE:
        return False
    phase = operation.status.get("phase")
    return not (isinstance(phase, str) and phase in FINISHED_PHASES)


def _never_accepted(operation: Resource, now: datetime) -> bool:
    """Whether it has no phase though it is old; an age that cannot be read is young."""
    created = _moment(operation.metadata.creation_timestamp)
    return not operation.status.get("phase") and created is not None and now - created >= ACCEPTANCE_LIMIT


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
