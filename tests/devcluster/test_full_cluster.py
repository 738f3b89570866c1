"""With controllers, kubelets and Flux: what is applied comes to life."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.devcluster import Component, DevCluster
from hack.devcluster.rest import ApiError, Object
from hack.devcluster.waiting import wait_until

pytestmark = pytest.mark.cluster

DEADLINE_S = 60.0
FLUX = "flux-system"
DIRECTIONS = "devcluster.magicstick.dev"


@pytest.fixture(scope="module")
def cluster(cluster_full: DevCluster) -> Iterator[DevCluster]:
    """The session's cluster with a node that has GPUs."""
    name = "devcluster-gpu"
    cluster_full.add_node(name, allocatable={"example.com/gpu": "2"})
    yield cluster_full
    cluster_full.rest.request("DELETE", f"/api/v1/nodes/{name}")


NUMBERS = itertools.count()


@pytest.fixture
def namespace(cluster: DevCluster) -> Iterator[str]:
    """A namespace of the test's own, emptied by the namespace controller afterwards."""
    name = f"devcluster-{next(NUMBERS)}"
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    cluster.rest.request("DELETE", f"/api/v1/namespaces/{name}")


def wait_for(cluster: DevCluster, path: str, condition: Callable[[Object], object], what: str) -> Object:
    def holds() -> Object | None:
        try:
            obj = cluster.rest.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return obj if condition(obj) else None

    return wait_until(holds, what, DEADLINE_S)


def verdict(obj: Object, type_: str = "Ready") -> tuple[str, str]:
    """Status and message of a condition that is up to date."""
    for condition in obj.get("status", {}).get("conditions", []):
        current = condition.get("observedGeneration", obj["metadata"]["generation"])
        if condition["type"] == type_ and current == obj["metadata"]["generation"]:
            return condition["status"], condition["message"]
    return "", ""


def pod_template(labels: dict[str, str], **pod: object) -> Object:
    containers = [
        {"name": "c", "image": "example.com/image", "resources": {"limits": {"example.com/gpu": "1"}}}
    ]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers, **pod}}


def test_a_deployment_with_a_volume_and_gpus_becomes_available(cluster: DevCluster, namespace: str) -> None:
    labels = {"app": "a"}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}
    cluster.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "claim", "namespace": namespace},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "a", "namespace": namespace},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": labels},
                    "template": pod_template(labels, volumes=[volume]),
                },
            },
        ]
    )
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/a"
    wait_for(cluster, path, lambda obj: verdict(obj, "Available")[0] == "True", "the Deployment")
    pods = cluster.rest.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert {(pod["status"]["phase"], pod["spec"]["nodeName"]) for pod in pods} == {
        ("Running", "devcluster-gpu")
    }


def test_a_pod_that_fits_nowhere_stays_pending_with_the_reason(cluster: DevCluster, namespace: str) -> None:
    greedy = pod_template({})
    greedy["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "3"}
    meta = {"name": "greedy", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", **greedy, "metadata": meta})
    path = f"/api/v1/namespaces/{namespace}/pods/greedy"
    pod = wait_for(cluster, path, lambda obj: verdict(obj, "PodScheduled")[0] == "False", "the scheduler")
    assert "Insufficient example.com/gpu" in verdict(pod, "PodScheduled")[1]


def test_a_job_completes(cluster: DevCluster, namespace: str) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"template": pod_template({}, restartPolicy="Never")},
    }
    cluster.apply(job)
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/a"
    wait_for(cluster, path, lambda obj: verdict(obj, "Complete")[0] == "True", "the Job")


def test_dependants_are_collected_with_their_owner(cluster: DevCluster, namespace: str) -> None:
    base = f"/api/v1/namespaces/{namespace}/configmaps"

    def config_map(name: str, **meta: object) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, **meta},
        }

    owner = cluster.apply(config_map("owner"))[0]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    cluster.apply(config_map("dependant", ownerReferences=[reference]))
    cluster.rest.request("DELETE", f"{base}/owner")
    wait_until(lambda: names(cluster, base).isdisjoint({"owner", "dependant"}), "the collector", DEADLINE_S)


def names(cluster: DevCluster, collection: str) -> set[str]:
    return {obj["metadata"]["name"] for obj in cluster.rest.get(collection)["items"]}


class Delivery:
    """A GitRepository that delivers a folder, and a Kustomization that applies it."""

    def __init__(self, cluster: DevCluster, name: str, folder: Path) -> None:
        self.cluster, self.name, self.folder = cluster, name, folder
        self.repository_path = f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{FLUX}/gitrepositories/{name}"
        self.kustomization_path = (
            f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{FLUX}/kustomizations/{name}"
        )
        (folder / "path").mkdir(parents=True)

    def write(self, name: str, **data: str) -> None:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        (self.folder / "path" / f"{name}.yaml").write_text(str(config_map))

    def repository(self, directions: dict[str, str] | None = None, **spec: object) -> None:
        annotations = {f"{DIRECTIONS}/{name}": value for name, value in (directions or {}).items()}
        self.cluster.apply(
            {
                "apiVersion": "source.toolkit.fluxcd.io/v1",
                "kind": "GitRepository",
                "metadata": {
                    "name": self.name,
                    "namespace": FLUX,
                    "annotations": {f"{DIRECTIONS}/folder": str(self.folder), **annotations},
                },
                "spec": {"url": "https://example.com/repository", "interval": "1m", **spec},
            }
        )

    def kustomization(self, namespace: str) -> None:
        self.cluster.apply(
            {
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": {"name": self.name, "namespace": FLUX},
                "spec": {
                    "interval": "1h",
                    "prune": True,
                    "wait": True,
                    "path": "./path",
                    "targetNamespace": namespace,
                    "sourceRef": {"kind": "GitRepository", "name": self.name},
                },
            }
        )

    def wait(self, status: str = "True") -> tuple[Object, Object]:
        """Until the Kustomization has applied what the repository delivers now."""

        def settled() -> tuple[Object, Object] | None:
            repository = self.cluster.rest.get(self.repository_path)
            kustomization = self.cluster.rest.get(self.kustomization_path)
            delivered = repository.get("status", {}).get("artifact", {}).get("revision")
            applied = kustomization.get("status", {}).get("lastAppliedRevision")
            ready = verdict(kustomization)[0] == status and delivered == applied
            return (repository, kustomization) if ready else None

        return wait_until(settled, f"Kustomization {self.name}", DEADLINE_S)


@pytest.fixture
def delivery(cluster: DevCluster, namespace: str, tmp_path: Path) -> Iterator[Delivery]:
    delivery = Delivery(cluster, namespace, tmp_path / "repository")
    delivery.write("first", a="1")
    yield delivery
    for path in (delivery.kustomization_path, delivery.repository_path):
        try:
            cluster.rest.request("DELETE", path)
        except ApiError as error:
            assert error.code == 404  # noqa: PT017 - it may not have been made


def test_a_folder_is_applied_and_follows_its_changes(
    cluster: DevCluster, namespace: str, delivery: Delivery
) -> None:
    delivery.repository()
    delivery.kustomization(namespace)
    first, _ = delivery.wait()
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    assert cluster.rest.get(f"{maps}/first")["data"] == {"a": "1"}

    delivery.write("second", b="2")
    (delivery.folder / "path" / "first.yaml").unlink()
    wait_until(lambda: {"second"} <= names(cluster, maps), "the new file", DEADLINE_S)
    wait_until(lambda: "first" not in names(cluster, maps), "the removed file to be pruned", DEADLINE_S)
    second, _ = delivery.wait()
    assert first["status"]["artifact"]["revision"] != second["status"]["artifact"]["revision"]


def test_a_deleted_kustomization_removes_what_it_applied(
    cluster: DevCluster, namespace: str, delivery: Delivery
) -> None:
    delivery.repository()
    delivery.kustomization(namespace)
    delivery.wait()
    cluster.rest.request("DELETE", delivery.kustomization_path)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    wait_until(lambda: "first" not in names(cluster, maps), "the finalizer of Flux", DEADLINE_S)


def test_the_source_fails_when_told_so_and_recovers(cluster: DevCluster, delivery: Delivery) -> None:
    delivery.repository({"fail": "authentication required"})
    failed = wait_for(
        cluster, delivery.repository_path, lambda obj: verdict(obj)[0] == "False", "the failure"
    )
    assert verdict(failed) == ("False", "authentication required")
    delivery.repository()
    wait_for(cluster, delivery.repository_path, lambda obj: verdict(obj)[0] == "True", "the recovery")


def test_a_suspended_source_is_left_alone(cluster: DevCluster, delivery: Delivery) -> None:
    delivery.repository()
    ready = wait_for(cluster, delivery.repository_path, lambda obj: verdict(obj)[0] == "True", "the source")
    delivery.repository(suspend=True)
    suspended = cluster.rest.get(delivery.repository_path)
    assert suspended["metadata"]["generation"] > ready["metadata"]["generation"]
    delivery.write("first", a="changed")
    # Another source that is looked at later shows that this one has been passed over by then.
    other = Delivery(cluster, f"{delivery.name}-x", delivery.folder.with_name("other"))
    other.write("o", a="1")
    other.repository()
    wait_for(cluster, other.repository_path, lambda obj: verdict(obj)[0] == "True", "the other source")
    cluster.rest.request("DELETE", other.repository_path)
    assert cluster.rest.get(delivery.repository_path)["status"] == ready["status"]
    delivery.repository()
    wait_for(
        cluster,
        delivery.repository_path,
        lambda obj: obj["status"]["artifact"] != ready["status"]["artifact"],
        "the resumed source",
    )


def test_a_requested_reconciliation_is_answered(cluster: DevCluster, delivery: Delivery) -> None:
    delivery.repository()
    patch = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "token-1"}}}
    cluster.rest.request("PATCH", delivery.repository_path, patch, "application/merge-patch+json")
    wait_for(
        cluster,
        delivery.repository_path,
        lambda obj: obj.get("status", {}).get("lastHandledReconcileAt") == "token-1",
        "the answer",
    )


def test_a_source_at_rest_is_not_written(cluster: DevCluster, namespace: str, delivery: Delivery) -> None:
    delivery.repository()
    delivery.kustomization(namespace)
    first, _ = delivery.wait()
    mark = cluster.audit_mark()
    delivery.write("first", a="2")  # the source looks at everything before it reports this
    wait_for(
        cluster,
        delivery.repository_path,
        lambda obj: obj["status"]["artifact"] != first["status"]["artifact"],
        "the change",
    )
    writes = [
        record
        for record in cluster.audit("source-controller", since=mark)
        if record.is_write and record.name == delivery.name
    ]
    assert len(writes) == 1


def test_a_deleted_source_goes_although_it_has_a_finalizer(cluster: DevCluster, delivery: Delivery) -> None:
    delivery.repository()
    ready = wait_for(cluster, delivery.repository_path, lambda obj: verdict(obj)[0] == "True", "the source")
    assert ready["metadata"]["finalizers"] == ["finalizers.fluxcd.io"]
    cluster.rest.request("DELETE", delivery.repository_path)
    collection = delivery.repository_path.rsplit("/", 1)[0]
    wait_until(lambda: delivery.name not in names(cluster, collection), "the source to go", DEADLINE_S)


@pytest.mark.parametrize("component", [Component.GIT_SOURCE, Component.KUSTOMIZE_CONTROLLER])
def test_a_crashed_component_goes_on_after_its_restart(
    cluster: DevCluster, namespace: str, delivery: Delivery, component: Component
) -> None:
    delivery.repository()
    delivery.kustomization(namespace)
    delivery.wait()
    cluster.kill_component(component)
    delivery.write("while-away", a="1")
    cluster.start_component(component)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    wait_until(lambda: {"while-away"} <= names(cluster, maps), "the change to arrive", DEADLINE_S)
