"""Carries a plan out, and sees that it took effect.

Guarantees: withdrawals end before updates begin, and these before creations; a few calls at a time, one
for each id; a route that fails costs its neighbours nothing and is tried again later and later. Where
LiteLLM does not answer at all, nothing more is sent in this pass.

A LiteLLM that has loaded no models gets those that are wanted, since it would never have any otherwise;
whether it had some that it has not looked for yet is not known (`Synced.loaded`).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import anyio
import structlog

from magicstick.kube.errors import FenceClosed
from magicstick.model_catalog.backoff import Backoffs
from magicstick.model_catalog.desired import Desired, Problem
from magicstick.model_catalog.inventory import Deployment
from magicstick.model_catalog.litellm import LiteLlmError, NotLoaded, Unreachable
from magicstick.model_catalog.plan import Put, SyncPlan, Verb, Withdrawal, plan
from magicstick.model_catalog.values import Object
from magicstick.runtime.logs import Secret

log = structlog.get_logger(__name__)

CONCURRENCY: Final = 4
DELETED: Final = "deleted"
UNSEEN: Final = "LiteLLM accepts it and does not show it"
NOT_YET_SEEN: Final = ""
"""Once is no problem: LiteLLM shows some writes only after it has read its database again."""

W = TypeVar("W", Put, Withdrawal)


class Gateway(Protocol):
    """What is needed of LiteLLM (`litellm.LiteLlm`)."""

    async def inventory(self) -> tuple[Deployment, ...]:
        """All deployments."""
        ...

    async def create(self, body: Object) -> None:
        """Add one."""
        ...

    async def update(self, deployment_id: str, body: Object) -> None:
        """Change one."""
        ...

    async def delete(self, deployment_id: str) -> None:
        """Remove one."""
        ...


@dataclass(frozen=True, slots=True)
class Synced:
    """How LiteLLM is after a pass."""

    existing: tuple[Deployment, ...]
    plan: SyncPlan
    failing: frozenset[str]
    """Names of routes that are not as they should be."""
    problems: tuple[Problem, ...]
    loaded: bool = True
    """False where LiteLLM says that it knows no models: `existing` is empty then, and proves nothing."""


@dataclass
class _Pass:
    """What happened in one pass."""

    sent: set[str] = field(default_factory=set)
    """Keys."""
    refused: set[str] = field(default_factory=set)
    """Keys of those that LiteLLM did not accept."""
    silent: bool = False
    """Whether LiteLLM did not answer."""
    closed: FenceClosed | None = None
    """Raised once this process may not write any more."""


class Sync:
    """See the module. Routes are compared under `master_key`, LiteLLM's own."""

    def __init__(self, litellm: Gateway, backoffs: Backoffs, master_key: Secret) -> None:
        self._litellm = litellm
        self._backoffs = backoffs
        self._master_key = master_key

    async def run(self, desired: Desired) -> Synced:
        """One pass.

        Raises:
            LiteLlmError: what LiteLLM has could not be read; nothing is concluded from that.
            FenceClosed: this process may not write any more.
        """
        existing, loaded = await self._inventory()
        todo = plan(desired, existing, self._master_key)
        self._backoffs.keep(map(_key, _all(todo)))
        happened = _Pass()
        await self._each(happened, todo.withdrawals, self._withdraw)
        await self._each(happened, todo.updates, self._update)
        await self._each(happened, todo.creations, self._create)
        if happened.sent:
            existing, loaded = await self._inventory()
        failing = self._judge(happened, todo, existing)
        failures = (
            Problem(f"route {key.partition(' ')[2][:80]!r}", reason)
            for key, reason in self._backoffs.reasons().items()
            if reason != NOT_YET_SEEN
        )
        return Synced(existing, todo, failing, (*desired.problems, *todo.problems, *failures), loaded)

    async def _inventory(self) -> tuple[tuple[Deployment, ...], bool]:
        """What there is, and whether that is all."""
        try:
            return await self._litellm.inventory(), True
        except NotLoaded:
            return (), False

    # -- sending ---------------------------------------------------------------------------------------

    async def _each(self, happened: _Pass, work: Sequence[W], send: Callable[[W], Awaitable[None]]) -> None:
        limiter = anyio.CapacityLimiter(CONCURRENCY)

        async def one(item: W) -> None:
            async with limiter:
                if not happened.silent and happened.closed is None:
                    await self._attempt(happened, item, send)

        async with anyio.create_task_group() as group:
            for item in work:
                if self._backoffs.due(_key(item), _revision(item)):
                    group.start_soon(one, item)
        if happened.closed is not None:
            raise happened.closed

    async def _attempt(self, happened: _Pass, item: W, send: Callable[[W], Awaitable[None]]) -> None:
        key = _key(item)
        happened.sent.add(key)
        try:
            await send(item)
        except FenceClosed as error:
            happened.closed = error
        except LiteLlmError as error:
            asked_s = error.retry_after_s if isinstance(error, Unreachable) else 0.0
            happened.silent |= isinstance(error, Unreachable) and not error.answered
            happened.refused.add(key)
            self._backoffs.failed(key, _revision(item), str(error), at_least_s=asked_s)

    async def _withdraw(self, item: Withdrawal) -> None:
        await self._litellm.delete(item.id)
        log.info("route withdrawn", route=item.name, id=item.id, source=item.source)

    async def _update(self, put: Put) -> None:
        if put.verb is Verb.REPLACE:
            await self._litellm.delete(put.id)
            await self._litellm.create(put.body)
        else:
            await self._litellm.update(put.id, put.body)
        log.info("route updated", route=put.route.name, id=put.id, source=str(put.route.source))

    async def _create(self, put: Put) -> None:
        try:
            await self._litellm.create(put.body)
        except LiteLlmError as error:
            if isinstance(error, Unreachable) and not error.answered:
                raise
            await self._litellm.update(put.id, put.body)  # it may be there without being shown
        log.info("route created", route=put.route.name, id=put.id, source=str(put.route.source))

    # -- judging ---------------------------------------------------------------------------------------

    def _judge(self, happened: _Pass, todo: SyncPlan, existing: Sequence[Deployment]) -> frozenset[str]:
        """The names that are not as they should be: by what LiteLLM shows now, whatever it answered."""
        by_id = {each.id: each for each in existing}
        failing = set()
        for item in _all(todo):
            key, live = _key(item), by_id.get(item.id)
            if _done(item, live):
                self._backoffs.succeeded(key)
                continue
            failing.add(_name(item))
            if key in happened.sent - happened.refused:
                again = self._backoffs.times(key) > 0
                self._backoffs.failed(key, _revision(item), UNSEEN if again else NOT_YET_SEEN)
        return frozenset(failing)


def _all(todo: SyncPlan) -> tuple[Put | Withdrawal, ...]:
    return (*todo.withdrawals, *todo.updates, *todo.creations)


def _done(item: Put | Withdrawal, live: Deployment | None) -> bool:
    if isinstance(item, Withdrawal):
        return live is None
    return live is not None and item.done(live)


def _name(item: Put | Withdrawal) -> str:
    return item.name if isinstance(item, Withdrawal) else item.route.name


def _key(item: Put | Withdrawal) -> str:
    return f"delete {item.id}" if isinstance(item, Withdrawal) else f"put {item.route.name}"


def _revision(item: Put | Withdrawal) -> str:
    return DELETED if isinstance(item, Withdrawal) else item.fingerprint
