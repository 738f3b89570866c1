"""The command line of the development cluster."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from hack.devcluster.build import Builder
from hack.devcluster.cluster import DevCluster, uses_existing_cluster
from hack.devcluster.components import (
    CONTROL_PLANE,
    FULL,
    REPOSITORY,
    WITH_ACTORS,
    WITH_CONTROLLERS,
    WITH_GATEWAY,
    Component,
    programs_of,
)
from hack.devcluster.errors import DevClusterError
from hack.devcluster.layout import Layout
from hack.devcluster.process import tail
from hack.devcluster.programs import BY_NAME
from hack.devcluster.rest import ApiError, Rest
from hack.devcluster.state import State, is_owned, running_already
from hack.devcluster.waiting import wait_until

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
NOT_RUNNING = 3  # as systemctl has it

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="A real Kubernetes control plane on loopback: no containers, no root, up in seconds.",
    epilog="Example: python -m hack.devcluster start --detach && eval $(python -m hack.devcluster env)",
)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


class Selection(StrEnum):
    """How much of a cluster."""

    CONTROL_PLANE = "control-plane"
    WITH_CONTROLLERS = "with-controllers"
    FULL = "full"
    WITH_ACTORS = "with-actors"
    WITH_GATEWAY = "with-gateway"


class Output(StrEnum):
    """How `status` answers."""

    TABLE = "table"
    JSON = "json"


SELECTIONS = {
    Selection.CONTROL_PLANE: CONTROL_PLANE,
    Selection.WITH_CONTROLLERS: WITH_CONTROLLERS,
    Selection.FULL: FULL,
    Selection.WITH_ACTORS: WITH_ACTORS,
    Selection.WITH_GATEWAY: WITH_GATEWAY,
}
DirectoryOption = Annotated[
    Path, typer.Option(help="Where the cluster keeps its data.", show_default=".dev/cluster")
]
DEFAULT_DIRECTORY = REPOSITORY / ".dev" / "cluster"


@app.command()
def build(
    programs: Annotated[list[str] | None, typer.Argument(help=f"Of: {', '.join(BY_NAME)}.")] = None,
) -> None:
    """Build what is missing into the cache (all programs by default).

    Interrupted, it goes on where it was. Several at once share the work.
    Example: python -m hack.devcluster build etcd kube-apiserver
    """
    unknown = set(programs or ()) - set(BY_NAME)
    if unknown:
        _fail(DevClusterError(f"no such program: {', '.join(sorted(unknown))}"))
    builder = Builder()
    try:
        builder.ensure(programs or None)
    except DevClusterError as error:
        _fail(error)
    console.print(f"all programs are in {builder.cache}")


@app.command()
def clean() -> None:
    """Remove the built programs from the cache."""
    builder = Builder()
    builder.clean()
    console.print(f"removed the programs from {builder.cache}")


@app.command()
def start(
    components: Annotated[Selection, typer.Option(help="How much of a cluster.")] = Selection.FULL,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    source: Annotated[
        Path, typer.Option(help="Folder that GitRepositories deliver.", show_default="this repository")
    ] = REPOSITORY,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the data at the end, for the next start.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it is ready.")] = False,
) -> None:
    """Start a cluster, and stop it with Ctrl-C (or `stop`, when detached).

    Example: python -m hack.devcluster start --components control-plane --detach
    """
    if uses_existing_cluster():
        _fail(DevClusterError("USE_EXISTING_CLUSTER is set: there is a cluster, none is started"))
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if detach:
            _start_detached(components, directory, source, keep=keep)
        else:
            _start_here(components, directory, source, keep=keep)
    except DevClusterError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(128 + signal.SIGINT) from None


@app.command()
def stop(directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Stop the cluster of a directory; its data goes, unless it was started with --keep."""
    state = State.read(directory)
    if state is None or not is_owned(directory):
        console.print("no cluster is running")
        return
    os.kill(state.pid, signal.SIGTERM)
    try:
        wait_until(lambda: not is_owned(directory), "the cluster to stop", STOP_TIMEOUT_S)
    except DevClusterError as error:
        _fail(error)
    console.print("stopped")


@app.command()
def status(
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    output: Annotated[Output, typer.Option("--output", "-o", help="Format.")] = Output.TABLE,
) -> None:
    """Show what runs. Exit code 3 when nothing does.

    Example: python -m hack.devcluster status -o json
    """
    state = State.read(directory)
    if state is None or not is_owned(directory):
        console.print(json.dumps({"running": False}) if output is Output.JSON else "no cluster is running")
        raise typer.Exit(NOT_RUNNING)
    facts = _facts(state)
    console.print(json.dumps(facts, indent=2) if output is Output.JSON else _table(state, facts))


@app.command()
def logs(
    component: Annotated[Component | None, typer.Argument(help="All without.")] = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of the last lines.")] = 50,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they grow.")] = False,
) -> None:
    """Show the logs of the components.

    Example: python -m hack.devcluster logs kustomize-controller -f
    """
    layout = Layout(directory)
    files = [layout.log(component)] if component else sorted(layout.logs.glob("*.log"))
    present = [str(file) for file in files if file.exists()]
    if not present:
        _fail(DevClusterError(f"no logs in {layout.logs}"))
    command = ["tail", f"-n{lines}", *(["-F"] if follow else []), *present]
    os.execvp("tail", command)  # noqa: S606 - becomes tail, which ends as the user ends it


@app.command()
def env(directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Print what a shell needs: KUBECONFIG, and kubectl and magicstick on the PATH.

    Example: eval $(python -m hack.devcluster env)
    """
    state = State.read(directory)
    if state is None or not is_owned(directory):
        _fail(DevClusterError("no cluster is running; start one in another terminal: make dev"))
    print(f"export KUBECONFIG={shlex.quote(state.kubeconfig)}")
    kubectl = Builder().binary(BY_NAME["kubectl"])
    if kubectl.exists():
        print(f'export PATH={shlex.quote(str(kubectl.parent))}:"$PATH"')
    # Last, so that the interpreter of this environment does not take the place of the user's.
    print(f'export PATH="$PATH":{shlex.quote(str(Path(sys.executable).parent))}')


def _start_here(components: Selection, directory: Path, source: Path, *, keep: bool) -> None:
    with DevCluster.start(
        SELECTIONS[components], directory=directory, keep=keep, source=source, log=errors.print
    ) as cluster:
        try:
            console.print(f"ready: {cluster.url}")
            console.print(f"KUBECONFIG={cluster.kubeconfig}")
            console.print("Ctrl-C stops it" + ("" if keep else " and removes its data"))
            _watch_over(cluster)
        except KeyboardInterrupt:
            console.print("stopping")


def _watch_over(cluster: DevCluster) -> None:
    """Until interrupted; says when a component has died."""
    dead: set[Component] = set()
    while True:
        now = {component for component, alive in cluster.alive().items() if not alive}
        for component in sorted(now - dead):
            errors.print(f"{component} has ended; its log: {cluster.component_log(component)}")
        dead = now
        time.sleep(1)


def _start_detached(components: Selection, directory: Path, source: Path, *, keep: bool) -> None:
    Builder().ensure(programs_of(SELECTIONS[components]))  # here, where its progress is seen
    if is_owned(directory):
        raise DevClusterError(running_already(directory))
    directory.parent.mkdir(parents=True, exist_ok=True)
    log = directory.with_name(f"{directory.name}.log")
    command = [sys.executable, "-m", "hack.devcluster", "start", f"--components={components}"]
    command += [f"--directory={directory.absolute()}", f"--source={source.absolute()}"]
    command += ["--keep"] if keep else []
    with log.open("w") as output:
        owner = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def ready() -> State | None:
        if owner.poll() is not None:
            raise DevClusterError(f"the cluster did not start:\n{tail(log)}")
        state = State.read(directory)
        return state if state is not None and state.ready and state.pid == owner.pid else None

    state = wait_until(ready, f"the cluster to be ready (log: {log})", START_TIMEOUT_S)
    console.print(f"ready: {state.url}")
    console.print(f"KUBECONFIG={state.kubeconfig}")


def _facts(state: State) -> dict[str, object]:
    layout = Layout(Path(state.directory))
    return {
        "running": True,
        "ready": state.ready and _api_ready(layout),
        "url": state.url,
        "kubeconfig": state.kubeconfig,
        "directory": state.directory,
        "started": state.started,
        "pid": state.pid,
        "components": {
            name: {"pid": pid, "alive": _lives(pid), "log": str(layout.log(name))}
            for name, pid in state.components.items()
        },
    }


def _table(state: State, facts: dict[str, object]) -> Table:
    table = Table(
        "component", "pid", "state", title=f"{state.url} {'ready' if facts['ready'] else 'not ready'}"
    )
    for name, pid in state.components.items():
        table.add_row(name, str(pid), "runs" if _lives(pid) else "has ended")
    table.caption = f"KUBECONFIG={state.kubeconfig}"
    return table


def _api_ready(layout: Layout) -> bool:
    try:
        Rest.of_kubeconfig(layout.kubeconfig(), user_agent="devcluster").get("/readyz")
    except (ApiError, OSError):
        return False
    return True


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a cluster as Ctrl-C does, with everything cleaned up."""
    raise KeyboardInterrupt


def _fail(error: DevClusterError) -> NoReturn:
    errors.print(str(error), style="red", markup=False)
    raise typer.Exit(1)
