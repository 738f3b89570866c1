"""Opens the same caches as the operator, once: no lease, no writes, one list a kind.

Before anything else the server is asked whether it is there and knows who asks, with the little that this
takes. What the explanations are made of takes longer to import, and is imported in a thread meanwhile.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from magicstick.kube.client import Client
from magicstick.kube.errors import Forbidden, NotFound
from magicstick.kube.kinds import NAMESPACE, ObjectKey

if TYPE_CHECKING:
    from magicstick.why.sight import Sight

HEAD_START_S: Final = 0.1
"""The first request is out by then; imports would only hold it up."""
DOMAIN: Final = "magicstick.why.seeing"
"""What is imported while the server answers."""
ANY_OBJECT: Final = ObjectKey("", "default")
"""A namespace that every cluster has."""


def now() -> datetime:
    """This moment, by this machine's clock."""
    return datetime.now(UTC)


@asynccontextmanager
async def opened(
    client: Client,
    flags: Mapping[str, object],
    *,
    timeout_s: float,
    clock: Callable[[], datetime] = now,
) -> AsyncIterator["Sight"]:
    """What there is to see, read once; `flags` win over the environment, as for `magicstick run`.

    What cannot be read in `timeout_s` is not waited for: explanations say that it could not be read.

    Raises:
        ApiError: the server cannot be reached, or does not accept the credentials.
        TimeoutError: it did not answer at all.
        SettingsError: a flag or a variable has a value that is not allowed.
    """
    async with asyncio.timeout(timeout_s):
        greeting = asyncio.create_task(_greet(client))
        try:
            await asyncio.wait({greeting}, timeout=HEAD_START_S)
            seeing = await asyncio.to_thread(importlib.import_module, DOMAIN)
            await greeting
        finally:
            # Whatever became of it, somebody has heard of it: else asyncio tells of it itself.
            greeting.cancel()
            await asyncio.gather(greeting, return_exceptions=True)
    async with seeing.seen(client, flags, timeout_s=timeout_s, clock=clock) as sight:
        yield sight


async def _greet(client: Client) -> None:
    """An account that may not read namespaces is known all the same."""
    with suppress(Forbidden, NotFound):
        await client.get(NAMESPACE, ANY_OBJECT)
