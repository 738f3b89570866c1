"""What is made for gateways is taken by the real API server as it is, each field of it known to it."""

from collections.abc import Iterator

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from tests.support import golden, palena_crds
from tests.support.palena_objects import HOME

pytestmark = pytest.mark.cluster

GOLDEN = golden.load("palena-gateway")
STRICT_DRY_RUN = "fieldManager=palena-gateway&fieldValidation=Strict&force=true&dryRun=All"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own with the definitions of what gateways drive."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        palena_crds.install(cluster)
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
        yield cluster


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_object_is_taken_as_it_is(cluster: DevCluster, name: str) -> None:
    body = GOLDEN[name]
    path = f"{cluster.rest.path_of(body)}?{STRICT_DRY_RUN}"
    taken = cluster.rest.request("PATCH", path, body, content_type="application/apply-patch+yaml")
    assert taken["metadata"]["labels"] == body["metadata"]["labels"]
    for field in ("spec", "data"):
        assert kept(body.get(field, {}), taken.get(field, {}))


def kept(want: object, have: object) -> bool:
    """Whether the server kept what is wanted as it was spelled; it may add defaults."""
    if isinstance(want, dict) and isinstance(have, dict):
        return all(name in have and kept(value, have[name]) for name, value in want.items())
    if isinstance(want, list) and isinstance(have, list):
        return len(want) == len(have) and all(map(kept, want, have))
    return want == have
