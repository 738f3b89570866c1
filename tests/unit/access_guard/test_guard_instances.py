"""How the guard reads an instance: what the cluster's credentials and errors mean for it."""

import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from magicstick.access_guard.instances import InstanceReader
from magicstick.access_guard.policy import Plain
from magicstick.api.kinds import APP_INSTANCE
from magicstick.kube.config import ClusterConfig
from magicstick.kube.credentials import Credentials
from magicstick.kube.errors import ApiError, Forbidden, KindNotServed, NotFound, Unavailable, Unreadable
from magicstick.kube.kinds import ObjectKey
from tests.support.apiserver import Answer, Reset, ScriptedServer, status

pytestmark = pytest.mark.anyio

KEY = ObjectKey("ai-system", "demo")
PATH = APP_INSTANCE.path("ai-system", "demo")
DEMO = {
    "apiVersion": APP_INSTANCE.api_version,
    "kind": APP_INSTANCE.kind,
    "metadata": {"name": "demo", "namespace": "ai-system", "uid": "u"},
    "spec": {"application": "openclaw"},
}


class Rotating:
    """Credentials of which a new one is there at each look."""

    description = "a test"

    def __init__(self, url: str) -> None:
        self._url = url
        self.looks = 0

    async def read(self, *, fresh: bool) -> Credentials:
        self.looks += 1
        return Credentials(self._url, f"Bearer {'fresh' if fresh else 'first'}-{self.looks}")


@contextlib.asynccontextmanager
async def reading(
    server: ScriptedServer, config: ClusterConfig | None = None
) -> AsyncIterator[InstanceReader]:
    reader = InstanceReader(config or ClusterConfig.plain(server.url, token="known"), 4, "guard/1")
    async with contextlib.aclosing(reader):
        yield reader


def sent(server: ScriptedServer, header: str) -> list[str | None]:
    """What each request had under this header."""
    return [each.headers.get(header) for each in server.requests]


async def test_an_instance_is_read_by_its_name_as_the_account_that_the_guard_runs_as() -> None:
    async with ScriptedServer() as server, reading(server) as reader:
        server.answer("GET", PATH, Answer(200, DEMO))
        found = (await reader.read(KEY)).instance
        assert (found.uid, found.policy) == ("u", Plain.OPEN)
        assert [each.path for each in server.requests] == [PATH]
        assert (sent(server, "Authorization"), sent(server, "User-Agent")) == (["Bearer known"], ["guard/1"])


async def test_credentials_that_are_refused_are_read_anew_once() -> None:
    async with ScriptedServer() as server:
        source = Rotating(server.url)
        config = await ClusterConfig.of(source, clock=iter(range(0, 10**6, 10)).__next__)
        async with reading(server, config) as reader:
            server.answer("GET", PATH, status(401, "Unauthorized", "no"), Answer(200, DEMO))
            assert (await reader.read(KEY)).instance.uid == "u"
            assert sent(server, "Authorization") == ["Bearer first-1", "Bearer fresh-2"]

            server.answer("GET", PATH, *[status(401, "Unauthorized", "no")] * 9)
            with pytest.raises(ApiError):
                await reader.read(KEY)
            assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (status(404, "NotFound", "no", details={"name": "demo", "kind": "appinstances"}), NotFound),
        (Answer(404, b"404 page not found"), KindNotServed),
        (status(403, "Forbidden", "no"), Forbidden),
        (status(503, "ServiceUnavailable", "no"), Unavailable),
        (Answer(200, b"<html>"), Unreadable),
        (Answer(200, b"{}"), Unreadable),
        (Answer(302, b"", {"Location": "http://elsewhere.example.com/"}), ApiError),
        (Answer(204, b""), ApiError),
    ],
    ids=["gone", "no kind", "forbidden", "away", "no JSON", "no object", "elsewhere", "nothing"],
)
async def test_whatever_is_no_instance_has_the_meaning_that_it_has_for_everybody(
    reply: Answer, error: type[ApiError]
) -> None:
    async with ScriptedServer() as server, reading(server) as reader:
        server.answer("GET", PATH, reply)
        with pytest.raises(error):
            await reader.read(KEY)
        assert len(server.requests) == 1


async def test_a_connection_that_breaks_is_tried_once_more_and_then_it_is_a_failure() -> None:
    async with ScriptedServer() as server, reading(server) as reader:
        server.answer("GET", PATH, Reset(), Answer(200, DEMO))
        assert (await reader.read(KEY)).instance.uid == "u"
        server.answer("GET", PATH, *[Reset()] * 9)
        with pytest.raises(Unavailable, match="appinstances/demo"):
            await reader.read(KEY)


async def test_nobody_at_home_is_a_failure_at_once() -> None:
    async with ScriptedServer() as server:
        pass
    begun = time.monotonic()
    async with reading(server) as reader:
        with pytest.raises(Unavailable):
            await reader.read(KEY)
    assert time.monotonic() - begun < 5
