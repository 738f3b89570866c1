"""Every object of every folder passes the API server, which knows the real kinds, and is told to be strict."""

from collections.abc import Iterator
from typing import Final

import pytest

from hack import yamls
from hack.devcluster import CONTROL_PLANE, DevCluster, DevClusterError
from tests.support.kustomize import FOLDERS, Folder
from tests.support.manifests import MANIFESTS, Object

pytestmark = pytest.mark.cluster

CRD_GROUPS: Final = ("flux", "helm", "gateway", "envoy")

WITHOUT_SCHEMA: Final = {("cert-manager.io/v1", "Issuer"), ("cert-manager.io/v1", "Certificate")}
"""Kinds that no Go module brings as files; they are not checked beyond being YAML."""

SET: Final = {
    "AI_APPLIANCE_MDNS_DOMAIN": "example.local",
    "AI_APPLIANCE_DOMAIN": "apps.example.com",
    "AI_APPLIANCE_DASHBOARD_HOST": "dashboard.example.com",
    "AI_APPLIANCE_ENVOY_CRDS_POLICY": "CreateReplace",
    "AI_APPLIANCE_KEYCLOAK_POSTGRES_STORAGE": "1.5Ti",
    "AI_APPLIANCE_LITELLM_POSTGRES_STORAGE": "5",
    "AI_APPLIANCE_ANYTHING_LLM_STORAGE": "20G",
    "AI_APPLIANCE_QDRANT_STORAGE": "3Mi",
    "AI_APPLIANCE_DEFAULT_CHAT_MODEL": "org/model:8b",
    "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL": "embed-v1.5",
}
"""Values that the settings admit; a size without a unit arrives as a number."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own with the foreign kinds and every namespace that anything lives in."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        for group in CRD_GROUPS:
            cluster.apply(cluster.crd_files(group))
        cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "crds"))
        cluster.apply([namespace(name) for name in sorted(namespaces())])
        yield cluster


def namespaces() -> set[str]:
    built = [obj for folder in FOLDERS for obj in folder.built()]
    return {obj["metadata"].get("namespace") for obj in built} - {None} | {"flux-system"}


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def dry_run(cluster: DevCluster, objects: list[Object]) -> None:
    """Server-side and strict; raises DevClusterError with the server's words when an object is refused."""
    cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
        stdin=yamls.dump_all(objects),
    )  # fmt: skip


def checked(folder: Folder, **variables: str) -> list[Object]:
    return [
        obj for obj in folder.built(**variables) if (obj["apiVersion"], obj["kind"]) not in WITHOUT_SCHEMA
    ]


@pytest.mark.parametrize("variables", [{}, SET], ids=["defaults", "all set"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_object_satisfies_the_server_strictly(
    cluster: DevCluster, folder: Folder, variables: dict[str, str]
) -> None:
    if objects := checked(folder, **variables):
        dry_run(cluster, objects)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_check_sees_a_field_that_the_kind_does_not_have(cluster: DevCluster, folder: Folder) -> None:
    """Of the first object of each kind: one that were not checked would pass for right."""
    first = {obj["kind"]: obj for obj in reversed(checked(folder))}
    for obj in first.values():
        with pytest.raises(DevClusterError, match="noSuchField"):
            dry_run(cluster, [{**obj, "noSuchField": "x"}])
