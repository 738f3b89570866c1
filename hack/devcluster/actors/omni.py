"""vLLM-Omni's HTTP API on loopback: one server for each realtime Pod, as far as the operator asks it.

All listen at the runtime's one port, so each has a loopback address of its own, which is its Pod's
`status.podIP`: whoever follows the contract finds it without knowing that it is played (Linux only).
"""

import asyncio
import hashlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from aiohttp import web

from hack.devcluster.actors.following import Object
from hack.devcluster.actors.loopback import LoopbackServer

BACKEND_LABEL: Final = "appliance.magicstick.dev/runtime-backend"
BACKEND: Final = "vllm-omni"
PORT: Final = 8000
ATTEMPTS: Final = 16


class OmniMood(StrEnum):
    """How a server behaves; the values are those of the annotation `devcluster.magicstick.dev/omni`."""

    WELL = ""
    UNWELL = "unwell"
    """Its engine has died: `/health` says so, and the kubelet has not looked again yet."""
    SILENT = "silent"
    """Connections are accepted and nobody answers."""


def is_omni(pod: Object) -> bool:
    """Whether a Pod is that of a realtime runtime."""
    labels: Object = pod["metadata"].get("labels", {})
    return labels.get(BACKEND_LABEL) == BACKEND


class OmniServer(LoopbackServer):
    """One vLLM-Omni.

    Attributes:
        calls: all requests, as `METHOD path`, oldest first.
    """

    def __init__(self, uid: str) -> None:
        """`uid` of its Pod, from which its address follows."""
        super().__init__(PORT)
        self.host = next(_addresses(uid))
        self.calls: list[str] = []
        self._uid = uid
        self._mood = OmniMood.WELL
        self._answers = asyncio.Event()
        self._answers.set()

    async def start(self, port: int = 0) -> None:
        """Listen at an address of its own; at the one of the last time, if it is free."""
        for address in (self.host, *_addresses(self._uid)):
            self.host = address
            try:
                return await super().start(port)
            except OSError:
                continue
        raise OSError(f"no loopback address with a free port {PORT} after {ATTEMPTS} attempts")

    def turn(self, mood: OmniMood) -> None:
        """Behave otherwise from now on."""
        self._mood = mood
        if mood is OmniMood.SILENT:
            self._answers.clear()
        else:
            self._answers.set()

    async def _answer(self, request: web.Request) -> web.Response:
        self.calls.append(f"{request.method} {request.path}")
        await self._answers.wait()
        if (request.method, request.path) != ("GET", "/health"):
            return web.Response(status=404, text='{"detail":"Not Found"}')
        return web.Response(status=503 if self._mood is OmniMood.UNWELL else 200)


def _addresses(uid: str) -> Iterator[str]:
    """Loopback addresses that are hardly anybody else's."""
    for attempt in range(ATTEMPTS):
        a, b, c = hashlib.sha256(f"{uid}:{attempt}".encode()).digest()[:3]
        yield f"127.{64 + a % 128}.{b}.{1 + c % 254}"
