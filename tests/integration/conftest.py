"""Fixtures of the integration tests: a control plane for Palena, and a corner of it for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from hack.devcluster import DevCluster
from tests.support.palena_corner import PalenaCorner, palena_control_plane, palena_corner


@pytest.fixture(scope="module")
def palena_cluster() -> Iterator[DevCluster]:
    """A control plane of the module's own, with the definitions of Palena and of what it drives."""
    with palena_control_plane() as cluster:
        yield cluster


@pytest.fixture
async def corner(palena_cluster: DevCluster) -> AsyncIterator[PalenaCorner]:
    """A corner of it that nobody else uses, without an operator."""
    async with palena_corner(palena_cluster) as corner:
        yield corner
