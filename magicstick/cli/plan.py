"""`magicstick plan`: what the operator would write for resources that are not applied yet."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from magicstick.cli.cluster import TIMEOUT_S, Access, Context, Kubeconfig, Timeout, ask, quick_imports
from magicstick.cli.errors import FAILED, FORBIDDEN, MISUSED, UNREACHABLE, CommandError
from magicstick.cli.streams import write_lines

if TYPE_CHECKING:
    from rich.text import Text

    from magicstick.kube.client import Client
    from magicstick.plan.rehearsal import Plan, Question
    from magicstick.plan.text import Line
    from magicstick.runtime.settings import Settings

CHANGES: Final = 1
"""Exit code where something would change."""
STYLES: Final = {"+": "green", "-": "red", "~": "yellow"}

EPILOG: Final = """Examples:

magicstick plan -f appliance.yaml --offline

magicstick plan -f model.yaml --diff

magicstick plan -f models/ -f node.yaml --offline --assume-ready kubeai,litellm -o yaml

magicstick plan -f manifests/catalogs --diff

magicstick plan -f examples/palena --offline

kubectl -n ai-system get msmod litellm -o yaml | magicstick plan -f - -o json

Exit codes: 0 nothing would change, 1 something would, 2 misused or invalid input, 3 the cluster could not
be asked, 4 forbidden."""


class Output(StrEnum):
    """How a plan is written."""

    SUMMARY = "summary"
    YAML = "yaml"
    JSON = "json"


def plan(
    filename: Annotated[
        list[str],
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Resources: a file, a folder, or - for standard input. May be given several times.",
        ),
    ],
    *,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to write it; yaml and json are the objects.")
    ] = Output.SUMMARY,
    diff: Annotated[
        bool, typer.Option("--diff", help="What would change of the objects in the cluster, field by field.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no cluster: plan for an empty one, from catalogs.")
    ] = False,
    catalogs: Annotated[
        Path | None,
        typer.Option(
            "--catalogs",
            metavar="DIR",
            help="Catalogs to plan with, as ConfigMaps, in place of those that ship. Means --offline.",
            show_default=False,
        ),
    ] = None,
    assume_ready: Annotated[
        list[str] | None,
        typer.Option(
            "--assume-ready",
            metavar="MODULES",
            help="Take these modules for ready once they are applied (a,b; all; none); palena means those "
            "on whom Palena depends. Offline: all.",
            show_default=False,
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            envvar="APPLIANCE_NAMESPACE",
            help="Where the appliance is.",
            show_default="ai-system",
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT_S,
) -> int:
    """Show what the operator would apply for these resources. Nothing is ever written."""
    offline = offline or catalogs is not None
    if diff and offline:
        raise CommandError(
            "--diff compares with a cluster, so it goes without --offline and --catalogs", MISUSED
        )
    with quick_imports():
        from magicstick.plan.rehearsal import Question  # noqa: F401, PLC0415 - takes long to import
    words = [word.strip() for each in assume_ready or () for word in each.split(",") if word.strip()]
    access = Access(kubeconfig, context, timeout)
    made = _made(filename, words, catalogs, namespace, None if offline else access)
    for note in made.notes:
        typer.echo(f"magicstick: {note}", err=True)
    if output is Output.SUMMARY:
        _write(made, diff=diff, offline=offline)
    else:
        _data(made, output, diff=diff)
    return CHANGES if made.changes else 0


def _made(
    names: Sequence[str],
    words: Sequence[str],
    catalogs: Path | None,
    namespace: str | None,
    access: Access | None,
) -> "Plan":
    """The plan; every failure is a CommandError with one of the codes that the help names."""
    from magicstick.plan.documents import InputError  # noqa: PLC0415 - imported by `plan`
    from magicstick.plan.rehearsal import BlindError  # noqa: PLC0415 - imported by `plan`
    from magicstick.runtime.options import SettingsError  # noqa: PLC0415 - imported by `plan`

    try:
        question = _question(names, words, catalogs, offline=access is None)
        settings = _settings(namespace)
        return _offline(question, settings) if access is None else _online(question, settings, access)
    except (InputError, SettingsError) as error:
        raise CommandError(str(error), MISUSED) from None
    except BlindError as error:
        raise CommandError(str(error), FORBIDDEN if error.forbidden else UNREACHABLE) from None
    except CommandError as error:
        # Code 1 says that something would change, which nobody knows now.
        raise CommandError(str(error), UNREACHABLE if error.code == FAILED else error.code) from None


def _question(
    names: Sequence[str], words: Sequence[str], catalogs: Path | None, *, offline: bool
) -> "Question":
    from magicstick.plan import shipped  # noqa: PLC0415 - imported by `plan`
    from magicstick.plan.assumptions import ALL  # noqa: PLC0415 - see above
    from magicstick.plan.documents import read  # noqa: PLC0415 - see above
    from magicstick.plan.rehearsal import Question  # noqa: PLC0415 - see above

    documents = read(names, _standard_input)
    if not offline:
        return Question(documents, tuple(words), root=shipped.root(None))
    assumed = tuple(words) or (ALL,)
    return Question(documents, assumed, shipped.catalogs(catalogs), shipped.root(catalogs))


def _standard_input() -> str:
    from magicstick.plan.documents import InputError  # noqa: PLC0415 - imported by `plan`

    if sys.stdin is None:
        raise InputError(["standard input: it is closed"])
    return typer.get_text_stream("stdin").read()


def _settings(namespace: str | None) -> "Settings":
    from magicstick.runtime.settings import Settings  # noqa: PLC0415 - imported by `plan`

    return Settings.load(appliance_namespace=namespace or None)


def _offline(question: "Question", settings: "Settings") -> "Plan":
    import asyncio  # noqa: PLC0415 - see the module

    from magicstick.cli.asking import silent_logs  # noqa: PLC0415 - takes long to import
    from magicstick.plan.rehearsal import rehearse  # noqa: PLC0415 - imported by `plan`
    from magicstick.runtime.clock import SystemClock  # noqa: PLC0415 - imported by `plan`

    with silent_logs():
        return asyncio.run(rehearse(question, settings, SystemClock()))


def _online(question: "Question", settings: "Settings", access: Access) -> "Plan":
    from magicstick.plan.rehearsal import rehearse  # noqa: PLC0415 - imported by `plan`
    from magicstick.runtime.clock import SystemClock  # noqa: PLC0415 - imported by `plan`

    async def work(client: "Client") -> "Plan":
        clock, timeout_s = SystemClock(), access.timeout_s
        return await rehearse(question, settings, clock, client=client, timeout_s=timeout_s)

    return ask(access, work)


def _data(made: "Plan", output: Output, *, diff: bool) -> None:
    from magicstick.plan import text  # noqa: PLC0415 - nobody waits for it before

    if diff:
        typer.echo(text.written(text.report(made), output.value), nl=False)
        return
    if output is Output.YAML:
        typer.echo(text.as_yaml(made), nl=False)
        return
    for deleted in text.deletions(made):
        typer.echo(f"magicstick: would delete {deleted}", err=True)
    typer.echo(text.written(text.listing(made), output.value), nl=False)


def _write(made: "Plan", *, diff: bool, offline: bool) -> None:
    from magicstick.plan import text  # noqa: PLC0415 - nobody waits for it before

    if offline:
        typer.echo("For an empty cluster.\n")
    write_lines(text.diff(made) if diff else text.summary(made), _styled)


def _styled(line: "Line") -> "Text":
    """What comes, changes and goes has its colour."""
    from rich.text import Text  # noqa: PLC0415 - on a terminal alone

    return Text(str(line), style=STYLES.get(line.sign, ""))
