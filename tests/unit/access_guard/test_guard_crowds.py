"""Many questions at a time, and somebody who does not answer: whom that holds up, and whom it does not."""

import asyncio

import pytest

from magicstick.access_guard.asked import Asked
from magicstick.access_guard.decide import Absent, Person, Principal, Reason
from magicstick.access_guard.guard import AT_A_TIME, Guard
from magicstick.access_guard.policy import ROLES, Instance, Plain, Restriction
from magicstick.runtime.logs import Secret

pytestmark = pytest.mark.anyio

DEADLINE_S = 10.0
INSTANCES = {
    "open": Instance("uid-open", Plain.OPEN),
    "restricted": Instance("uid-restricted", Restriction(frozenset(ROLES), frozenset({"alice"}))),
}


class SilentProvider:
    """A cluster that answers, and an identity provider that never does. `asked` counts who waits for it."""

    def __init__(self) -> None:
        self.asked = 0
        self.another = asyncio.Condition()

    async def instance(self, name: str) -> Instance | Absent:
        return INSTANCES[name]

    def remembered(self, token: Secret) -> Principal | None:  # noqa: ARG002 - as the protocol says
        return None

    async def principal(self, token: Secret) -> Principal | Absent:
        self.asked += 1
        async with self.another:
            self.another.notify_all()
        await asyncio.Event().wait()
        raise AssertionError(token)

    async def person(self, subject: str) -> Person | Absent:
        raise AssertionError(subject)

    async def groups(self, subject: str, wanted: frozenset[str]) -> frozenset[str]:
        raise AssertionError(subject, wanted)


async def test_a_crowd_that_waits_for_the_identity_provider_holds_up_nobody_who_needs_none() -> None:
    sources = SilentProvider()
    async with Guard(sources, deadline_s=DEADLINE_S) as guard:
        crowd = [
            asyncio.ensure_future(guard.check(Asked("restricted", "uid-restricted", Secret(f"token {i}"))))
            for i in range(2 * AT_A_TIME)
        ]
        async with asyncio.timeout(DEADLINE_S), sources.another:
            await sources.another.wait_for(lambda: sources.asked == AT_A_TIME)
        verdict = await asyncio.wait_for(guard.check(Asked("open", "uid-open")), DEADLINE_S / 2)
        assert verdict.reason is Reason.UNRESTRICTED
        assert sources.asked == AT_A_TIME, "no more than that are asked at a time"
        for each in crowd:
            each.cancel()
        await asyncio.gather(*crowd, return_exceptions=True)
