"""How the process ends: gracefully after the first signal, at once after the second."""

import os
import signal
from collections.abc import Awaitable, Callable

import anyio
import structlog

log = structlog.get_logger(__name__)

FORCED = 130


async def run_until_signal(work: Callable[[], Awaitable[None]], *, drain_s: float) -> None:
    """Run `work`; on SIGTERM or SIGINT cancel it and give it `drain_s` seconds to end.

    The process is ended on the spot, with exit code 130, by a second signal or when the time is up.
    """
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(_watch, scope, drain_s)
            await work()
        group.cancel_scope.cancel()


async def _watch(work: anyio.CancelScope, drain_s: float) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            log.info("stopping", signal=signal.Signals(number).name, drain_seconds=drain_s)
            break
        work.cancel()
        with anyio.move_on_after(drain_s):
            async for _ in signals:
                log.warning("stopping at once: asked a second time")
                os._exit(FORCED)
        log.warning("stopping at once: work did not end in time", drain_seconds=drain_s)
        os._exit(FORCED)
