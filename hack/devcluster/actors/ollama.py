"""Ollama's HTTP API on loopback: one server for each Pod that plays one (spec: models §10.3, §10.4).

A Pod's server listens on its `status.podIP`, which is 127.0.0.1, at the port that the Pod's annotation
`model-pod-port` names; KubeAI sets that annotation on every Pod of a model. So whoever follows the contract
finds it without knowing that it is played.

Names are as Ollama has them: without a tag, `:latest` is meant. Copying makes another name for a model.
"""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from aiohttp import web

from hack.devcluster.actors.loopback import LoopbackServer

MIB: Final = 1 << 20
SIZE: Final = 2048 * MIB
MODIFIED: Final = "2026-01-01T00:00:00Z"


class Mood(StrEnum):
    """How a server behaves; the values are those of the annotation `devcluster.magicstick.dev/ollama`."""

    WELL = ""
    DOWNLOADING = "downloading"
    """The source is not there yet, and so no alias."""
    WITHOUT_ALIAS = "without-alias"
    """KubeAI's copy was lost; whoever copies anew succeeds."""
    REFUSES_COPIES = "refuses-copies"
    """The alias was lost, and each attempt to make it ends with an error of the server."""
    SLOW = "slow"
    """Connections are accepted and nobody answers."""
    BROKEN = "broken"
    """Every answer is an error page of something in between."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    body: Any = None


def tagged(name: str) -> str:
    """A model's name with its tag."""
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


class OllamaServer(LoopbackServer):
    """One Ollama.

    Attributes:
        source: the reference that its model is pulled from.
        alias: the name under which it is served.
        names: of the models that it has, with tags.
        calls: all requests, oldest first.
        size, size_vram: bytes of the loaded model, and how many of them are on a GPU.
    """

    def __init__(self, source: str, alias: str, *, size: int = SIZE, size_vram: int = 0) -> None:
        super().__init__()
        self.source, self.alias = tagged(source), tagged(alias)
        self.names: list[str] = [self.source, self.alias]
        self.calls: list[Call] = []
        self.size, self.size_vram = size, size_vram
        self._mood = Mood.WELL
        self._answers = asyncio.Event()
        self._answers.set()

    @property
    def mood(self) -> Mood:
        """How it behaves."""
        return self._mood

    def turn(self, mood: Mood) -> None:
        """Behave otherwise from now on. A download that ends has its source, and KubeAI makes the alias."""
        if mood is self._mood:
            return
        self._mood = mood
        self.names = {
            Mood.DOWNLOADING: [],
            Mood.WITHOUT_ALIAS: [self.source],
            Mood.REFUSES_COPIES: [self.source],
        }.get(mood, [self.source, self.alias])
        if mood is Mood.SLOW:
            self._answers.clear()
        else:
            self._answers.set()

    # --- serving --------------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.calls.append(Call(request.method, request.path, body))
        await self._answers.wait()
        if self._mood is Mood.BROKEN:
            return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")
        match request.method, request.path:
            case "GET", "/":
                return web.Response(text="Ollama is running")
            case "GET", "/api/tags":
                return web.json_response({"models": [self._tag(name) for name in self.names]})
            case "GET", "/api/ps":
                return web.json_response({"models": self._loaded()})
            case "POST", "/api/copy":
                return self._copy(body)
        return web.Response(status=404, text="404 page not found")

    def _copy(self, body: Any) -> web.Response:
        if not isinstance(body, dict) or not body.get("source") or not body.get("destination"):
            return _refused(400, "missing request body")
        source, destination = tagged(str(body["source"])), tagged(str(body["destination"]))
        if source not in self.names:
            return _refused(404, f'model "{body["source"]}" not found')
        if self._mood is Mood.REFUSES_COPIES:
            return _refused(500, "open manifest: no space left on device")
        if destination not in self.names:
            self.names.append(destination)
        return web.Response()

    def _loaded(self) -> list[dict[str, Any]]:
        """KubeAI loads the alias before the Pod is ready; what is not there is not loaded."""
        if self.alias not in self.names:
            return []
        return [{**self._tag(self.alias), "size_vram": self.size_vram, "expires_at": MODIFIED}]

    def _tag(self, name: str) -> dict[str, Any]:
        return {"name": name, "model": name, "size": self.size, "digest": "", "modified_at": MODIFIED}


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
