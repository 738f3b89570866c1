"""`python -m hack.dev`, which `make dev` runs."""

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

from hack.dev.appliance import Reader, install, settled
from hack.dev.apps import apps_of, chosen_apps
from hack.dev.choices import Choices, catalog_of, chosen
from hack.dev.follower import Follower
from hack.dev.models import ModelStage
from hack.dev.operator import OperatorProcess
from hack.dev.options import parse
from hack.dev.palena import install as install_palena
from hack.devcluster import DevCluster, DevClusterError
from hack.devcluster.build import Builder
from hack.devcluster.process import tail
from hack.devcluster.rest import ApiError

Say = Callable[[str], None]


class Interrupted(Exception):
    """Somebody asked us to end."""


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns the exit code."""
    options = parse(arguments)
    console = Console(highlight=False, soft_wrap=True)  # lines are cut by nobody; a pipe has no width
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with contextlib.ExitStack() as stack:
            return run(options, console, stack)
    except (KeyboardInterrupt, Interrupted):
        console.print("stopped; nothing is left running")
        return 0 if not options.once else 130
    except DevClusterError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"make dev: {error}", markup=False)
        return 1


def _interrupt(*_: object) -> None:
    raise Interrupted


def run(options: argparse.Namespace, console: Console, stack: contextlib.ExitStack) -> int:
    """Everything between the first word and the last; what was started ends with the stack."""
    begun = time.monotonic()

    def say(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - begun:6.1f}s[/dim] {text}")

    source, directory = options.source.absolute(), made_folder(options.directory.absolute())
    choices = choices_of(options, source)  # before time is lost over a wrong name
    cluster = started(choices, directory, source, say, stack)
    stack.enter_context(explained(cluster))
    furnish(cluster, choices, source, say)
    say("starting the operator with its own service account")
    operator = OperatorProcess(cluster, directory, environment=choices.environment)
    stack.callback(operator.stop)
    models = ModelStage(cluster, directory, choices.model_objects(), say)
    stack.callback(models.stop)
    deadline = time.monotonic() + options.deadline if options.once else None
    reader = Reader(cluster, palena=choices.palena)
    follower = Follower(reader, operator, models, console, lambda picture: settled(picture, choices.expected))
    if not follower.until_ready(deadline):
        return 1
    say("the appliance is Ready")
    if options.once:
        return 0
    console.print(usage(operator.log, palena=choices.palena))
    return follower.forever()


def made_folder(directory: Path) -> Path:
    """The folder, made where it does not exist. Raises DevClusterError."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DevClusterError(f"{directory} cannot be made: {error.strerror}; see --directory") from None
    return directory


def choices_of(options: argparse.Namespace, source: Path) -> Choices:
    """What the options mean for the catalogs of `source`. Raises DevClusterError for a name that is none."""
    modules = chosen(options.modules, catalog_of(source))
    apps = chosen_apps(options.app, apps_of(source)) if options.app else ()
    return Choices(options.gpu, modules, options.nodes, options.models, apps, options.palena)


def started(
    choices: Choices, directory: Path, source: Path, say: Say, stack: contextlib.ExitStack
) -> DevCluster:
    """The cluster that the choices need, its programs built where they are not; it ends with the stack."""
    builder = Builder()
    builder.ensure(choices.programs)
    place = directory / "cluster"
    return stack.enter_context(
        DevCluster.start(choices.components, directory=place, source=source, log=say, builder=builder)
    )


def furnish(cluster: DevCluster, choices: Choices, source: Path, say: Say) -> None:
    """Nodes, our manifests, and what was chosen of them."""
    choices.add_nodes(cluster)
    install(cluster, say, source)
    if choices.palena:
        say("installing the kinds that Palena drives, and the operator's rights to it")
        install_palena(cluster, source)
    choices.activate(cluster)


@contextlib.contextmanager
def explained(cluster: DevCluster) -> Iterator[None]:
    """Say what went wrong on the server's side, and which component is gone, in place of a traceback."""
    try:
        yield
    except ApiError as error:
        gone = [each for each, alive in cluster.alive().items() if not alive]
        ends = [
            f"{each} has ended; the end of its log:\n{tail(cluster.component_log(each))}" for each in gone
        ]
        raise DevClusterError("\n".join([f"the API server: {error}", *ends])) from error


def usage(log: Path, *, palena: bool = False) -> str:
    """How to reach the cluster from another terminal."""
    further = "  magicstick get palena\n" if palena else ""
    return (
        "\nIn a second terminal:\n\n"
        f'  eval "$({sys.executable} -m hack.devcluster env)"\n'
        f"  magicstick get\n{further}"
        "  kubectl -n ai-system describe msmod litellm\n\n"
        f"The operator's log: {log}\nCtrl-C ends everything.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
