"""Opens the same caches as the operator, once: no lease, no writes, one list a kind.

The first request, for the definitions, leaves as soon as a client can be made. What the explanations are
made of takes longer to import, and is imported in a thread meanwhile, once that request is out.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio

from magicstick.kube.cache import Caches, NotSyncedError
from magicstick.kube.client import Client
from magicstick.kube.discovery import CrdView, Discovery
from magicstick.kube.informer import InformerState, Tuning
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, ObjectKey

if TYPE_CHECKING:
    from magicstick.why.sight import Sight

GRACE_S: Final = 2.0
"""How long a server may be unreachable before that is the answer."""
HEAD_START_S: Final = 0.1
"""The first request is out by then; imports would only hold it up."""
DOMAIN: Final = "magicstick.why.seeing"
"""What is imported while the server answers."""


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

    Raises:
        ApiError: the server cannot be reached, or takes no request of this account.
        SettingsError: a flag or a variable has a value that is not allowed.
    """
    caches = Caches(client, tuning=Tuning(first_grace_s=min(GRACE_S, timeout_s)))
    definitions = caches.add(CUSTOM_RESOURCE_DEFINITION, view=CrdView)
    discovery = Discovery(definitions.store)
    caches.follow(discovery)
    answered = anyio.Event()
    caches.subscribe_state(lambda _kind, _state: answered.set())
    async with anyio.create_task_group() as group:
        group.start_soon(caches.run)
        with anyio.move_on_after(HEAD_START_S):
            await answered.wait()
        seeing = await asyncio.to_thread(importlib.import_module, DOMAIN)
        watch = seeing.watch(caches, discovery, flags)
        with suppress(NotSyncedError):
            await caches.wait_synced(timeout_s)
        await _refuse_silence(client, caches)
        yield await watch.sight(clock())
        group.cancel_scope.cancel()


async def _refuse_silence(client: Client, caches: Caches) -> None:
    """Where nothing at all could be read, ask once more, for the error itself."""
    if not any(each.state in (InformerState.SYNCED, InformerState.ABSENT) for each in caches.informers()):
        await client.get(NAMESPACE, ObjectKey("", "default"))
