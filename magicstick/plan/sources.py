"""Where the caches of a plan are filled from: a cluster that is read once, or none at all.

Nothing is ever watched: a plan is made of one moment.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

import anyio

from magicstick.kube.errors import KindNotServed
from magicstick.kube.informer import Lists
from magicstick.kube.kinds import Kind
from magicstick.kube.objects import View
from magicstick.kube.wire import ListMeta, ListPage, WatchEvent

V = TypeVar("V", bound=View)

Served = Callable[[Kind], bool]
"""Whether a kind is taken to be served, whatever the cluster says."""

_FIRST: Final = "1"


class Once:
    """`kube.informer.Source` that lists, and then stays silent. Without `lists` there is nothing anywhere."""

    def __init__(self, served: Served, lists: Lists | None = None) -> None:
        self._served = served
        self._lists = lists

    async def pages(self, kind: Kind, *, view: type[V], **limits: Any) -> AsyncIterator[ListPage[V]]:
        """See `kube.informer.Source`."""
        if self._lists is not None:
            try:
                async for page in self._lists.pages(kind, view=view, **limits):
                    yield page
            except KindNotServed:
                if not self._served(kind):
                    raise
            else:
                return
        if not self._served(kind):
            raise KindNotServed(f"{kind} is not served")
        yield ListPage(ListMeta(_FIRST), [])

    async def watch(
        self,
        kind: Kind,  # noqa: ARG002 - as the protocol says
        *,
        view: type[V],  # noqa: ARG002 - as the protocol says
        **_: Any,
    ) -> AsyncIterator[WatchEvent[V]]:
        """See `kube.informer.Source`; nothing ever happens."""
        await anyio.sleep_forever()
        yield  # type: ignore[misc] # makes it a generator; never reached
