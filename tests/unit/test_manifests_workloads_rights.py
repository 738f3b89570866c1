"""What the programs beside the operator may do, and what they never may (spec: companions §3.10, §2.5, §5)."""

from typing import Final

import pytest

from tests.support.manifests import Object
from tests.support.rendered import Right, find, of_kind, rendered, rights

pytestmark = pytest.mark.cluster  # kustomize is a part of kubectl, which the cluster brings

OURS: Final = "appliance.magicstick.dev"
READS: Final = {"get", "list", "watch"}


def dashboard() -> set[Right]:
    return rights("identity-system", "ai-appliance-dashboard-api")


def granted(namespace: str, group: str, resource: str, verbs: str, name: str = "") -> set[Right]:
    return {Right(namespace, group, resource, name, verb) for verb in verbs.split()}


def writes(given: set[Right]) -> set[tuple[str, str]]:
    return {(right.group, right.resource) for right in given if right.verb not in READS}


# --- the dashboard's API ---------------------------------------------------------------------------------


@pytest.mark.req("MS-013")
def test_the_dashboards_api_writes_wishes_keys_and_settings_and_nothing_that_runs() -> None:
    assert writes(dashboard()) == {
        (OURS, "moduleactivations"),
        (OURS, "appinstances"),
        (OURS, "modelactivations"),
        (OURS, "hostoperations"),
        ("", "secrets"),
        ("", "configmaps"),
    }
    assert {right for right in dashboard() if right.resource == "configmaps" and right.verb not in READS} == {
        Right("flux-system", "", "configmaps", "ai-appliance-settings", "patch")
    }


@pytest.mark.req("MS-013")
def test_the_dashboards_api_writes_no_status() -> None:
    assert [right for right in dashboard() if right.resource.endswith(("/status", "/finalizers"))] == []


@pytest.mark.req("MS-020")
@pytest.mark.parametrize(
    ("group", "resource"),
    [
        (OURS, "appliances"),
        ("", "configmaps"),  # the module catalog is one
        ("kustomize.toolkit.fluxcd.io", "kustomizations"),
        ("", "pods"),
        ("", "services"),
        ("networking.k8s.io", "ingresses"),
        ("gateway.networking.k8s.io", "httproutes"),
        ("", "events"),
        ("events.k8s.io", "events"),
    ],
)
def test_the_dashboards_api_reads_how_everything_is(group: str, resource: str) -> None:
    assert granted("", group, resource, "get list watch") <= dashboard()


def test_the_dashboards_api_reads_secrets_by_name_and_only_where_it_keeps_them() -> None:
    found = {right for right in dashboard() if right.resource == "secrets"}

    assert found == (
        granted("ai", "", "secrets", "get create patch update delete")
        | granted("host-management", "", "secrets", "create get delete")
        | granted("identity-system", "", "secrets", "get", "magicstick-user-admin-client")
    )


def test_of_services_the_dashboards_api_reaches_one_exporter() -> None:
    assert {(right.name, right.verb) for right in dashboard() if right.resource == "services/proxy"} == {
        ("nvidia-dcgm-exporter", "get"),
        ("nvidia-dcgm-exporter:9400", "get"),
    }


def test_the_dashboards_pages_have_no_rights_and_no_token() -> None:
    spec = find("modules/dashboard", "Deployment", "ai-appliance-dashboard")["spec"]["template"]["spec"]

    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("default", False)
    assert find("modules/dashboard", "ServiceAccount", "default")["automountServiceAccountToken"] is False
    assert rights("dashboard", "default") == set()
    assert [each["name"] for each in spec["containers"]] == ["web"]


def test_the_dashboards_bindings_name_the_api_and_the_guard_alone() -> None:
    bindings = [obj for obj in rendered("modules/dashboard") if obj["kind"].endswith("Binding")]
    subjects = {
        (each["kind"], each["namespace"], each["name"]) for obj in bindings for each in obj["subjects"]
    }

    assert subjects == {
        ("ServiceAccount", "identity-system", "ai-appliance-dashboard-api"),
        ("ServiceAccount", "identity-system", "magicstick-access-guard"),
    }


# --- the guard, the catalog ------------------------------------------------------------------------------


def test_the_guard_reads_instances_and_one_secret() -> None:
    assert rights("identity-system", "magicstick-access-guard") == (
        granted("ai-system", OURS, "appinstances", "get")
        | granted("identity-system", "", "secrets", "get", "magicstick-user-admin-client")
    )


CATALOGS_BOUNDS: Final = {
    ("ai", "kubeai.org", "models"): READS,
    ("ai", "", "configmaps"): READS | {"create", "update", "patch"},
    ("ai", "", "secrets"): {"get"},
    ("ai", "", "pods"): {"get", "list", "delete"},
    ("ai", "kubeopencode.io", "agenttemplates"): {"get", "list", "update"},
    ("ai", "coordination.k8s.io", "leases"): {"get", "create", "update", "patch"},
    ("ai-system", OURS, "modelactivations"): READS,
    ("", "apiextensions.k8s.io", "customresourcedefinitions"): {"get"},
}
"""The most that the catalog's controller may do (spec: models §20)."""


def test_the_catalogs_controller_stays_within_its_bounds_and_writes_none_of_our_kinds() -> None:
    given = rights("ai", "ai-model-catalog-controller")

    assert {(right.namespace, right.group, right.resource) for right in given} == CATALOGS_BOUNDS.keys()
    assert all(right.verb in CATALOGS_BOUNDS[right.namespace, right.group, right.resource] for right in given)
    assert {right.name for right in given if right.resource == "customresourcedefinitions"} == {
        "models.kubeai.org",
        f"modelactivations.{OURS}",
    }


# --- the private mesh ------------------------------------------------------------------------------------


@pytest.mark.req("MS-025", "MS-026")
def test_the_mesh_reads_models_and_writes_nothing() -> None:
    assert rights("ai", "private-mesh") == (
        granted("ai", "kubeai.org", "models", "get list")
        | granted("ai-system", OURS, "modelactivations", "get list")
    )


@pytest.mark.req("MS-025", "MS-026")
def test_the_mesh_runs_as_the_account_that_may_only_read_and_its_folder_gives_rights_to_no_other() -> None:
    bindings = [obj for obj in rendered("modules/private-mesh") if obj["kind"].endswith("Binding")]

    assert {each["name"] for obj in bindings for each in obj["subjects"]} == {"private-mesh"}
    assert of_kind("modules/private-mesh", "ClusterRoleBinding") == {}
    pod = find("modules/private-mesh", "Deployment", "private-mesh")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "private-mesh"


def tcp(port: int) -> Object:
    return {"protocol": "TCP", "port": port}


def namespace(name: str) -> Object:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def test_the_meshs_boundary_is_who_calls_and_whom_it_calls() -> None:
    spec = find("modules/private-mesh", "NetworkPolicy", "private-mesh-boundary")["spec"]
    litellm = {"podSelector": {"matchLabels": {"app": "litellm"}}}
    dashboard = {"podSelector": {"matchLabels": {"app": "ai-appliance-dashboard-api"}}}

    assert spec["podSelector"] == {"matchLabels": {"app": "private-mesh"}}
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert spec["ingress"] == [
        {"from": [{**namespace("identity-system"), **dashboard}], "ports": [tcp(8080)]},
        {"from": [litellm], "ports": [tcp(8082)]},
        {"from": [namespace("envoy-gateway-system")], "ports": [tcp(8083)]},
        {"ports": [{"protocol": "UDP"}]},
    ]
    assert spec["egress"] == [
        {"to": [litellm], "ports": [tcp(4000), tcp(9099)]},
        {"ports": [{"protocol": "UDP"}]},
        {"ports": [tcp(53), tcp(443), tcp(6443)]},
    ]


@pytest.mark.parametrize(
    ("folder", "name", "label"),
    [
        ("modules/private-mesh", "private-mesh", "private-mesh"),
        ("modules/litellm", "litellm", "litellm"),
        ("modules/dashboard", "ai-appliance-dashboard-api", "ai-appliance-dashboard-api"),
    ],
)
def test_the_pods_that_the_boundary_names_are_labelled_so(folder: str, name: str, label: str) -> None:
    template = find(folder, "Deployment", name)["spec"]["template"]

    assert template["metadata"]["labels"]["app"] == label
