"""Keeps one store equal to what the server holds, for as long as the process lives.

An informer is in one of four states, which is what its readers ask for:

    ABSENT    the server does not serve the kind; the store is empty and not synced
    SYNCING   the first complete list since the start, or since the kind came, is on its way
    SYNCED    the store was complete once and the watch delivers what changes
    FAILING   the kind cannot be read, for `reason`; the store keeps its last content

and its one connection at a time in one of three phases:

    list ──► watch ──► (ended, broken, silent) ──► watch from the last resourceVersion
      ▲                      │
      └── version expired ◄──┘            any failure: the same phase again, after a back-off and,
          or history lost                 before resuming, a read of one object as a proof

Where the server can, list and watch are one stream (WatchList): the objects arrive as events, one at
a time, up to a bookmark that says the list is complete. A server that refuses is asked for pages.

Guarantees
    - `run` ends only by cancellation. Whatever a connection raises leads to a later one.
    - A list that breaks off removes nothing and never counts as complete.
    - A short fault (`grace_s`) of a synced kind is no state: the resourceVersion is kept and nothing
      is listed again. A fault that only a person can mend (a missing right, say) is FAILING at once.
    - FAILING and ABSENT heal by themselves.

Failure modes
    An object that the view cannot decode makes the kind FAILING, since leaving it out would make it
    look absent. While the connection is dead without a sign, the content is up to `idle_timeout_s`
    old; `last_event_age` tells.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from magicstick.kube.errors import ApiError, Gone, Invalid, KindNotServed, TooManyRequests, Unavailable
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import View
from magicstick.kube.scope import Scope
from magicstick.kube.store import DELETED, Relist, Store
from magicstick.kube.timing import Backoff, Clock, SystemClock
from magicstick.kube.wire import ListPage, WatchEvent

V = TypeVar("V", bound=View)
T = TypeVar("T")

BOOKMARK = "BOOKMARK"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
VERSION_FROM_THE_FUTURE = "Too large resource version"

log = structlog.get_logger(__name__)


class InformerState(StrEnum):
    """See the module."""

    ABSENT = "absent"
    SYNCING = "syncing"
    SYNCED = "synced"
    FAILING = "failing"


class InitialList(StrEnum):
    """How to list: streamed where the server can (AUTO), or always one way."""

    AUTO = "auto"
    STREAM = "stream"
    PAGES = "pages"


@dataclass(frozen=True, slots=True)
class Tuning:
    """The numbers of an informer; the defaults are for production."""

    initial_list: InitialList = InitialList.AUTO
    page_size: int = 500
    watch_timeout_s: tuple[float, float] = (290.0, 590.0)
    """Each watch asks the server to end it after a random time between these, so that the watches of
    many clients do not come back together."""
    idle_timeout_s: float = 72.0
    """1.2 times the period of the server's bookmarks: a stream silent for longer is dead."""
    recheck_absent_s: float = 30.0
    """The longest time until an absent kind is looked for again, should no news of it arrive."""
    short_watch_s: float = 1.0
    """A watch that ends sooner and without an event counts as a failure, else it would spin."""
    grace_s: float = 90.0
    """How long a synced kind may be unreachable before it is FAILING."""
    first_grace_s: float = 10.0
    """The same for a kind that was never synced: there is no content to go on with."""
    longest_pause_s: float = 30.0
    """The longest time between two attempts that fail, to which as much again may be added by chance."""
    heal_after_s: float = 2.0
    """A watch that is resumed after a failure and a successful read, and lives for so long, has healed."""


@dataclass(slots=True)
class Counters:
    """What an informer did since it was made, for metrics."""

    events: int = 0
    lists: int = 0
    watches: int = 0
    expired: int = 0
    failures: int = 0


class Lists(Protocol):
    """What is asked of a client to read a kind once."""

    def pages(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        view: type[V],
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = 500,
    ) -> AsyncIterator[ListPage[V]]:
        """The pages of a consistent list."""
        ...


class Source(Lists, Protocol):
    """What an informer needs of a client."""

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        view: type[V],
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        send_initial_events: bool = False,
        timeout_s: float,
        idle_timeout_s: float,
    ) -> AsyncIterator[WatchEvent[V]]:
        """Events, bookmarks included, until the server ends the stream."""
        ...


class Informer(Generic[V]):
    """See the module.

    `served` answers from discovery whether the kind is served: None when discovery cannot tell, in
    which case the server itself is asked. A server that denies a kind which discovery knows is FAILING.
    """

    def __init__(
        self,
        source: Source,
        scope: Scope,
        view: type[V],
        *,
        served: Callable[[], bool | None] = lambda: None,
        on_state: Callable[["Informer[V]"], None] = lambda _: None,
        tuning: Tuning = Tuning(),
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.scope = scope
        self.view = view
        self.store = Store[V](str(scope))
        self.counters = Counters()
        self._source = source
        self._served = served
        self._on_state = on_state
        self._tuning = tuning
        self._clock = clock or SystemClock()
        self._chance = chance or random.Random()  # noqa: S311 # spreads requests, guards no secret
        self._backoff = Backoff(self._clock, self._chance, cap_s=tuning.longest_pause_s)
        self._recheck = Backoff(self._clock, self._chance, cap_s=tuning.longest_pause_s)
        self._state = InformerState.SYNCING
        self._reason = ""
        self._must_list = True
        self._by_pages = tuning.initial_list is InitialList.PAGES
        self._failing_since: float | None = None
        self._alive_at = self._clock.monotonic()
        self._news = asyncio.Event()

    @property
    def state(self) -> InformerState:
        """See the module."""
        return self._state

    @property
    def reason(self) -> str:
        """Why the kind is ABSENT or FAILING, for people; "" otherwise. Holds no object's content."""
        return self._reason

    @property
    def last_event_age(self) -> float | None:
        """Seconds since the server last showed a sign of life; None while the kind is absent."""
        if self._state is InformerState.ABSENT:
            return None
        return self._clock.monotonic() - self._alive_at

    def recheck(self) -> None:
        """There is news about the kind: look at once instead of at the end of the current wait."""
        self._news.set()

    async def run(self) -> None:
        """Keep the store equal to the server's content until cancelled."""
        self._alive_at = self._clock.monotonic()
        while True:
            self._news.clear()
            delay_s = await self._attempt()
            if delay_s > 0:
                await self._clock.wait(self._news, delay_s)

    # --- one attempt -----------------------------------------------------------------------------

    async def _attempt(self) -> float:
        """Connect once, and say after how many seconds to connect again."""
        if self._served() is False:
            self._enter_absent()
            return self._tuning.recheck_absent_s
        if self._state is InformerState.ABSENT:
            self._enter(InformerState.SYNCING)
        started, seen = self._clock.monotonic(), self.counters.events
        try:
            await self._connect()
        except Exception as error:  # noqa: BLE001 # an informer never dies of what a connection raises
            if _broken(error) and not self._must_list and self._worked(started, seen):
                # Else a minute of resets would end in waits of a minute, though each resume succeeds.
                self._backoff.reset()
            return self._after_failure(error)
        if not self._worked(started, seen):
            return self._backoff.next()
        if self._failing_since is not None:
            self._heal()
        return 0.0

    def _worked(self, started: float, seen: int) -> bool:
        """Whether the connection begun then was of use: it lived for a while, or brought something."""
        lasted_s = self._clock.monotonic() - started
        return lasted_s >= self._tuning.short_watch_s or self.counters.events > seen

    async def _connect(self) -> None:
        if self._must_list and self._by_pages:
            await self._list_pages()
        if self._must_list or self._failing_since is None:
            await self._watch()
            return
        await self._probe()
        heal = asyncio.get_running_loop().call_later(self._tuning.heal_after_s, self._heal)
        try:
            await self._watch()
        finally:
            heal.cancel()

    async def _list_pages(self) -> None:
        relist, version = self.store.relist(), ""
        async with self._pages(self._tuning.page_size) as pages:
            async for page in pages:
                self._alive_at = self._clock.monotonic()
                version = page.resource_version
                for item in page.items:
                    relist.add(item)
        self._complete(relist, int(version))

    async def _probe(self) -> None:
        """After a failure, see that the server answers and is as far as it was, before resuming.

        A resumed watch is silent at first, which tells nothing; and it stays silent where the server
        lost its history, since it waits for versions beyond the one that it was given.
        """
        async with self._pages(1) as pages:
            async for page in pages:
                if int(page.resource_version) < self.store.resource_version:
                    raise Gone(f"the server is back at version {page.resource_version}")
                return

    async def _watch(self) -> None:
        self.counters.watches += 1
        relist = self.store.relist() if self._must_list else None
        async with self._events(initial=relist is not None) as events:
            async for event in events:
                self.counters.events += 1
                self._alive_at = self._clock.monotonic()
                if relist is None:
                    self._take(event)
                elif self._take_initial(relist, event):
                    relist = None
        if relist is not None:
            raise Unavailable("the stream ended before the list was complete")

    def _take(self, event: WatchEvent[V]) -> None:
        if event.type == BOOKMARK:
            self.store.bookmark(int(event.object.metadata.resource_version))
        else:
            self.store.event(event.type, event.object)
        if self._failing_since is not None:
            self._heal()

    def _take_initial(self, relist: Relist[V], event: WatchEvent[V]) -> bool:
        """Take an event of the list's stream; True when it says that the list is complete."""
        metadata = event.object.metadata
        if event.type == DELETED:
            relist.remove(event.object)
        elif event.type != BOOKMARK:
            relist.add(event.object)
        elif metadata.annotations.get(INITIAL_EVENTS_END) == "true":
            self._complete(relist, int(metadata.resource_version))
            return True
        return False

    def _complete(self, relist: Relist[V], version: int) -> None:
        relist.commit(version)
        self.counters.lists += 1
        self._must_list = False
        self._heal()

    # --- requests --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _pages(self, size: int) -> AsyncIterator[AsyncIterator[ListPage[V]]]:
        scope = self.scope
        pages = self._source.pages(
            scope.kind,
            namespace=scope.namespace,
            view=self.view,
            label_selector=scope.label_selector,
            field_selector=scope.asked_fields,
            page_size=size,
        )
        async with _closing(pages):
            yield pages

    @asynccontextmanager
    async def _events(self, *, initial: bool) -> AsyncIterator[AsyncIterator[WatchEvent[V]]]:
        scope = self.scope
        events = self._source.watch(
            scope.kind,
            namespace=scope.namespace,
            view=self.view,
            label_selector=scope.label_selector,
            field_selector=scope.asked_fields,
            resource_version="" if initial else str(self.store.resource_version),
            send_initial_events=initial,
            timeout_s=self._chance.uniform(*self._tuning.watch_timeout_s),
            idle_timeout_s=self._tuning.idle_timeout_s,
        )
        async with _closing(events):
            yield events

    # --- failures and states ---------------------------------------------------------------------

    def _after_failure(self, error: Exception) -> float:
        """Draw the conclusion from a failure; the seconds until the next attempt."""
        streaming = self._must_list and not self._by_pages
        if isinstance(error, Invalid) and streaming and self._tuning.initial_list is InitialList.AUTO:
            log.info("the server does not stream lists; asking for pages", scope=str(self.scope))
            self._by_pages = True
            return 0.0
        if isinstance(error, KindNotServed):
            if self._served() is not True:
                self._enter_absent()
                return min(self._recheck.next(), self._tuning.recheck_absent_s)
            # A failed read is no absence: the definition is there. What comes back is listed all the same.
            self._must_list = True
        if _expired(error):
            log.info("the version expired; listing again", scope=str(self.scope), error=str(error))
            self.counters.expired += 1
            self._must_list = True
        self._note_failure(error)
        asked_s = error.retry_after_s if isinstance(error, TooManyRequests) else 0.0
        return max(self._backoff.next(), asked_s)

    def _note_failure(self, error: Exception) -> None:
        now = self._clock.monotonic()
        self.counters.failures += 1
        if self._failing_since is None:
            self._failing_since = now
        if not isinstance(error, ApiError):
            log.error("watch failed unexpectedly; restarting", scope=str(self.scope), exc_info=error)
        grace_s = self._tuning.grace_s if self.store.synced else self._tuning.first_grace_s
        if not isinstance(error, Unavailable | Gone) or now - self._failing_since >= grace_s:
            self._enter(InformerState.FAILING, _describe(error))

    def _heal(self) -> None:
        self._failing_since = None
        self._enter(InformerState.SYNCED)

    def _enter_absent(self) -> None:
        self._must_list = True
        self._failing_since = None
        self._enter(InformerState.ABSENT, f"{self.scope.kind} is not served in {self.scope.kind.api_version}")
        self.store.withdraw()

    def _enter(self, state: InformerState, reason: str = "") -> None:
        self._reason = reason
        if state is self._state:
            return
        self._state = state
        log.info("informer state", scope=str(self.scope), state=str(state), reason=reason)
        self._on_state(self)


def _broken(error: Exception) -> bool:
    """Whether the connection broke, rather than that the server gave an answer."""
    return isinstance(error, Unavailable) and not error.code


def _expired(error: Exception) -> bool:
    """Whether only a new list helps: the version is too old, or from a history that the server lost."""
    return isinstance(error, Gone) or (
        isinstance(error, Unavailable) and VERSION_FROM_THE_FUTURE in error.message
    )


def _describe(error: Exception) -> str:
    """For people, and without any object's content: unknown exceptions could quote it."""
    if isinstance(error, ApiError | msgspec.MsgspecError):
        return f"{type(error).__name__}: {error}"
    return f"unexpected {type(error).__name__}; the log has more"


@asynccontextmanager
async def _closing(stream: AsyncIterator[T]) -> AsyncIterator[None]:
    """Close a stream that is left in the middle at once, not when it happens to be collected."""
    try:
        yield
    finally:
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
