"""What each process of ours that writes is made of: a client behind a lease, probes, work while it leads.

    configuration → client ──→ whatever the process does
                      ↑ fence
                    lease

Losing the lease stops the work and nothing else.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self

import anyio
import structlog

from magicstick import __version__
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.informer import InitialList, Tuning
from magicstick.runtime.clock import SleepingClock
from magicstick.runtime.health import Probes, serve_health, serve_metrics
from magicstick.runtime.lease import Lease, LeaseTimes, NoLease
from magicstick.runtime.metrics import Metrics
from magicstick.runtime.options import LeaseDurations

log = structlog.get_logger(__name__)

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0

INITIAL_LISTS: Final = {
    "auto": InitialList.AUTO,
    "watchlist": InitialList.STREAM,
    "list": InitialList.PAGES,
}


class ProcessSettings(LeaseDurations, Protocol):
    """What of the settings such a process needs."""

    @property
    def list_mode(self) -> Literal["auto", "watchlist", "list"]: ...  # noqa: D102 - named like its variable
    @property
    def health_bind_address(self) -> str: ...  # noqa: D102 - see above
    @property
    def metrics_bind_address(self) -> str: ...  # noqa: D102 - see above
    @property
    def leader_election(self) -> bool: ...  # noqa: D102 - see above
    @property
    def lease_namespace(self) -> str: ...  # noqa: D102 - see above
    @property
    def lease_name(self) -> str: ...  # noqa: D102 - see above


def tuned(settings: ProcessSettings, tuning: Tuning | None) -> Tuning:
    """How informers read, in the way that the settings say."""
    return replace(tuning or Tuning(), initial_list=INITIAL_LISTS[settings.list_mode])


class Leadership:
    """The lease, the client whose writes pass it, and the client of the lease itself.

    As a context: both clients are open.
    """

    def __init__(
        self,
        settings: ProcessSettings,
        config: ClusterConfig,
        clock: SleepingClock,
        metrics: Metrics,
        *,
        user_agent: str,
        field_manager: str,
    ) -> None:
        def client(fence: Callable[[], None]) -> Client:
            return Client(
                config,
                user_agent=user_agent,
                field_manager=field_manager,
                fence=fence,
                observer=metrics.requested,
            )

        self._bare = client(lambda: None)
        self.lease = _lease(settings, self._bare, clock, metrics)
        self.client = client(self.lease.fence)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._bare)
            await stack.enter_async_context(self.client)
            self._opened = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def kept(self, before_release: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[None]:
        """The lease is taken and kept around the block, and released after it."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.lease.run)
            try:
                yield
            finally:
                if before_release is not None:
                    with anyio.CancelScope(shield=True):
                        await before_release()
                group.cancel_scope.cancel()

    async def work(self, works: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Run all of them whenever, and only while, the lease is held."""
        works = tuple(works)
        while True:
            await self.lease.wait_held()
            async with anyio.create_task_group() as group:
                for each in works:
                    group.start_soon(each)
                await self.lease.wait_lost()
                group.cancel_scope.cancel()


def _lease(
    settings: ProcessSettings, client: Client, clock: SleepingClock, metrics: Metrics
) -> Lease | NoLease:
    if not settings.leader_election:
        return NoLease(clock)
    times = LeaseTimes(
        settings.lease_duration_seconds,
        settings.lease_renew_deadline_seconds,
        settings.lease_retry_seconds,
    )
    return Lease(
        client,
        (settings.lease_namespace, settings.lease_name),
        clock,
        times=times,
        on_change=lambda held: metrics.leading(settings.lease_name, held=held),
    )


class Supervised:
    """Work that is begun anew when it fails, so that a fault of one takes nothing else with it.

    It is begun again after 1 s, 2 s, … up to a minute; whoever worked for a minute starts from the
    shortest wait. Cancellation passes.
    """

    def __init__(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], clock: SleepingClock
    ) -> None:
        self._name = name
        self._work = work
        self._clock = clock

    async def run(self) -> None:
        """Until the work ends by itself, or is cancelled."""
        wait_s = FIRST_WAIT_S
        while True:
            begun = self._clock.monotonic()
            try:
                return await self._work()
            except Exception:
                log.exception("work ended in a fault and is begun anew", work=self._name, wait_s=wait_s)
            if self._clock.monotonic() - begun >= LONGEST_WAIT_S:
                wait_s = FIRST_WAIT_S
            await self._clock.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)


@asynccontextmanager
async def served(settings: ProcessSettings, probes: Probes, metrics: Metrics) -> AsyncIterator[None]:
    """Probes and metrics are answered within the block, which is told in the log.

    Raises:
        AddressInUseError: an address cannot be bound.
    """
    async with (
        serve_health(settings.health_bind_address, probes) as health,
        serve_metrics(settings.metrics_bind_address, metrics.render) as where,
    ):
        log.info("started", version=__version__, health=health, metrics=where)
        yield
