"""What the charts of the modules bring that others look at: definitions of kinds, trimmed to their names.

KubeAI's alone has a schema, and brings objects too: what happens to a Model depends on them. Whoever needs
another kind's real schema has to bring it. Where a definition is there already, it is left alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hack.devcluster.actors import kubeai_chart
from hack.devcluster.actors.following import Object

WITHOUT_SCHEMA: Final[Mapping[str, Any]] = {
    "subresources": {"status": {}},
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}


def no_objects(values: Object, namespace: str) -> list[Object]:  # noqa: ARG001 - as every chart is asked
    """Of a chart whose workloads nobody looks at."""
    return []


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind.

    Attributes:
        versions: the stored one first; all are served.
        version: schema and subresources of each; without a schema unless given.
    """

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...]
    namespaced: bool = True
    version: Mapping[str, Any] = field(default_factory=lambda: WITHOUT_SCHEMA)

    @property
    def name(self) -> str:
        """Of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    def manifest(self, release: str) -> dict[str, Any]:
        """The CustomResourceDefinition, labelled with the Helm release that brings it."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.name,
                "labels": {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": release},
            },
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                },
                "versions": [self._version(version) for version in self.versions],
            },
        }

    def _version(self, version: str) -> dict[str, Any]:
        return {
            "name": version,
            "served": True,
            "storage": version == self.versions[0],
            **self.version,
        }


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, as far as others see it.

    Attributes:
        definitions: it brings these.
        keeps: they survive the uninstallation (the chart's `crds/` folder, or Helm's keep annotation).
        objects: what it renders of its values for a namespace; namespaced, in the order of application.
    """

    definitions: tuple[Definition, ...] = ()
    keeps: bool = True
    objects: Callable[[Object, str], list[Object]] = no_objects


KUBEAI_MODEL: Final = Definition(
    kubeai_chart.GROUP, "Model", "models", (kubeai_chart.VERSION,), version=kubeai_chart.MODEL_VERSION
)
_OPENCODE = "kubeopencode.io"
_NFD = "nfd.k8s-sigs.io"
_CERTIFICATES = "cert-manager.io"

CHARTS: Final[Mapping[str, Chart]] = {
    "cert-manager": Chart(
        (
            Definition(_CERTIFICATES, "Certificate", "certificates", ("v1",)),
            Definition(_CERTIFICATES, "Issuer", "issuers", ("v1",)),
            Definition(_CERTIFICATES, "ClusterIssuer", "clusterissuers", ("v1",), namespaced=False),
        )
    ),
    "node-feature-discovery": Chart(
        (
            Definition(_NFD, "NodeFeature", "nodefeatures", ("v1alpha1",)),
            Definition(_NFD, "NodeFeatureGroup", "nodefeaturegroups", ("v1alpha1",)),
            Definition(_NFD, "NodeFeatureRule", "nodefeaturerules", ("v1alpha1",), namespaced=False),
        )
    ),
    "gpu-operator": Chart(
        (
            Definition("nvidia.com", "ClusterPolicy", "clusterpolicies", ("v1",), namespaced=False),
            Definition("nvidia.com", "NVIDIADriver", "nvidiadrivers", ("v1alpha1",), namespaced=False),
        )
    ),
    "gpu-operator-charts": Chart((Definition("amd.com", "DeviceConfig", "deviceconfigs", ("v1alpha1",)),)),
    "intel-device-plugins-operator": Chart(
        (
            Definition(
                "deviceplugin.intel.com", "GpuDevicePlugin", "gpudeviceplugins", ("v1",), namespaced=False
            ),
        )
    ),
    # A template of the chart: it goes with the release, and all Models with it (spec: platform §2.11).
    "kubeai": Chart((KUBEAI_MODEL,), keeps=False, objects=kubeai_chart.installed),
    "openclaw-operator": Chart(
        (Definition("openclaw.rocks", "OpenClawInstance", "openclawinstances", ("v1alpha1",)),)
    ),
    "hermes-operator": Chart((Definition("hermes.agent", "HermesInstance", "hermesinstances", ("v1",)),)),
    "paperclip-operator": Chart((Definition("paperclip.inc", "Instance", "instances", ("v1alpha1",)),)),
    # Of a Git source: its path there is ./helm, which says nothing, so the source stands before it.
    "agent-sandbox/helm": Chart(
        (Definition("agents.x-k8s.io", "Sandbox", "sandboxes", ("v1beta1", "v1alpha1")),)
    ),
    "kubeopencode": Chart(
        (
            Definition(_OPENCODE, "Agent", "agents", ("v1alpha1",)),
            Definition(_OPENCODE, "AgentTemplate", "agenttemplates", ("v1alpha1",)),
            Definition(_OPENCODE, "CronTask", "crontasks", ("v1alpha1",)),
            Definition(
                _OPENCODE, "KubeOpenCodeConfig", "kubeopencodeconfigs", ("v1alpha1",), namespaced=False
            ),
            Definition(_OPENCODE, "Registry", "registries", ("v1alpha1",)),
            Definition(_OPENCODE, "Task", "tasks", ("v1alpha1",)),
        )
    ),
}
"""By the chart's name."""

NOTHING: Final = Chart()


def chart_of(release: Object) -> str:
    """The name by which the chart of a HelmRelease is found in CHARTS."""
    spec = release["spec"]
    if "chartRef" in spec:
        return str(spec["chartRef"]["name"])
    chart = spec["chart"]["spec"]
    name = str(chart["chart"]).rstrip("/").rsplit("/", 1)[-1]
    return f"{chart['sourceRef']['name']}/{name}" if chart["sourceRef"]["kind"] == "GitRepository" else name
