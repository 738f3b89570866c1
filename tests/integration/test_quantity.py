"""Our reading of quantities is the API server's."""

import pytest

from hack.devcluster.cluster import DevCluster
from hack.devcluster.rest import ApiError
from magicstick.api.quantity import parse
from tests.unit.test_quantity import NO_QUANTITIES

pytestmark = pytest.mark.cluster

BAD_REQUEST = 400
CANONICAL = (
    *("1.5Gi", "0.1Gi", "1000m", "1024Mi", "1e3", "1500e-3", "1.5e3", "2000", "1500m", "0.5", ".5Gi", "0Gi"),
    *("512Ki", "0.5Ki", "0.1Ki", "1023.5Ki", "1E", "8Ei", "9.99Ei", "1e21", "1e64", "24062M", "2T", "15e9"),
    *("123456789123456789123", "1048576", "1073741824", "0.001", "100k", "0.25Gi", "3.3Mi"),
)
READ_AS_ZERO = {"Gi", "+", "-", ".", "e3", "k"}
"""The server's parser takes these for zero, although its own grammar asks for a number."""


def stored_as(cluster: DevCluster, text: str) -> str:
    """What the server makes of a quantity; a dry run. Resource lists round up to thousandths."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quantities"},
        "spec": {"hard": {"requests.memory": text}},
    }
    created = cluster.rest.request("POST", "/api/v1/namespaces/default/resourcequotas?dryRun=All", quota)
    return str(created["spec"]["hard"]["requests.memory"])


@pytest.mark.parametrize("text", CANONICAL)
def test_the_canonical_form_is_what_the_server_stores(control_plane: DevCluster, text: str) -> None:
    assert str(parse(text)) == stored_as(control_plane, text)


@pytest.mark.parametrize(
    "text", [text for text in NO_QUANTITIES if text.strip(" ") == text and text not in READ_AS_ZERO]
)
def test_what_we_refuse_the_server_refuses(control_plane: DevCluster, text: str) -> None:
    with pytest.raises(ApiError) as refusal:
        stored_as(control_plane, text)
    assert refusal.value.code == BAD_REQUEST


@pytest.mark.parametrize("text", sorted(READ_AS_ZERO))
def test_only_a_missing_number_is_read_by_the_server_and_not_by_us(
    control_plane: DevCluster, text: str
) -> None:
    assert stored_as(control_plane, text) == "0"
