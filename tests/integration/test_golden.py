"""The golden objects are objects that the real API server takes, each field of them known to it."""

from collections.abc import Iterator

import pytest

from hack.devcluster import CONTROL_PLANE, DevCluster
from tests.support import golden
from tests.support.manifests import MANIFESTS

pytestmark = pytest.mark.cluster

GOLDEN = {
    f"{folder}/{name}": body
    for folder in ("kustomizations", "activations")
    for name, body in golden.load(folder).items()
}
STRICT_DRY_RUN = "fieldManager=magicstick-operator&fieldValidation=Strict&force=true&dryRun=All"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own with the definitions of Flux and ours."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        cluster.apply([*cluster.crd_files("flux"), *sorted((MANIFESTS / "crds").glob("*.yaml"))])
        cluster.apply(
            [
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                for name in ("flux-system", "ai-system")
            ]
        )
        yield cluster


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_object_is_taken_as_it_is(cluster: DevCluster, name: str) -> None:
    body = GOLDEN[name]
    path = f"{cluster.rest.path_of(body)}?{STRICT_DRY_RUN}"
    taken = cluster.rest.request("PATCH", path, body, content_type="application/apply-patch+yaml")
    assert {field: taken["spec"][field] for field in body["spec"]} == body["spec"]
    assert taken["metadata"]["labels"] == body["metadata"]["labels"]
