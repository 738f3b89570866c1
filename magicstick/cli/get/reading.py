"""One look at the cluster: each kind read once, all at the same time.

A kind that cannot be read is a problem of its own and hides no other; a server that does not answer, or
does not accept the credentials, ends the whole.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from magicstick.api.appearances import PALENA_APPEARANCES
from magicstick.api.kinds import HOME_NAMESPACE
from magicstick.cli.asking import explained
from magicstick.cli.cluster import Access
from magicstick.cli.errors import FAILED, MISUSED, CommandError
from magicstick.cli.get.items import Item, Whole, items_of
from magicstick.cli.get.options import Query
from magicstick.cli.words import HARDWARE, Wanted
from magicstick.kube.client import Client
from magicstick.kube.errors import ApiError, Invalid, KindNotServed, NotFound, Unauthorized, Unavailable
from magicstick.kube.kinds import Kind, ObjectKey

INSTALL: Final = "install the definitions with 'magicstick crds | kubectl apply --server-side -f -'"


@dataclass(slots=True)
class Found:
    """What there is, and what could not be had."""

    objects: list[Whole] = field(default_factory=list)
    """In the order of the kinds, then by name."""
    items: list[Item] = field(default_factory=list)
    """The lines to show; those of one kind stand together."""
    missing: list[str] = field(default_factory=list)
    """What was asked for by name and is not there, in words."""
    absent: list[Kind] = field(default_factory=list)
    """Kinds that the cluster does not serve."""
    problems: list[CommandError] = field(default_factory=list)
    """Why kinds could not be read otherwise."""

    @property
    def empty(self) -> bool:
        """Whether all could be read, and there is nothing."""
        return not (self.items or self.missing or self.absent or self.problems)

    def uninstalled(self, query: Query) -> list[str]:
        """What to say of the kinds that are absent."""
        if query.overview and len(self.absent) == len(query.sources):
            return [f"the cluster does not know magicstick's kinds; {INSTALL}"]
        return [f"the cluster does not know {kind}; {INSTALL}" for kind in self.absent]

    def check(self, query: Query) -> None:
        """Raise CommandError when anything that was asked for could not be had.

        In an overview that is not so for a kind that is absent while others are there: parts of magicstick
        may be installed without the rest.
        """
        asked = not query.overview or len(self.absent) == len(query.sources)
        absent = self.uninstalled(query) if asked else []
        lines = [*self.missing, *absent, *dict.fromkeys(map(str, self.problems))]
        if lines:
            raise CommandError("\n".join(lines), max((each.code for each in self.problems), default=FAILED))


async def read(client: Client, query: Query, access: Access) -> Found:
    """Read what is asked for.

    Raises:
        ApiError: the server does not answer, or does not accept the credentials.
        TimeoutError: it did not answer in time.
        CommandError: the selector is none.
    """
    found = Found()
    async with asyncio.TaskGroup() as group:
        tasks = {
            kind: group.create_task(_source(client, query, access, kind, found)) for kind in query.sources
        }
    # Whoever answers first: the same question is to get the same text.
    found.absent.sort(key=query.sources.index)
    found.problems.sort(key=str)
    objects = {kind: sorted(task.result(), key=_by_key) for kind, task in tasks.items()}
    found.objects = [obj for kind in query.sources for obj in objects[kind]]
    for wanted in query.wanted:
        lines = [item for obj in objects[wanted.source] for item in items_of(wanted, obj)]
        found.items += lines
        if wanted.appearance is HARDWARE:
            missing = dict.fromkeys(wanted.names).keys() - {item.name for item in lines}
            found.missing += [_missing(wanted, name, query) for name in sorted(missing)]
    return found


def _by_key(obj: Whole) -> ObjectKey:
    return obj.metadata.key


async def _source(client: Client, query: Query, access: Access, kind: Kind, found: Found) -> list[Whole]:
    """The objects of one kind; what is wrong with it goes to `found`."""
    wanted = [each for each in query.wanted if each.source == kind]
    try:
        if all(each.names and each.appearance is not HARDWARE for each in wanted):
            return await _named(client, query, access, wanted, found)
        async with asyncio.timeout(access.timeout_s):
            pages = client.pages(kind, namespace=query.namespace, view=Whole, label_selector=query.selector)
            return [obj async for page in pages for obj in page.items]
    except (Unavailable, Unauthorized):
        raise
    except KindNotServed:
        found.absent.append(kind)
    except ApiError as error:
        if isinstance(error, Invalid) and query.selector:
            raise CommandError(f"--selector is {query.selector!r}: {error}", MISUSED) from None
        found.problems.append(explained(error, access))
    return []


async def _named(
    client: Client, query: Query, access: Access, wanted: Iterable[Wanted], found: Found
) -> list[Whole]:
    objects = []
    for each in wanted:
        for name in each.names:
            try:
                async with asyncio.timeout(access.timeout_s):
                    key = ObjectKey(query.namespace, name)
                    objects.append(await client.get(each.appearance.kind, key, view=Whole))
            except KindNotServed:
                raise
            except NotFound:
                found.missing.append(_missing(each, name, query))
    return objects


def _missing(wanted: Wanted, name: str, query: Query) -> str:
    missing = f"{wanted.appearance.singular} {name!r} not found in namespace {query.namespace}"
    elsewhere = wanted.appearance in PALENA_APPEARANCES and query.namespace == HOME_NAMESPACE
    return f"{missing}; --namespace names where it is" if elsewhere else missing
