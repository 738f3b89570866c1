"""The platform below the modules: gateway, identity, first run (spec: platform §1.2 to §1.4)."""

import re
from typing import Any, Final

import pytest

from tests.support.manifests import Object
from tests.support.rendered import DOMAINS, container, environment, find, of_kind, pod, rendered

pytestmark = pytest.mark.cluster  # kustomize is a part of kubectl, which the cluster brings

IDENTITY: Final = "platform/identity"
ROUTE_ACCESS: Final = {"gateway.magicstick.dev/route-access": "true"}


# --- the gateway's release -------------------------------------------------------------------------------


def test_envoy_gateway_comes_from_a_pinned_chart_in_its_own_namespace() -> None:
    source = find("platform/envoy-gateway", "OCIRepository", "envoy-gateway")
    release = find("platform/envoy-gateway", "HelmRelease", "envoy-gateway")

    assert {obj["metadata"].get("namespace", "") for obj in rendered("platform/envoy-gateway")} == {
        "",
        "envoy-gateway-system",
    }
    assert source["spec"] == {
        "interval": "1h0m0s",
        "url": "oci://docker.io/envoyproxy/gateway-helm",
        "ref": {"tag": "v1.8.2"},
        "layerSelector": {
            "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            "operation": "copy",
        },
    }
    assert release["spec"] == {
        "interval": "10m0s",
        "timeout": "10m0s",
        "releaseName": "envoy-gateway",
        "chartRef": {"kind": "OCIRepository", "name": "envoy-gateway"},
        "install": {"crds": "Skip"},
        "upgrade": {"crds": "Skip"},
        "values": {
            "deployment": {
                "replicas": 1,
                "envoyGateway": {
                    "resources": {
                        "requests": {"cpu": "50m", "memory": "128Mi"},
                        "limits": {"cpu": "500m", "memory": "512Mi"},
                    }
                },
            }
        },
    }


def test_an_appliance_of_its_own_lets_the_release_bring_the_gateways_kinds() -> None:
    spec = find(
        "platform/envoy-gateway",
        "HelmRelease",
        "envoy-gateway",
        AI_APPLIANCE_ENVOY_CRDS_POLICY="CreateReplace",
    )["spec"]

    assert (spec["install"], spec["upgrade"]) == ({"crds": "CreateReplace"}, {"crds": "CreateReplace"})


# --- first run -------------------------------------------------------------------------------------------


def test_the_first_run_brings_a_namespace_that_routes_may_be_in_and_the_kind_of_its_record() -> None:
    namespace = find("platform/first-run-setup", "Namespace", "identity-system")
    crd = find(
        "platform/first-run-setup", "CustomResourceDefinition", "appliancesetups.appliance.magicstick.dev"
    )
    (version,) = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]

    assert namespace["metadata"]["labels"] == ROUTE_ACCESS
    assert (crd["spec"]["scope"], crd["spec"]["names"]["shortNames"]) == ("Namespaced", ["apsetup"])
    assert schema["spec"]["required"] == ["setupVersion", "installationId"]
    assert schema["spec"]["properties"]["setupVersion"]["enum"] == ["v1"]
    identifier = schema["spec"]["properties"]["installationId"]
    assert (identifier["minLength"], identifier["maxLength"], identifier["pattern"]) == (
        16,
        64,
        "^[a-f0-9-]+$",
    )
    assert set(schema["status"]["properties"]) == {"phase", "claimedAt", "completedAt", "lastErrorCode"}
    assert schema["status"]["properties"]["phase"]["enum"] == [
        "Pending",
        "Claimed",
        "Applying",
        "Completed",
        "Failed",
        "CompletedLegacy",
    ]
    assert schema["status"]["properties"]["lastErrorCode"]["maxLength"] == 80
    assert "status" in version["subresources"]
    assert [each["name"] for each in version["additionalPrinterColumns"]] == ["Phase", "Completed"]


# --- the Gateway -----------------------------------------------------------------------------------------


def test_the_gateway_has_a_plain_and_an_encrypted_listener_for_the_same_namespaces() -> None:
    spec = find(IDENTITY, "Gateway", "identity-pilot")["spec"]
    admitted = {"namespaces": {"from": "Selector", "selector": {"matchLabels": ROUTE_ACCESS}}}

    assert spec["gatewayClassName"] == "magicstick-envoy"
    assert spec["infrastructure"]["parametersRef"] == {
        "group": "gateway.envoyproxy.io",
        "kind": "EnvoyProxy",
        "name": "identity-pilot",
    }
    assert spec["listeners"] == [
        {"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": admitted},
        {
            "name": "https",
            "protocol": "HTTPS",
            "port": 443,
            "tls": {
                "mode": "Terminate",
                "certificateRefs": [{"kind": "Secret", "name": "identity-pilot-tls"}],
            },
            "allowedRoutes": admitted,
        },
    ]
    assert find(IDENTITY, "GatewayClass", "magicstick-envoy")["spec"] == {
        "controllerName": "gateway.envoyproxy.io/gatewayclass-controller"
    }


def test_the_guard_is_asked_after_the_login() -> None:
    spec = find(IDENTITY, "EnvoyProxy", "identity-pilot")["spec"]

    assert spec["filterOrder"] == [
        {"name": "envoy.filters.http.ext_authz", "after": "envoy.filters.http.jwt_authn"}
    ]
    assert spec["provider"]["kubernetes"]["envoyService"] == {"type": "LoadBalancer"}


def test_whoever_comes_without_encryption_is_sent_where_there_is_one() -> None:
    assert find(IDENTITY, "HTTPRoute", "redirect-http-to-https")["spec"] == {
        "parentRefs": [{"name": "identity-pilot", "sectionName": "http"}],
        "rules": [
            {
                "filters": [
                    {
                        "type": "RequestRedirect",
                        "requestRedirect": {"scheme": "https", "statusCode": 301},
                    }
                ]
            }
        ],
    }


def test_the_certificate_is_for_the_appliances_own_hosts() -> None:
    certificate = find(IDENTITY, "Certificate", "identity-pilot", **DOMAINS)
    issuer = find(IDENTITY, "Issuer", certificate["spec"]["issuerRef"]["name"])

    assert (certificate["apiVersion"], issuer["apiVersion"]) == ("cert-manager.io/v1", "cert-manager.io/v1")
    assert certificate["spec"]["secretName"] == "identity-pilot-tls"
    assert certificate["spec"]["issuerRef"]["kind"] == "Issuer"
    assert issuer["spec"] == {"selfSigned": {}}
    assert certificate["spec"]["dnsNames"] == [
        "id.example.local",
        "auth-pilot.example.local",
        "example.local",
        "dashboard.example.com",
    ]


# --- the identity provider -------------------------------------------------------------------------------


def test_the_identity_provider_is_open_on_its_own_host_and_announced() -> None:
    found = find(IDENTITY, "HTTPRoute", "keycloak", **DOMAINS)

    assert found["spec"] == {
        "parentRefs": [{"name": "identity-pilot", "sectionName": "https"}],
        "hostnames": ["id.example.local"],
        "rules": [{"backendRefs": [{"name": "keycloak", "port": 8080}]}],
    }
    assert found["metadata"]["annotations"] == {"lab42.io/mdns.enabled": "true"}


def test_keycloak_runs_as_specified() -> None:
    running = container(IDENTITY, "keycloak")
    env = {each["name"]: each.get("value") or secret_of(each) for each in running["env"]}

    assert running["image"] == "quay.io/keycloak/keycloak:26.6.3"
    assert running["args"] == ["start", "--import-realm"]
    assert {each["name"]: each["containerPort"] for each in running["ports"]} == {
        "http": 8080,
        "management": 9000,
    }
    assert running["resources"] == {
        "requests": {"cpu": "250m", "memory": "512Mi"},
        "limits": {"cpu": "1", "memory": "1536Mi"},
    }
    assert env == {
        "KC_DB": "postgres",
        "KC_DB_URL_HOST": "keycloak-postgresql",
        "KC_DB_URL_DATABASE": "keycloak-postgresql/POSTGRES_DB",
        "KC_DB_USERNAME": "keycloak-postgresql/POSTGRES_USER",
        "KC_DB_PASSWORD": "keycloak-postgresql/POSTGRES_PASSWORD",
        "KC_BOOTSTRAP_ADMIN_USERNAME": "keycloak-bootstrap-admin/KC_BOOTSTRAP_ADMIN_USERNAME",
        "KC_BOOTSTRAP_ADMIN_PASSWORD": "keycloak-bootstrap-admin/KC_BOOTSTRAP_ADMIN_PASSWORD",
        "KC_HOSTNAME": "https://id.magicstick.local",
        "KC_HTTP_ENABLED": "true",
        "KC_HEALTH_ENABLED": "true",
        "KC_PROXY_HEADERS": "xforwarded",
        "MAGICSTICK_HUMAN_GATEWAY_CLIENT_SECRET": "magicstick-human-gateway-client/client-secret",
        "MAGICSTICK_SETUP_CLIENT_SECRET": "magicstick-setup-client/client-secret",
        "MAGICSTICK_USER_ADMIN_CLIENT_SECRET": "magicstick-user-admin-client/client-secret",
    }


def secret_of(variable: Object) -> str:
    reference = variable["valueFrom"]["secretKeyRef"]
    return f"{reference['name']}/{reference['key']}"


@pytest.mark.parametrize(
    ("probe", "path", "period"),
    [("startup", "/health/started", 5), ("readiness", "/health/ready", 5), ("liveness", "/health/live", 10)],
)
def test_keycloak_is_probed_where_no_route_leads(probe: str, path: str, period: int) -> None:
    found = container(IDENTITY, "keycloak")[f"{probe}Probe"]

    assert found["httpGet"] == {"path": path, "port": "management"}
    assert found["periodSeconds"] == period
    assert probe != "startup" or found["failureThreshold"] == 120


def test_every_secret_that_keycloak_reads_is_in_its_folder_and_has_the_key() -> None:
    secrets = of_kind(IDENTITY, "Secret")
    for variable in container(IDENTITY, "keycloak")["env"]:
        if "valueFrom" in variable:
            reference = variable["valueFrom"]["secretKeyRef"]
            secret = secrets[reference["name"]]
            generated = secret["metadata"]["annotations"]["secret-generator.v1.mittwald.de/autogenerate"]
            assert reference["key"] in {*generated.split(","), *secret["stringData"]}


def test_the_database_is_as_specified_and_its_volume_can_grow() -> None:
    database = find(IDENTITY, "StatefulSet", "keycloak-postgresql")["spec"]
    running = container(IDENTITY, "keycloak-postgresql")

    assert running["image"] == "postgres:17-alpine"
    assert running["envFrom"] == [{"secretRef": {"name": "keycloak-postgresql"}}]
    assert "pg_isready" in running["readinessProbe"]["exec"]["command"][-1]
    assert running["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"cpu": "500m", "memory": "512Mi"},
    }
    assert pod(IDENTITY, "keycloak-postgresql")["spec"]["securityContext"]["fsGroup"] == 999
    assert find(IDENTITY, "Service", "keycloak-postgresql")["spec"]["clusterIP"] == "None"
    assert "volumeClaimTemplates" not in database
    assert {
        "name": "data",
        "persistentVolumeClaim": {"claimName": "keycloak-postgresql-data"},
    } in database["template"]["spec"]["volumes"]


def test_what_people_and_data_depend_on_survives_the_folder() -> None:
    kept = {
        f"{obj['kind']}/{obj['metadata']['name']}"
        for obj in rendered(IDENTITY)
        if obj["metadata"].get("annotations", {}).get("kustomize.toolkit.fluxcd.io/prune") == "disabled"
    }

    assert kept == {
        "Secret/keycloak-postgresql",
        "Secret/keycloak-bootstrap-admin",
        "Secret/magicstick-human-gateway-client",
        "Secret/magicstick-setup-client",
        "Secret/magicstick-user-admin-client",
        "PersistentVolumeClaim/keycloak-postgresql-data",
    }


def test_a_changed_realm_client_or_secret_restarts_keycloak() -> None:
    annotations = find(IDENTITY, "Deployment", "keycloak")["metadata"]["annotations"]
    config_maps = set(annotations["configmap.reloader.stakater.com/reload"].split(","))
    secrets = set(annotations["secret.reloader.stakater.com/reload"].split(","))

    assert config_maps == {"keycloak-realm", "keycloak-clients"} & set(of_kind(IDENTITY, "ConfigMap"))
    assert secrets == {name for name in of_kind(IDENTITY, "Secret") if name.startswith("magicstick-")}


# --- the page behind the login ---------------------------------------------------------------------------


def test_the_test_page_is_behind_the_login_and_nothing_else() -> None:
    policy = find(IDENTITY, "SecurityPolicy", "auth-pilot-oidc", **DOMAINS)["spec"]
    running = container(IDENTITY, "auth-pilot")

    assert find(IDENTITY, "HTTPRoute", "auth-pilot", **DOMAINS)["spec"]["hostnames"] == [
        "auth-pilot.example.local"
    ]
    assert policy["targetRefs"] == [
        {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "auth-pilot"}
    ]
    assert policy["oidc"]["redirectURL"] == "https://auth-pilot.example.local/oauth2/callback"
    assert set(policy) == {"targetRefs", "oidc"}
    assert running["image"] == "nginx:1.27.5-alpine"
    assert running["resources"] == {
        "requests": {"cpu": "10m", "memory": "16Mi"},
        "limits": {"cpu": "100m", "memory": "64Mi"},
    }
    assert [each["port"] for each in find(IDENTITY, "Service", "auth-pilot")["spec"]["ports"]] == [80]


def test_the_page_is_served_on_the_port_that_its_service_reaches_from_files_that_are_there() -> None:
    data = find(IDENTITY, "ConfigMap", "auth-pilot")["data"]
    running = container(IDENTITY, "auth-pilot")
    (mount,) = [each for each in running["volumeMounts"] if each["name"] == "pages"]
    (port,) = running["ports"]

    assert running["command"][:3] == ["nginx", "-c", f"{mount['mountPath']}/nginx.conf"]
    assert re.findall(r"listen (\d+);", data["nginx.conf"]) == [str(port["containerPort"])]
    assert f"root {mount['mountPath']};" in data["nginx.conf"]
    assert set(data) == {"nginx.conf", "index.html"}
    written = re.findall(r"(?:pid|temp_path) (\S+)[;]", data["nginx.conf"])
    assert len(written) == 6
    assert all(path.startswith("/tmp/") for path in written)  # noqa: S108 - where the container may write


def test_no_object_of_the_identity_is_one_that_a_setup_wizard_makes() -> None:
    """Its temporary objects are labelled as its own and are not to be taken over (spec: platform §1.4)."""
    ours: list[Any] = [obj for obj in rendered(IDENTITY) if obj["kind"] != "Secret"]

    assert [obj for obj in ours if obj["metadata"]["name"].startswith("magicstick-setup")] == []


def test_the_issuer_is_one_and_the_same_for_keycloak_its_clients_and_every_policy() -> None:
    hostname = environment(IDENTITY, "keycloak")["KC_HOSTNAME"]
    expected = environment("modules/dashboard", "ai-appliance-dashboard-api")["OIDC_EXPECTED_ISSUER"]
    policy = find("modules/litellm", "SecurityPolicy", "static-litellm-public-sso")["spec"]

    assert expected == f"{hostname}/realms/magicstick"
    assert policy["oidc"]["provider"]["issuer"] == expected
    assert policy["jwt"]["providers"][0]["issuer"] == expected
