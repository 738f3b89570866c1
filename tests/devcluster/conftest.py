"""These tests show what our own cluster does; another one cannot show it."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("USE_EXISTING_CLUSTER"):
        return
    skip = pytest.mark.skip(reason="USE_EXISTING_CLUSTER is set; these tests are about hack/devcluster")
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("cluster"):
            item.add_marker(skip)
