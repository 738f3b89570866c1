"""The manifests on a real API server: applied as users apply them, with the rights that they give."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hack import yamls
from hack.devcluster import CONTROL_PLANE, DevCluster, DevClusterError
from hack.devcluster.rest import ApiError, Rest
from magicstick.catalogs.loader import Catalogs
from magicstick.kube.cache import Caches
from magicstick.kube.client import Client
from magicstick.kube.config import ClusterConfig
from magicstick.runtime.settings import Settings
from tests.support.manifests import MANIFESTS, ROOT, Object, objects, substitute

pytestmark = pytest.mark.cluster

ACCOUNT = "system:serviceaccount:ai-system:magicstick-operator"
MODULES = sorted(file.parent for file in (MANIFESTS / "modules").glob("*/kustomization.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
NAMESPACES = ("flux-system", "ai", "dashboard", "identity-system")
DEPLOYMENT = "/apis/apps/v1/namespaces/ai-system/deployments/magicstick-operator"


def named(path: Path) -> str:
    return path.name


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevCluster]:
    """A control plane of our own, since what we install would be in the way of others."""
    with DevCluster.start(CONTROL_PLANE) as cluster:
        cluster.apply(cluster.crd_files("flux"))
        cluster.apply(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
        )
        yield cluster


@pytest.fixture(scope="module")
def installed(cluster: DevCluster) -> DevCluster:
    """The operator's manifests, applied with the two commands that manifests/kustomization.yaml names."""
    cluster.kubectl("apply", "--server-side", "-f", str(MANIFESTS / "crds"))
    cluster.kubectl("apply", "--server-side", "-k", str(MANIFESTS))
    return cluster


def build(cluster: DevCluster, folder: Path, **variables: str) -> str:
    """What Flux would apply: built by kustomize, variables replaced."""
    return substitute(cluster.kubectl("kustomize", str(folder)), variables)


def built(cluster: DevCluster, folder: Path, **variables: str) -> dict[tuple[str, str], Object]:
    """The same as objects by kind and name; kustomize's hash suffix is cut off."""
    loaded = [obj for obj in yamls.load_all(build(cluster, folder, **variables)) if obj]
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in loaded}


def dry_run(cluster: DevCluster, text: str) -> None:
    """Server-side, with strict field validation; raises DevClusterError when the server refuses any object."""
    cluster.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        stdin=text,
    )


def may(cluster: DevCluster, verb: str, resource: str, namespace: str = "", name: str = "") -> bool:
    """Whether the operator's account has a right."""
    group, _, plural = resource.rpartition("/") if resource.count("/") == 1 else ("", "", resource)
    plural, _, subresource = plural.partition(":")
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": ACCOUNT,
            "groups": ["system:serviceaccounts", "system:serviceaccounts:ai-system", "system:authenticated"],
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": plural,
                "subresource": subresource,
                "namespace": namespace,
                "name": name,
            },
        },
    }
    answer = cluster.rest.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_the_operator_is_installed_with_everything_that_it_needs(installed: DevCluster) -> None:
    appliance = installed.rest.get(
        "/apis/appliance.magicstick.dev/v1alpha1/namespaces/ai-system/appliances/local"
    )
    config_maps = installed.rest.get("/api/v1/namespaces/ai-system/configmaps")

    assert appliance["spec"]["profile"] == "ai-workstation"
    assert installed.rest.get(DEPLOYMENT)["spec"]["replicas"] == 1
    assert {
        "magicstick-module-catalog",
        "magicstick-app-catalog",
        "magicstick-compute-target-catalog",
        "magicstick-model-presets",
        "magicstick-gpu-compatibility-catalog",
    } <= {item["metadata"]["name"] for item in config_maps["items"]}


def test_applying_again_changes_nothing(installed: DevCluster) -> None:
    before = versions(installed)

    installed.kubectl("apply", "--server-side", "-k", str(MANIFESTS))

    assert versions(installed) == before


def versions(cluster: DevCluster) -> dict[str, str]:
    """The resourceVersions of all that the manifests install."""
    listed = yamls.load_all(cluster.kubectl("kustomize", str(MANIFESTS)))
    paths = [cluster.rest.path_of(obj) for obj in listed if obj]
    return {path: cluster.rest.get(path)["metadata"]["resourceVersion"] for path in paths}


def test_client_side_apply_works_as_well(installed: DevCluster) -> None:
    installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", str(MANIFESTS))


def test_every_object_of_the_static_graph_satisfies_the_server_strictly(installed: DevCluster) -> None:
    dry_run(installed, build(installed, MANIFESTS / "flux"))


@pytest.mark.parametrize("file", EXAMPLES, ids=named)
def test_every_example_satisfies_the_server_strictly(installed: DevCluster, file: Path) -> None:
    text = file.read_text()

    dry_run(installed, text)
    with pytest.raises(DevClusterError, match="field not declared in schema"):
        dry_run(installed, text.replace("\nspec:", "\nspec:\n  retired: true", 1))


def test_examples_ask_only_for_what_the_catalogs_have(installed: DevCluster) -> None:
    modules = catalog(installed, "magicstick-module-catalog", "modules.json")["modules"]
    applications = catalog(installed, "magicstick-app-catalog", "applications.json")["applications"]
    wanted = [obj.get("spec", {}) for _, obj in objects(ROOT / "examples")]

    assert {spec["module"] for spec in wanted if "module" in spec} <= set(modules)
    assert {spec["application"] for spec in wanted if "application" in spec} == {
        "openclaw",
        "hermes",
        "paperclip",
        "kubeopencode",
    }
    assert {spec["application"] for spec in wanted if "application" in spec} <= set(applications)


def catalog(cluster: DevCluster, name: str, key: str) -> dict[str, Any]:
    config_map = cluster.rest.get(f"/api/v1/namespaces/ai-system/configmaps/{name}")
    loaded: dict[str, Any] = json.loads(config_map["data"][key])
    return loaded


@pytest.mark.parametrize("folder", MODULES, ids=named)
def test_without_settings_every_variable_has_its_default(cluster: DevCluster, folder: Path) -> None:
    text = build(cluster, folder)

    assert "${" not in text.replace("${LITELLM_API_KEY}", "")


def test_the_storage_parameter_reaches_the_claim_and_nothing_else(cluster: DevCluster) -> None:
    folder = MANIFESTS / "modules/litellm"
    by_default = built(cluster, folder)
    larger = built(cluster, folder, AI_APPLIANCE_LITELLM_POSTGRES_STORAGE="5Gi")
    claim = ("PersistentVolumeClaim", "litellm-postgresql-data")

    assert [key for key in by_default if by_default[key] != larger[key]] == [claim]
    assert by_default[claim]["spec"]["resources"]["requests"]["storage"] == "1Gi"
    assert larger[claim]["spec"]["resources"]["requests"]["storage"] == "5Gi"


def test_references_that_kubernetes_resolves_survive_flux(cluster: DevCluster) -> None:
    deployment = built(cluster, MANIFESTS / "modules/litellm")["Deployment", "litellm"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value") for each in container["env"]}

    assert environment["DATABASE_URL"] == (
        "postgresql://$(POSTGRES_USER):$(POSTGRES_PASSWORD)@litellm-postgresql.ai.svc.cluster.local:5432/$(POSTGRES_DB)"
    )
    assert list(environment).index("DATABASE_URL") > list(environment).index("POSTGRES_PASSWORD")


def test_a_changed_hook_rolls_the_pod_that_loads_it(cluster: DevCluster) -> None:
    parts = built(cluster, MANIFESTS / "modules/litellm")
    (generated,) = [
        name for kind, name in parts if kind == "ConfigMap" and name.startswith("litellm-mesh-qos-")
    ]
    volumes = parts["Deployment", "litellm"]["spec"]["template"]["spec"]["volumes"]

    assert {"name": "mesh-qos", "configMap": {"name": generated}} in volumes


def test_the_bootstrap_catalog_has_every_document_and_no_model(cluster: DevCluster) -> None:
    data = built(cluster, MANIFESTS / "modules/model-catalog")["ConfigMap", "ai-model-catalog"]["data"]
    documents = {key: json.loads(text) for key, text in data.items() if key.endswith((".json", ".yaml"))}

    assert data["AI_APPLIANCE_MODEL_CATALOG_READY"] == "false"
    assert set(documents) == {
        "catalog.json",
        "chat-models.json",
        "embedding-models.json",
        "openclaw.json",
        "hermes.yaml",
        "opencode-providers.json",
        "paperclip-opencode-providers.json",
        "paperclip-adapter-models.json",
    }
    provider = documents["openclaw.json"]["models"]["providers"]["litellm"]
    assert provider["apiKey"] == "${LITELLM_API_KEY}"
    assert provider["models"] == []
    assert documents["openclaw.json"]["agents"]["defaults"]["compaction"] == {"reserveTokensFloor": 20000}
    assert documents["openclaw.json"]["tools"] == {"profile": "coding"}
    assert documents["hermes.yaml"]["providers"]["litellm"]["models"] == {}
    assert documents["opencode-providers.json"] == documents["paperclip-opencode-providers.json"]
    assert documents["catalog.json"]["models"] == []


@pytest.mark.parametrize(("name", "prune"), [("ai-model-catalog", None), ("ai-external-models", "disabled")])
def test_flux_never_resets_what_others_write_at_run_time(
    cluster: DevCluster, name: str, prune: str | None
) -> None:
    annotations = built(cluster, MANIFESTS / "modules/model-catalog")["ConfigMap", name]["metadata"][
        "annotations"
    ]

    assert annotations["kustomize.toolkit.fluxcd.io/ssa"] == "IfNotPresent"
    assert annotations.get("kustomize.toolkit.fluxcd.io/prune") == prune


@pytest.mark.req("MS-183")
@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "Recreate"},
        {"type": "Recreate", "rollingUpdate": None},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        {"type": "RollingUpdate"},
    ],
    ids=str,
)
def test_flux_upgrades_an_older_deployment_without_a_conflict(
    installed: DevCluster, strategy: Object
) -> None:
    ours = built(installed, MANIFESTS)["Deployment", "magicstick-operator"]
    namespaced = {**ours, "metadata": {**ours["metadata"], "name": "older-operator"}}
    older = {**namespaced, "spec": {**ours["spec"], "strategy": strategy, "minReadySeconds": 5}}
    path = installed.rest.path_of(namespaced)

    as_flux(installed, path, older)
    as_flux(installed, path, namespaced)

    upgraded = installed.rest.get(path)["spec"]
    installed.rest.request("DELETE", path)
    assert upgraded["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }
    assert "minReadySeconds" not in upgraded


def as_flux(cluster: DevCluster, path: str, obj: Object) -> None:
    """Server-side apply as Flux's controller does it, and without force."""
    query = "fieldManager=kustomize-controller&fieldValidation=Strict"
    cluster.rest.request("PATCH", f"{path}?{query}", obj, "application/apply-patch+yaml")


OURS = "appliance.magicstick.dev"
FLUX = "kustomize.toolkit.fluxcd.io"


@pytest.mark.parametrize(
    ("verbs", "resource", "namespace", "name"),
    [
        ("get list watch", "apiextensions.k8s.io/customresourcedefinitions", "", ""),
        ("get list watch", f"{OURS}/appliances", "ai-system", ""),
        ("get update patch", f"{OURS}/appliances:status", "ai-system", ""),
        ("get list watch create update patch", f"{OURS}/moduleactivations", "ai-system", ""),
        ("get update patch", f"{OURS}/moduleactivations:status", "ai-system", ""),
        ("get list watch create update patch delete", f"{FLUX}/kustomizations", "flux-system", ""),
        ("get list watch", "configmaps", "ai-system", "magicstick-module-catalog"),
        ("create", "coordination.k8s.io/leases", "ai-system", ""),
        ("get update patch", "coordination.k8s.io/leases", "ai-system", "magicstick-operator"),
        ("create patch", "events.k8s.io/events", "ai-system", ""),
    ],
)
def test_the_operator_may_do_what_it_does(
    installed: DevCluster, verbs: str, resource: str, namespace: str, name: str
) -> None:
    assert [verb for verb in verbs.split() if not may(installed, verb, resource, namespace, name)] == []


@pytest.mark.req("MS-073")
@pytest.mark.parametrize("namespace", ["ai-system", "ai", "flux-system", "default"])
def test_the_operator_writes_no_config_map_anywhere(installed: DevCluster, namespace: str) -> None:
    writes = ("create", "update", "patch", "delete", "deletecollection")

    assert [
        verb for verb in writes if may(installed, verb, "configmaps", namespace, "magicstick-module-catalog")
    ] == []


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "name"),
    [
        ("delete", f"{OURS}/moduleactivations", "ai-system", ""),
        ("delete", f"{OURS}/appliances", "ai-system", ""),
        ("patch", f"{OURS}/appliances", "ai-system", ""),
        ("list", f"{OURS}/moduleactivations", "", ""),
        ("create", f"{FLUX}/kustomizations", "ai-system", ""),
        ("list", f"{FLUX}/kustomizations", "", ""),
        ("create", "configmaps", "ai-system", ""),
        ("patch", "configmaps", "ai", "demo-realtime"),
        ("get", "secrets", "ai-system", ""),
        ("list", "secrets", "", ""),
        ("get", "secrets", "flux-system", ""),
        ("patch", "nodes", "", ""),
        ("get", "coordination.k8s.io/leases", "ai-system", "another"),
        ("create", "pods", "ai-system", ""),
        ("create", "apps/deployments", "ai", ""),
        ("create", "rbac.authorization.k8s.io/rolebindings", "ai-system", ""),
        ("create", "serviceaccounts:token", "ai-system", ""),
    ],
)
def test_the_operator_may_not_do_what_it_does_not(
    installed: DevCluster, verb: str, resource: str, namespace: str, name: str
) -> None:
    assert not may(installed, verb, resource, namespace, name)


def test_config_maps_may_be_listed_and_not_changed(installed: DevCluster) -> None:
    token = installed.service_account_token("ai-system", "magicstick-operator")
    rest = Rest(installed.url, token=token, ca_file=installed.ca_file, user_agent="test")
    path = "/api/v1/namespaces/ai-system/configmaps"

    listed = rest.get(f"{path}?fieldSelector=metadata.name=magicstick-module-catalog")

    assert [item["metadata"]["name"] for item in listed["items"]] == ["magicstick-module-catalog"]
    with pytest.raises(ApiError, match="forbidden"):
        rest.request("DELETE", f"{path}/magicstick-module-catalog")


@pytest.fixture
def kubeconfig(installed: DevCluster, tmp_path: Path) -> Path:
    """The operator's own credentials."""
    token = installed.service_account_token("ai-system", "magicstick-operator")
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "operator",
        "clusters": [
            {
                "name": "dev",
                "cluster": {"server": installed.url, "certificate-authority": str(installed.ca_file)},
            }
        ],
        "users": [{"name": "operator", "user": {"token": token}}],
        "contexts": [{"name": "operator", "context": {"cluster": "dev", "user": "operator"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yamls.dump(content))
    return file


@pytest.mark.anyio
@pytest.mark.req("MS-101")
async def test_the_catalogs_are_usable_with_the_operators_own_rights(kubeconfig: Path) -> None:
    config = await ClusterConfig.load(kubeconfig)
    async with Client(config, user_agent="magicstick/test", field_manager="magicstick") as client:
        caches = Caches(client)
        catalogs = Catalogs(caches, Settings.load())
        async with anyio.create_task_group() as group:
            group.start_soon(caches.run)
            await caches.wait_synced(30)
            group.cancel_scope.cancel()

    assert catalogs.problems == {}
    assert catalogs.usable
    assert catalogs.modules is not None
    assert catalogs.modules.flux_name("litellm") == "app-litellm"
