"""What users, other controllers and accidents do to Palena on the real API server."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from tests.support.palena_corner import PalenaCorner, install_palena, palena_corner

pytestmark = [pytest.mark.anyio, pytest.mark.cluster]

GATEWAYS = "palenagateways"
CLUSTER, REDIS, LITELLM = "gw-palena-pg", "gw-palena-redis", "gw-palena-litellm"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own with the definitions of Palena and of what it drives."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        install_palena(cluster)
        yield cluster


@pytest.fixture
async def corner(cluster: DevCluster) -> AsyncIterator[PalenaCorner]:
    async with palena_corner(cluster) as corner:
        yield corner


async def test_each_generated_secret_is_written_once(corner: PalenaCorner) -> None:
    mark = corner.cluster.audit_mark()
    async with corner.operator():
        await corner.gateway()
        await corner.all_ready()
        await corner.quiet()
    secrets = Counter(each.name for each in corner.writes(mark) if each.resource == "secrets")
    assert sum(secrets.values()) == 2, secrets
