"""Fixtures of the end-to-end tests: an installed appliance whose source can be changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.dev.appliance import ROOT, install
from hack.devcluster import WITH_ACTORS, DevCluster
from tests.e2e.stand import Stand

ELECTION = {
    "LEASE_DURATION_SECONDS": "6",
    "LEASE_RENEW_DEADLINE_SECONDS": "4",
    "LEASE_RETRY_SECONDS": "1",
}
"""A killed operator leaves its lease behind; its successor need not wait for half a minute."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the repository delivers, to be changed at will."""
    source = tmp_path / "tree"
    for folder in ("manifests", "charts"):
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, source / folder)
    return source


@pytest.fixture
def stand(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A whole cluster with real Flux and the actors, and everything of ours but the operator's Pod."""
    for name, value in ELECTION.items():
        monkeypatch.setenv(name, value)
    with DevCluster.start(WITH_ACTORS, source=tree) as cluster:
        cluster.add_node("node-0")
        install(cluster, print, tree)
        stand = Stand(cluster, tree, tmp_path)
        try:
            yield stand
        finally:
            stand.stop_operator()
