"""Asking a cluster: one client that cannot write, and failures in words.

Guarantees: no request that changes the cluster is ever sent; whatever goes wrong on the way to the server
ends as a `CommandError` of one line with a hint.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import structlog

from magicstick import __version__
from magicstick.cli.cluster import Access
from magicstick.cli.errors import FAILED, FORBIDDEN, UNREACHABLE, CommandError
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig, ConfigError
from magicstick.kube.errors import (
    ApiError,
    FenceClosed,
    Forbidden,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

T = TypeVar("T")

USER_AGENT: Final = f"magicstick-cli/{__version__}"
"""Our name in the audit log; the operator's is another."""


def run(access: Access, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run `work` with a client of the cluster, and give what it returns.

    `work` may open task groups: what ends one of them is told as if it had happened outside of it.

    Raises:
        CommandError: the cluster cannot be asked, or answered with an error that `work` let pass.
    """
    with silent_logs():
        return asyncio.run(_ask(access, work))


async def _ask(access: Access, work: Callable[[Client], Awaitable[T]]) -> T:
    try:
        config = await ClusterConfig.load(access.kubeconfig, access.context)
    except ConfigError as error:
        raise CommandError(str(error), UNREACHABLE) from None
    async with Client(
        config, user_agent=USER_AGENT, field_manager="magicstick-cli", fence=_read_only
    ) as client:
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
    if isinstance(error, TimeoutError):
        return CommandError(
            f"{url} gave no answer within {access.timeout_s:g} s; "
            "wait longer with --timeout, or choose another cluster with --context",
            UNREACHABLE,
        )
    if isinstance(error, Unauthorized):
        return CommandError(f"{url} does not accept the credentials of {source}; log in again", UNREACHABLE)
    if isinstance(error, TooManyRequests):
        return CommandError(f"{url} has too much to do ({error}); try again in a moment", UNREACHABLE)
    if isinstance(error, Unavailable):
        return CommandError(
            f"cannot reach {url}: {_reason(error)}; "
            "check that the cluster runs, or choose another one with --context",
            UNREACHABLE,
        )
    if isinstance(error, Forbidden):
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


@contextmanager
def silent_logs() -> Iterator[None]:
    """Within the block nothing is logged: a command says itself what went wrong."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
