"""These tests show what our own cluster does; another one cannot show it."""

from pathlib import Path

import pytest

from hack.devcluster.cluster import uses_existing_cluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not uses_existing_cluster():
        return
    skip = pytest.mark.skip(reason="USE_EXISTING_CLUSTER is set; these tests are about hack/devcluster")
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("cluster"):
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def own_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests here start nothing but would be told otherwise by the user's environment."""
    monkeypatch.delenv("USE_EXISTING_CLUSTER", raising=False)
