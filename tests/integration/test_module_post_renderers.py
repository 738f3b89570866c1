"""The patches of Helm releases, applied by real kustomize to objects as the charts render them.

A patch that does not fit fails its release, which would show itself on a cluster only.
"""

import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from hack import yamls
from hack.devcluster.build import Builder
from tests.support.kustomize import MODULE_FOLDERS
from tests.support.manifests import Object

pytestmark = pytest.mark.cluster  # kustomize is a part of kubectl, which the cluster brings

KDNS: Final[list[Object]] = [
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kdns-kdns", "namespace": "kdns"},
        "spec": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "kdns",
                            "image": "ghcr.io/lab42/kdns:0.2.3",
                            "env": [
                                {"name": "KUBERNETES_SERVICE_HOST", "value": "localhost"},
                                {"name": "LOG", "value": "info"},
                            ],
                            "resources": {"limits": {"memory": "64Mi"}},
                        }
                    ]
                }
            },
        },
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "kdns-kdns-ingress-reader"},
        "rules": [{"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": ["list"]}],
    },
]


def rendered(tmp_path: Path, module: str, release: str, objects: list[Object]) -> list[Any]:
    """What the release's post-renderer makes of what its chart renders."""
    (renderer,) = MODULE_FOLDERS[module].releases()[release]["spec"]["postRenderers"]
    (tmp_path / "objects.yaml").write_text(yamls.dump_all(objects))
    (tmp_path / "kustomization.yaml").write_text(
        yamls.dump({"resources": ["objects.yaml"], **renderer["kustomize"]})
    )
    program = Builder().ensure(["kubectl"])["kubectl"]
    done = subprocess.run([program, "kustomize", tmp_path], check=True, capture_output=True, text=True)
    return list(yamls.load_all(done.stdout))


def test_kdns_reads_routes_and_never_runs_twice(tmp_path: Path) -> None:
    by_kind = {obj["kind"]: obj for obj in rendered(tmp_path, "basis", "kdns", KDNS)}
    spec = by_kind["Deployment"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]

    assert spec["strategy"]["type"] == "Recreate"
    assert not spec["strategy"].get("rollingUpdate")
    assert container["image"].startswith("ghcr.io/qualityminds/magicstick-kdns@sha256:")
    assert container["resources"] == {"limits": {"memory": "2Gi"}}
    assert container["env"] == [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "kubernetes.default.svc"},
        {"name": "LOG", "value": "info"},
    ]
    assert [rule["resources"] for rule in by_kind["ClusterRole"]["rules"]] == [
        ["ingresses"],
        ["gateways", "httproutes"],
    ]


def test_an_illegal_label_of_a_chart_from_git_is_taken_off_wherever_it_is(tmp_path: Path) -> None:
    labels = {"app.kubernetes.io/name": "agent-sandbox", "helm.sh/chart": "agent-sandbox-0.1.0+abc"}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "labels": labels}}
        for kind in ("Service", "ServiceAccount")
    ]
    foreign: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "y"}}

    made = rendered(tmp_path, "agent-sandbox", "agent-sandbox", [*objects, foreign])

    assert sorted((obj["kind"], str(obj["metadata"].get("labels"))) for obj in made) == [
        ("ConfigMap", "None"),
        ("Service", "{'app.kubernetes.io/name': 'agent-sandbox'}"),
        ("ServiceAccount", "{'app.kubernetes.io/name': 'agent-sandbox'}"),
    ]
