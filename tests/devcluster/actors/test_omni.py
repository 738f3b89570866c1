"""The vLLM-Omni that is played: an address of its own, and a health that a test can spoil."""

import asyncio

import aiohttp
import pytest

from hack.devcluster.actors.omni import BACKEND, BACKEND_LABEL, PORT, OmniMood, OmniServer, is_omni
from hack.devcluster.layout import LOOPBACK

pytestmark = pytest.mark.anyio


async def health(server: OmniServer, path: str = "/health", *, timeout_s: float = 5.0) -> int:
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s)) as session,
        session.get(f"{server.url}{path}") as response,
    ):
        return response.status


async def test_each_pod_has_an_address_of_its_own_and_the_runtimes_port() -> None:
    first, second = OmniServer("uid-1"), OmniServer("uid-2")
    async with first.running(), second.running():
        assert len({first.host, second.host, LOOPBACK}) == 3
        assert {first.port, second.port} == {PORT}
        assert [await health(each) for each in (first, second)] == [200, 200]
        assert await health(first, "/v1/models") == 404
        assert first.calls == ["GET /health", "GET /v1/models"]


async def test_a_taken_address_is_passed_over_and_a_restart_keeps_the_one_that_it_has() -> None:
    first, same = OmniServer("uid-1"), OmniServer("uid-1")
    async with first.running(), same.running():
        assert first.host != same.host
        before = same.host
        await same.stop()
        await same.start()
        assert same.host == before


async def test_it_can_be_unwell_or_silent() -> None:
    async with OmniServer("uid-3").running() as server:
        server.turn(OmniMood.UNWELL)
        assert await health(server) == 503
        server.turn(OmniMood.SILENT)
        with pytest.raises(asyncio.TimeoutError):
            await health(server, timeout_s=0.2)
        server.turn(OmniMood.WELL)
        assert await health(server) == 200


@pytest.mark.parametrize(("labels", "expected"), [({BACKEND_LABEL: BACKEND}, True), ({}, False)])
def test_its_pods_are_known_by_their_label(labels: dict[str, str], *, expected: bool) -> None:
    assert is_omni({"metadata": {"labels": labels}}) is expected
    assert not is_omni({"metadata": {}})
