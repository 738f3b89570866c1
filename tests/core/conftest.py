"""A scripted server and a client of it."""

from collections.abc import AsyncIterator

import pytest

from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from tests.support.apiserver import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    config = ClusterConfig.plain(server.url, token="sesame")
    async with Client(config, user_agent="magicstick/test", field_manager="magicstick") as client:
        yield client
