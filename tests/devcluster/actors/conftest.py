"""A control plane on which actors may define kinds at will, and a stage of its own for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from hack.bare import BareClient
from hack.devcluster import CONTROL_PLANE, DevCluster
from tests.devcluster.actors.stage import CURTAIN, Stage


@pytest.fixture(scope="session")
def theatre() -> Iterator[DevCluster]:
    """etcd and the API server with Flux's kinds; no other test sees what stands on it."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        cluster.apply([*cluster.crd_files("flux"), *cluster.crd_files("helm")])
        yield cluster


@pytest.fixture
async def stage(theatre: DevCluster) -> AsyncIterator[Stage]:
    """Empty at the beginning and at the end."""
    client = BareClient(theatre.url, theatre.ca_file, theatre.admin_token, user_agent="test")
    async with client:
        stage = Stage(theatre, client)
        await stage.open()
        async with stage.mirror.running():
            yield stage
        for path in CURTAIN:
            await stage.clear(path)
