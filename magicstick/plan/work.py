"""Everything that follows from a change, done one pass after the other until nothing is left to do."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from magicstick.kube.kinds import ObjectKey
from magicstick.plan.operator import Operator
from magicstick.runtime.clock import Clock
from magicstick.runtime.hands import Hands
from magicstick.runtime.reconciler import Declaration
from magicstick.runtime.reporter import INTERNAL_ERROR
from magicstick.runtime.skeleton import Result, Skeleton

PASSES: Final = 64
"""Most passes over one key: in a world that answers at once, whoever needs more will never have enough."""

Task = tuple[str, ObjectKey]
"""A reconciler by name, and one of its keys."""


class Player(Protocol):
    """Somebody who answers what the operator wrote."""

    async def act(self) -> bool:
        """Whether anything was answered."""
        ...


@dataclass(slots=True)
class Work:
    """What is to be looked at. Made once the caches are complete; from then on it hears of every change."""

    operator: Operator
    hands_of: Callable[[Declaration], Hands]
    clock: Clock
    done: dict[Task, int] = field(default_factory=dict)
    """How many passes each key has had."""
    problems: dict[Task, str] = field(default_factory=dict)
    """Why a key did not come to rest."""
    _waiting: dict[Task, None] = field(default_factory=dict)
    _skeletons: dict[str, Skeleton[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, each in self.operator.reconcilers.items():
            store = self.operator.store(each.declaration)
            self._skeletons[name] = Skeleton(each, store, self.hands_of(each.declaration), clock=self.clock)
        self.operator.follow(self.wake)

    def wake(self, name: str, keys: Iterable[ObjectKey]) -> None:
        """These keys of this reconciler are to be looked at."""
        self._waiting.update(((name, key), None) for key in keys)

    async def settle(self, players: Sequence[Player] = ()) -> None:
        """Work until there is nothing to do, not even for the players."""
        while self._waiting or await self._played(players):
            while self._waiting:
                task = next(iter(self._waiting))
                del self._waiting[task]
                await self._one(task)

    async def _played(self, players: Sequence[Player]) -> bool:
        return any([await each.act() for each in players])

    async def _one(self, task: Task) -> None:
        name, key = task
        passes = self.done[task] = self.done.get(task, 0) + 1
        if passes > PASSES:
            self.problems[task] = "it is decided again and again"
            return
        result = await self._skeletons[name].reconcile(key)
        if result.outcome == INTERNAL_ERROR:
            self.problems[task] = "the decision failed, which is a fault of magicstick"
        elif result.backoff and not (result.refused or self._told(name, result)):
            self.problems[task] = f"it did not come to rest ({result.outcome})"
        else:
            self.problems.pop(task, None)
        if result.after_s == 0.0:
            self.wake(name, [key])

    def _told(self, name: str, result: Result) -> bool:
        """Whether it is a failure of what was asked for, which the status tells, and none to ask about."""
        return result.outcome in self.operator.reconcilers[name].declaration.failing
