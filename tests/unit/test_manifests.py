"""The operator's manifests: rights, Deployment, the static graph; and the modules' own rules."""

from pathlib import Path
from typing import Any

import pytest

from hack import yamls
from magicstick.api.appliance import ApplianceSpec
from magicstick.api.parse import InvalidSpec, parse
from magicstick.kube.objects import FullObjectMeta, Resource
from magicstick.runtime.settings import Settings
from tests.support.manifests import MANIFESTS, ROOT, Object, objects, one
from tests.support.shipped import MODULES

WRITES = {"create", "update", "patch", "delete", "deletecollection"}
DEPLOYMENT = one(MANIFESTS, "Deployment", "magicstick-operator")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
ENVIRONMENT = {each["name"]: each["value"] for each in CONTAINER["env"]}
FLUX = {obj["metadata"]["name"]: obj["spec"] for _, obj in objects(MANIFESTS / "flux")}
RBAC = [obj for _, obj in objects(MANIFESTS / "rbac")]
FOLDERS = [
    pytest.param(file.parent, id=str(file.parent.relative_to(MANIFESTS)))
    for file in sorted(MANIFESTS.rglob("kustomization.yaml"))
]


def rules(kind: str, *, subject: str = "magicstick-operator") -> list[Object]:
    """The rules of every role of a kind that is bound to the ServiceAccount."""
    bound = {
        obj["roleRef"]["name"]
        for obj in RBAC
        if obj["kind"] == f"{kind}Binding" and any(each["name"] == subject for each in obj["subjects"])
    }
    return [
        rule
        for obj in RBAC
        if obj["kind"] == kind and obj["metadata"]["name"] in bound
        for rule in obj["rules"]
    ]


ALL_RULES = rules("ClusterRole") + rules("Role")


@pytest.mark.req("MS-073")
def test_the_cluster_roles_write_no_config_map_and_only_what_is_wherever_an_instance_is() -> None:
    granted = rules("ClusterRole")
    written = {
        resource: WRITES & set(rule["verbs"])
        for rule in granted
        for resource in rule["resources"]
        if WRITES & set(rule["verbs"])
    }

    assert granted
    assert written == {
        "namespaces": {"create"},
        "referencegrants": {"create", "update", "patch", "delete"},
        "networkpolicies": {"create", "update", "patch", "delete"},
        "resourcequotas": {"create", "update", "patch"},
        "limitranges": {"create", "update", "patch"},
    }


def test_no_right_is_a_wildcard_and_none_leads_to_more_rights() -> None:
    for rule in ALL_RULES:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert not {"secrets", "pods/exec", "serviceaccounts/token"} & set(rule["resources"])


def test_the_operator_deletes_nothing_of_ours_and_never_writes_a_spec_of_the_appliance() -> None:
    ours = [rule for rule in ALL_RULES if rule["apiGroups"] == ["appliance.magicstick.dev"]]
    appliances = [rule for rule in ours if "appliances" in rule["resources"]]

    assert ours
    assert all("delete" not in rule["verbs"] for rule in ours)
    assert [rule["verbs"] for rule in appliances] == [["get", "list", "watch"]]


def test_kustomizations_are_granted_in_fluxs_namespace_alone() -> None:
    roles = [
        (obj["kind"], obj["metadata"]["namespace"], rule["verbs"])
        for obj in RBAC
        if obj["kind"] in {"Role", "ClusterRole"}
        for rule in obj["rules"]
        if "kustomizations" in rule["resources"]
    ]

    assert roles == [("Role", "flux-system", ["get", "list", "watch", "create", "update", "patch", "delete"])]


def test_config_maps_are_read_everywhere_and_written_by_name() -> None:
    """Those of realtime runtimes are found by their labels, wherever they are, and no rule names labels."""
    rules = [rule for rule in ALL_RULES if "configmaps" in rule["resources"]]
    unnamed = [rule["verbs"] for rule in rules if "resourceNames" not in rule]
    granted = {name: rule["verbs"] for rule in rules for name in rule.get("resourceNames", ())}
    catalogs = {
        ENVIRONMENT[f"{catalog}_NAME"]
        for catalog in ("MODULE_CATALOG", "APP_CATALOG", "COMPUTE_TARGET_CATALOG", "MODEL_PRESETS")
    }

    assert unnamed == [["get", "list", "watch"]]
    assert granted == {
        **{
            key: ["get", "list", "watch"]
            for key in (
                *catalogs,
                "magicstick-freetoken-runtime",
                ENVIRONMENT.get("SETTINGS_CONFIGMAP_NAME", "ai-appliance-settings"),
            )
        },
        "magicstick-offloading-profiles": ["get", "list", "watch", "patch"],
    }


@pytest.mark.req("MS-138")
def test_where_models_run_pods_are_only_deleted_and_config_maps_only_read() -> None:
    role = one(MANIFESTS / "modules" / "basis", "Role", "magicstick-operator-models")
    granted = {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}

    assert role["metadata"]["namespace"] == "ai"
    assert granted == {
        **dict.fromkeys(
            ("models", "deployments", "services"), WRITES & {"create", "update", "patch", "delete"}
        ),
        "pods": {"delete"},
        "configmaps": {"get", "list", "watch"},
    }
    assert all("resourceNames" in rule for rule in role["rules"] if "configmaps" in rule["resources"])
    assert all(not WRITES & set(rule["verbs"]) for rule in ALL_RULES if "hostoperations" in rule["resources"])


def test_people_may_switch_things_and_change_nothing_of_the_operator() -> None:
    role = one(MANIFESTS / "rbac", "Role", "magicstick-kubernetes-operator")
    binding = one(MANIFESTS / "rbac", "RoleBinding", "magicstick-kubernetes-operator-runtime")

    (rule,) = role["rules"]
    assert rule["resources"] == ["moduleactivations", "modelactivations", "appinstances"]
    assert set(rule["verbs"]) == {"get", "list", "watch", "create", "patch", "update", "delete"}
    assert [(each["kind"], each["name"]) for each in binding["subjects"]] == [
        ("Group", "oidc:/magicstick-kubernetes-operator")
    ]


def test_every_binding_names_a_role_that_is_there_and_our_own_account() -> None:
    roles = {(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace")) for obj in RBAC}
    for obj in RBAC:
        if obj["kind"].endswith("Binding"):
            assert (obj["roleRef"]["kind"], obj["roleRef"]["name"], obj["metadata"].get("namespace")) in roles
            for subject in obj["subjects"]:
                assert subject["kind"] == "Group" or subject["namespace"] == "ai-system"


@pytest.mark.req("MS-181")
def test_the_deployment_has_one_replica_and_rolls_without_a_second() -> None:
    assert DEPLOYMENT["spec"]["replicas"] == 1
    assert DEPLOYMENT["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }


def test_the_operator_runs_with_no_privilege_at_all() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert (POD["securityContext"]["runAsUser"], POD["securityContext"]["runAsGroup"]) == (65532, 65532)
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [(each["name"], each["mountPath"]) for each in CONTAINER["volumeMounts"]] == [("tmp", "/tmp")]  # noqa: S108 - the mount
    assert POD["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    assert CONTAINER["resources"] == {
        "requests": {"cpu": "25m", "memory": "64Mi"},
        "limits": {"cpu": "250m", "memory": "256Mi"},
    }


def test_only_the_operators_pod_gets_the_accounts_token() -> None:
    account = one(MANIFESTS / "rbac", "ServiceAccount", "magicstick-operator")

    assert account["automountServiceAccountToken"] is False
    assert (POD["serviceAccountName"], POD["automountServiceAccountToken"]) == ("magicstick-operator", True)


def test_the_environment_is_the_settings_and_says_what_they_would_be_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {name.upper() for name in Settings.model_fields}
    by_default = Settings.load()
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    loaded = Settings.load()

    assert set(ENVIRONMENT) - known == {"PYTHONDONTWRITEBYTECODE"}
    differing = {name for name in Settings.model_fields if getattr(loaded, name) != getattr(by_default, name)}
    assert differing == {"metrics_bind_address", "health_bind_address"}


def test_probes_and_scrapes_reach_the_ports_that_the_operator_serves() -> None:
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}

    assert ENVIRONMENT["METRICS_BIND_ADDRESS"] == f"0.0.0.0:{ports['metrics']}"
    assert ENVIRONMENT["HEALTH_BIND_ADDRESS"] == f"0.0.0.0:{ports['health']}"
    probes = [CONTAINER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert [(probe["path"], probe["port"]) for probe in probes] == [
        ("/livez", "health"),
        ("/livez", "health"),
        ("/readyz", "health"),
    ]
    assert POD["terminationGracePeriodSeconds"] > Settings.load().drain_seconds


def test_the_default_appliance_has_exactly_the_four_modules() -> None:
    appliance = one(MANIFESTS, "Appliance", "local")
    spec = parse(ApplianceSpec, Resource(metadata=FullObjectMeta(), spec=appliance["spec"]))

    assert not isinstance(spec, InvalidSpec)
    assert spec.profile == "ai-workstation"
    assert (spec.source.name, spec.source.namespace) == ("flux-system", "flux-system")
    assert {key for key, default in spec.modules.items() if default.enabled} == {
        "basis",
        "dashboard",
        "litellm",
        "model-catalog",
    }
    assert appliance["metadata"]["labels"] == {
        "app.kubernetes.io/name": "magicstick-operator",
        "appliance.magicstick.dev/profile": "ai-workstation",
    }


@pytest.mark.req("MS-179")
def test_the_operators_own_kustomization_neither_waits_nor_checks_anything() -> None:
    spec = FLUX["magicstick-operator"]

    assert spec["wait"] is False
    assert not {"healthChecks", "healthCheckExprs"} & set(spec)


@pytest.mark.parametrize(
    ("name", "path", "depends", "substituted", "timeout"),
    [
        ("infrastructure-basis", "modules/basis", [], False, None),
        ("hardware-discovery", "modules/hardware-discovery", ["infrastructure-basis"], False, None),
        ("first-run-bootstrap", "platform/first-run-setup", [], False, "2m0s"),
        ("envoy-gateway", "platform/envoy-gateway", ["infrastructure-basis"], True, "10m0s"),
        ("identity-pilot", "platform/identity", ["first-run-bootstrap", "envoy-gateway"], True, "15m0s"),
        ("magicstick-operator", "", ["infrastructure-basis"], False, None),
        ("apps", "modules/dashboard", ["infrastructure-basis", "identity-pilot"], True, None),
    ],
)
def test_the_static_graph_is_as_specified(
    name: str, path: str, depends: list[str], substituted: bool, timeout: str | None  # noqa: FBT001 - a case
) -> None:  # fmt: skip
    spec = FLUX[name]

    assert spec["path"] == f"./manifests/{path}".rstrip("/")
    assert (ROOT / spec["path"] / "kustomization.yaml").is_file()
    assert [each["name"] for each in spec.get("dependsOn", [])] == depends
    assert (spec["interval"], spec["retryInterval"], spec["prune"]) == ("10m0s", "1m0s", True)
    assert spec["wait"] == (name != "magicstick-operator")
    assert spec.get("timeout") == timeout
    assert spec["sourceRef"] == {"kind": "GitRepository", "name": "flux-system"}
    assert spec.get("postBuild") == (
        {
            "substitute": {"var_substitution_enabled": "true"},
            "substituteFrom": [{"kind": "ConfigMap", "name": "ai-appliance-settings", "optional": True}],
        }
        if substituted
        else None
    )


def test_static_modules_are_installed_from_the_folders_of_the_catalog() -> None:
    for key, module in MODULES.modules.items():
        if module.static:
            assert FLUX[str(MODULES.flux_name(key))]["path"] == f"./{module.path}"
            assert ("postBuild" in FLUX[str(MODULES.flux_name(key))]) == module.post_build_substitution


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_kustomization_lists_every_file_beside_it(folder: Path) -> None:
    kustomization = yamls.load((folder / "kustomization.yaml").read_text())
    listed = {*kustomization.get("resources", []), "kustomization.yaml"}
    for generator in kustomization.get("configMapGenerator", []):
        listed |= set(generator["files"])
    beside = {file.name for file in folder.iterdir() if file.is_file()}

    assert beside <= {entry.split("/")[0] for entry in listed}
    assert all((folder / entry).exists() for entry in listed)


WITH_TOKEN = {
    "Deployment/magicstick-operator",
    "Deployment/ai-model-catalog-controller",
    "Deployment/ai-appliance-dashboard-api",
    "Deployment/magicstick-access-guard",
    "Deployment/private-mesh",
}
"""All that talk to the API server."""


def pods(folder: Path) -> list[tuple[str, Object]]:
    return [
        (f"{obj['kind']}/{obj['metadata']['name']}", obj["spec"]["template"]["spec"])
        for _, obj in objects(folder)
        if obj["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}
    ]


@pytest.mark.parametrize(
    ("name", "pod"), pods(MANIFESTS), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_pod_of_ours_is_hardened_and_bounded(name: str, pod: Object) -> None:
    assert pod["automountServiceAccountToken"] is (name in WITH_TOKEN)
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert {"requests", "limits"} == set(container["resources"])
        assert ":" in container["image"]
        assert not container["image"].endswith(":latest")


def secrets() -> list[tuple[str, Object]]:
    return [(obj["metadata"]["name"], obj) for _, obj in objects(MANIFESTS) if obj["kind"] == "Secret"]


@pytest.mark.parametrize(
    ("name", "generated", "encoding", "fixed"),
    [
        ("litellm-masterkey-secret", "LITELLM_MASTER_KEY", None, {}),
        ("litellm-postgresql-secret", "POSTGRES_PASSWORD", "hex", {"POSTGRES_DB": "litellm", "POSTGRES_USER": "litellm"}),
        ("qdrant-auth-secret", "QDRANT_API_KEY", None, {}),
        ("private-mesh-service", "MESH_ADMIN_TOKEN,MESH_IMPORT_TOKEN", None, {}),
        ("keycloak-postgresql", "POSTGRES_PASSWORD", "hex", {"POSTGRES_DB": "keycloak", "POSTGRES_USER": "keycloak"}),
        ("keycloak-bootstrap-admin", "KC_BOOTSTRAP_ADMIN_PASSWORD", "hex", {"KC_BOOTSTRAP_ADMIN_USERNAME": "bootstrap-admin"}),
        ("magicstick-human-gateway-client", "client-secret", "hex", {"client-id": "magicstick-human-gateway-local"}),
        ("magicstick-setup-client", "client-secret", "hex", {"client-id": "magicstick-setup"}),
        ("magicstick-user-admin-client", "client-secret", "hex", {"client-id": "magicstick-user-admin"}),
    ],
)  # fmt: skip
def test_a_secret_names_its_keys_holds_none_and_survives(
    name: str, generated: str, encoding: str | None, fixed: dict[str, str]
) -> None:
    secret: dict[str, Any] = dict(secrets())[name]
    prefix = "secret-generator.v1.mittwald.de"
    annotations = secret["metadata"]["annotations"]

    assert annotations[f"{prefix}/autogenerate"] == generated
    assert annotations.get(f"{prefix}/encoding") == encoding
    assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"
    assert secret.get("stringData", {}) == fixed
    assert "data" not in secret


@pytest.mark.req("MS-379")
def test_no_secret_is_shipped_beyond_those_that_are_generated() -> None:
    assert all(
        "secret-generator.v1.mittwald.de/autogenerate" in secret["metadata"]["annotations"]
        for _, secret in secrets()
    )
    assert len(secrets()) == 9


def test_nothing_that_nobody_asked_for_is_applied() -> None:
    kinds = {obj["kind"] for _, obj in objects(MANIFESTS)}

    assert not kinds & {
        "Ingress",
        "ServiceMonitor",
        "PodMonitor",
        "PrometheusRule",
        "LimitRange",
        "PriorityClass",
    }


def test_the_image_is_built_from_hashed_packages_and_runs_as_nobody() -> None:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and line[0].isupper()]
    text = "\n".join(lines)

    assert [arguments for word, arguments in instructions if word == "USER"] == ["65532:65532"]
    assert "--require-hashes" in text
    assert "--only-binary :all:" in text
    assert [arguments.split()[0] for word, arguments in instructions if word == "FROM"] == [
        "${PYTHON_IMAGE}"
    ] * 2
    for word, arguments in instructions:
        if word == "COPY" and not arguments.startswith("--from"):
            assert (ROOT / arguments.split()[0]).exists()


@pytest.mark.req("MS-072")
def test_config_maps_of_realtime_runtimes_are_written_by_a_role_of_their_own() -> None:
    rights = [
        obj for _, obj in objects(MANIFESTS / "modules" / "basis") if obj["kind"] in {"Role", "RoleBinding"}
    ]
    writing = [
        (obj["metadata"]["namespace"], obj["metadata"]["name"], rule["verbs"])
        for obj in rights
        for rule in obj.get("rules", ())
        if "configmaps" in rule["resources"] and not set(rule["verbs"]) <= {"get", "list", "watch"}
    ]
    assert writing == [("ai", "magicstick-realtime-runtime", ["get", "create", "patch", "delete"])]
    binding = next(
        obj for obj in rights if obj["kind"] == "RoleBinding" and obj["metadata"]["name"] == writing[0][1]
    )
    assert binding["roleRef"]["name"] == "magicstick-realtime-runtime"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "magicstick-operator", "namespace": "ai-system"}
    ]
