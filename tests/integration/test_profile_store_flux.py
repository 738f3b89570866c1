"""What the operator sets on objects that Git owns outlives a reconcile by Flux's own controller."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hack.devcluster import WITH_ACTORS, DevCluster
from hack.devcluster.rest import Object
from hack.devcluster.waiting import wait_until
from magicstick.models.kubeai_release import PROFILES, STORE_KEY, STORE_NAME
from magicstick.models.profile_store import REQUESTED_AT, REQUESTED_FOR
from tests.support.shipped import MODULES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DEADLINE_S = 120.0
FLUX = "flux-system"
KUSTOMIZATION = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{FLUX}/kustomizations/kubeai"
STORE = f"/api/v1/namespaces/{FLUX}/configmaps/{STORE_NAME}"
RELEASE = f"/apis/helm.toolkit.fluxcd.io/v2/namespaces/{FLUX}/helmreleases/kubeai"
OURS = {REQUESTED_FOR: "digest", REQUESTED_AT: "2026-01-01T00:00:00Z"}
PROFILE = {"magicstick-cpu-0123456789abcdef0123": {"requests": {"cpu": "1"}}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A cluster of our own with Flux, its source, and the kinds that the module is made of."""
    with DevCluster.start(WITH_ACTORS) as cluster:
        for group in ("flux", "helm"):
            cluster.apply(cluster.crd_files(group))
        for name in (FLUX, "ai"):
            cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        cluster.apply(source())
        cluster.apply(kustomization())
        yield cluster


def source() -> Object:
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": FLUX, "namespace": FLUX},
        "spec": {"interval": "1m0s", "url": "https://example.com/magicstick.git"},
    }


def kustomization() -> Object:
    """The module alone, without what it builds on."""
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "kubeai", "namespace": FLUX},
        "spec": {
            "interval": "10m0s",
            "path": f"./{MODULES.modules['kubeai'].path}",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": FLUX},
        },
    }


def merge(cluster: DevCluster, path: str, body: Object) -> None:
    """Set fields as the operator does."""
    patch = "application/merge-patch+json"
    cluster.rest.request("PATCH", f"{path}?fieldManager=magicstick-operator", body, patch)


def reconcile(cluster: DevCluster, token: str) -> None:
    """Have Flux apply the module, and wait until it has."""
    merge(cluster, KUSTOMIZATION, {"metadata": {"annotations": {REQUESTED_AT: token}}})

    def handled() -> bool:
        status: dict[str, Any] = cluster.rest.get(KUSTOMIZATION).get("status", {})
        ready = [each["status"] for each in status.get("conditions", ()) if each["type"] == "Ready"]
        return status.get("lastHandledReconcileAt") == token and ready == ["True"]

    wait_until(handled, f"Flux to handle {token}", DEADLINE_S)


@pytest.mark.req("MS-147", "MS-149")
def test_stored_profiles_and_the_request_to_take_them_outlive_a_reconcile(cluster: DevCluster) -> None:
    reconcile(cluster, "first")
    assert json.loads(cluster.rest.get(STORE)["data"][STORE_KEY]) == {PROFILES: {}}
    text = json.dumps({PROFILES: PROFILE})
    merge(cluster, STORE, {"data": {STORE_KEY: text}})
    merge(cluster, RELEASE, {"metadata": {"annotations": OURS}})
    reconcile(cluster, "second")
    assert cluster.rest.get(STORE)["data"][STORE_KEY] == text
    assert OURS.items() <= cluster.rest.get(RELEASE)["metadata"]["annotations"].items()
