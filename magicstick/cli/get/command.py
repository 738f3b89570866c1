"""The command and its options."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from magicstick.api.kinds import HOME_NAMESPACE
from magicstick.cli.cluster import TIMEOUT_S, Access, Context, Kubeconfig, Timeout, ask
from magicstick.cli.get.completion import complete_words
from magicstick.cli.get.options import Output, Query, SortBy
from magicstick.cli.words import usual_namespace, wanted

if TYPE_CHECKING:
    from magicstick.cli.get.reading import Found
    from magicstick.cli.get.showing import Show
    from magicstick.kube.client import Client

EPILOG: Final = """Examples:

magicstick get

magicstick get modules --sort-by phase

magicstick get module/litellm -o yaml

magicstick get models,hardware --watch

magicstick get -A -l app.kubernetes.io/managed-by=magicstick-operator -o name

Exit codes: 0 done, 1 not found or not installed, 2 misused, 3 cluster not reachable, 4 forbidden."""


def get(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND[/NAME]] [NAME]...",
            help="A kind, several with commas, a kind and names, or KIND/NAME. Everything by default.",
            autocompletion=complete_words,
            show_default=False,
        ),
    ] = None,
    *,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to write it; wide shows whole messages.")
    ] = Output.TABLE,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on and write each change, until Ctrl-C.")
    ] = False,
    output_watch_events: Annotated[
        bool,
        typer.Option("--output-watch-events", help="With --watch and json or yaml: say what happened, too."),
    ] = False,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            envvar="APPLIANCE_NAMESPACE",
            help=f"Where to look; {HOME_NAMESPACE} by default, for kinds of Palena everywhere.",
            show_default=False,
        ),
    ] = "",
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")
    ] = False,
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", metavar="LABELS", help="Only objects with these labels: a=b,c!=d."),
    ] = "",
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Only lines of objects: no header, no summary.")
    ] = False,
    sort_by: Annotated[
        SortBy, typer.Option("--sort-by", help="age: the youngest first; phase: what needs attention first.")
    ] = SortBy.NAME,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Show the appliance: its modules, models, instances and hardware."""
    asked = wanted(words or ())
    query = Query(
        asked,
        overview=not words,
        namespace="" if all_namespaces else namespace or usual_namespace(asked),
        selector=selector,
        output=output,
        sort_by=sort_by,
        headers=not no_headers,
        watch=watch,
        events=output_watch_events,
    )
    query.check()
    access = Access(kubeconfig, context, timeout)
    ask(access, lambda client: look(client, query, access))


async def look(client: "Client", query: Query, access: Access) -> None:
    """Read, show, and go on where it was asked for. CommandError for what could not be had."""
    from magicstick.cli.get.reading import read  # noqa: PLC0415 - takes long to import

    found = await read(client, query, access)
    from magicstick.cli.get.showing import Show  # noqa: PLC0415 - no question waits for it

    show = Show(query)
    if query.watch:
        await _go_on(client, query, found, show)
        return
    show.found(found)
    if found.empty:
        _note(query.nothing())
    found.check(query)
    for line in found.uninstalled(query):
        _note(line)


async def _go_on(client: "Client", query: Query, found: "Found", show: "Show") -> None:
    """Go on after the first look; what is missing may come."""
    from magicstick.cli.get.watching import follow  # noqa: PLC0415 - takes long to import

    for line in found.missing:
        _note(f"{line}; waiting for it")
    found.missing.clear()
    if found.problems:
        found.check(query)
    show.found(found)
    await follow(client, query, found, tell=show.change, note=_note)


def _note(text: str) -> None:
    typer.echo(f"magicstick: {text}", err=True)
