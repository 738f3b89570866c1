"""The static graph and the modules of a fresh appliance, applied by Flux's own controller."""

from collections.abc import Iterator
from typing import Any

import pytest

from hack.devcluster import WITH_ACTORS, DevCluster
from hack.devcluster.rest import ApiError, Object
from hack.devcluster.waiting import wait_until
from tests.support.manifests import MANIFESTS, objects
from tests.support.shipped import MODULES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

DEADLINE_S = 120.0
FLUX = "flux-system"
KUSTOMIZATIONS = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{FLUX}/kustomizations"
APPLIANCE = "/apis/appliance.magicstick.dev/v1alpha1/namespaces/ai-system/appliances/local"
STATIC = [obj["metadata"]["name"] for _, obj in objects(MANIFESTS / "flux")]
REQUESTED_AT = "reconcile.fluxcd.io/requestedAt"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A cluster of our own with Flux, its source, and the static graph; the settings are not there.

    The gateway's kinds are: by default its release leaves them to the cluster. Releases are played.
    """
    with DevCluster.start(WITH_ACTORS) as cluster:
        for group in ("flux", "helm", "gateway", "envoy"):
            cluster.apply(cluster.crd_files(group))
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLUX}})
        cluster.apply(
            {
                "apiVersion": "source.toolkit.fluxcd.io/v1",
                "kind": "GitRepository",
                "metadata": {"name": FLUX, "namespace": FLUX},
                "spec": {"interval": "1m0s", "url": "https://example.com/magicstick.git"},
            }
        )
        cluster.add_node("node-0")
        cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "flux"))
        yield cluster


def ready(obj: Object) -> bool:
    """Whether a Kustomization is Ready for its present generation; fails at once when Flux gave up on it."""
    for each in obj.get("status", {}).get("conditions", []):
        if each["type"] == "Ready" and each["observedGeneration"] == obj["metadata"]["generation"]:
            assert each["status"] != "False" or each["reason"] in {
                "DependencyNotReady",
                "ReconciliationFailed",
            }, each
            return bool(each["status"] == "True")
    return False


def wait_ready(cluster: DevCluster, name: str) -> Object:
    def is_ready() -> Object | None:
        obj = cluster.rest.get(f"{KUSTOMIZATIONS}/{name}")
        return obj if ready(obj) else None

    return wait_until(is_ready, f"Kustomization {name} to be ready", DEADLINE_S)


def exists(cluster: DevCluster, path: str) -> bool:
    try:
        cluster.rest.get(path)
    except ApiError as error:
        if error.code == 404:
            return False
        raise
    return True


def install(cluster: DevCluster, key: str) -> str:
    """Apply what a module's Kustomization looks like, in the least form; returns its name."""
    module = MODULES.modules[key]
    spec: dict[str, Any] = {
        "interval": "10m0s",
        "path": f"./{module.path}",
        "prune": True,
        "deletionPolicy": "Delete",
        "sourceRef": {"kind": "GitRepository", "name": FLUX},
    }
    if module.post_build_substitution:
        spec["postBuild"] = {
            "substitute": {"var_substitution_enabled": "true"},
            "substituteFrom": [{"kind": "ConfigMap", "name": "ai-appliance-settings", "optional": True}],
        }
    kustomization = {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": module.kustomization_name, "namespace": FLUX},
        "spec": spec,
    }
    cluster.apply(kustomization)
    return module.kustomization_name


@pytest.mark.parametrize("name", STATIC)
def test_the_static_graph_becomes_ready(cluster: DevCluster, name: str) -> None:
    wait_ready(cluster, name)


@pytest.mark.req("MS-179")
@pytest.mark.req("MS-180")
@pytest.mark.parametrize("phase", ["Degraded", "Reconciling"])
def test_the_operators_kustomization_is_ready_however_the_appliance_is(
    cluster: DevCluster, phase: str
) -> None:
    wait_ready(cluster, "magicstick-operator")
    appliance = cluster.rest.get(APPLIANCE)
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": phase,
        "message": "an optional module is not well",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": appliance["metadata"]["generation"],
    }
    status = {"phase": phase, "conditions": [condition, {**condition, "type": "Stalled", "status": "True"}]}
    cluster.rest.request("PUT", f"{APPLIANCE}/status", {**appliance, "status": status})

    patch = {"metadata": {"annotations": {REQUESTED_AT: phase}}}
    path = f"{KUSTOMIZATIONS}/magicstick-operator"
    cluster.rest.request("PATCH", path, patch, "application/merge-patch+json")

    def handled() -> Object | None:
        obj = cluster.rest.get(path)
        return obj if obj["status"].get("lastHandledReconcileAt") == phase else None

    assert ready(wait_until(handled, "Flux to have looked again", DEADLINE_S))
    assert cluster.rest.get(APPLIANCE)["status"]["phase"] == phase


@pytest.mark.parametrize("key", ["litellm", "model-catalog", "anything-llm", "private-mesh"])
def test_a_module_behind_the_gateway_is_applied(cluster: DevCluster, key: str) -> None:
    wait_ready(cluster, "magicstick-operator")
    wait_ready(cluster, "identity-pilot")

    wait_ready(cluster, install(cluster, key))


def test_the_credential_reference_reaches_consumers_as_it_is(cluster: DevCluster) -> None:
    wait_ready(cluster, "infrastructure-basis")
    wait_ready(cluster, install(cluster, "model-catalog"))

    data = cluster.rest.get("/api/v1/namespaces/ai/configmaps/ai-model-catalog")["data"]

    assert '"apiKey": "${LITELLM_API_KEY}"' in data["openclaw.json"]


def test_what_users_and_volumes_need_survives_the_removal_of_litellm(cluster: DevCluster) -> None:
    wait_ready(cluster, "infrastructure-basis")
    name = install(cluster, "litellm")
    wait_ready(cluster, name)
    kept = [
        "/api/v1/namespaces/ai/secrets/litellm-masterkey-secret",
        "/api/v1/namespaces/ai/secrets/litellm-postgresql-secret",
        "/api/v1/namespaces/ai/persistentvolumeclaims/litellm-postgresql-data",
    ]
    uids = [cluster.rest.get(path)["metadata"]["uid"] for path in kept]

    cluster.rest.request("DELETE", f"{KUSTOMIZATIONS}/{name}")
    wait_until(
        lambda: not exists(cluster, f"{KUSTOMIZATIONS}/{name}"), "the Kustomization to be gone", DEADLINE_S
    )
    gone = "/apis/apps/v1/namespaces/ai/statefulsets/litellm-postgresql"
    wait_until(lambda: not exists(cluster, gone), "the database to be gone", DEADLINE_S)
    wait_ready(cluster, install(cluster, "litellm"))

    assert [cluster.rest.get(path)["metadata"]["uid"] for path in kept] == uids
