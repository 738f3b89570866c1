"""What a reconciler declares and implements. The skeleton does everything else."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from magicstick.kube.errors import ApiError
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.kube.scope import Scope
from magicstick.runtime.plan import Plan
from magicstick.runtime.queue import Priority

V = TypeVar("V", bound=View)
Obs = TypeVar("Obs")


def any_change(_old: View | None, _new: View | None) -> bool:
    """The predicate that lets every change pass."""
    return True


def meaning_changed(old: View | None, new: View | None) -> bool:
    """Passes creation, deletion, and changes of generation, labels, annotations or finalizers.

    Changes of status alone do not pass: this is the predicate for a reconciler's own kind.
    """
    if old is None or new is None:
        return True
    a, b = old.metadata, new.metadata
    return (
        a.uid != b.uid
        or a.generation != b.generation
        or a.dying != b.dying
        or a.finalizers != b.finalizers
        or a.labels != b.labels
        or a.annotations != b.annotations
    )


@dataclass(frozen=True, slots=True)
class Edge(Generic[V]):
    """A dependency of a reconciler on a kind: which change of it wakes which primary keys.

    From the edges come the watches, the wake-ups, the RBAC rules and the dependency graph. `why` is
    one sentence for people: what the reconciler learns from this kind.
    """

    kind: Kind
    wakes: Callable[[V | None, V | None], Iterable[ObjectKey]]
    why: str
    changed: Callable[[V | None, V | None], bool] = any_change
    namespace: str = ""
    name: str | None = None
    """The scope of the watch: one namespace ("" for all), one object (None for all)."""
    label_selector: str = ""
    field_selector: str = ""
    """What is left out of the watch at the server, as `type!=helm.sh/release.v1` (see `kube.scope`)."""
    view: type[View] | None = None
    """What is kept of each object; None for what another reader asks for, and all of it by default."""
    priority: Priority = Priority.NORMAL
    """URGENT where somebody waits for this very change, as for a dependency that became ready."""

    @property
    def scope(self) -> Scope:
        """What is watched."""
        return Scope(self.kind, self.namespace, self.name, self.label_selector, self.field_selector)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The static facts of a reconciler.

    `requeue_s` maps each outcome to the seconds after which the key is looked at again although
    nothing happened (None: never). `writes` are the kinds that its plans may contain: RBAC is
    derived from them and the skeleton refuses any other.
    """

    name: str
    primary: Kind
    edges: tuple[Edge[Any], ...]
    requeue_s: Mapping[str, float | None]
    writes: frozenset[Kind]
    failing: frozenset[str] = frozenset()
    """Outcomes that count as failures: their delay doubles with each failure in a row."""
    backoff_s: float | None = None
    """The delay after a first failure; None for the shortest there is."""
    field_manager: str = ""
    """In whose name it writes; "" for the operator's."""
    managed_by: str = ""
    """The managed-by label of what it makes; "" for the operator's."""
    fault_phase: str = ""
    """The phase that a fault of the operator puts an object into; "" leaves it."""
    finalizer: str | None = None
    workers: int = 256
    """The most keys that may be worked on at a time; the settings say how many are."""
    coalesce_s: float = 0.0
    """Shortest time between two passes over one key; the first pass of a burst is immediate."""
    namespace: str = ""
    """Where the primary objects live; "" for everywhere."""
    object_name: str | None = None
    """The one primary object, where there can be but one; None for all."""
    label_selector: str = ""
    """Which of them are ours to look at; "" for all."""
    owns_status: bool | None = None
    """Whose status it is. False: nobody here ever writes it. True: a fault of the operator is told there
    as well. By default plans may write it, and faults are told where a finalizer makes the object ours."""

    tells_failures: bool = False
    """Whether `decide_failure` is asked about every failed request, also about one that may pass by itself on
    an object that has a status; otherwise such a failure leaves the status alone."""
    patience: int = 1
    """After how many failures in a row they are told, where `tells_failures`."""

    @property
    def tells_faults(self) -> bool:
        """Whether a fault of the operator is told on the object."""
        return self.finalizer is not None if self.owns_status is None else self.owns_status

    @property
    def scope(self) -> Scope:
        """Where the primary objects are watched."""
        return Scope(self.primary, self.namespace, self.object_name, self.label_selector)


class Reconciler(Protocol[Obs]):
    """One kind's controller: declaration, observation, decision."""

    @property
    def declaration(self) -> Declaration:
        """The static facts."""
        ...

    async def observe(self, key: ObjectKey) -> Obs | None:
        """Read the caches and return one frozen value; None when the primary object is gone."""
        ...

    def decide(self, observation: Obs, now: datetime) -> Plan:
        """The pure decision: no clock, no I/O, and no exception for bad user input."""
        ...

    def decide_failure(self, observation: Obs, error: ApiError, now: datetime) -> Plan:
        """What to report after a step failed with `error`: a plan without steps.

        Asked when the server refuses something until a change (`Rejected`, `NamespaceTerminating`),
        and after any other failure of a request while the object has no status at all, or where the
        declaration `tells_failures`.
        """
        ...


class Followed(Reconciler[Any], Protocol):
    """A reconciler that hears of more than objects: catalogs, kinds that come and go, time that passed."""

    def follow(self, wake: Callable[[Iterable[ObjectKey]], None]) -> None:
        """Have `wake` called with the keys that such news concerns."""
        ...
