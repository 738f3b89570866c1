"""LiteLLM on a whole cluster: at a given port, with a key that the cluster makes up later."""

import aiohttp
import pytest

from hack.devcluster.actors.litellm import LiteLlmActor
from hack.devcluster.layout import free_ports

pytestmark = pytest.mark.anyio


async def status(session: aiohttp.ClientSession, url: str, authorization: str) -> int:
    headers = {"Authorization": authorization}
    async with session.get(f"{url}/model/info", headers=headers) as response:
        return response.status


async def test_nobody_is_admitted_before_there_is_a_key_and_whoever_has_it_then() -> None:
    keys, (port,) = [""], free_ports(1)
    actor = LiteLlmActor(lambda: keys[-1], port=port)
    async with actor.running(), aiohttp.ClientSession() as session:
        assert actor.url == f"http://127.0.0.1:{port}"
        assert await status(session, actor.url, "Bearer ") == 401
        keys.append("made-up")
        assert await status(session, actor.url, "Bearer made-up") == 200
        assert await status(session, actor.url, "Bearer other") == 401
