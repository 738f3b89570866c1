"""`python -m hack.dev`, which `make dev` runs."""

import argparse
import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.live import Live

from hack.dev.appliance import ROOT, Reader, install, settled
from hack.dev.apps import apps_of, chosen_apps
from hack.dev.choices import Choices, Gpu, catalog_of, chosen
from hack.dev.models import ModelStage
from hack.dev.operator import OperatorProcess, Program
from hack.dev.palena import install as install_palena
from hack.dev.view import Instance, Model, PalenaObject, Picture, headline, now, view
from hack.devcluster import DevCluster, DevClusterError
from hack.devcluster.build import Builder
from hack.devcluster.process import tail
from hack.devcluster.rest import ApiError

POLL_S = 0.5
DEADLINE_S = 180.0
Show = Callable[[Picture], None]
Settled = Callable[[Picture], bool]


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError("must be a number of seconds above 0")


def _count(text: str) -> int:
    with contextlib.suppress(ValueError):
        if (count := int(text)) >= 0:
            return count
    raise argparse.ArgumentTypeError("must be 0 or more")


def _vendor(text: str) -> Gpu:
    if text not in {each.value for each in Gpu}:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(Gpu)}, and is {text!r}")
    return Gpu(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="make dev",
        description="Start a real control plane, run the operator on it and show the appliance get Ready.",
        epilog="examples: make dev; make dev GPU=mixed; make dev MODULES=all ONCE=1; "
        "make dev MODELS=1 GPU=nvidia; make dev APP=odysseus; make dev PALENA=1; "
        "make dev ARGS='--deadline 60'",
    )
    parser.add_argument("--once", action="store_true", help="end as soon as the appliance is Ready")
    parser.add_argument(
        "--deadline",
        type=_seconds,
        default=DEADLINE_S,
        metavar="SECONDS",
        help="with --once: fail after so many seconds without Ready (default: %(default)g)",
    )
    parser.add_argument(
        "--gpu",
        type=_vendor,
        default=Gpu.NONE,
        metavar="VENDOR",
        help=f"play nodes with GPUs: {', '.join(Gpu)} (default: %(default)s)",
    )
    parser.add_argument(
        "--modules",
        type=_names,
        default=(),
        metavar="NAMES",
        help="switch these modules on, separated by commas, or all of them: all",
    )
    parser.add_argument(
        "--models",
        action="store_true",
        help="apply the models of examples/, play KubeAI and LiteLLM for them, and run the model catalog; "
        "the one for NVIDIA only on nodes with its GPUs",
    )
    parser.add_argument(
        "--app",
        type=_names,
        default=(),
        metavar="NAMES",
        help="make an instance of these applications, separated by commas, or of all of them: all; helm "
        "installs them, and Envoy Gateway is run for them",
    )
    parser.add_argument(
        "--palena",
        action="store_true",
        help="run Palena's half as well, and apply examples/palena: a gateway with a model, tools, a chat "
        "and traces; the operators of its database, of LiteLLM and of Langfuse are played",
    )
    parser.add_argument(
        "--nodes", type=_count, default=1, help="how many nodes without GPUs to play (default: %(default)s)"
    )
    parser.add_argument(
        "--source",
        type=Path,
        default=ROOT,
        metavar="FOLDER",
        help="the tree whose manifests are installed, and delivered to Flux (default: this one)",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=ROOT / ".dev",
        metavar="FOLDER",
        help="where the cluster and the operator's log are kept (default: .dev)",
    )
    options = parser.parse_args(arguments)
    if not (options.source / "manifests" / "kustomization.yaml").is_file():
        parser.error(f"{options.source} has no manifests/kustomization.yaml")
    return options


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

    def say(text: str) -> None:
        console.print(f"[dim]{elapsed()}[/dim] {text}")

    begun = time.monotonic()

    def elapsed() -> str:
        return f"{time.monotonic() - begun:6.1f}s"

    source, directory = options.source.absolute(), options.directory.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DevClusterError(f"{directory} cannot be made: {error.strerror}; see --directory") from None
    modules = chosen(options.modules, catalog_of(source))  # before time is lost over a wrong name
    apps = chosen_apps(options.app, apps_of(source)) if options.app else ()
    choices = Choices(options.gpu, modules, options.nodes, options.models, apps, options.palena)
    builder = Builder()
    builder.ensure(choices.programs)
    cluster = stack.enter_context(
        DevCluster.start(
            choices.components, directory=directory / "cluster", source=source, log=say, builder=builder
        )
    )
    stack.enter_context(explained(cluster))
    choices.add_nodes(cluster)
    install(cluster, say, source)
    if choices.palena:
        say("installing the kinds that Palena drives, and the operator's rights to it")
        install_palena(cluster, source)
    choices.activate(cluster)
    say("starting the operator with its own service account")
    operator = OperatorProcess(cluster, directory, environment=choices.environment)
    stack.callback(operator.stop)
    models = ModelStage(cluster, directory, choices.model_objects(), say)
    stack.callback(models.stop)
    deadline = time.monotonic() + options.deadline if options.once else None
    follower = Follower(
        Reader(cluster, palena=choices.palena),
        operator,
        models,
        console,
        lambda picture: settled(picture, choices.expected),
    )
    if not follower.until_ready(deadline):
        return 1
    say("the appliance is Ready")
    if options.once:
        return 0
    console.print(usage(operator.log))
    return follower.forever()


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


def usage(log: Path) -> str:
    """How to reach the cluster from another terminal."""
    return (
        "\nIn a second terminal:\n\n"
        f'  eval "$({sys.executable} -m hack.devcluster env)"\n'
        "  magicstick get\n"
        "  kubectl -n ai-system describe msmod litellm\n\n"
        f"The operator's log: {log}\nCtrl-C ends everything.\n"
    )


class Follower:
    """Shows the appliance: a live table on a terminal, a line for each change elsewhere."""

    def __init__(
        self,
        reader: Reader,
        operator: OperatorProcess,
        models: ModelStage,
        console: Console,
        is_settled: Settled,
    ) -> None:
        self._reader, self._operator, self._models, self._console = reader, operator, models, console
        self._is_settled = is_settled
        self._states: dict[str, tuple[str, str, str]] = {}
        self._pause = threading.Event()

    def until_ready(self, deadline: float | None) -> bool:
        """Follow until Ready. False, with the reasons printed, when that fails."""
        with self._shown() as show:
            while True:
                picture = self._look(show)
                if self._is_settled(picture):
                    return True
                if self._ended() is not None or (deadline and time.monotonic() > deadline):
                    break
                self._pause.wait(POLL_S)
        self._explain(picture)
        return False

    def forever(self) -> int:
        """Follow until somebody stops us or one of our programs ends by itself."""
        with self._shown() as show:
            while (ended := self._ended()) is None:
                self._look(show)
                self._pause.wait(POLL_S)
        self._console.print(_last_words(ended), markup=False)
        return 1

    def _look(self, show: Show) -> Picture:
        picture = self._reader.picture()
        show(picture)
        self._models.go_on(picture)
        return picture

    def _ended(self) -> Program | None:
        """A program of ours that should run and does not."""
        programs = (self._operator, self._models.catalog)
        return next((each for each in programs if each is not None and each.ended() is not None), None)

    def _explain(self, picture: Picture) -> None:
        if (ended := self._ended()) is not None:
            self._console.print(_last_words(ended), markup=False)
            return
        self._console.print(f"not Ready within the deadline. {headline(picture.appliance)}", markup=False)
        for row in picture.rows:
            if row.phase not in {"Ready", "Disabled"}:
                self._console.print(f"  {row.module}: {row.phase}, {row.reason}: {row.message}", markup=False)
        for each in picture.hardware:
            if each.phase != "Ready":
                self._console.print(f"  {each.vendor} GPUs: {each.phase}: {each.message}", markup=False)
        shown: tuple[Model | Instance | PalenaObject, ...]
        shown = (*picture.models, *picture.instances, *picture.palena)
        for one in shown:
            if one.phase not in {"Ready", "Disabled", "Suspended", "Running"}:
                self._console.print(f"  {one.name}: {one.phase}, {one.reason}: {one.message}", markup=False)
        self._console.print(f"the operator's log: {self._operator.log}", markup=False)

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Show]:
        if not self._console.is_terminal:
            yield self._lines
            return
        with Live(console=self._console, auto_refresh=False) as live:
            yield lambda picture: live.update(view(picture, now()), refresh=True)

    def _lines(self, picture: Picture) -> None:
        title = headline(picture.appliance)
        for name, state, text in (
            *((row.module, row.state, f"  {row.module}: {row.phase} {row.reason}") for row in picture.rows),
            *(
                (
                    f"{each.vendor} GPUs",
                    each.state,
                    f"  {each.vendor} GPUs: {each.phase}, {each.nodes} nodes, {each.allocatable} allocatable",
                )
                for each in picture.hardware
            ),
            *(
                (f"model {each.name}", each.state, f"  model {each.name}: {each.phase} {each.reason}")
                for each in picture.models
            ),
            *(
                (
                    f"instance {each.name}",
                    each.state,
                    f"  instance {each.name}: {each.phase} {each.reason} {each.shown_addresses}".rstrip(),
                )
                for each in picture.instances
            ),
            *(
                (each.title, each.state, f"  {each.title}: {each.phase} {each.reason}".rstrip())
                for each in picture.palena
            ),
            ("", (title, "", ""), title),
        ):
            if self._states.get(name) != state:
                self._states[name] = state
                self._console.print(text, markup=False)


def _last_words(program: Program) -> str:
    return f"the {program.name} ended with {program.ended()}:\n{program.tail()}"


if __name__ == "__main__":
    sys.exit(main())
