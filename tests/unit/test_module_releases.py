"""The Helm releases of the modules: the rows of the specification (spec: platform §2.0.2, §2.1 to §2.17)."""

import hashlib
from typing import Any, Final

import pytest

from hack import yamls
from tests.support.manifests import MANIFESTS, Object, objects, one
from tests.support.shipped import MODULES

# module, release, target namespace, name of Helm's release, source, its url, chart, version, createNamespace, force
RELEASE_ROWS: Final = """
basis              cert-manager                  cert-manager              cert-manager-cert-manager                             cert-manager           https://charts.jetstack.io                                   cert-manager                  v1.20.2 false -
basis              kdns                          kdns                      kdns-kdns                                             lab42-charts           oci://ghcr.io/lab42/charts                                   kdns                          0.2.3   false -
basis              reloader                      flux-system               flux-system-reloader                                  stakater               https://stakater.github.io/stakater-charts                   reloader                      2.2.9   -     -
basis              kubernetes-secret-generator   flux-system               flux-system-kubernetes-secret-generator               mittwald               https://helm.mittwald.de                                     kubernetes-secret-generator   3.4.1   -     -
hardware-discovery node-feature-discovery        node-feature-discovery    node-feature-discovery-node-feature-discovery         node-feature-discovery https://kubernetes-sigs.github.io/node-feature-discovery/charts node-feature-discovery     0.18.3  false -
gpu                gpu-operator                  gpu-operator              gpu-operator-gpu-operator                             nvidia                 https://helm.ngc.nvidia.com/nvidia                           gpu-operator                  v26.7.0 false -
amd-gpu            amd-gpu-operator              amd-gpu-operator          amd-gpu-operator-amd-gpu-operator                     amd-gpu-operator       https://rocm.github.io/gpu-operator                          gpu-operator-charts           v1.5.1  false -
intel-gpu          intel-device-plugins-operator inteldeviceplugins-system inteldeviceplugins-system-intel-device-p-84a2ab0f40bc intel-device-plugins   https://intel.github.io/helm-charts/                         intel-device-plugins-operator 0.36.0  false -
intel-gpu          intel-gpu-device-plugin       inteldeviceplugins-system inteldeviceplugins-system-intel-gpu-device-plugin     intel-device-plugins   https://intel.github.io/helm-charts/                         intel-device-plugins-gpu      0.36.0  false -
kubeai             kubeai                        ai                        ai-kubeai                                             kubeai                 https://www.kubeai.org                                       kubeai                        0.23.2  false -
openclaw-operator  openclaw-operator             openclaw-operator-system  openclaw-operator-system-openclaw-operator            openclaw-operator      oci://ghcr.io/paperclipinc/charts                            openclaw-operator             0.36.4  true  true
hermes-operator    hermes-operator               hermes-operator-system    hermes-operator-system-hermes-operator                hermes-operator        oci://ghcr.io/paperclipinc/charts                            hermes-operator               0.1.18  true  true
paperclip-operator paperclip-operator            paperclip-operator-system paperclip-operator-system-paperclip-operator          paperclip-operator     oci://ghcr.io/paperclipinc/charts                            paperclip-operator            0.18.0  true  true
agent-sandbox      agent-sandbox                 agent-sandbox-system      agent-sandbox-system-agent-sandbox                    agent-sandbox          https://github.com/kubernetes-sigs/agent-sandbox.git         ./helm                        -       false -
kubeopencode       kubeopencode                  ai                        ai-kubeopencode                                       kubeopencode           oci://ghcr.io/kubeopencode/helm-charts                       kubeopencode                  0.1.6   false -
"""
ROWS: Final = [row.split() for row in RELEASE_ROWS.strip().splitlines()]

VALUES: Final[dict[str, Object]] = {
    "cert-manager": {"crds": {"enabled": True}},
    "reloader": {"reloader": {"watchGlobally": True}},
    "kubernetes-secret-generator": {
        "watchNamespace": "",
        "image": {"registry": "ghcr.io", "repository": "tignis/kubernetes-secret-generator", "tag": "3.4.1"},
    },
    "openclaw-operator": {
        "crds": {"install": True, "keep": True},
        "webhook": {"enabled": False},
        "metrics": {"serviceMonitor": {"enabled": False}},
    },
    "hermes-operator": {"image": {"tag": "v0.1.18"}},
    "paperclip-operator": {
        "crds": {"install": True, "keep": True},
        "image": {
            "repository": "ghcr.io/qualityminds/magicstick-paperclip-operator",
            "tag": "sha-1f9867b542b9b7b10fbc77f631a97a7cb25324be",
        },
    },
    "agent-sandbox": {
        "namespace": {"create": False, "name": "agent-sandbox-system"},
        "image": {"repository": "registry.k8s.io/agent-sandbox/agent-sandbox-controller", "tag": "v0.5.1"},
        "controller": {"extensions": False, "leaderElect": True, "sandboxConcurrentWorkers": 2},
        "resources": {
            "requests": {"cpu": "25m", "memory": "64Mi"},
            "limits": {"cpu": "250m", "memory": "256Mi"},
        },
        "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containerSecurityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    },
    "kubeopencode": {
        "server": {"enabled": True, "service": {"port": 2746}, "ingress": {"enabled": False}},
    },
}
"""All values of the releases that are not of GPUs or KubeAI, whose values have tests of their own."""


def release(module: str, name: str) -> Object:
    return one(MANIFESTS / "modules" / module, "HelmRelease", name, "flux-system")


def helm_name(target: str, name: str) -> str:
    """What Flux calls a release that has no name of its own (spec: platform §0.2)."""
    composed = f"{target}-{name}"
    if len(composed) <= 53:
        return composed
    return f"{composed[:40]}-{hashlib.sha256(composed.encode()).hexdigest()[:12]}"


def test_the_modules_have_exactly_the_specified_releases() -> None:
    found = [
        [module, obj["metadata"]["name"]]
        for module in MODULES.modules
        for _, obj in objects(MANIFESTS / "modules" / module)
        if obj["kind"] == "HelmRelease"
    ]

    assert sorted(found) == sorted(row[:2] for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_a_release_is_as_specified(row: list[str]) -> None:
    module, name, target, helm, source, _, chart, version, create, force = row
    spec = release(module, name)["spec"]

    assert spec["targetNamespace"] == target
    assert helm_name(target, name) == helm
    assert spec["chart"]["spec"]["chart"] == chart
    assert spec["chart"]["spec"].get("version", "-") == version
    assert spec["chart"]["spec"]["sourceRef"]["name"] == source
    assert spec["install"].get("createNamespace", "-") == {"true": True, "false": False}.get(create, "-")
    assert spec["upgrade"].get("force", "-") == {"true": True}.get(force, "-")
    assert [each["name"] for each in spec.get("dependsOn", [])] == (
        ["intel-device-plugins-operator"] if name == "intel-gpu-device-plugin" else []
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_a_source_is_as_specified(row: list[str]) -> None:
    module, name, _, _, source, url, *_ = row
    kind = release(module, name)["spec"]["chart"]["spec"]["sourceRef"]["kind"]
    spec = one(MANIFESTS / "modules" / module, kind, source, "flux-system")["spec"]

    assert spec["url"] == url
    assert spec.get("type") == ("oci" if url.startswith("oci://") else None)
    assert spec["interval"] == ("24h0m0s" if kind == "GitRepository" else "1h0m0s")


@pytest.mark.parametrize("name", VALUES)
def test_the_values_are_as_specified(name: str) -> None:
    (module,) = [row[0] for row in ROWS if row[1] == name]

    assert release(module, name)["spec"]["values"] == VALUES[name]


@pytest.mark.req("MS-208")
def test_the_paperclip_operator_is_the_rebuilt_one_at_a_pinned_version() -> None:
    spec = release("paperclip-operator", "paperclip-operator")["spec"]

    assert spec["chart"]["spec"]["version"] == "0.18.0"
    assert spec["values"]["image"] == VALUES["paperclip-operator"]["image"]


def test_the_paperclip_operator_may_elect_a_leader() -> None:
    folder = MANIFESTS / "modules/paperclip-operator"
    role = one(folder, "Role", "paperclip-operator-leader-election", "paperclip-operator-system")
    binding = one(folder, "RoleBinding", "paperclip-operator-leader-election", "paperclip-operator-system")

    assert [(each["apiGroups"], each["resources"], each["verbs"]) for each in role["rules"]] == [
        (
            ["coordination.k8s.io"],
            ["leases"],
            ["get", "list", "watch", "create", "update", "patch", "delete"],
        ),
        ([""], ["events"], ["create", "patch"]),
    ]
    (subject,) = binding["subjects"]
    assert subject["name"] == helm_name("paperclip-operator-system", "paperclip-operator")


def patches(module: str, name: str) -> dict[str, dict[str, Any]]:
    """What a release's post-renderer does: by the target's kind or selector, value by operation and path."""
    (renderer,) = release(module, name)["spec"]["postRenderers"]
    return {
        patch["target"].get("labelSelector") or f"{patch['target']['kind']}/{patch['target']['name']}": {
            f"{each['op']} {each['path']}": each.get("value") for each in yamls.load(patch["patch"])
        }
        for patch in renderer["kustomize"]["patches"]
    }


def test_kdns_is_made_to_read_routes() -> None:
    container = "/spec/template/spec/containers/0"

    assert patches("basis", "kdns") == {
        "Deployment/kdns-kdns": {
            f"replace {container}/image": "ghcr.io/qualityminds/magicstick-kdns@sha256:"
            "b207d9d9102593196e30ffeb7ac6cde070b02b075494e37532c2d5c2b81e2af1",
            f"replace {container}/env/0": {
                "name": "KUBERNETES_SERVICE_HOST",
                "value": "kubernetes.default.svc",
            },
            f"add {container}/resources/limits/memory": "2Gi",
            "add /spec/strategy": {"type": "Recreate", "rollingUpdate": None},
        },
        "ClusterRole/kdns-kdns-ingress-reader": {
            "add /rules/-": {
                "apiGroups": ["gateway.networking.k8s.io"],
                "resources": ["gateways", "httproutes"],
                "verbs": ["get", "list", "watch"],
            }
        },
    }


def test_the_label_that_a_chart_from_git_cannot_have_is_taken_off() -> None:
    assert patches("agent-sandbox", "agent-sandbox") == {
        "app.kubernetes.io/name=agent-sandbox": {"remove /metadata/labels/helm.sh~1chart": None}
    }
    spec = one(MANIFESTS / "modules/agent-sandbox", "GitRepository", "agent-sandbox")["spec"]
    assert spec["ref"] == {"tag": VALUES["agent-sandbox"]["image"]["tag"]}


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("basis", ["ai", "cert-manager", "development", "kdns"]),
        ("hardware-discovery", ["node-feature-discovery"]),
        ("gpu", ["gpu-operator"]),
        ("amd-gpu", ["amd-gpu-operator"]),
        ("intel-gpu", ["inteldeviceplugins-system"]),
        ("openclaw-operator", ["openclaw-operator-system"]),
        ("hermes-operator", ["hermes-operator-system"]),
        ("paperclip-operator", ["paperclip-operator-system"]),
        ("agent-sandbox", ["agent-sandbox-system"]),
        ("kubeai", []),
        ("freetoken", []),
        ("kubeopencode", []),
        ("odysseus", []),
    ],
)
def test_a_module_makes_its_namespaces(module: str, names: list[str]) -> None:
    found = [obj for _, obj in objects(MANIFESTS / "modules" / module) if obj["kind"] == "Namespace"]

    assert sorted(obj["metadata"]["name"] for obj in found) == names


def test_sandboxes_run_in_a_restricted_namespace() -> None:
    labels = one(MANIFESTS / "modules/agent-sandbox", "Namespace", "agent-sandbox-system")["metadata"][
        "labels"
    ]

    assert labels == {
        "name": "agent-sandbox",
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }


def test_odysseus_is_a_marker() -> None:
    folder = MANIFESTS / "modules/odysseus"

    assert [file.name for file in folder.iterdir()] == ["kustomization.yaml"]
    assert yamls.load((folder / "kustomization.yaml").read_text())["resources"] == []


@pytest.mark.parametrize("key", MODULES.modules)
def test_the_documentation_has_a_line_for_every_module(key: str) -> None:
    page = (MANIFESTS.parent / "docs/modules.md").read_text()

    assert len([line for line in page.splitlines() if line.startswith(f"| `{key}` |")]) == 1
