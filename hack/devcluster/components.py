"""What runs in a cluster, with which arguments, and how to tell that it is ready."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from hack.devcluster.layout import LOOPBACK, Layout, Ports

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
AUDIT_POLICY = HERE / "audit-policy.yaml"
# Ranges reserved for benchmarks (RFC 2544) and documentation (RFC 5737): nothing real answers there.
SERVICE_RANGE = "198.18.0.0/16"
POD_RANGE = "198.19.0.0/16"
FLUX_NAMESPACE = "flux-system"
GATEWAY_NAMESPACE = "envoy-gateway-system"


class Component(StrEnum):
    """A process of the cluster; the value is its name in logs and on the command line."""

    ETCD = "etcd"
    API_SERVER = "kube-apiserver"
    CONTROLLER_MANAGER = "kube-controller-manager"
    SCHEDULER = "kube-scheduler"
    KWOK = "kwok"
    KUSTOMIZE_CONTROLLER = "kustomize-controller"
    GIT_SOURCE = "git-source"
    ACTORS = "actors"
    ENVOY_GATEWAY = "envoy-gateway"


CONTROL_PLANE = (Component.ETCD, Component.API_SERVER)
WITH_CONTROLLERS = (*CONTROL_PLANE, Component.CONTROLLER_MANAGER, Component.SCHEDULER, Component.KWOK)
FULL = (*WITH_CONTROLLERS, Component.KUSTOMIZE_CONTROLLER, Component.GIT_SOURCE)
WITH_ACTORS = (*FULL, Component.ACTORS)
WITH_GATEWAY = (*WITH_ACTORS, Component.ENVOY_GATEWAY)


@dataclass(frozen=True, slots=True)
class Context:
    """What the command lines are made of.

    Attributes:
        components: all that this cluster has; the API server's admission depends on it.
        binaries: by program name.
        source: the folder that the Git source serves.
        audit_policy: what the audit log holds of each request.
    """

    layout: Layout
    ports: Ports
    components: tuple[Component, ...]
    binaries: dict[str, Path]
    source: Path
    audit_policy: Path = AUDIT_POLICY

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{LOOPBACK}:{self.ports.apiserver}"


@dataclass(frozen=True, slots=True)
class Command:
    """How one component is started.

    Attributes:
        health: URL that answers 200 once it is ready; empty where the caller asks the API server instead.
    """

    argv: list[str]
    health: str = ""
    env: dict[str, str] = field(default_factory=dict)


# On few processors a collection takes the time that requests wait for: with Go's defaults a bare apply's 99th
# percentile was twice as long. What is thrown away at the stop may hold garbage until a bound is reached.
COLLECT_LATE = {"GOGC": "off"}


def etcd(context: Context) -> Command:
    """Fast and forgetful: what survives is a crash of the process, not of the machine."""
    client = f"http://{LOOPBACK}:{context.ports.etcd}"
    peer = f"http://{LOOPBACK}:{context.ports.etcd_peer}"
    argv = [
        str(context.binaries["etcd"]),
        f"--data-dir={context.layout.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        # As kubeadm sets it. Without, kinds at rest get no bookmarks for up to 10 minutes: the API server
        # sends none that says nothing new.
        "--watch-progress-notify-interval=5s",
        f"--quota-backend-bytes={4 << 30}",
        "--log-level=warn",
    ]
    return Command(argv, f"{client}/health", COLLECT_LATE | {"GOMEMLIMIT": "768MiB"})


def api_server(context: Context) -> Command:
    """RBAC, default admission, TokenRequest, and every request in the audit log before it is answered."""
    layout = context.layout
    argv = [
        str(context.binaries["kube-apiserver"]),
        f"--etcd-servers=http://{LOOPBACK}:{context.ports.etcd}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",  # a loopback address is no valid endpoint
        f"--secure-port={context.ports.apiserver}",
        f"--cert-dir={layout.certificates}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=RBAC",
        f"--token-auth-file={layout.token_file}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.signing_key}",
        f"--service-account-signing-key-file={layout.signing_key}",
        "--allow-privileged=true",
        f"--audit-policy-file={context.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=1000000",  # MiB: never rotated, so a reader needs one file only
        "--shutdown-delay-duration=0s",
        "--profiling=false",
    ]
    if Component.CONTROLLER_MANAGER not in context.components:
        # Nobody would make the `default` service accounts, and no Pod could be created.
        argv.append("--disable-admission-plugins=ServiceAccount")
    return Command(argv, env=COLLECT_LATE | {"GOMEMLIMIT": "1536MiB"})


def controller_manager(context: Context) -> Command:
    """All controllers; nodes may be silent for long, since a busy machine delays their heartbeats."""
    kubeconfig = context.layout.kubeconfig("system:kube-controller-manager")
    argv = [
        str(context.binaries["kube-controller-manager"]),
        f"--kubeconfig={kubeconfig}",
        f"--root-ca-file={context.layout.ca_file}",
        f"--service-account-private-key-file={context.layout.signing_key}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--secure-port=0",
        "--node-monitor-grace-period=5m",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
    return Command(argv)


def scheduler(context: Context) -> Command:
    """With its default profile."""
    kubeconfig = context.layout.kubeconfig("system:kube-scheduler")
    argv = [
        str(context.binaries["kube-scheduler"]),
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={context.ports.scheduler}",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
    return Command(argv, f"https://{LOOPBACK}:{context.ports.scheduler}/readyz")


def kwok(context: Context) -> Command:
    """Kubelets for all nodes: Pods run, Jobs complete, volumes bind, at once; save those that actors play."""
    binary = context.binaries["kwok"]
    address = f"{LOOPBACK}:{context.ports.kwok}"
    folders = (binary.parent / "stages", HERE / "stages")
    stages = [stage for folder in folders for stage in sorted(folder.glob("*.yaml"))]
    argv = [
        str(binary),
        f"--kubeconfig={context.layout.kubeconfig('kwok')}",
        "--manage-all-nodes",
        "--enable-crds=",
        f"--cidr={POD_RANGE}",
        "--node-ip=192.0.2.1",
        "--node-lease-duration-seconds=40",
        f"--server-address={address}",
        *(f"--config={stage}" for stage in stages),
    ]
    return Command(argv, f"http://{address}/readyz")


def kustomize_controller(context: Context) -> Command:
    """Flux's own, looking at unmet dependencies every second instead of every 30."""
    health = f"{LOOPBACK}:{context.ports.kustomize_controller}"
    argv = [
        str(context.binaries["kustomize-controller"]),
        "--watch-all-namespaces",
        "--events-addr=",
        f"--health-addr={health}",
        f"--metrics-addr={LOOPBACK}:{context.ports.kustomize_metrics}",
        "--requeue-dependency=1s",
        "--http-retry=2",
        "--log-encoding=console",
    ]
    env = {
        "KUBECONFIG": str(context.layout.kubeconfig("kustomize-controller")),
        "RUNTIME_NAMESPACE": FLUX_NAMESPACE,
        "TMPDIR": str(context.layout.scratch),
    }
    return Command(argv, f"http://{health}/readyz", env)


def git_source(context: Context) -> Command:
    """Our stand-in for Flux's source-controller."""
    argv = [
        sys.executable,
        "-m",
        "hack.devcluster.actors.git_source",
        f"--kubeconfig={context.layout.kubeconfig('git-source')}",
        f"--port={context.ports.git_source}",
        f"--source={context.source}",
    ]
    return Command(
        argv, f"http://{LOOPBACK}:{context.ports.git_source}/readyz", {"PYTHONPATH": str(REPOSITORY)}
    )


def actors(context: Context) -> Command:
    """Our stand-ins for what needs containers or the network: see `hack.devcluster.actors`."""
    argv = [
        sys.executable,
        "-m",
        "hack.devcluster.actors",
        f"--kubeconfig={context.layout.kubeconfig('actors')}",
        f"--helm={context.binaries['helm']}",
        f"--port={context.ports.actors}",
        f"--litellm-port={context.ports.litellm}",
    ]
    env = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(context.layout.scratch)}
    return Command(argv, f"http://{LOOPBACK}:{context.ports.actors}/readyz", env)


def envoy_gateway(context: Context) -> Command:
    """Envoy Gateway's own controller; the proxies that it asks for are Pods that kwok plays."""
    health = f"{LOOPBACK}:{context.ports.envoy_gateway}"
    folder = context.layout.gateway
    argv = [str(context.binaries["envoy-gateway"]), "server", f"--config-path={folder / 'config.yaml'}"]
    env = {
        "KUBECONFIG": str(context.layout.kubeconfig("envoy-gateway")),
        "ENVOY_GATEWAY_NAMESPACE": GATEWAY_NAMESPACE,
        "CERTIFICATES_ROOT": str(folder),
        "HEALTH_ADDRESS": health,
    }
    return Command(argv, f"http://{health}/readyz", env)


COMMANDS: dict[Component, Callable[[Context], Command]] = {
    Component.ETCD: etcd,
    Component.API_SERVER: api_server,
    Component.CONTROLLER_MANAGER: controller_manager,
    Component.SCHEDULER: scheduler,
    Component.KWOK: kwok,
    Component.KUSTOMIZE_CONTROLLER: kustomize_controller,
    Component.GIT_SOURCE: git_source,
    Component.ACTORS: actors,
    Component.ENVOY_GATEWAY: envoy_gateway,
}

# What each component needs of the cache.
NEEDS: dict[Component, tuple[str, ...]] = {
    Component.GIT_SOURCE: ("flux-crds",),
    Component.KUSTOMIZE_CONTROLLER: ("kustomize-controller", "flux-crds"),
    Component.ACTORS: ("flux-crds", "helm-crds", "helm"),
}


def programs_of(components: tuple[Component, ...]) -> list[str]:
    """Names of the programs that the components need."""
    return [name for each in components for name in NEEDS.get(each, (each.value,))]
