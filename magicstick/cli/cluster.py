"""The cluster that a command reads from: its flags, and a way in.

    def command(*, kubeconfig: Kubeconfig = None, context: Context = None, timeout: Timeout = TIMEOUT_S):
        access = Access(kubeconfig, context, timeout)
        print(ask(access, work))            # async def work(client: Client) -> T

Importing this costs nothing beyond typer; what talks to the cluster (`cli.asking`) is imported by `ask`.
"""

import gc
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from magicstick.api.names import DNS_LABEL_LIMIT, is_dns_label
from magicstick.cli.errors import MISUSED, CommandError

if TYPE_CHECKING:
    from magicstick.kube.client import Client

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
PANEL: Final = "Cluster"

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig to use, in place of $KUBECONFIG and ~/.kube/config.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="Context of the kubeconfig, in place of the current one.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="S", min=0.1, help="Seconds to wait for an answer.", rich_help_panel=PANEL
    ),
]


@dataclass(frozen=True, slots=True)
class Access:
    """Which cluster, as whom, and how patiently."""

    kubeconfig: Path | None = None
    context: str | None = None
    timeout_s: float = TIMEOUT_S
    """For each answer; a watch that is open waits as long as it likes."""


def check_namespace(name: str) -> None:
    """Raise CommandError for what no namespace is called."""
    if not is_dns_label(name):
        allowed = f"lower-case letters, digits and '-', at most {DNS_LABEL_LIMIT} characters"
        raise CommandError(f"--namespace {name!r}: {allowed}", MISUSED)


def ask(access: Access, work: Callable[["Client"], Awaitable[T]]) -> T:
    """Run `work` with a client that cannot write, and give what it returns.

    Raises:
        CommandError: the cluster cannot be asked, or answered with an error that `work` let pass; one line
            with a hint, and code UNREACHABLE or FORBIDDEN where it is one of these.
    """
    with quick_imports():
        from magicstick.cli import asking  # noqa: PLC0415 - takes long to import
    return asking.run(access, work)


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import within the block what takes long, without what a short command does not need.

    structlog imports rich for tracebacks that no command prints, which is a sixth of the start; it does
    without where rich is not installed, and is made to believe so. The objects that imports make live on,
    so that looking for garbage among them finds none.
    """
    collecting, blocked = gc.isenabled(), "rich" not in sys.modules
    gc.disable()
    if blocked:
        sys.modules["rich"] = None  # type: ignore[assignment] # how `import` is told of an absent module
    try:
        yield
    finally:
        if blocked:
            del sys.modules["rich"]
        if collecting:
            gc.enable()
