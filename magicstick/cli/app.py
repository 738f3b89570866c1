"""The commands and their help. Nothing heavy is imported before a command runs.

The options of the programs (`run`, `model-catalog`, `access-guard`) come from their settings, whose models
take a while to import: they are added only when the command line speaks of the command.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from magicstick import __version__
from magicstick.cli import streams
from magicstick.cli.errors import FAILED, INTERRUPTED, MISUSED, CommandError
from magicstick.cli.get.command import EPILOG as GET_EPILOG
from magicstick.cli.get.command import get
from magicstick.cli.plan import EPILOG as PLAN_EPILOG
from magicstick.cli.plan import plan
from magicstick.cli.quick import QuickCommand, QuickGroup
from magicstick.cli.why import EPILOG as WHY_EPILOG
from magicstick.cli.why import why

NAME: Final = "magicstick"
CATALOG: Final = "model-catalog"
GUARD: Final = "access-guard"
COMMANDS: Final = ("run", CATALOG, GUARD, "get", "why", "plan", "crds", "version", "settings")
COMPLETION_WORDS: Final = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Where shells put the command line that is to be completed."""

RUN_HELP: Final = "Run the operator until SIGTERM or SIGINT (a second one ends it at once)."
RUN_EPILOG: Final = """Examples:

magicstick run

magicstick run --kubeconfig ~/.kube/dev --log-format console --log-level debug

REQUEUE_SECONDS=60 magicstick run --leader-election false"""

CATALOG_HELP: Final = "Publish models that are ready to LiteLLM and to their users, until SIGTERM or SIGINT."
CATALOG_EPILOG: Final = """Examples:

magicstick model-catalog

magicstick model-catalog --litellm-base-url http://127.0.0.1:4000 --leader-election false"""

GUARD_HELP: Final = "Tell the gateway who may use which instance, until SIGTERM or SIGINT."
GUARD_EPILOG: Final = """Examples:

magicstick access-guard

magicstick access-guard --port 8090 --keycloak-admin-url http://127.0.0.1:8180"""


class Output(StrEnum):
    """How a result is written."""

    TEXT = "text"
    JSON = "json"


def application(spoken: Collection[str]) -> typer.Typer:
    """The commands; those of `PROGRAMS` with their options only where the command line speaks of them."""
    app = typer.Typer(
        name=NAME,
        cls=QuickGroup,
        help="The meta-operator that turns a Kubernetes cluster into an AI appliance.",
        epilog="Settings are environment variables too: see 'magicstick run --help'.",
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, (text, epilog, with_options) in PROGRAMS.items():
        app.command(name, help=text, epilog=epilog)(with_options() if name in spoken else _program)
    app.command("get", epilog=GET_EPILOG, cls=QuickCommand)(get)
    app.command("why", epilog=WHY_EPILOG, cls=QuickCommand)(why)
    app.command("plan", epilog=PLAN_EPILOG, cls=QuickCommand)(plan)
    app.command("crds", epilog=CRDS_EPILOG)(crds)
    app.command("version", cls=QuickCommand, epilog=VERSION_EPILOG)(version)
    app.command("settings", hidden=True)(settings)
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit, with the codes of `cli.errors`."""
    streams.prepare()
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    completing = " ".join(os.environ.get(name, "") for name in COMPLETION_WORDS).split()
    sys.exit(_run_command(application((*words, *completing)), words))


def _run_command(app: typer.Typer, words: Sequence[str]) -> int:
    try:
        code = typer.main.get_command(app).main(args=words, prog_name=NAME, standalone_mode=False)
    except CommandError as error:
        return _fail(str(error), error.code)
    except typer.TyperException as error:
        command = f"{NAME} {words[0]}" if words[0] in COMMANDS else NAME
        return _fail(f"{error.format_message().rstrip('.')}; see '{command} --help'", MISUSED)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        streams.give_up()  # whoever read our output has enough of it
        return FAILED
    except OSError as error:
        if error.errno not in streams.UNWRITABLE:
            raise
        streams.give_up()
        return _fail(f"cannot write to standard output: {error.strerror}", FAILED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    """One line on standard error for each problem."""
    for line in message.splitlines():
        typer.echo(f"{NAME}: {line}", err=True)
    return code


# -- the commands ------------------------------------------------------------------------------------


def _program() -> None:
    """A program as it stands in the list of commands."""
    raise AssertionError("unreachable: a command line with its name gets the command with its options")


def _run_with_options() -> Callable[..., None]:
    from magicstick.cli.run import run, with_options  # noqa: PLC0415

    return with_options(run)


def _catalog_with_options() -> Callable[..., None]:
    from magicstick.cli.model_catalog import command  # noqa: PLC0415

    return command()


def _guard_with_options() -> Callable[..., None]:
    from magicstick.cli.access_guard import command  # noqa: PLC0415

    return command()


PROGRAMS: Final[Mapping[str, tuple[str, str, Callable[[], Callable[..., None]]]]] = {
    "run": (RUN_HELP, RUN_EPILOG, _run_with_options),
    CATALOG: (CATALOG_HELP, CATALOG_EPILOG, _catalog_with_options),
    GUARD: (GUARD_HELP, GUARD_EPILOG, _guard_with_options),
}
"""What runs until a signal: help, examples, and the command with its options."""


CRDS_EPILOG: Final = """Examples:

magicstick crds | kubectl apply --server-side -f -

magicstick crds --output manifests/crds

magicstick crds --output manifests/crds --check"""


def crds(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write one file for each kind into this folder."),
    ] = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file in the folder is out of date.")
    ] = False,
) -> None:
    """Print or write the CustomResourceDefinitions of all our kinds."""
    from magicstick.api.crds import dump, render_all  # noqa: PLC0415
    from magicstick.cli.files import deliver  # noqa: PLC0415

    texts = {name: dump(crd) for name, crd in render_all().items()}
    folder = output or Path()
    remedy = f"{NAME} crds --output {folder}"
    if output is None and not check:
        typer.echo("---\n".join(texts.values()), nl=False)
        return
    files = {folder / name: text for name, text in texts.items()}
    for path in deliver(files, write=output is not None, check=check, remedy=remedy):
        typer.echo(path)


VERSION_EPILOG: Final = """Examples:

magicstick version

magicstick version -o json"""


def version(
    output: Annotated[
        Output, typer.Option("--output", "-o", help="How to write it.", show_default=True)
    ] = Output.TEXT,
) -> None:
    """Say which version this is."""
    if output is Output.JSON:
        facts = {"version": __version__, "python": platform.python_version(), "platform": platform.machine()}
        typer.echo(json.dumps(facts))
    else:
        typer.echo(f"{NAME} {__version__}")


def settings(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the page to this file.")
    ] = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the file is out of date.")
    ] = False,
) -> None:
    """Print or write the page that documents the settings."""
    from magicstick.cli.files import deliver  # noqa: PLC0415
    from magicstick.cli.settings_page import markdown  # noqa: PLC0415

    if output is None and not check:
        typer.echo(markdown(), nl=False)
        return
    files = {output or Path(): markdown()}
    remedy = f"{NAME} settings --output {output}"
    for path in deliver(files, write=output is not None, check=check, remedy=remedy):
        typer.echo(path)
