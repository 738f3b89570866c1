"""What runs behind the gateway: the facts of the specification (spec: platform §2.3 to §2.7)."""

import subprocess
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.kustomize import Folder
from tests.support.manifests import Object
from tests.support.rendered import DOMAINS, container, environment, find, of_kind, pod, rendered

pytestmark = pytest.mark.cluster  # kustomize is a part of kubectl, which the cluster brings

DASHBOARD_IMAGE: Final = (
    "ghcr.io/qualityminds/magicstick-dashboard:sha-89678275a1e9089adca8777c960b02c29097275e"
    "@sha256:7e4c2896745b7a484b53f02afffdcaf44c81ed649454eefbc646a1c0f4a93222"
)
LITELLM_IMAGE: Final = (
    "ghcr.io/berriai/litellm:v1.101.0@sha256:d295634e09c648dcdb72c4cc2dd226f5fb87823a73e88cbbed6f205e4deb044b"
)
MESH_IMAGE: Final = (
    "ghcr.io/qualityminds/magicstick-mesh:v0.76.2-ms1"
    "@sha256:bdcc54e508bf05fac65bd8d6914205f0a2545887bb341a4ac87e2e4c17c07269"
)
OWN_IMAGE: Final = "CHANGEME/magicstick:TAG"


class Workload(NamedTuple):
    """One row: where it is, what runs, on which ports, how it is replaced, who it is, what it gets."""

    folder: str
    namespace: str
    name: str
    image: str
    ports: dict[str, int]
    strategy: str
    user: int | None
    resources: str


WORKLOADS: Final = [
    Workload("modules/dashboard", "dashboard", "ai-appliance-dashboard", DASHBOARD_IMAGE, {"http": 8080}, "default", 101, "10m/24Mi 200m/128Mi"),
    Workload("modules/dashboard", "identity-system", "ai-appliance-dashboard-api", OWN_IMAGE, {"api": 8080}, "Recreate", 65532, "25m/64Mi 250m/256Mi"),
    Workload("modules/dashboard", "identity-system", "magicstick-access-guard", OWN_IMAGE, {"http": 8080}, "RollingUpdate", 65532, "25m/64Mi 250m/256Mi"),
    Workload("modules/litellm", "ai", "litellm", LITELLM_IMAGE, {"http": 4000, "mesh-metrics": 9099}, "Recreate", None, "200m/1024Mi 1/2Gi"),
    Workload("modules/litellm", "ai", "litellm-postgresql", "postgres:16.4", {"postgresql": 5432}, "default", 999, "100m/256Mi 500m/512Mi"),
    Workload("modules/model-catalog", "ai", "ai-model-catalog-controller", OWN_IMAGE, {"health": 8081}, "Recreate", 65532, "25m/64Mi 250m/256Mi"),
    Workload("modules/private-mesh", "ai", "private-mesh", MESH_IMAGE, {"admin": 8080, "imports": 8082, "enrollment": 8083}, "Recreate", 65532, "100m/256Mi 2/1Gi"),
    Workload("modules/anything-llm", "ai", "anything-llm", "mintplexlabs/anythingllm:1.12.1", {"http": 3001}, "Recreate", 1000, "200m/512Mi 1/1Gi"),
    Workload("modules/anything-llm", "ai", "qdrant", "qdrant/qdrant:v1.13.6", {"http": 6333, "grpc": 6334}, "Recreate", 1000, "100m/256Mi 1/1Gi"),
]  # fmt: skip
EVERY_WORKLOAD: Final = pytest.mark.parametrize("row", WORKLOADS, ids=lambda row: row.name)
NEEDED_PROBES: Final = {
    "ai-appliance-dashboard": {"readiness": "/healthz", "liveness": "/healthz"},
    "ai-appliance-dashboard-api": {"readiness": "/healthz", "liveness": "/healthz"},
    "magicstick-access-guard": {"readiness": "/healthz", "liveness": "/healthz"},
    "litellm": {"readiness": "/health/readiness", "liveness": "/health/liveliness"},
    "ai-model-catalog-controller": {"readiness": "/readyz", "liveness": "/livez"},
    "private-mesh": {"readiness": "/healthz", "liveness": "/healthz"},
    "anything-llm": {"readiness": "/api/ping"},
    "qdrant": {"readiness": "/readyz"},
}


def workloads(folder: str) -> dict[str, Object]:
    return of_kind(folder, "Deployment") | of_kind(folder, "StatefulSet")


@EVERY_WORKLOAD
def test_a_workload_is_as_specified(row: Workload) -> None:
    found = workloads(row.folder)[row.name]
    running = container(row.folder, row.name)
    resources = " ".join(
        f"{running['resources'][kind]['cpu']}/{running['resources'][kind]['memory']}"
        for kind in ("requests", "limits")
    )

    assert found["metadata"]["namespace"] == row.namespace
    assert running["image"] == row.image
    ports = {each["name"]: each["containerPort"] for each in running["ports"]}
    assert ports | row.ports == ports
    assert found["spec"].get("strategy", {}).get("type", "default") == row.strategy
    assert pod(row.folder, row.name)["spec"]["securityContext"].get("runAsUser") == row.user
    assert resources == row.resources


def test_no_workload_of_these_folders_is_missing_in_the_table() -> None:
    for folder in {row.folder for row in WORKLOADS}:
        assert set(workloads(folder)) == {row.name for row in WORKLOADS if row.folder == folder}


@EVERY_WORKLOAD
def test_a_service_of_the_same_name_reaches_the_pods(row: Workload) -> None:
    if row.name == "ai-model-catalog-controller":
        assert row.name not in of_kind(row.folder, "Service")  # nobody calls it
        return
    service = of_kind(row.folder, "Service")[row.name]
    labels = pod(row.folder, row.name)["metadata"]["labels"]
    reached = {each["targetPort"] for each in service["spec"]["ports"]}

    assert service["metadata"]["namespace"] == row.namespace
    assert service["spec"]["selector"].items() <= labels.items()
    assert workloads(row.folder)[row.name]["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert reached <= set(row.ports)


@pytest.mark.parametrize(
    "row", [row for row in WORKLOADS if row.name in NEEDED_PROBES], ids=lambda row: row.name
)
def test_probes_ask_what_answers(row: Workload) -> None:
    running = container(row.folder, row.name)
    ports = {each["name"] for each in running["ports"]}

    for probe, path in NEEDED_PROBES[row.name].items():
        assert running[f"{probe}Probe"]["httpGet"]["path"] == path
        assert running[f"{probe}Probe"]["httpGet"]["port"] in ports


@pytest.mark.parametrize("name", ["ai-appliance-dashboard-api", "magicstick-access-guard"])
def test_the_apis_probes_have_the_specified_patience(name: str) -> None:
    running = container("modules/dashboard", name)
    patience = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold")

    assert [running["readinessProbe"][each] for each in patience] == [2, 5, 2, 6]
    assert [running["livenessProbe"][each] for each in patience] == [10, 10, 2, 3]


@EVERY_WORKLOAD
def test_what_a_pod_refers_to_is_in_its_folder_or_comes_from_one_that_it_requires(row: Workload) -> None:
    elsewhere = {
        ("Secret", "litellm-masterkey-secret"): "modules/litellm",
        ("ConfigMap", "ai-model-catalog"): "modules/model-catalog",
    }
    there = {(obj["kind"], obj["metadata"]["name"]): row.folder for obj in rendered(row.folder)} | elsewhere

    for kind, name, optional in references(pod(row.folder, row.name)["spec"]):
        if not optional:
            folder = there[kind, name]
            assert find(folder, kind, name)["metadata"]["namespace"] == row.namespace


def references(spec: Object) -> list[tuple[str, str, bool]]:
    """Secrets, ConfigMaps and claims that a Pod names, and whether it can do without."""
    found = []
    for each in [*spec.get("initContainers", []), *spec["containers"]]:
        for source in each.get("envFrom", []):
            found += [named(key, source[key]) for key in ("secretRef", "configMapRef") if key in source]
        for variable in each.get("env", []):
            source = variable.get("valueFrom", {})
            found += [named(key, source[key]) for key in ("secretKeyRef", "configMapKeyRef") if key in source]
    for volume in spec["volumes"]:
        found += [
            named(key, volume[key])
            for key in ("secret", "configMap", "persistentVolumeClaim")
            if key in volume
        ]
    return found


def named(key: str, reference: Object) -> tuple[str, str, bool]:
    kind = "PersistentVolumeClaim" if "Claim" in key else "Secret" if "ecret" in key else "ConfigMap"
    name = reference.get("name") or reference.get("secretName") or reference["claimName"]
    return kind, name, reference.get("optional", False)


def test_a_pod_on_a_volume_for_one_node_is_never_two() -> None:
    """A claim that is ReadWriteOnce keeps the new Pod waiting for the old one for ever."""
    for row in WORKLOADS:
        claims = [
            each for each in pod(row.folder, row.name)["spec"]["volumes"] if "persistentVolumeClaim" in each
        ]
        if claims and row.name in of_kind(row.folder, "Deployment"):
            assert row.strategy == "Recreate"


@pytest.mark.parametrize(
    ("folder", "claim", "variable"),
    [
        ("modules/litellm", "litellm-postgresql-data", "AI_APPLIANCE_LITELLM_POSTGRES_STORAGE"),
        ("modules/anything-llm", "anything-llm-storage", "AI_APPLIANCE_ANYTHING_LLM_STORAGE"),
        ("modules/anything-llm", "qdrant-storage", "AI_APPLIANCE_QDRANT_STORAGE"),
        ("platform/identity", "keycloak-postgresql-data", "AI_APPLIANCE_KEYCLOAK_POSTGRES_STORAGE"),
    ],
)
def test_a_size_reaches_its_claim_and_nothing_else(folder: str, claim: str, variable: str) -> None:
    changed = [
        (before["kind"], before["metadata"]["name"], after["spec"]["resources"]["requests"])
        for before, after in zip(rendered(folder), rendered(folder, **{variable: "5Gi"}), strict=True)
        if before != after
    ]

    assert changed == [("PersistentVolumeClaim", claim, {"storage": "5Gi"})]
    assert find(folder, "PersistentVolumeClaim", claim)["spec"]["resources"]["requests"] == {"storage": "1Gi"}
    assert find(folder, "PersistentVolumeClaim", claim)["spec"]["accessModes"] == ["ReadWriteOnce"]


# --- the dashboard and the guard -------------------------------------------------------------------------


def test_the_dashboards_api_is_told_hosts_and_names_and_no_secret() -> None:
    (running,) = find("modules/dashboard", "Deployment", "ai-appliance-dashboard-api", **DOMAINS)["spec"][
        "template"
    ]["spec"]["containers"]
    told = {each["name"]: each["value"] for each in running["env"]}

    assert told["OIDC_EXPECTED_ISSUER"] == "https://id.example.local/realms/magicstick"
    assert told["DASHBOARD_ALLOWED_ORIGINS"] == "https://example.local,https://dashboard.example.com"
    assert told["OIDC_EXPECTED_CLIENT_IDS"] == "magicstick-human-gateway-local,magicstick-cli"
    assert told["KEYCLOAK_USER_ADMIN_SECRET_NAME"] == "magicstick-user-admin-client"
    assert (told["DCGM_NAMESPACE"], told["DCGM_SERVICE"], told["DCGM_PORT"]) == (
        "gpu-operator",
        "nvidia-dcgm-exporter",
        "9400",
    )
    assert "envFrom" not in running


def test_the_guard_asks_the_identity_provider_that_the_dashboard_asks() -> None:
    dashboard = environment("modules/dashboard", "ai-appliance-dashboard-api")
    guard = environment("modules/dashboard", "magicstick-access-guard")
    shared = {name for name in guard if name.startswith(("OIDC_", "KEYCLOAK_", "IDENTITY_"))}

    assert len(shared) == 8
    assert {name: guard[name] for name in shared} == {name: dashboard[name] for name in shared}
    assert guard["GUARD_DIRECTORY_CACHE_SECONDS"] == "0"


def test_the_guard_is_there_while_it_is_replaced() -> None:
    spec = find("modules/dashboard", "Deployment", "magicstick-access-guard")["spec"]
    budget = find("modules/dashboard", "PodDisruptionBudget", "magicstick-access-guard")["spec"]

    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert budget["minAvailable"] == 1
    assert budget["selector"] == spec["selector"]


def test_the_guard_is_the_service_that_the_operator_names_in_its_policies() -> None:
    (operator,) = find("modules/dashboard", "Service", "magicstick-access-guard")["spec"]["ports"]

    assert environment_of_the_operator()["GUARD_SERVICE"] == f"magicstick-access-guard:{operator['port']}"


def environment_of_the_operator() -> dict[str, str]:
    deployment = next(
        obj
        for obj in Folder("", substituted=False).built()
        if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "magicstick-operator"
    )
    (running,) = deployment["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in running["env"]}


# --- the model catalog -----------------------------------------------------------------------------------


def test_the_catalogs_controller_has_the_specified_environment() -> None:
    told = environment("modules/model-catalog", "ai-model-catalog-controller")

    assert (
        told.items()
        >= {
            "NAMESPACE": "ai",
            "APPLIANCE_NAMESPACE": "ai-system",
            "LITELLM_BASE_URL": "http://litellm.ai.svc.cluster.local:4000",
            "LITELLM_API_BASE": "http://litellm.ai.svc.cluster.local:4000/v1",
            "KUBEAI_API_BASE": "http://kubeai.ai.svc.cluster.local/openai/v1",
            "CATALOG_CONFIGMAP": "ai-model-catalog",
            "EXTERNAL_MODELS_CONFIGMAP": "ai-external-models",
            "CATALOG_POLL_SECONDS": "30",
            "CATALOG_WATCH_SECONDS": "15",
            "AI_APPLIANCE_DEFAULT_CHAT_MODEL": "auto",
            "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL": "auto",
            "OPENCODE_DEFAULT_CONTEXT_TOKENS": "131072",
            "OPENCODE_DEFAULT_OUTPUT_TOKENS": "8192",
            "PAPERCLIP_OPENCODE_MAX_OUTPUT_TOKENS": "4096",
            "PAPERCLIP_OPENCODE_CONTEXT_HEADROOM_TOKENS": "4096",
            "CONSUMER_RESTART_ENABLED": "true",
            "AGENT_TEMPLATE_SYNC_ENABLED": "true",
            "AGENT_TEMPLATE_NAMES": "litellm-default",
            "LITELLM_MASTER_KEY": None,
        }.items()
    )


# --- anything-llm ----------------------------------------------------------------------------------------


def test_anything_llm_uses_the_appliances_models_and_its_own_vectors() -> None:
    assert find("modules/anything-llm", "ConfigMap", "anything-llm-config")["data"] == {
        "STORAGE_DIR": "/app/server/storage",
        "LLM_PROVIDER": "litellm",
        "LITE_LLM_BASE_PATH": "http://litellm.ai.svc.cluster.local:4000",
        "EMBEDDING_ENGINE": "litellm",
        "EMBEDDING_MODEL_PREF": "",
        "VECTOR_DB": "qdrant",
        "QDRANT_ENDPOINT": "http://qdrant.ai.svc.cluster.local:6333",
        "WHISPER_PROVIDER": "local",
        "TTS_PROVIDER": "native",
    }
    env = {
        each["name"]: each["valueFrom"] for each in container("modules/anything-llm", "anything-llm")["env"]
    }
    assert env == {
        "LITE_LLM_API_KEY": {
            "secretKeyRef": {"name": "litellm-masterkey-secret", "key": "LITELLM_MASTER_KEY"}
        },
        "EMBEDDING_MODEL_PREF": {
            "configMapKeyRef": {"name": "ai-model-catalog", "key": "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL"}
        },
    }


def test_anything_llm_is_restarted_when_the_catalog_changes() -> None:
    annotations = pod("modules/anything-llm", "anything-llm")["metadata"]["annotations"]

    assert annotations == {"ai-appliance.io/model-catalog-consumer": "true"}


@pytest.mark.parametrize(
    ("defaults", "code", "told"),
    [
        ("AI_APPLIANCE_MODEL_CATALOG_READY=true\nAI_APPLIANCE_MODEL_COUNT=1\n", 0, ""),
        ("AI_APPLIANCE_MODEL_CATALOG_READY=false\n", 1, "not published within 10 minutes"),
        ("X_AI_APPLIANCE_MODEL_CATALOG_READY=true\n", 1, "not published within 10 minutes"),
    ],
)
def test_anything_llm_waits_for_a_published_catalog(
    tmp_path: Path, defaults: str, code: int, told: str
) -> None:
    (init,) = pod("modules/anything-llm", "anything-llm")["spec"]["initContainers"]
    (tmp_path / "defaults.env").write_text(defaults)
    (tmp_path / "sleep").write_text("#!/bin/sh\necho slept $1\n")
    (tmp_path / "sleep").chmod(0o755)
    script = init["command"][2].replace("/catalog/", f"{tmp_path}/")

    done = subprocess.run(
        ["sh", "-c", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == code
    assert told in done.stderr
    assert done.stdout.count("slept 5") == (120 if code else 0)


def test_anything_llm_needs_no_power_over_its_node() -> None:
    for name in ("anything-llm", "qdrant"):
        assert container("modules/anything-llm", name)["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_qdrant_can_write_where_it_writes_although_its_files_belong_to_root() -> None:
    running = container("modules/anything-llm", "qdrant")
    mounts = {each["mountPath"] for each in running["volumeMounts"]}

    assert running["securityContext"]["readOnlyRootFilesystem"] is True
    assert mounts == {"/qdrant/storage", "/qdrant/snapshots", "/qdrant/init"}
    assert environment("modules/anything-llm", "qdrant") == {
        "QDRANT__STORAGE__STORAGE_PATH": "/qdrant/storage",
        "QDRANT__SERVICE__API_KEY": None,
        "QDRANT_INIT_FILE_PATH": "/qdrant/init/.qdrant-initialized",
    }


# --- the private mesh ------------------------------------------------------------------------------------


def test_the_mesh_runs_where_its_image_does_and_ends_in_peace() -> None:
    spec = pod("modules/private-mesh", "private-mesh")["spec"]
    running = container("modules/private-mesh", "private-mesh")

    assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert spec["terminationGracePeriodSeconds"] == 30
    assert running["envFrom"] == [{"secretRef": {"name": "private-mesh-service"}}]
    assert environment("modules/private-mesh", "private-mesh") == {"LITELLM_MASTER_KEY": None}
    assert running["livenessProbe"]["initialDelaySeconds"] == 20
    assert {each["mountPath"] for each in running["volumeMounts"]} == {"/state", "/tmp"}  # noqa: S108 - mounts
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}} in spec["volumes"]


@EVERY_WORKLOAD
def test_a_pod_that_reads_a_changing_document_at_its_start_is_restarted_for_it(row: Workload) -> None:
    """Secrets that are generated, and ConfigMaps without a hash in their name."""
    annotations = workloads(row.folder)[row.name]["metadata"].get("annotations", {})
    watched = {
        name
        for kind in ("configmap", "secret")
        for name in annotations.get(f"{kind}.reloader.stakater.com/reload", "").split(",")
    }
    expected = {
        "litellm": {"litellm-config", "litellm-mesh-qos"},
        "private-mesh": {"private-mesh-service", "litellm-masterkey-secret"},
        "anything-llm": {"anything-llm-config", "qdrant-auth-secret", "litellm-masterkey-secret"},
        "qdrant": {"qdrant-auth-secret"},
    }

    assert watched - {""} == expected.get(row.name, set())
