"""The actors as a part of a cluster, beside kwok's kubelets and the real scheduler."""

from collections.abc import Iterator

import pytest

from hack.devcluster import WITH_CONTROLLERS, Component, DevCluster
from hack.devcluster.rest import ApiError, Object
from hack.devcluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NODE = "/api/v1/nodes/a"
RELEASE = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases/gpu-operator"
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    with DevCluster.start((*WITH_CONTROLLERS, Component.ACTORS)) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flux-system"}})
        cluster.apply(repository())
        yield cluster


def repository() -> Object:
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmRepository",
        "metadata": {"name": "charts", "namespace": "flux-system"},
        "spec": {"interval": "1h", "url": "https://example.com/charts"},
    }


def release(name: str) -> Object:
    chart = {"chart": name, "version": "1.0.0", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": "flux-system"},
        "spec": {"interval": "1h", "chart": {"spec": chart}},
    }


def pod(name: str) -> Object:
    container = {
        "name": "c",
        "image": "example.com/image:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "flux-system"},
        "spec": {"containers": [container]},
    }


def until_running(cluster: DevCluster, name: str) -> None:
    path = f"/api/v1/namespaces/flux-system/pods/{name}"
    wait_until(lambda: cluster.rest.get(path)["status"]["phase"] == "Running", f"{name} to run", DEADLINE_S)


def until_offered(cluster: DevCluster, amount: str) -> None:
    def offered() -> bool:
        return bool(cluster.rest.get(NODE)["status"]["allocatable"].get("nvidia.com/gpu") == amount)

    wait_until(offered, f"{amount} GPUs", DEADLINE_S)


def test_pods_run_on_the_gpus_that_a_release_brings_and_a_crash_changes_nothing(cluster: DevCluster) -> None:
    cluster.add_node(
        "a", annotations={"devcluster.magicstick.dev/hardware": "nvidia=2"}, kubelet_version="v1.36.3"
    )
    node = cluster.rest.get(NODE)
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert "nvidia.com/gpu" not in node["status"]["allocatable"]
    cluster.apply([release("node-feature-discovery"), release("gpu-operator")])
    until_offered(cluster, "2")
    cluster.apply(pod("first"))
    until_running(cluster, "first")

    cluster.kill_component(Component.ACTORS)
    cluster.apply(pod("second"))
    until_running(cluster, "second")
    cluster.rest.request("DELETE", RELEASE)
    cluster.start_component(Component.ACTORS)
    until_offered(cluster, "0")
    with pytest.raises(ApiError) as gone:
        cluster.rest.get(RELEASE)
    assert gone.value.code == 404


def test_generated_values_stay_out_of_the_actors_log(cluster: DevCluster) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "namespace": "flux-system",
            "annotations": {"secret-generator.v1.mittwald.de/autogenerate": "KEY"},
        },
    }
    cluster.apply(secret)
    path = "/api/v1/namespaces/flux-system/secrets/s"
    value = wait_until(lambda: cluster.rest.get(path).get("data", {}).get("KEY"), "the key", DEADLINE_S)
    log = cluster.component_log(Component.ACTORS).read_text()
    assert value not in log
    assert cluster.admin_token not in log
