"""The gateway's side: HTTP external authorization (spec: companions §2.1).

    200, no body                          yes
    403, {"error": "<one sentence>"}      no, whatever the cause; the same for everybody

Nothing else is ever answered to a question, a request that is no HTTP included. Neither the answer nor the
log tells anything of a token: what the library would log of a malformed request holds its headers.
"""

import contextlib
import time
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from magicstick.access_guard.asked import read
from magicstick.access_guard.decide import Reason, Verdict
from magicstick.access_guard.guard import DEADLINE_S, Guard
from magicstick.access_guard.troubles import report_fault
from magicstick.runtime.health import listening

HEALTH: Final = "/healthz"
LARGEST_FIELD: Final = 128 * 1024
"""Of a header and of the request line. Browsers send all cookies of a domain, each as large as a token."""
GOODBYE_S: Final = DEADLINE_S + 1.0
SENTENCE: Final = msgspec.json.encode({"error": "Access to this application was denied."})
HEADERS: Final = {"Cache-Control": "no-store", "Server": "magicstick"}
ALLOWED: Final = {**HEADERS, "Content-Length": "0"}  # which the library leaves out of answers to HEAD
JSON: Final = {**HEADERS, "Content-Type": "application/json"}

Report = Callable[[Verdict, float], object]
"""Told of each verdict, and the seconds it took."""


@contextlib.asynccontextmanager
async def serve_questions(address: str, guard: Guard, report: Report) -> AsyncIterator[str]:
    """Answer questions, and `/healthz`, while the block runs; yields the URL.

    `/healthz` says that the process answers. It says so while those whom it asks are away too: another
    replica would hear no more of them, and what needs nobody's identity stays open.

    Raises:
        AddressInUseError: the address cannot be bound.
    """

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.raw_path == HEALTH:
            return web.Response(text="ok\n", headers=HEADERS)
        begun = time.perf_counter()
        verdict = await _verdict(guard, request)
        report(verdict, time.perf_counter() - begun)
        return web.Response(headers=ALLOWED) if verdict.allowed else denial()

    runner = web.ServerRunner(_Server(answer), shutdown_timeout=GOODBYE_S)
    async with listening(runner, address, "GUARD_BIND_ADDRESS") as url:
        yield url


def denial() -> web.Response:
    """The one no."""
    return web.Response(status=HTTPStatus.FORBIDDEN, body=SENTENCE, headers=JSON)


async def _verdict(guard: Guard, request: web.BaseRequest) -> Verdict:
    headers = request.headers
    asked = read(
        request.method,
        request.raw_path,
        headers.getall("Authorization", ()),
        headers.getall("Cookie", ()),
    )
    return Verdict(Reason.BAD_REQUEST) if asked is None else await guard.check(asked)


class _Handler(RequestHandler):
    """One connection, on which what is no request gets the one answer as well, and is not logged."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002 - the library's signature
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,  # noqa: ARG002 - the same
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - the same
    ) -> web.StreamResponse:
        """The answer to what could not be handled; the connection is closed after it."""
        if exc is not None and not isinstance(exc, HttpProcessingError):
            report_fault(exc)
        response = denial()
        response.force_close()
        return response


class _Server(web.Server):
    """The library's server, with our connections."""

    def __init__(self, answer: Callable[[web.BaseRequest], object]) -> None:
        super().__init__(answer)  # type: ignore[arg-type] # the library has no name for the type it wants

    def __call__(self) -> RequestHandler:
        loop: AbstractEventLoop = self._loop
        return _Handler(
            self,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # what the library takes for "none"
            max_line_size=LARGEST_FIELD,
            max_field_size=LARGEST_FIELD,
            lingering_time=0.0,
        )
