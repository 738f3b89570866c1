"""What can be done with any cluster, ours or an existing one."""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hack import yamls
from hack.devcluster.build import Builder
from hack.devcluster.errors import DevClusterError
from hack.devcluster.programs import BY_NAME, CRD_GROUPS
from hack.devcluster.rest import ApiError, Object, Rest
from hack.devcluster.waiting import wait_until

APPLY_TIMEOUT_S = 30.0
NODE_TIMEOUT_S = 30.0
NODE_RESOURCES = {"cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "1Ti"}
# Applied first, since the other objects need them.
DEFINITION = "CustomResourceDefinition"
FIRST = "Namespace"


class ClusterAccess:
    """Objects and credentials of a cluster.

    Attributes:
        url: of the API server.
        kubeconfig: of a cluster administrator.
        rest: a small synchronous client with administrator rights (user agent `devcluster`).
    """

    def __init__(self, url: str, kubeconfig: Path, rest: Rest, builder: Builder) -> None:
        self.url = url
        self.kubeconfig = kubeconfig
        self.rest = rest
        self.builder = builder

    def crd_files(self, group: str = "flux") -> list[Path]:
        """CRD files of a foreign project, fetched into the cache when they are not there yet.

        Args:
            group: `flux` has Kustomization and the source kinds (GitRepository, HelmRepository,
                OCIRepository, ...); `helm` has HelmRelease; `gateway` the Gateway API; `envoy` Envoy
                Gateway's own kinds.

        Raises:
            DevClusterError: there is no such group.
            BuildError: they are not in the cache and cannot be fetched or made.
        """
        program = f"{group}-crds"
        if group not in CRD_GROUPS:
            raise DevClusterError(f"no CRD files for {group!r}; there are those of: {', '.join(CRD_GROUPS)}")
        self.builder.ensure([program])
        return sorted((self.builder.folder(BY_NAME[program]) / "crds").glob("*.yaml"))

    def apply(self, source: Path | Object | Iterable[Path | Object]) -> list[Object]:
        """Server-side apply; CRDs and namespaces first, and CRDs are established when it returns.

        Args:
            source: an object, a YAML file (several documents are fine), a folder of such files
                (recursively), or several of these.

        Returns:
            The objects as the server answered them.

        Raises:
            ApiError: the server refused one; those before it are applied.
        """
        objects = load(source)
        kinds = [self.rest.apply(obj) for obj in objects if obj["kind"] == DEFINITION]
        for kind in kinds:  # the server establishes them side by side
            self._wait_established(str(kind["metadata"]["name"]))
        others = sorted((obj for obj in objects if obj["kind"] != DEFINITION), key=_rank)
        return [*kinds, *(self.rest.apply(obj) for obj in others)]

    def add_node(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        allocatable: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        architecture: str = "amd64",
        kubelet_version: str = "",
        ready: bool = True,
    ) -> Object:
        """Adds a node, which kwok plays.

        Args:
            name: of the node.
            labels: beside the usual ones of a Linux node.
            allocatable: extended resources such as `{"nvidia.com/gpu": "2"}`, or other amounts of the
                usual ones (64 CPUs, 256 GiB); capacity is the same.
            annotations: as they are.
            taints: as in the node's spec.
            architecture: of the processor, as kubelets name it.
            kubelet_version: for example `v1.36.3`; without, kwok gives its own, which is no version of
                Kubernetes.
            ready: wait until it is; needs kwok.

        Raises:
            ApiError: the node exists, or a label is malformed.
        """
        resources = {**NODE_RESOURCES, **(allocatable or {})}
        usual = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture,
        }
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {**usual, **(labels or {})},
                "annotations": dict(annotations or {}),
            },
            "spec": {"taints": [dict(taint) for taint in taints]},
            "status": {
                "capacity": resources,
                "allocatable": resources,
                "nodeInfo": {
                    "architecture": architecture,
                    "operatingSystem": "linux",
                    "kubeletVersion": kubelet_version,
                },
            },
        }
        created = self.rest.request("POST", "/api/v1/nodes", node)
        if not ready:
            return created
        return wait_until(lambda: self._ready_node(name), f"node {name} to be ready", NODE_TIMEOUT_S)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Runs kubectl against this cluster and returns what it prints; builds it when need be.

        Raises:
            DevClusterError: it failed; the message is kubectl's.
        """
        binary = self.builder.ensure(["kubectl"])["kubectl"]
        command = [str(binary), f"--kubeconfig={self.kubeconfig}", *arguments]
        result = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if result.returncode:
            raise DevClusterError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def service_account_token(self, namespace: str, name: str, *, seconds: int = 3600) -> str:
        """A token of an existing service account (TokenRequest)."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        return str(self.rest.request("POST", path, request)["status"]["token"])

    def _wait_established(self, crd: str) -> None:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}"

        def established() -> bool:
            return _condition(self.rest.get(path), "Established")

        wait_until(established, f"CRD {crd} to be established", APPLY_TIMEOUT_S)

    def _ready_node(self, name: str) -> Object | None:
        node = self.rest.get(f"/api/v1/nodes/{name}")
        return node if _condition(node, "Ready") else None


def load(source: Path | Object | Iterable[Path | Object]) -> list[Object]:
    """Objects from files, folders and objects, in the order given."""
    if isinstance(source, dict):
        return [source]
    if isinstance(source, Path):
        files = sorted([*source.rglob("*.yaml"), *source.rglob("*.yml")]) if source.is_dir() else [source]
        return [obj for file in files for obj in yamls.load_all(file.read_text()) if obj]
    return [obj for each in source for obj in load(each)]


def exists(rest: Rest, path: str) -> bool:
    """Whether an object is there; False as well while the API server cannot be reached."""
    try:
        rest.get(path)
    except ApiError as error:
        if error.code in {0, 404}:
            return False
        raise
    return True


def _rank(obj: Object) -> bool:
    return bool(obj["kind"] != FIRST)


def _condition(obj: Object, type_: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or []  # a new CRD has null
    return any(each["type"] == type_ and each["status"] == "True" for each in conditions)
