"""What may stand next on the command line: kinds at once, names after one short question to the cluster."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from magicstick.cli.cluster import Access, ask
from magicstick.cli.errors import CommandError
from magicstick.cli.words import GROUPS, KNOWN, kind_called, names_of, usual_namespace, wanted

if TYPE_CHECKING:
    from magicstick.kube.client import Client

TIMEOUT_S: Final = 2.0
"""Whoever presses the key waits no longer."""


def complete_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Kinds, `KIND/NAME`, or names after a kind; of names none where the cluster does not answer."""
    before: Sequence[str] = ctx.params.get("words") or ()
    kind, slash, name = incomplete.partition("/")
    if slash:
        return [f"{kind}/{found}" for found in _names(ctx.params, kind) if found.startswith(name)]
    if before and "/" not in before[0]:
        return [found for found in _names(ctx.params, before[0], before[1:]) if found.startswith(incomplete)]
    return [word for word in _kinds(incomplete) if word.startswith(incomplete)]


def _kinds(incomplete: str) -> Iterator[str]:
    """The short words for each kind; the long ones with the group only where nobody else has the word.

    Words for several kinds stand alone, before them.
    """
    first, comma, last = incomplete.rpartition(",")
    if not comma:
        yield from GROUPS
    for appearance in KNOWN:
        for name in names_of(appearance):
            if "." not in name or "." in last:
                yield f"{first}{comma}{name}"


def _names(params: Mapping[str, Any], kind: str, taken: Sequence[str] = ()) -> list[str]:
    from magicstick.cli.get.options import Query  # noqa: PLC0415 - only where it is needed

    try:
        asked = wanted([kind_called(kind).kind.plural])
        query = Query(asked, namespace=str(params.get("namespace") or usual_namespace(asked)))
        kubeconfig = params.get("kubeconfig")
        access = Access(Path(kubeconfig) if kubeconfig else None, params.get("context"), TIMEOUT_S)
        names = ask(access, lambda client: _read(client, query, access))
    except CommandError:
        return []
    return [name for name in names if name not in taken]


async def _read(client: "Client", query: Any, access: Access) -> list[str]:
    from magicstick.cli.get.reading import read  # noqa: PLC0415 - takes long to import

    return [item.name for item in (await read(client, query, access)).items]
