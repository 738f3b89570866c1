"""Fixtures of the end-to-end tests: an installed appliance whose source can be changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.dev.appliance import ROOT, install
from hack.devcluster import WITH_ACTORS, DevCluster
from tests.e2e.stand import Stand


def delivered(directory: Path) -> Path:
    """A copy of what the repository delivers, to be changed at will."""
    source = directory / "tree"
    for folder in ("manifests", "charts"):
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, source / folder)
    return source


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """See `delivered`."""
    return delivered(tmp_path)


@pytest.fixture
def stand(tree: Path, tmp_path: Path) -> Iterator[Stand]:
    """A whole cluster with real Flux and the actors, and everything of ours but the operator's Pod."""
    with DevCluster.start(WITH_ACTORS, source=tree) as cluster:
        cluster.add_node("node-0")
        install(cluster, print, tree)
        stand = Stand(cluster, tree, tmp_path)
        try:
            yield stand
        finally:
            stand.stop_operator()
