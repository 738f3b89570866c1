"""An Ollama model is listed under its name by each Pod, or copied to it (spec: models §10.3)."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hack.devcluster.actors.ollama import Mood, OllamaServer
from magicstick.models.endpoints import Endpoint
from magicstick.models.observation import CheckState
from magicstick.models.ollama import OllamaQuestion, lists
from magicstick.models.questions import Found
from magicstick.models.runtime_http import NoAnswer, RuntimeHttp
from magicstick.runtime.clock import SystemClock
from tests.support.runtime_server import Reply, RuntimeServer

pytestmark = pytest.mark.anyio

SOURCE, ALIAS = "qwen2.5:0.5b", "demo"
TAGS, COPY, LOADED = "GET /api/tags", "POST /api/copy", "GET /api/ps"


def question(*, measured: bool = False) -> OllamaQuestion:
    return OllamaQuestion(SOURCE, ALIAS, measured=measured, endpoints=())


def tags(*names: str) -> Reply:
    return Reply(200, {"models": [{"name": each, "model": each} for each in names]})


@contextlib.asynccontextmanager
async def ollama(mood: Mood = Mood.WELL) -> AsyncIterator[OllamaServer]:
    server = OllamaServer(SOURCE, ALIAS)
    server.turn(mood)
    async with server.running():
        yield server


def calls(server: OllamaServer) -> list[str]:
    return [f"{each.method} {each.path}" for each in server.calls]


async def asked(port: int, *, measured: bool = False) -> Found:
    """What one Pod says."""
    async with RuntimeHttp(SystemClock(), fence=lambda: None) as http:
        return await question(measured=measured).ask(http, Endpoint("uid", "127.0.0.1", port))


@pytest.fixture
async def scripted() -> AsyncIterator[RuntimeServer]:
    async with RuntimeServer() as server:
        yield server


@pytest.mark.req("MS-355", "MS-358")
async def test_a_pod_that_lists_the_name_is_only_looked_at() -> None:
    async with ollama() as server:
        for _ in range(2):
            assert await asked(server.port) == Found(CheckState.PASSED)
        assert calls(server) == [TAGS, TAGS]


@pytest.mark.req("MS-356")
async def test_e30_while_the_source_is_missing_it_is_waited_for_and_nothing_is_copied() -> None:
    async with ollama(Mood.DOWNLOADING) as server:
        found = await asked(server.port)
        assert (found.state, calls(server)) == (CheckState.WAITING, [TAGS])
        assert "downloaded" in found.message


@pytest.mark.req("MS-357")
async def test_e30_a_missing_name_is_made_from_the_source_and_looked_for() -> None:
    async with ollama(Mood.WITHOUT_ALIAS) as server:
        assert await asked(server.port) == Found(CheckState.PASSED)
        assert calls(server) == [TAGS, COPY, TAGS]
        assert server.calls[1].body == {"source": SOURCE, "destination": ALIAS}
        assert f"{ALIAS}:latest" in server.names
        await asked(server.port)
        assert calls(server).count(COPY) == 1


async def test_a_copy_that_is_refused_is_told_by_its_code_without_its_words() -> None:
    async with ollama(Mood.REFUSES_COPIES) as server:
        found = await asked(server.port)
        assert found.state is CheckState.FAILED
        assert "HTTP 500" in found.message
        assert "no space left" not in found.message


@pytest.mark.parametrize(
    ("answer", "word"), [(Reply(200, {"error": "secret"}), "reports an error"), (Reply(200), "still missing")]
)
async def test_a_copy_that_makes_no_name_is_told(scripted: RuntimeServer, answer: Reply, word: str) -> None:
    scripted.answers = {TAGS: tags(SOURCE), COPY: answer}
    found = await asked(scripted.port)
    assert found.state is CheckState.FAILED
    assert word in found.message
    assert "secret" not in found.message


@pytest.mark.parametrize(
    "answer",
    [
        Reply(502, b"<html>Bad Gateway</html>"),
        Reply(200, b"Ollama is running"),
        Reply(200, {}),
        Reply(200, {"models": "none"}),
        Reply(200, [SOURCE]),
        Reply(302, b"", {"Location": "/api/tags2"}),
    ],
)
async def test_what_is_no_list_of_models_says_nothing_of_what_there_is(
    scripted: RuntimeServer, answer: Reply
) -> None:
    scripted.answers = {TAGS: answer}
    with pytest.raises(NoAnswer):
        await asked(scripted.port)
    assert scripted.calls == [TAGS]


@pytest.mark.parametrize("models", [None, [], [7, None, {}, {"name": 7}]])
async def test_a_list_without_a_usable_entry_is_an_empty_one(scripted: RuntimeServer, models: Any) -> None:
    scripted.answers = {TAGS: Reply(200, {"models": models})}
    assert (await asked(scripted.port)).state is CheckState.WAITING


async def test_either_spelling_of_an_entry_counts(scripted: RuntimeServer) -> None:
    scripted.answers = {TAGS: Reply(200, {"models": [{"model": "demo:latest"}]})}
    assert (await asked(scripted.port)).state is CheckState.PASSED


@pytest.mark.parametrize(
    ("names", "wanted", "listed"),
    [
        (["demo"], "demo", True),
        (["demo:latest"], "demo", True),
        (["demo:v2"], "demo", False),
        (["demo:latest"], "demo:v2", False),
        (["hub.example.com:5000/demo:latest"], "hub.example.com:5000/demo", True),
        (["demo:v2:latest"], "demo:v2", False),
        (["Demo"], "demo", False),
        ([], "demo", False),
    ],
)
async def test_a_name_without_a_tag_means_the_latest(names: list[str], wanted: str, *, listed: bool) -> None:
    assert lists(names, wanted) is listed


# --- memory ----------------------------------------------------------------------------------------


async def test_memory_is_looked_at_only_where_it_is_of_interest() -> None:
    async with ollama() as server:
        server.size, server.size_vram = 3 << 20, 1 << 20
        found = await asked(server.port, measured=True)
        assert found.sample == {"totalMi": 3, "vramMi": 1, "ramMi": 2}
        assert calls(server) == [TAGS, LOADED]


@pytest.mark.parametrize(
    "answer",
    [
        Reply(500),
        Reply(200, b"x"),
        Reply(200, {"models": []}),
        Reply(200, {"models": [{"name": "other", "size": 1, "size_vram": 0}]}),
        Reply(200, {"models": [{"name": "demo:latest", "size": 1, "size_vram": 2}]}),
    ],
)
async def test_what_cannot_be_measured_is_unknown_and_no_reason_to_doubt_the_model(
    scripted: RuntimeServer, answer: Reply
) -> None:
    scripted.answers = {TAGS: tags("demo"), LOADED: answer}
    assert await asked(scripted.port, measured=True) == Found(CheckState.PASSED)


async def test_of_several_entries_the_first_that_can_be_counts(scripted: RuntimeServer) -> None:
    entries = [
        {"name": "demo", "size": 0, "size_vram": 0},
        {"model": "demo:latest", "size": 1, "size_vram": 1},
    ]
    scripted.answers = {TAGS: tags("demo"), LOADED: Reply(200, {"models": entries})}
    assert (await asked(scripted.port, measured=True)).sample == {"totalMi": 1, "vramMi": 1, "ramMi": 0}
