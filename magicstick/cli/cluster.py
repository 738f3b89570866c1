"""The cluster that a command reads from: its flags, a client that cannot write, failures in words.

    def command(*, kubeconfig: Kubeconfig = None, context: Context = None, timeout: Timeout = TIMEOUT_S):
        access = Access(kubeconfig, context, timeout)
        print(ask(access, work))            # async def work(client: Client) -> T

Importing this costs nothing beyond typer: the Kubernetes layer is imported by `ask`.

Guarantees: no request that changes the cluster is ever sent; whatever goes wrong on the way to the server
ends as a `CommandError` of one line with a hint, and code UNREACHABLE or FORBIDDEN.
"""

import asyncio
import gc
import logging
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
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

    `work` may open task groups: what ends one of them is told as if it had happened outside of it.

    Raises:
        CommandError: the cluster cannot be asked, or answered with an error that `work` let pass.
    """
    _import_kubernetes_layer()
    with _silent_logs():
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
            return await _unwrapped(work(client))
        except (ApiError, TimeoutError) as error:
            raise explained(error, access, url=config.url, source=config.description) from None


async def _unwrapped(work: Awaitable[T]) -> T:
    try:
        return await work
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from first.__cause__


def _read_only() -> None:
    """The fence of a command that only looks."""
    from magicstick.kube.errors import FenceClosed  # noqa: PLC0415 - takes long to import

    raise FenceClosed("this command only reads")


def explained(
    error: Exception, access: Access, *, url: str = "the cluster", source: str = "the kubeconfig"
) -> CommandError:
    """What a failed request means for a person, with what to do about it.

    Args:
        error: an `ApiError` or a `TimeoutError`.
        access: as what was asked for.
        url: of the server.
        source: where its address and the credentials came from.
    """
    from magicstick.kube import errors  # noqa: PLC0415 - takes long to import

    if isinstance(error, TimeoutError):
        return CommandError(
            f"{url} gave no answer within {access.timeout_s:g} s; "
            "wait longer with --timeout, or choose another cluster with --context",
            UNREACHABLE,
        )
    if isinstance(error, errors.Unauthorized):
        return CommandError(f"{url} does not accept the credentials of {source}; log in again", UNREACHABLE)
    if isinstance(error, errors.TooManyRequests):
        return CommandError(f"{url} has too much to do ({error}); try again in a moment", UNREACHABLE)
    if isinstance(error, errors.Unavailable):
        return CommandError(
            f"cannot reach {url}: {_reason(error)}; "
            "check that the cluster runs, or choose another one with --context",
            UNREACHABLE,
        )
    if isinstance(error, errors.Forbidden):
        return CommandError(f"{error}; ask an administrator of the cluster for this right", FORBIDDEN)
    return CommandError(str(error), FAILED)


def _reason(error: BaseException) -> str:
    """Why no answer came, in the words of TLS or of the system, else of the request."""
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, TimeoutError):
            return "no answer in time"
        if isinstance(cause, OSError) and not isinstance(cause.__cause__, ssl.SSLError) and cause.errno:
            return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
        cause = cause.__cause__
    return str(error)


def _import_kubernetes_layer() -> None:
    """Import what takes long, without what a short command does not need.

    structlog imports rich for tracebacks that no command prints, which is a sixth of the start; it does
    without where rich is not installed, and is made to believe so. The objects that imports make live on,
    so that looking for garbage among them finds none.
    """
    collecting, blocked = gc.isenabled(), "rich" not in sys.modules
    gc.disable()
    if blocked:
        sys.modules["rich"] = None  # type: ignore[assignment] # how `import` is told of an absent module
    try:
        import magicstick.kube.client  # noqa: PLC0415 - takes long to import
        import magicstick.kube.config  # noqa: F401, PLC0415 - see above
    finally:
        if blocked:
            del sys.modules["rich"]
        if collecting:
            gc.enable()


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Within the block nothing is logged: a command says itself what went wrong."""
    import structlog  # noqa: PLC0415 - takes long to import

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
