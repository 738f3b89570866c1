"""The cluster that a command reads from: its flags, a client that cannot write, failures in words.

    def command(*, kubeconfig: Kubeconfig = None, context: Context = None, timeout: Timeout = TIMEOUT_S):
        access = Access(kubeconfig, context, timeout)
        print(ask(access, work))            # async def work(client: Client) -> T

Importing this costs nothing beyond typer: the Kubernetes layer is imported by `ask`.

Guarantees: no request that changes the cluster is ever sent; whatever goes wrong on the way to the server
ends as a `CommandError` of one line with a hint, and code UNREACHABLE or FORBIDDEN.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from magicstick.cli.errors import FAILED, FORBIDDEN, UNREACHABLE, CommandError

if TYPE_CHECKING:
    from magicstick.kube.client import Client

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
USER_AGENT: Final = "magicstick-cli"
"""Our name in the audit log; the operator's is another."""
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

    def limit(self) -> asyncio.Timeout:
        """Around each request that is waited for: `async with access.limit()`."""
        return asyncio.timeout(self.timeout_s)


def ask(access: Access, work: Callable[["Client"], Awaitable[T]]) -> T:
    """Run `work` with a client of the cluster, and give what it returns.

    Raises:
        CommandError: the cluster cannot be asked, or answered with an error that `work` let pass.
    """
    return asyncio.run(_ask(access, work))


async def _ask(access: Access, work: Callable[["Client"], Awaitable[T]]) -> T:
    from magicstick.kube.client import Client  # noqa: PLC0415 - takes long to import
    from magicstick.kube.config import ClusterConfig, ConfigError  # noqa: PLC0415 - see above
    from magicstick.kube.errors import ApiError  # noqa: PLC0415 - see above

    try:
        config = await ClusterConfig.load(access.kubeconfig, access.context)
    except ConfigError as error:
        raise CommandError(str(error), UNREACHABLE) from None
    async with Client(config, user_agent=USER_AGENT, field_manager=USER_AGENT, fence=_read_only) as client:
        try:
            return await work(client)
        except (ApiError, TimeoutError) as error:
            raise explained(error, access, config.url) from None


def _read_only() -> None:
    """The fence of a command that only looks."""
    from magicstick.kube.errors import FenceClosed  # noqa: PLC0415 - takes long to import

    raise FenceClosed("this command only reads")


def explained(error: Exception, access: Access, url: str) -> CommandError:
    """What a failed request means for a person, with what to do about it."""
    from magicstick.kube import errors  # noqa: PLC0415 - takes long to import

    if isinstance(error, TimeoutError):
        return CommandError(f"no answer from {url} within {access.timeout_s:g} s", UNREACHABLE)
    if isinstance(error, errors.Unauthorized | errors.Unavailable):
        return CommandError(f"{url}: {error}", UNREACHABLE)
    if isinstance(error, errors.Forbidden):
        return CommandError(str(error), FORBIDDEN)
    return CommandError(str(error), FAILED)
