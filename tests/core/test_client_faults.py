"""What the client does when connections break, credentials are refused, or the fence is closed."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from magicstick.kube import transport
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.kube.credentials import Credentials
from magicstick.kube.errors import FenceClosed, TooManyRequests, Unauthorized, Unavailable
from magicstick.kube.kinds import NODE, ObjectKey
from magicstick.kube.transport import Request, Transport
from tests.support.apiserver import Answer, Hang, Reset, ScriptedServer, Seen, listing, status

pytestmark = pytest.mark.anyio

PATH = "/api/v1/nodes/n"
KEY = ObjectKey("", "n")
BODY = {"metadata": {"name": "n"}}
FOUND = Answer(200, {"metadata": {"name": "n", "resourceVersion": "5"}})

GET = Request("GET", PATH)
PATCH = Request("PATCH", PATH, "", b"{}", "application/apply-patch+yaml")

Write = Callable[[Client], Awaitable[object]]
WRITES: dict[str, Write] = {
    "POST": lambda client: client.create(NODE, BODY),
    "PATCH": lambda client: client.apply(NODE, BODY),
    "PUT": lambda client: client.replace(NODE, BODY),
    "DELETE": lambda client: client.delete(NODE, KEY),
}


def path_of(method: str) -> str:
    return "/api/v1/nodes" if method == "POST" else PATH


@pytest.fixture(params=WRITES)
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client_of(server: ScriptedServer, fence: Callable[[], None]) -> AsyncIterator[Client]:
    config = ClusterConfig.plain(server.url)
    async with Client(config, user_agent="test", field_manager="test", fence=fence) as client:
        yield client


# -- broken connections ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Reset(), Reset(b'{"metadata": {"na')])
async def test_a_read_that_got_no_answer_is_repeated(
    server: ScriptedServer, client: Client, fault: Reset
) -> None:
    server.answer("GET", PATH, fault, fault, FOUND)
    assert (await client.get(NODE, KEY)).metadata.resource_version == "5"
    assert len(server.requests) == 3


async def test_a_read_is_given_up_after_a_few_attempts(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", PATH, Reset())
    with pytest.raises(Unavailable):
        await client.get(NODE, KEY)
    assert len(server.requests) == transport.ATTEMPTS


async def test_a_page_that_broke_is_asked_for_again(server: ScriptedServer, client: Client) -> None:
    last = listing([{"metadata": {"name": "b"}}], "7")
    server.answer("GET", "/api/v1/nodes", listing([BODY], "7", "more"), Reset(), last)
    names = [node.metadata.name async for page in client.pages(NODE) for node in page.items]
    assert names == ["n", "b"]


async def test_a_write_is_never_sent_twice(server: ScriptedServer, client: Client, method: str) -> None:
    """On a kept connection as well, where aiohttp would repeat PUT and DELETE by itself."""
    server.answer("GET", PATH, FOUND)
    await client.get(NODE, KEY)
    server.answer(method, path_of(method), Reset())
    with pytest.raises(Unavailable):
        await WRITES[method](client)
    assert len(server.seen(method)) == 1


@pytest.mark.parametrize("answer", [status(503, "ServiceUnavailable"), status(429), status(500)])
async def test_an_answered_request_is_not_repeated(
    server: ScriptedServer, client: Client, answer: Answer
) -> None:
    server.answer("GET", PATH, answer)
    server.answer("PATCH", PATH, answer)
    for attempt in (client.get(NODE, KEY), client.apply(NODE, BODY)):
        with pytest.raises(Exception, match="HTTP"):
            await attempt
    assert [request.method for request in server.requests] == ["GET", "PATCH"]


async def test_the_wish_of_a_busy_server_reaches_the_caller(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", PATH, Answer(429, "slow down", {"Retry-After": "9"}))
    with pytest.raises(TooManyRequests) as caught:
        await client.get(NODE, KEY)
    assert caught.value.retry_after_s == 9


async def test_a_write_that_found_no_connection_was_not_sent_and_is_tried_again(
    server: ScriptedServer,
) -> None:
    pauses_s: list[float] = []

    async def until_the_server_is_back(pause_s: float) -> None:
        pauses_s.append(pause_s)
        await server.start()

    server.answer("PATCH", PATH, FOUND)
    await server.stop()
    config = ClusterConfig.plain(server.url)
    sender = Transport(config, user_agent="t", fence=lambda: None, pause=until_the_server_is_back)
    await sender.send(PATCH)
    await sender.close()
    assert len(server.requests) == 1
    assert [0 <= pause_s <= transport.MAX_PAUSE_S for pause_s in pauses_s] == [True]


async def test_an_unreachable_server_is_unavailable(server: ScriptedServer, client: Client) -> None:
    await server.stop()
    for attempt in (client.get(NODE, KEY), client.apply(NODE, BODY), anext(client.watch(NODE, timeout_s=9))):
        with pytest.raises(Unavailable, match="Connect") as caught:
            await attempt
        assert caught.value.code == 0
    await server.start()
    server.answer("GET", PATH, FOUND)
    assert (await client.get(NODE, KEY)).metadata.name == "n"


@pytest.mark.parametrize("request_", [GET, PATCH])
async def test_a_request_that_had_its_time_is_not_repeated(server: ScriptedServer, request_: Request) -> None:
    server.answer(request_.method, PATH, Hang())
    limits = aiohttp.ClientTimeout(total=0.05)
    config = ClusterConfig.plain(server.url)
    sender = Transport(config, user_agent="t", fence=lambda: None, limits=limits)
    with pytest.raises(Unavailable, match="Timeout"):
        await sender.send(request_)
    await sender.close()
    assert len(server.requests) == 1


# -- credentials -------------------------------------------------------------------------------------


class Rotating:
    """A source of a token that changes with each read."""

    description = "rotating"

    def __init__(self, url: str) -> None:
        self._url = url
        self.reads = 0

    async def read(self, *, fresh: bool) -> Credentials:  # noqa: ARG002 # the protocol has it
        self.reads += 1
        return Credentials(self._url, f"Bearer {self.reads}")


class Ticks:
    """A clock that goes on by a second with each look."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def needs_token(token: str) -> Callable[[Seen], Answer]:
    def check(request: Seen) -> Answer:
        accepted = request.headers["Authorization"] == f"Bearer {token}"
        return FOUND if accepted else Answer(401, "Unauthorized")

    return check


async def test_a_refused_token_is_read_anew_and_the_request_sent_once_more(
    server: ScriptedServer, method: str
) -> None:
    config = await ClusterConfig.of(Rotating(server.url), clock=Ticks())
    server.answer(method, path_of(method), needs_token("2"))
    async with Client(config, user_agent="t", field_manager="t") as client:
        await WRITES[method](client)
        await WRITES[method](client)
    tokens = [request.headers["Authorization"] for request in server.requests]
    assert tokens == ["Bearer 1", "Bearer 2", "Bearer 2"]


async def test_a_token_that_is_refused_again_is_given_up(server: ScriptedServer) -> None:
    config = await ClusterConfig.of(Rotating(server.url), clock=Ticks())
    server.answer("GET", PATH, Answer(401, "Unauthorized"))
    async with Client(config, user_agent="t", field_manager="t") as client:
        with pytest.raises(Unauthorized):
            await client.get(NODE, KEY)
    assert len(server.requests) == 2


async def test_a_refused_watch_is_opened_once_more(server: ScriptedServer) -> None:
    config = await ClusterConfig.of(Rotating(server.url), clock=Ticks())
    server.answer("WATCH", "/api/v1/nodes", Answer(401, "Unauthorized"), Answer(401, "Unauthorized"), Reset())
    async with Client(config, user_agent="t", field_manager="t") as client:
        with pytest.raises(Unauthorized):
            await anext(client.watch(NODE, timeout_s=9))
        server.unscript("WATCH", "/api/v1/nodes")
        watch = client.watch(NODE, timeout_s=9)
        first = asyncio.create_task(anext(watch))
        stream = await server.stream("/api/v1/nodes")
        await stream.send("ADDED", BODY)
        assert (await first).type == "ADDED"
        await watch.aclose()
    assert [request.headers["Authorization"][-1] for request in server.requests] == ["1", "2", "2"]


# -- the fence ---------------------------------------------------------------------------------------


class Fence:
    """Open for `passes` more requests."""

    def __init__(self, passes: float) -> None:
        self.passes = passes

    def __call__(self) -> None:
        if self.passes <= 0:
            raise FenceClosed("the lease is lost")
        self.passes -= 1


async def test_nothing_is_written_while_the_fence_is_closed(server: ScriptedServer, method: str) -> None:
    async with client_of(server, Fence(0)) as client:
        with pytest.raises(FenceClosed):
            await WRITES[method](client)
    assert server.requests == []


async def test_the_fence_is_asked_again_when_the_connection_is_there(
    server: ScriptedServer, method: str
) -> None:
    server.answer(method, path_of(method), FOUND)
    fence = Fence(1)  # closes while the connection is made
    async with client_of(server, fence) as client:
        with pytest.raises(FenceClosed):
            await WRITES[method](client)
        assert server.requests == []
        fence.passes = 2
        await WRITES[method](client)
    assert len(server.requests) == 1


async def test_the_repetition_after_a_refused_token_passes_the_fence_too(server: ScriptedServer) -> None:
    server.answer("PATCH", PATH, Answer(401, "Unauthorized"))
    async with client_of(server, Fence(2)) as client:
        with pytest.raises(FenceClosed):
            await client.apply(NODE, BODY)
    assert len(server.requests) == 1


async def test_reads_pass_a_closed_fence(server: ScriptedServer) -> None:
    server.answer("GET", PATH, FOUND)
    async with client_of(server, Fence(0)) as client:
        assert (await client.get(NODE, KEY)).metadata.name == "n"


# -- bookkeeping and the end -------------------------------------------------------------------------


async def test_every_answer_is_observed(server: ScriptedServer) -> None:
    seen: list[tuple[str, str, int]] = []
    config = ClusterConfig.plain(server.url)
    server.answer("GET", PATH, Reset(), FOUND)
    server.answer("PATCH", PATH, status(409, "Conflict"))
    server.answer("WATCH", "/api/v1/nodes", status(410, "Expired"))

    def observe(method: str, host: str, code: int) -> None:
        seen.append((method, host, code))

    async with Client(config, user_agent="t", field_manager="t", observer=observe) as client:
        await client.get(NODE, KEY)
        for attempt in (client.apply(NODE, BODY), anext(client.watch(NODE, timeout_s=9))):
            with pytest.raises(Exception, match="HTTP"):
                await attempt
    host = server.url.removeprefix("http://")
    assert seen == [("GET", host, 0), ("GET", host, 200), ("PATCH", host, 409), ("GET", host, 410)]


async def test_a_closed_client_sends_nothing_and_leaves_nothing(
    server: ScriptedServer, client: Client
) -> None:
    server.answer("GET", PATH, FOUND)
    await client.get(NODE, KEY)
    before = asyncio.all_tasks()
    await client.close()
    await client.close()
    with pytest.raises(Unavailable, match="closed"):
        await client.get(NODE, KEY)
    gc.collect()  # an unclosed session or connector would warn now, and warnings are errors
    assert len(server.requests) == 1
    assert asyncio.all_tasks() <= before


async def test_closing_the_client_ends_what_is_under_way(server: ScriptedServer, client: Client) -> None:
    server.answer("GET", PATH, Hang())
    waiting = asyncio.create_task(client.get(NODE, KEY))
    await server.arrived("GET", PATH)
    await client.close()
    with pytest.raises(Unavailable):
        await asyncio.wait_for(waiting, 10)


async def test_a_client_that_was_never_used_closes_as_well() -> None:
    async with Client(ClusterConfig.plain("http://127.0.0.1:1"), user_agent="t", field_manager="t"):
        pass
