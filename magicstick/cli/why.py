"""`magicstick why`: the chain of causes behind an object that is not ready."""

import json
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from magicstick.api.kinds import PALENA_KINDS
from magicstick.cli.cluster import (
    TIMEOUT_S,
    Access,
    Context,
    Kubeconfig,
    Timeout,
    ask,
    check_namespace,
    quick_imports,
)
from magicstick.cli.errors import MISUSED, CommandError
from magicstick.cli.streams import speaks_unicode, write_lines

if TYPE_CHECKING:
    from rich.text import Text

    from magicstick.kube.client import Client
    from magicstick.why.asking import Question
    from magicstick.why.text import Answer, Line

FOUND: Final = 1
"""Exit code where there is a cause."""

EPILOG: Final = """Examples:

magicstick why

magicstick why module/litellm

magicstick why hardware/gpu --all

magicstick why kustomization/app-litellm -o json

magicstick why gateway/gw -n ai-gateway

Exit codes: 0 nothing is wrong, 1 a cause was found, 2 misused, 3 cluster not reachable, 4 forbidden."""


class Output(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"


def complete(ctx: typer.Context, incomplete: str) -> list[str]:
    """The kinds that can be explained; after a slash the names of the objects there are."""
    from magicstick.cli.get.completion import complete_words  # noqa: PLC0415 - only for completion
    from magicstick.why.asking import SHOWN  # noqa: PLC0415 - see above

    if "/" in incomplete:
        return complete_words(ctx, incomplete)
    return [f"{word}/" for word in SHOWN if f"{word}/".startswith(incomplete)]


def why(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND/NAME]",
            help="What to explain; a name alone is a module, nothing is the Appliance.",
            autocompletion=complete,
            show_default=False,
        ),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", "-a", help="All causes, not only the first.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to write it.")] = Output.TEXT,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            help="Where the appliance is ($APPLIANCE_NAMESPACE, or ai-system); "
            "for an object of Palena where that is (anywhere).",
            show_default=False,
        ),
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    timeout: Timeout = TIMEOUT_S,
) -> int:
    """Say why something is not ready, and what to do about it."""
    asked, flags = placed(_question(words or ()), namespace)
    access = Access(kubeconfig, context, timeout)
    told = ask(access, lambda client: _explain(client, asked, flags, access, every=every))
    if output is Output.JSON:
        from magicstick.why.text import data  # noqa: PLC0415 - imported with the explanation already

        typer.echo(json.dumps(data(told), indent=2, ensure_ascii=not speaks_unicode()))
    else:
        from magicstick.why.text import lines  # noqa: PLC0415 - imported with the explanation already

        write_lines(lines(told), _styled)
    return 0 if told.explanation.healthy else FOUND


def placed(asked: "Question", namespace: str) -> "tuple[Question, dict[str, str]]":
    """What `--namespace` says: where the object of Palena is that is asked about, or else the appliance.

    With it the settings that follow. Palena is read only where it is asked about. Raises CommandError.
    """
    if namespace:
        check_namespace(namespace)
    if asked.kind in PALENA_KINDS:
        return replace(asked, namespace=namespace), {"magicstick_enable_palena": "true"}
    return asked, {"appliance_namespace": namespace} if namespace else {}


def _question(words: Iterable[str]) -> "Question":
    from magicstick.why.asking import NoQuestionError, question  # noqa: PLC0415 - not for other commands

    try:
        return question(*words)
    except NoQuestionError as error:
        raise CommandError(f"{error}; see 'magicstick why --help'", MISUSED) from None


async def _explain(
    client: "Client", asked: "Question", flags: dict[str, str], access: Access, *, every: bool
) -> "Answer":
    try:
        return await _answer(client, asked, flags, access, every=every)
    except Exception as error:
        from magicstick.runtime.options import SettingsError  # noqa: PLC0415 - takes long to import

        if isinstance(error, SettingsError):
            raise CommandError(str(error), MISUSED) from None
        raise


async def _answer(
    client: "Client", asked: "Question", flags: dict[str, str], access: Access, *, every: bool
) -> "Answer":
    with quick_imports():
        from magicstick.why.opening import opened  # noqa: PLC0415 - the Kubernetes layer, for this alone

    async with opened(client, flags, timeout_s=access.timeout_s) as sight:
        # Imported while the server answered.
        from magicstick.why.explainers import subject_of, tree  # noqa: PLC0415 - see above
        from magicstick.why.text import answer  # noqa: PLC0415 - see above

        explanation, nodes = tree(subject_of(asked, sight), sight)
        return answer(explanation, nodes, every=every)


def _styled(line: "Line") -> "Text":
    """Subjects and headings stand out."""
    from rich.text import Text  # noqa: PLC0415 - on a terminal alone

    return Text.assemble((line.guide, "dim"), (line.strong, "bold"), line.rest)
