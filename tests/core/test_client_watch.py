"""Watches: what is asked, how the stream is cut into events, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicstick.kube.client import Client, WatchEvent
from magicstick.kube.errors import (
    ApiError,
    Gone,
    Invalid,
    KindNotServed,
    Rejected,
    TooManyRequests,
    Unavailable,
    Unreadable,
)
from magicstick.kube.kinds import CONFIG_MAP, POD, Kind
from magicstick.kube.objects import MetadataOnly, Resource
from magicstick.kube.wire import LineSplitter
from tests.support.apiserver import (
    Answer,
    Reset,
    ScriptedServer,
    Stream,
    event_line,
    failure,
    status,
)

pytestmark = pytest.mark.anyio

PODS = "/api/v1/pods"


def pod(name: str, **more: object) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "x", "resourceVersion": "5"}, **more}


class Watch:
    """A watch of pods: the events that came, and how it ended."""

    def __init__(self, client: Client, *, idle_timeout_s: float = 60.0) -> None:
        self.events: list[WatchEvent[Resource]] = []
        self._client = client
        self._idle_timeout_s = idle_timeout_s
        self._news = asyncio.Condition()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        events = self._client.watch(POD, timeout_s=300, idle_timeout_s=self._idle_timeout_s)
        async with aclosing(events):
            async for event in events:
                async with self._news:
                    self.events.append(event)
                    self._news.notify_all()

    async def seen(self, count: int) -> list[str]:
        """Wait for so many events; their names."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.events) >= count)
        return [event.object.metadata.name for event in self.events]


@pytest.fixture
async def watch(client: Client) -> AsyncIterator[Watch]:
    watch = Watch(client)
    yield watch
    watch.task.cancel()
    await asyncio.gather(watch.task, return_exceptions=True)


@pytest.fixture
async def stream(server: ScriptedServer, watch: Watch) -> Stream:
    return await server.stream(PODS)


async def test_a_watch_asks_for_bookmarks_and_its_own_end(server: ScriptedServer, client: Client) -> None:
    path = "/api/v1/namespaces/x/configmaps"
    server.answer("WATCH", path, status(410, "Expired"))
    watch = client.watch(
        CONFIG_MAP,
        namespace="x",
        label_selector="a in (b,c)",
        field_selector="metadata.name=n",
        resource_version="41",
        timeout_s=290.7,
    )
    with pytest.raises(Gone):
        await anext(watch)
    assert server.requests[0].query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "290",
        "resourceVersion": "41",
        "labelSelector": "a in (b,c)",
        "fieldSelector": "metadata.name=n",
    }


async def test_initial_events_are_asked_for_as_the_server_wants(
    server: ScriptedServer, client: Client
) -> None:
    server.answer("WATCH", PODS, status(422, "Invalid", "sendInitialEvents is forbidden"))
    with pytest.raises(Invalid):
        await anext(client.watch(POD, send_initial_events=True, timeout_s=9))
    query = server.requests[0].query
    assert query["sendInitialEvents"] == "true"
    assert query["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in query


async def test_events_arrive_in_order_and_the_end_is_no_error(watch: Watch, stream: Stream) -> None:
    for type_ in ("ADDED", "MODIFIED", "DELETED"):
        await stream.send(type_, pod("a"))
    await stream.end()
    await watch.task
    assert [(event.type, event.object.metadata.name) for event in watch.events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]


async def test_an_event_is_given_as_soon_as_it_is_there(watch: Watch, stream: Stream) -> None:
    await stream.send("ADDED", pod("a"))
    assert await watch.seen(1) == ["a"]
    await stream.send("ADDED", pod("b"))
    assert await watch.seen(2) == ["a", "b"]


async def test_bookmarks_come_with_version_and_annotations(watch: Watch, stream: Stream) -> None:
    await stream.bookmark("99", initial_events_end=True)
    await watch.seen(1)
    (bookmark,) = watch.events
    assert bookmark.type == "BOOKMARK"
    assert bookmark.object.metadata.resource_version == "99"
    assert bookmark.object.metadata.annotations == {"k8s.io/initial-events-end": "true"}


async def test_a_bookmark_whose_empty_content_does_not_fit_the_view_is_taken(
    watch: Watch, stream: Stream
) -> None:
    """The server fills an object's required lists with null in a bookmark."""
    await stream.send("BOOKMARK", {"metadata": {"resourceVersion": "99"}, "spec": None, "status": None})
    await stream.send("ADDED", pod("a"))
    await watch.seen(2)
    assert [event.object.metadata.resource_version for event in watch.events] == ["99", "5"]


async def test_several_events_in_one_chunk_are_several_events(watch: Watch, stream: Stream) -> None:
    await stream.raw(b"".join(event_line("ADDED", pod(f"p{number}")) for number in range(50)))
    assert await watch.seen(50) == [f"p{number}" for number in range(50)]


async def test_an_event_may_be_cut_anywhere(watch: Watch, stream: Stream) -> None:
    line = event_line("ADDED", pod("größe-😀", status={"phase": "läuft"}))
    for cut in range(1, len(line)):
        await stream.raw(line[:cut], line[cut:])
    assert set(await watch.seen(len(line) - 1)) == {"größe-😀"}


async def test_the_largest_objects_pass(watch: Watch, stream: Stream) -> None:
    """etcd takes 1.5 MiB; readers of lines stop at 64 KiB to 2 MiB elsewhere."""
    line = event_line("ADDED", pod("large", data={"blob": "x" * 1_400_000}))
    step = 60_001
    for start in range(0, len(line), step):
        await stream.raw(line[start : start + step])
    await stream.raw(line + event_line("ADDED", pod("small")))
    assert await watch.seen(3) == ["large", "large", "small"]
    assert len(watch.events[1].object.data["blob"]) == 1_400_000


async def test_empty_lines_mean_nothing(watch: Watch, stream: Stream) -> None:
    await stream.raw(b"\n\n" + event_line("ADDED", pod("a")) + b"\n")
    await stream.end()
    await watch.task
    assert len(watch.events) == 1


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (failure(410, "Expired", "too old resource version: 1 (9)"), Gone),
        (failure(410, "Gone", ""), Gone),
        (failure(429, "TooManyRequests", "storage is (re)initializing"), TooManyRequests),
        (failure(500, "InternalError", "etcd event received with PrevKv=nil"), Unavailable),
        (failure(500, "", "conversion webhook failed"), Rejected),
        (failure(504, "Timeout", "Too large resource version"), Unavailable),
        ({"unknown": "shape"}, ApiError),
        (failure(0, "", ""), ApiError),
    ],
)
async def test_an_error_event_is_raised_as_what_it_means(
    watch: Watch, stream: Stream, event: dict[str, object], expected: type[ApiError]
) -> None:
    await stream.send("ADDED", pod("a"))
    await stream.send("ERROR", event)
    with pytest.raises(expected):
        await watch.task
    assert len(watch.events) == 1


async def test_an_error_event_tells_when_to_come_back(watch: Watch, stream: Stream) -> None:
    await stream.send("ERROR", failure(429, "TooManyRequests", details={"retryAfterSeconds": 8}))
    with pytest.raises(TooManyRequests) as caught:
        await watch.task
    assert caught.value.retry_after_s == 8


async def test_an_error_event_is_none_of_a_view_that_fits_everything(
    server: ScriptedServer, client: Client
) -> None:
    """A Status decodes as metadata alone, and must not pass for an object."""
    server.answer("WATCH", PODS, Answer(200, event_line("ERROR", failure(410, "Expired"))))
    with pytest.raises(Gone):
        await anext(client.watch(POD, view=MetadataOnly, timeout_s=9))


@pytest.mark.parametrize(
    "line", [b"{", b'{"type": "ADDED"}', b'{"type":"ADDED","object":{"metadata":3}}', b"<"]
)
async def test_a_line_that_is_no_event_is_unreadable(watch: Watch, stream: Stream, line: bytes) -> None:
    await stream.raw(line + b"\n")
    with pytest.raises(Unreadable):
        await watch.task


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(404, "404 page not found\n"), KindNotServed),
        (Answer(429, "", {"Retry-After": "3"}), TooManyRequests),
        (status(503, "ServiceUnavailable"), Unavailable),
        (Answer(302, "", {"Location": "https://login.example.com"}), Unavailable),
        (Reset(), Unavailable),
    ],
)
async def test_a_refused_watch_says_why(
    server: ScriptedServer, client: Client, answer: Answer | Reset, expected: type[ApiError]
) -> None:
    server.answer("WATCH", "/apis/example.com/v1/widgets", answer)
    with pytest.raises(expected):
        await anext(client.watch(Kind("example.com", "v1", "Widget", "widgets"), timeout_s=9))
    assert len(server.requests) == 1


async def test_a_broken_stream_is_unavailable_after_what_arrived(watch: Watch, stream: Stream) -> None:
    await stream.send("ADDED", pod("a"))
    await watch.seen(1)
    stream.reset()
    with pytest.raises(Unavailable):
        await watch.task
    assert len(watch.events) == 1


async def test_an_event_that_the_end_cuts_off_is_not_given(watch: Watch, stream: Stream) -> None:
    await stream.raw(event_line("ADDED", pod("a")) + event_line("ADDED", pod("b"))[:-1])
    await stream.end()
    await watch.task
    assert [event.object.metadata.name for event in watch.events] == ["a"]


async def test_a_silent_stream_is_given_up(server: ScriptedServer, client: Client) -> None:
    """A half-open connection never says that it is dead."""
    watch = Watch(client, idle_timeout_s=0.1)
    stream = await server.stream(PODS)
    await stream.send("ADDED", pod("a"))
    with pytest.raises(Unavailable, match=r"idle, no byte for 0\.1 s"):
        await watch.task
    await stream.left()
    assert len(watch.events) == 1


async def test_leaving_a_watch_ends_its_connection_at_once(server: ScriptedServer, client: Client) -> None:
    events = client.watch(POD, timeout_s=300)
    async with aclosing(events):
        first = asyncio.create_task(anext(events))
        stream = await server.stream(PODS)
        await stream.send("ADDED", pod("a"))
        await first
    await stream.left()


async def test_cancelling_a_watch_ends_its_connection(watch: Watch, stream: Stream) -> None:
    watch.task.cancel()
    await stream.left()
    assert watch.task.cancelled()


async def test_closing_the_client_ends_its_watches(client: Client, watch: Watch, stream: Stream) -> None:
    await client.close()
    await stream.left()
    with pytest.raises(Unavailable, match="closed"):
        await asyncio.wait_for(watch.task, 10)


async def test_a_view_limits_what_is_decoded(server: ScriptedServer, client: Client) -> None:
    server.answer("WATCH", PODS, Answer(200, event_line("ADDED", pod("a", spec="no mapping"))))
    events = [event async for event in client.watch(POD, view=MetadataOnly, timeout_s=9)]
    assert [event.object.metadata.name for event in events] == ["a"]


# -- the splitter ------------------------------------------------------------------------------------

LINES = st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=20)


@given(LINES, st.lists(st.integers(0, 700), max_size=30), st.binary(max_size=5))
def test_lines_do_not_depend_on_how_the_network_cuts_them(
    lines: list[bytes], cuts: list[int], rest: bytes
) -> None:
    text = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b"")
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    splitter = LineSplitter()
    found = [line for start, end in pairwise(places) for line in splitter.feed(text[start:end])]
    assert found == [line for line in lines if line]
