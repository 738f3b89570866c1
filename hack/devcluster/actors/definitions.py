"""Whether a kind is there: actors of operators come and go with the definitions of their kinds."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeAlias

from hack.bare import BareClient
from hack.devcluster.actors.following import Collection, Object

PALENA_CRDS: Final = Path(__file__).parent / "crds"
"""The kinds that Palena drives, reduced to what is used of them (spec: palena §3, §15)."""
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Presence:
    """Follows the definition of a kind. One that is being removed is there until its last object is gone."""

    def __init__(self, client: BareClient, name: str) -> None:
        """`name` is `<plural>.<group>`."""
        query = f"fieldSelector=metadata.name%3D{name}"
        self._definition = Collection(client, DEFINITIONS, self._see, query=query)
        self._there, self._gone = asyncio.Event(), asyncio.Event()

    async def while_there(self, work: Work, gone: Callable[[], None]) -> None:
        """Do `work` anew each time the kind appears; end it, and tell `gone`, when it goes. Never returns."""
        following = asyncio.ensure_future(self._definition.follow())
        try:
            while True:
                await self._there.wait()
                await self._until_gone(work)
                gone()
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following

    async def _until_gone(self, work: Work) -> None:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(work())
            await self._gone.wait()
            working.cancel()

    def _see(self, type_: str, _: Object) -> None:
        there, gone = (self._gone, self._there) if type_ == "DELETED" else (self._there, self._gone)
        there.set()
        gone.clear()
