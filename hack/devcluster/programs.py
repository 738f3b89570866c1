"""The programs of the development cluster: where each comes from and how it is built.

Versions stand in one place only, the `go.mod` files under `tools/`; checksums beside them in `go.sum`.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster.errors import BuildError

TOOLS = Path(__file__).resolve().parent / "tools"
BUILD_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
KUBERNETES = "k8s.io/kubernetes"
VERSION_PACKAGE = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class ForeignFiles:
    """Files of a Go module that are not ours to commit, copied into the cache beside a program.

    Attributes:
        module: whose files; its version is the one in the `go.mod` of the program's folder.
        patterns: globs below the module's root.
        target: name of the subfolder in the cache.
    """

    module: str
    patterns: tuple[str, ...]
    target: str


@dataclass(frozen=True, slots=True)
class GeneratedDefinitions:
    """CRD files that a project publishes only beside its program, made anew from its Go types.

    Attributes:
        packages: import paths of the API, required by the `go.mod` of the program's folder, whose program
            is controller-gen.
        target: name of the subfolder in the cache.
    """

    packages: tuple[str, ...]
    target: str


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A change of a program's source before it is compiled, for what none of its options reaches.

    Attributes:
        file: below the root of the program's module.
        before: what stands there, `times` times; anything else ends the build.
        after: what stands there instead.
        times: how often.
    """

    file: str
    before: str
    after: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Program:
    """One thing to have in the cache: a binary, files that belong to it, or both.

    Attributes:
        name: of the binary.
        folder: below `tools/`, holds go.mod and go.sum.
        module: the Go module whose version is the program's version.
        package: what is built; empty where there are only files.
        cold_build_s: what a first build takes on two cores, for the estimate shown.
        disk_mib: what a first build needs, cache, modules and build cache together.
        files: see ForeignFiles.
        definitions: see GeneratedDefinitions; None for most.
        adaptations: of a copy of the module's source; see Adaptation.
    """

    name: str
    folder: str
    module: str
    package: str
    cold_build_s: int
    disk_mib: int
    files: tuple[ForeignFiles, ...] = ()
    definitions: GeneratedDefinitions | None = None
    adaptations: tuple[Adaptation, ...] = ()

    @property
    def has_files(self) -> bool:
        """Whether its folder holds more than a binary, so that only the whole folder is complete."""
        return bool(self.files) or self.definitions is not None

    @property
    def source(self) -> Path:
        """The folder with go.mod and go.sum."""
        return TOOLS / self.folder

    @property
    def version(self) -> str:
        """As go.mod requires it, for example `v1.36.3`."""
        return module_version(self.source / "go.mod", self.module)

    @property
    def ldflags(self) -> str:
        """Strips symbols; Kubernetes takes its version from the linker, as its own builds do."""
        if self.module != KUBERNETES:
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        stamps = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        return " ".join(["-s -w", *(f"-X {VERSION_PACKAGE}.{key}={value}" for key, value in stamps.items())])

    @property
    def cache_key(self) -> str:
        """`<name>-<version>-<digest>`: another version, checksum or flag is another folder of the cache."""
        digest = hashlib.sha256()
        for file in ("go.mod", "go.sum"):
            digest.update((self.source / file).read_bytes())
        parts: tuple[object, ...] = (BUILD_FLAGS, self.ldflags, self.package, self.files)
        if self.definitions is not None:
            parts = (*parts, self.definitions)
        if self.adaptations:
            parts = (*parts, self.adaptations)
        digest.update(repr(parts).encode())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"


def module_version(go_mod: Path, module: str) -> str:
    """The version that a go.mod file requires of a module.

    Raises:
        BuildError: the module is not required there.
    """
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{go_mod} does not require {module}")
    return found.group(1)


def _kubernetes(name: str, cold_build_s: int, disk_mib: int) -> Program:
    return Program(name, "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/{name}", cold_build_s, disk_mib)


ENVOY_GATEWAY = "github.com/envoyproxy/gateway"
# It is made to run in a container of its own: each listener has a fixed port on every interface, and the
# certificates a fixed place. Here several run side by side, on loopback. What it decides stays as it is.
ON_LOOPBACK = (
    Adaptation("internal/xds/runner/runner.go", '"0.0.0.0"', '"127.0.0.1"'),
    Adaptation(
        "internal/xds/bootstrap/bootstrap.go", "DefaultXdsServerPort = 18000", "DefaultXdsServerPort = 0"
    ),
    Adaptation("internal/xds/runner/runner.go", '\t"net"\n', '\t"net"\n\t"os"\n'),
    Adaptation(
        "internal/xds/runner/runner.go",
        "Path = xdsTLS",
        'Path = os.Getenv("CERTIFICATES_ROOT") + xdsTLS',
        times=3,
    ),
    Adaptation("internal/provider/kubernetes/kubernetes.go", '\t"net/http"\n', '\t"net/http"\n\t"os"\n'),
    Adaptation("internal/provider/kubernetes/kubernetes.go", '= ":8081"', '= os.Getenv("HEALTH_ADDRESS")'),
    Adaptation(
        "internal/provider/kubernetes/kubernetes.go",
        "mgrOpts := manager.Options{",
        'mgrOpts := manager.Options{\n\t\tMetrics: metricsserver.Options{BindAddress: "0"},',
    ),
)

# In the order of need: what a test of the control plane waits for comes first.
PROGRAMS: tuple[Program, ...] = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", 40, 700),
    _kubernetes("kube-apiserver", 210, 3000),
    _kubernetes("kubectl", 20, 400),
    _kubernetes("kube-controller-manager", 55, 700),
    _kubernetes("kube-scheduler", 10, 400),
    Program(
        "kwok",
        "kwok",
        "sigs.k8s.io/kwok",
        "sigs.k8s.io/kwok/cmd/kwok",
        55,
        1000,
        files=(
            ForeignFiles(
                "sigs.k8s.io/kwok",
                (
                    "kustomize/stage/node/fast/node-*.yaml",
                    "kustomize/stage/node/heartbeat-with-lease/node-*.yaml",
                    "kustomize/stage/pod/fast/pod-*.yaml",
                    "kustomize/stage/volume/fast/pv*.yaml",
                ),
                "stages",
            ),
            ForeignFiles(
                "sigs.k8s.io/kwok", ("kustomize/stage/volume/fast/storage-class.yaml",), "manifests"
            ),
        ),
    ),
    Program(
        "kustomize-controller",
        "kustomize-controller",
        "github.com/fluxcd/kustomize-controller",
        "github.com/fluxcd/kustomize-controller",
        145,
        1700,
    ),
    Program(
        "envoy-gateway",
        "envoy-gateway",
        ENVOY_GATEWAY,
        f"{ENVOY_GATEWAY}/cmd/envoy-gateway",
        330,
        1700,
        adaptations=ON_LOOPBACK,
    ),
    # Installs the charts of instances in a cluster with actors, and renders them in tests.
    Program("helm", "helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm", 50, 900),
    # Last in the table but quick: a test of the control plane may want the kinds without their controller.
    Program(
        "flux-crds",
        "flux-crds",
        "github.com/fluxcd/source-controller",
        "",
        5,
        50,
        files=(
            ForeignFiles("github.com/fluxcd/source-controller", ("config/crd/bases/*.yaml",), "crds"),
            ForeignFiles("github.com/fluxcd/kustomize-controller", ("config/crd/bases/*.yaml",), "crds"),
        ),
    ),
    Program(
        "helm-crds",
        "helm-crds",
        "github.com/fluxcd/helm-controller/api",
        "sigs.k8s.io/controller-tools/cmd/controller-gen",
        35,
        250,
        definitions=GeneratedDefinitions(("github.com/fluxcd/helm-controller/api/v2",), "crds"),
    ),
    Program(
        "gateway-crds",
        "gateway-crds",
        "sigs.k8s.io/gateway-api",
        "",
        5,
        30,
        files=(
            ForeignFiles(
                "sigs.k8s.io/gateway-api",
                (
                    # All but the policy that forbids the experimental kinds beside the standard ones.
                    "config/crd/standard/gateway.networking.k8s.io_[!v]*.yaml",
                    "config/crd/experimental/gateway.networking.k8s.io_tcproutes.yaml",
                    "config/crd/experimental/gateway.networking.k8s.io_udproutes.yaml",
                ),
                "crds",
            ),
        ),
    ),
    Program(
        "envoy-crds",
        "envoy-crds",
        ENVOY_GATEWAY,
        "",
        10,
        60,
        files=(
            ForeignFiles(
                ENVOY_GATEWAY,
                ("charts/gateway-helm/charts/crds/crds/generated/*.yaml",),
                "crds",
            ),
        ),
    ),
)

CRD_GROUPS: tuple[str, ...] = tuple(
    program.name.removesuffix("-crds") for program in PROGRAMS if program.name.endswith("-crds")
)

BY_NAME: dict[str, Program] = {program.name: program for program in PROGRAMS}
