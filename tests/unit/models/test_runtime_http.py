"""Requests to Pods are bounded, go nowhere else, and tell nothing that a Pod says (spec: models §2, §10.3)."""

import gzip
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from magicstick.kube.errors import FenceClosed
from magicstick.models.runtime_http import LARGEST_ANSWER, Answer, NoAnswer, RuntimeHttp
from magicstick.runtime.clock import SystemClock
from tests.support.runtime_server import Reply, RuntimeServer
from tests.support.sleeping_time import SleepingTime

pytestmark = pytest.mark.anyio


def open_fence() -> None:
    """Everything may be written."""


def closed_fence() -> None:
    raise FenceClosed("the lease is not held")


def http(fence: Callable[[], None] = open_fence) -> RuntimeHttp:
    return RuntimeHttp(SystemClock(), fence=fence)


@pytest.fixture
async def server() -> AsyncIterator[RuntimeServer]:
    async with RuntimeServer() as running:
        yield running


async def failure(server: RuntimeServer, reply: Reply) -> str:
    """Why there is no answer when the server answers this."""
    server.answers["GET /x"] = reply
    async with http() as asking:
        with pytest.raises(NoAnswer) as missing:
            await asking.get(server.endpoint().url("/x"))
    return str(missing.value)


async def test_an_answer_comes_with_its_status_and_its_fields(server: RuntimeServer) -> None:
    server.answers["GET /x"] = Reply(500, {"error": "broken"})
    async with http() as asking:
        answer = await asking.get(server.endpoint().url("/x"))
    assert (answer.status, answer.succeeded, answer.fields) == (500, False, {"error": "broken"})


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"\xff\xfe", b"7", b"[" * 100_000])
def test_what_is_no_json_object_has_no_fields(body: bytes) -> None:
    assert Answer(200, body).fields is None


async def test_a_server_that_says_nothing_is_left_after_five_seconds(server: RuntimeServer) -> None:
    time = SleepingTime()
    server.answers["GET /x"] = Reply(silent=True)
    said: list[str] = []

    async def ask() -> None:
        with pytest.raises(NoAnswer) as missing:
            await asking.get(server.endpoint().url("/x"))
        said.append(str(missing.value))

    async with RuntimeHttp(time, fence=open_fence) as asking, anyio.create_task_group() as group:
        group.start_soon(ask)
        await server.called.wait()
        await time.elapse(4.9)
        assert said == []
        await time.elapse(0.1)
    assert said == ["no answer within 5 s"]


async def test_an_answer_without_end_is_not_read_to_its_end(server: RuntimeServer) -> None:
    assert "larger than" in await failure(server, Reply(200, b"x" * (LARGEST_ANSWER + 1)))


async def test_a_redirect_is_an_answer_and_is_not_followed(server: RuntimeServer) -> None:
    elsewhere = server.endpoint().url("/elsewhere")
    server.answers["GET /x"] = Reply(302, b"", {"Location": elsewhere})
    async with http() as asking:
        answer = await asking.get(server.endpoint().url("/x"))
    assert (answer.status, answer.succeeded) == (302, False)
    assert server.calls == ["GET /x"]


async def test_what_is_compressed_is_not_unpacked(server: RuntimeServer) -> None:
    """A small answer may otherwise become a large one."""
    server.answers["GET /x"] = Reply(200, gzip.compress(b"{}"), {"Content-Encoding": "gzip"})
    async with http() as asking:
        answer = await asking.get(server.endpoint().url("/x"))
    assert answer.fields is None
    assert server.headers[0]["Accept-Encoding"] == "identity"


async def test_no_cookie_and_no_connection_is_kept(server: RuntimeServer) -> None:
    server.answers["GET /x"] = Reply(200, {}, {"Set-Cookie": "a=b"})
    async with http() as asking:
        for _ in range(2):
            await asking.get(server.endpoint().url("/x"))
    assert all("Cookie" not in each for each in server.headers)
    assert {each["Connection"] for each in server.headers} == {"close"}


async def test_a_server_that_is_not_there_gives_no_answer(server: RuntimeServer) -> None:
    url = server.endpoint().url("/x")
    await server.__aexit__()
    async with http() as asking:
        with pytest.raises(NoAnswer) as missing:
            await asking.get(url)
    assert url not in str(missing.value)


async def test_only_who_leads_changes_anything(server: RuntimeServer) -> None:
    server.answers["GET /x"] = Reply(200, {})
    async with http(closed_fence) as asking:
        await asking.get(server.endpoint().url("/x"))
        with pytest.raises(NoAnswer, match="another process leads"):
            await asking.post(server.endpoint().url("/x"), {"a": 1})
    assert server.calls == ["GET /x"]
