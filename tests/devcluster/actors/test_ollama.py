"""The Ollama that is played answers as the real one does, well or not."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from hack.devcluster.actors.ollama import MIB, Mood, OllamaServer

pytestmark = pytest.mark.anyio

SOURCE, ALIAS = "library/qwen:0.5b", "demo"


class Talk:
    """One Ollama and somebody who asks it."""

    def __init__(self, server: OllamaServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    def url(self, path: str) -> str:
        """Of the server."""
        return f"http://127.0.0.1:{self.server.port}{path}"

    async def names(self) -> list[str]:
        """What the tags say."""
        async with self._session.get(self.url("/api/tags")) as response:
            assert response.status == 200
            return [each["name"] for each in (await response.json())["models"]]

    async def loaded(self) -> list[tuple[str, int, int]]:
        """(name, size, size on GPUs) in MiB."""
        async with self._session.get(self.url("/api/ps")) as response:
            models = (await response.json())["models"]
        return [(each["name"], each["size"] // MIB, each["size_vram"] // MIB) for each in models]

    async def copy(self, source: str, destination: str = ALIAS) -> tuple[int, str]:
        """(status, body)."""
        body = {"source": source, "destination": destination}
        async with self._session.post(self.url("/api/copy"), json=body) as response:
            return response.status, await response.text()

    async def get(self, path: str) -> tuple[int, str]:
        """(status, body)."""
        async with self._session.get(self.url(path)) as response:
            return response.status, await response.text()


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    server = OllamaServer(SOURCE, ALIAS, size=3000 * MIB, size_vram=2000 * MIB)
    async with server.running(), aiohttp.ClientSession() as session:
        yield Talk(server, session)


async def test_a_model_is_there_under_its_own_name_and_under_its_alias(talk: Talk) -> None:
    assert await talk.names() == ["library/qwen:0.5b", "demo:latest"]
    assert await talk.loaded() == [("demo:latest", 3000, 2000)]
    assert await talk.get("/") == (200, "Ollama is running")
    assert (await talk.get("/api/nothing"))[0] == 404


async def test_an_alias_that_was_lost_can_be_made_anew(talk: Talk) -> None:
    talk.server.turn(Mood.WITHOUT_ALIAS)
    assert (await talk.names(), await talk.loaded()) == (["library/qwen:0.5b"], [])
    assert await talk.copy(SOURCE) == (200, "")
    assert await talk.names() == ["library/qwen:0.5b", "demo:latest"]
    assert await talk.copy(SOURCE) == (200, "")
    assert len(await talk.names()) == 2
    talk.server.turn(Mood.WITHOUT_ALIAS)
    assert len(await talk.names()) == 2, "told the same again it forgets nothing"


async def test_while_it_downloads_there_is_nothing_to_copy(talk: Talk) -> None:
    talk.server.turn(Mood.DOWNLOADING)
    assert await talk.names() == []
    status, body = await talk.copy(SOURCE)
    assert (status, "not found" in body) == (404, True)
    talk.server.turn(Mood.WELL)
    assert await talk.names() == ["library/qwen:0.5b", "demo:latest"]


async def test_a_copy_can_fail(talk: Talk) -> None:
    talk.server.turn(Mood.REFUSES_COPIES)
    status, body = await talk.copy(SOURCE)
    assert (status, "no space left" in body) == (500, True)
    assert await talk.names() == ["library/qwen:0.5b"]
    assert (await talk.copy(""))[0] == 400


async def test_it_can_be_slow_broken_or_away(talk: Talk) -> None:
    talk.server.turn(Mood.BROKEN)
    assert (await talk.get("/api/tags"))[0] == 502
    talk.server.turn(Mood.SLOW)
    asked = asyncio.create_task(talk.names())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(asked), 0.1)
    talk.server.turn(Mood.WELL)
    assert len(await asked) == 2
    port = talk.server.port
    await talk.server.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await talk.names()
    await talk.server.start()
    assert (talk.server.port, len(await talk.names())) == (port, 2)


async def test_a_port_that_somebody_else_has_is_refused(talk: Talk) -> None:
    other = OllamaServer(SOURCE, ALIAS)
    with pytest.raises(OSError, match="in use"):
        await other.start(talk.server.port)
    await other.stop()


async def test_it_remembers_what_it_was_asked(talk: Talk) -> None:
    await talk.names()
    await talk.copy(SOURCE)
    assert [(call.method, call.path) for call in talk.server.calls] == [
        ("GET", "/api/tags"),
        ("POST", "/api/copy"),
    ]
    assert talk.server.calls[1].body == {"source": SOURCE, "destination": ALIAS}
