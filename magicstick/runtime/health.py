"""Probes and metrics over HTTP (spec: README decision 21).

`/livez` fails when a restart would help: the event loop is stuck, a watch has been silent for far longer
than the server allows, or the lease's loop has stopped coming round. A backlog, an absent CRD or an API
server that is away are no reason. `/readyz` says whether caches are synced and the lease is held or
waited for. `/healthz` answers like `/livez`. `?verbose` gives every check as JSON.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

import structlog
from aiohttp import web

from magicstick.runtime.clock import SleepingClock
from magicstick.runtime.options import OFF, Listen

log = structlog.get_logger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LAG_LIMIT_S = 10.0
LAG_PERIOD_S = 0.5

Check = Callable[[], str]
"""Returns what is wrong; an empty text when nothing is."""


class AddressInUseError(Exception):
    """A bind address cannot be used; the message names the setting."""


class LoopLag:
    """Measures how late the event loop runs what is due."""

    def __init__(self, clock: SleepingClock, report: Callable[[float], None] = lambda _: None) -> None:
        self._clock = clock
        self._report = report
        self._due = clock.monotonic()
        self.lag_s = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            self._due = self._clock.monotonic() + LAG_PERIOD_S
            await self._clock.sleep(LAG_PERIOD_S)
            self.lag_s = max(0.0, self._clock.monotonic() - self._due)
            self._report(self.lag_s)

    def check(self) -> str:
        """For `/livez`."""
        late = max(self.lag_s, self._clock.monotonic() - self._due)
        return f"the event loop is {late:.1f} s late" if late > LAG_LIMIT_S else ""


@dataclass(frozen=True, slots=True)
class Probes:
    """The checks by name."""

    live: Mapping[str, Check]
    ready: Mapping[str, Check]


@contextlib.asynccontextmanager
async def serve_health(address: str, probes: Probes) -> AsyncIterator[str]:
    """Serve the probes while the block runs; yields the URL, empty when switched off.

    Raises:
        AddressInUseError: the address cannot be bound.
    """

    async def live(request: web.Request) -> web.Response:
        return _verdict(request, probes.live)

    async def ready(request: web.Request) -> web.Response:
        return _verdict(request, probes.ready)

    app = web.Application()
    app.router.add_get("/livez", live)
    app.router.add_get("/healthz", live)
    app.router.add_get("/readyz", ready)
    async with listening(_runner(app), address, "HEALTH_BIND_ADDRESS") as url:
        yield url


@contextlib.asynccontextmanager
async def serve_metrics(address: str, render: Callable[[], bytes]) -> AsyncIterator[str]:
    """Serve `/metrics` while the block runs; yields the URL, empty when switched off.

    Raises:
        AddressInUseError: the address cannot be bound.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=render(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    async with listening(_runner(app), address, "METRICS_BIND_ADDRESS") as url:
        yield url


def _verdict(request: web.Request, checks: Mapping[str, Check]) -> web.Response:
    wrong = {name: text for name, check in checks.items() if (text := _ask(name, check))}
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    if "verbose" in request.query:
        return web.json_response({name: wrong.get(name, "ok") for name in checks}, status=status)
    text = "\n".join(f"{name}: {problem}" for name, problem in wrong.items()) or "ok"
    return web.Response(text=text + "\n", status=status)


def _ask(name: str, check: Check) -> str:
    try:
        return check()
    except Exception as error:
        log.exception("check failed", check=name)
        return f"the check itself failed: {type(error).__name__}"


@contextlib.asynccontextmanager
async def listening(runner: web.BaseRunner, address: str, setting: str) -> AsyncIterator[str]:
    """Serve at an address while the block runs; yields the URL, empty when switched off.

    Args:
        runner: what serves; it is set up here, and cleaned up.
        address: host and port, as settings have them.
        setting: the variable that says so, for errors.

    Raises:
        AddressInUseError: the address cannot be bound.
    """
    listen = Listen.parse(address) if address else None
    if listen is None:
        yield ""
        return
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, listen.host or None, listen.port).start()
        except OSError as error:
            flag = setting.lower().replace("_", "-")
            raise AddressInUseError(
                f"cannot listen on {address} ({_reason(error)}): set {setting} or --{flag} to a free "
                f"address, or to '{OFF}'"
            ) from error
        host, port = runner.addresses[0][:2]
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def _runner(app: web.Application) -> web.AppRunner:
    return web.AppRunner(app, access_log=None, shutdown_timeout=1.0)


def _reason(error: OSError) -> str:
    """In words; the library puts the address, which is known, before the number's meaning."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
