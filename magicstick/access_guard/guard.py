"""Answers questions: finds out what the decision needs, one need at a time, and denies where it cannot.

Guarantees: every question is answered within the deadline; yes is said only by `decide.authorize`, over
facts that were read after the question was asked (`settings` and `principals` say which may be older, and
by how much). Nothing raised on the way reaches the caller: it is a no, and its reason.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import Final, ParamSpec, Protocol, Self, TypeVar

from magicstick.access_guard.asked import Asked
from magicstick.access_guard.decide import (
    Absent,
    GroupsOf,
    InstanceNamed,
    Known,
    Need,
    OwnerOf,
    Person,
    PersonWith,
    Principal,
    Reason,
    Verdict,
    authorize,
)
from magicstick.access_guard.policy import Instance
from magicstick.access_guard.provider import IdentityUnavailableError
from magicstick.access_guard.sharing import SingleFlight
from magicstick.access_guard.troubles import Troubles, report_fault
from magicstick.kube.errors import ApiError
from magicstick.runtime.logs import Secret

P = ParamSpec("P")
T = TypeVar("T")

DEADLINE_S: Final = 5.0
"""Well before the gateway itself gives up."""
AT_A_TIME: Final = 256
"""So many facts are asked for at once of each of the two; others wait, as long as their time lasts.

Of each by itself, so that an identity provider that does not answer holds up nobody who needs none.
"""

CLUSTER, IDENTITY = "the API server", "the identity provider"


class Sources(Protocol):
    """Where facts come from. What they raise is a no."""

    async def instance(self, name: str) -> Instance | Absent:
        """An instance as it is now."""
        ...

    def remembered(self, token: Secret) -> Principal | None:
        """The owner of a token, where that was found out a moment ago."""
        ...

    async def principal(self, token: Secret) -> Principal | Absent:
        """The owner of a token."""
        ...

    async def person(self, subject: str) -> Person | Absent:
        """Somebody as the directory has them now."""
        ...

    async def groups(self, subject: str, wanted: frozenset[str]) -> frozenset[str]:
        """The groups of somebody, as far as it takes to find a wanted one."""
        ...


class Guard:
    """See the module. Use as a context, which ends the work that is under way.

    Questions that need the same fact at the same time share it, whoever asks: however many come, of one
    instance there is one read at a time, and one person is looked up once at a time.
    """

    def __init__(self, sources: Sources, *, deadline_s: float = DEADLINE_S) -> None:
        self._sources, self._deadline_s = sources, deadline_s
        self._instances: SingleFlight[str, Instance | Absent] = SingleFlight()
        self._owners: SingleFlight[Secret, Principal | Absent] = SingleFlight()
        self._people: SingleFlight[str, Person | Absent] = SingleFlight()
        self._groups: SingleFlight[GroupsOf, frozenset[str]] = SingleFlight()
        self._at_cluster = asyncio.Semaphore(AT_A_TIME)
        self._at_identity = asyncio.Semaphore(AT_A_TIME)
        self._troubles = Troubles()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for flights in (self._instances, self._owners, self._people, self._groups):
            await flights.close()

    async def check(self, asked: Asked) -> Verdict:
        """The answer to one question, whatever happens."""
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._decide(asked)
        except TimeoutError:
            return Verdict(Reason.ERROR)
        except IdentityUnavailableError as error:
            self._troubles.began(IDENTITY, str(error))
            return Verdict(Reason.IDENTITY_UNAVAILABLE)
        except ApiError as error:
            self._troubles.began(CLUSTER, type(error).__name__)
            return Verdict(Reason.ERROR)
        except Exception as error:  # noqa: BLE001 - whatever it is, the answer is no
            report_fault(error)
            return Verdict(Reason.ERROR)

    async def _decide(self, asked: Asked) -> Verdict:
        known = Known()
        while not isinstance(answer := authorize(asked, known), Verdict):
            known = await self._learn(answer, known)
        return answer

    async def _learn(self, need: Need, known: Known) -> Known:
        """What is known, and what was needed as well."""
        sources = self._sources
        match need:
            case InstanceNamed(name):
                ask = self._bounded(self._at_cluster, sources.instance, name)
                instance = await self._instances.share(name, ask)
                self._troubles.ended(CLUSTER)
                return replace(known, instance=instance)
            case OwnerOf(token):
                principal: Principal | Absent | None = sources.remembered(token)
                if principal is None:
                    find = self._bounded(self._at_identity, sources.principal, token)
                    principal = await self._owners.share(token, find)
                return replace(known, principal=principal)
            case PersonWith(subject, wanted):
                known = await self._person(subject, wanted, known)
                self._troubles.ended(IDENTITY)
                return known
            case GroupsOf():
                return replace(known, groups=await self._groups_of(need))

    async def _person(self, subject: str, wanted: frozenset[str], known: Known) -> Known:
        """What is known, and who somebody is; with their groups, where those will matter."""
        ask = self._bounded(self._at_identity, self._sources.person, subject)
        person = self._people.share(subject, ask)
        if not wanted:
            return replace(known, person=await person)
        found, groups = await asyncio.gather(person, self._groups_of(GroupsOf(subject, wanted)))
        return replace(known, person=found, groups=groups)

    def _groups_of(self, need: GroupsOf) -> "asyncio.Future[frozenset[str]]":
        ask = self._bounded(self._at_identity, self._sources.groups, need.subject, need.wanted)
        return self._groups.share(need, ask)

    def _bounded(
        self, places: asyncio.Semaphore, ask: Callable[P, Awaitable[T]], *what: P.args, **also: P.kwargs
    ) -> Callable[[], Awaitable[T]]:
        """The same in bounded time, since others wait for the answer as well, and at one of the places."""

        async def asking() -> T:
            async with asyncio.timeout(self._deadline_s), places:
                return await ask(*what, **also)

        return asking
