"""A scripted server, a client of it, and informers that watch through that client."""

from collections.abc import AsyncIterator

import pytest

from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from tests.support.apiserver import ScriptedServer
from tests.support.watched import Start, starting


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    config = ClusterConfig.plain(server.url, token="sesame")
    async with Client(config, user_agent="magicstick/test", field_manager="magicstick") as client:
        yield client


@pytest.fixture
async def watching(client: Client) -> AsyncIterator[Start]:
    async with starting(client) as start:
        yield start
