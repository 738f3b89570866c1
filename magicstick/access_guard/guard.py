"""Answers questions: finds out what the decision needs, one need at a time, and denies where it cannot.

Guarantees: every question is answered within the deadline; yes is said only by `decide.authorize`, over
facts that were read after the question was asked (`settings` and `principals` say which may be older, and
by how much). Nothing raised on the way reaches the caller: it is a no, and its reason.
"""

import asyncio
from dataclasses import replace
from types import TracebackType
from typing import Final, Protocol, Self

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
from magicstick.access_guard.principals import digest_of
from magicstick.access_guard.provider import IdentityUnavailableError
from magicstick.access_guard.sharing import SingleFlight
from magicstick.access_guard.troubles import Troubles, report_fault
from magicstick.kube.errors import ApiError
from magicstick.runtime.logs import Secret

DEADLINE_S: Final = 5.0
"""Well before the gateway itself gives up."""
AT_A_TIME: Final = 256
"""So many questions are worked on at once; others wait, as long as their time lasts."""

CLUSTER, IDENTITY = "the API server", "the identity provider"


class Sources(Protocol):
    """Where facts come from. What they raise is a no."""

    async def instance(self, name: str) -> Instance | Absent:
        """An instance as it is now."""
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
    """See the module. Use as a context, which ends the work that is under way."""

    def __init__(
        self,
        sources: Sources,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._sources, self._deadline_s = sources, deadline_s
        self._flights: SingleFlight[tuple[str, str, bytes], Verdict] = SingleFlight()
        self._places = asyncio.Semaphore(AT_A_TIME)
        self._troubles = Troubles()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._flights.close()

    async def check(self, asked: Asked) -> Verdict:
        """The answer to one question."""
        key = asked.name, asked.uid, digest_of(asked.token)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._flights.share(key, lambda: self._answer(asked))
        except TimeoutError:
            return Verdict(Reason.ERROR)

    async def _answer(self, asked: Asked) -> Verdict:
        """The verdict, whatever happens; whoever asks at the same time hears the same."""
        try:
            async with asyncio.timeout(self._deadline_s), self._places:
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
        match need:
            case InstanceNamed(name):
                instance = await self._sources.instance(name)
                self._troubles.ended(CLUSTER)
                return replace(known, instance=instance)
            case OwnerOf(token):
                return replace(known, principal=await self._sources.principal(token))
            case PersonWith(subject):
                person = await self._sources.person(subject)
                self._troubles.ended(IDENTITY)
                return replace(known, person=person)
            case GroupsOf(subject, wanted):
                return replace(known, groups=await self._sources.groups(subject, wanted))
