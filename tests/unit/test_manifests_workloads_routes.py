"""The ways in: which hosts lead where, and that a login stands in front (spec: platform §2.3, §2.20)."""

import json
from typing import Any, Final, NamedTuple

import pytest

from tests.support.kustomize import FOLDERS
from tests.support.manifests import Object
from tests.support.rendered import DOMAINS, find, of_kind, rendered

pytestmark = pytest.mark.cluster  # kustomize is a part of kubectl, which the cluster brings

LOCAL, PUBLIC, DASHBOARD = "example.local", "apps.example.com", "dashboard.example.com"
GATEWAY: Final = [{"name": "identity-pilot", "sectionName": "https"}]
ISSUER: Final = f"https://id.{LOCAL}/realms/magicstick"
INSIDE: Final = (
    "http://keycloak.identity-system.svc.cluster.local:8080/realms/magicstick/protocol/openid-connect"
)
OPEN: Final = {
    "keycloak": "where people log in",
    "private-mesh-enrollment": "called by appliances, which have no account; the mesh checks signatures",
}
"""All routes with a backend and without a login, with the reason."""


class App(NamedTuple):
    """One row of the specification's table."""

    module: str
    service: str
    port: int
    host: str
    forwards: bool


APPS: Final = [
    App("litellm", "litellm", 4000, "litellm", forwards=False),
    App("anything-llm", "anything-llm", 3001, "anythingllm", forwards=True),
    App("kubeopencode", "ai-kubeopencode-server", 2746, "kubeopencode", forwards=True),
]
EVERY_APP: Final = pytest.mark.parametrize("app", APPS, ids=lambda app: app.module)
EVERY_SIDE: Final = pytest.mark.parametrize("side", ["local", "public"])
DOMAIN: Final = {"local": LOCAL, "public": PUBLIC}
CALLBACK_HOST: Final = {"local": LOCAL, "public": DASHBOARD}


def route(app: App, name: str) -> Object:
    return find(f"modules/{app.module}", "HTTPRoute", name, **DOMAINS)


def routes(folder: str) -> dict[str, Object]:
    return of_kind(folder, "HTTPRoute", **DOMAINS)


def policies(folder: str) -> dict[str, Object]:
    return of_kind(folder, "SecurityPolicy", **DOMAINS)


def target(name: str) -> dict[str, str]:
    return {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}


# --- the shared applications -----------------------------------------------------------------------------


@EVERY_APP
@EVERY_SIDE
def test_an_applications_host_leads_to_it_for_as_long_as_an_answer_takes(app: App, side: str) -> None:
    found = route(app, f"static-{app.module}-{side}")

    assert found["metadata"]["namespace"] == "identity-system"
    assert found["spec"] == {
        "parentRefs": GATEWAY,
        "hostnames": [f"{app.host}.{DOMAIN[side]}"],
        "rules": [
            {
                "backendRefs": [{"name": app.service, "namespace": "ai", "port": app.port}],
                "timeouts": {"request": "0s"},
            }
        ],
    }


@EVERY_APP
@EVERY_SIDE
def test_a_callback_is_one_exact_path_on_a_host_that_the_login_knows(app: App, side: str) -> None:
    name = f"static-{app.module}-{side}"

    assert route(app, f"{name}-callback")["spec"] == {
        "parentRefs": GATEWAY,
        "hostnames": [CALLBACK_HOST[side]],
        "rules": [
            {
                "matches": [{"path": {"type": "Exact", "value": f"/oauth2/callback/{name}"}}],
                "backendRefs": [{"name": app.service, "namespace": "ai", "port": app.port}],
            }
        ],
    }


@EVERY_APP
@EVERY_SIDE
def test_a_policy_asks_for_a_login_and_a_role_on_both_routes_of_a_side(app: App, side: str) -> None:
    name = f"static-{app.module}-{side}"

    assert policies(f"modules/{app.module}")[f"{name}-sso"]["spec"] == {
        "targetRefs": [target(name), target(f"{name}-callback")],
        "oidc": {
            "provider": {
                "issuer": ISSUER,
                "authorizationEndpoint": f"{ISSUER}/protocol/openid-connect/auth",
                "endSessionEndpoint": f"{ISSUER}/protocol/openid-connect/logout",
                "tokenEndpoint": f"{INSIDE}/token",
            },
            "clientID": "magicstick-human-gateway-local",
            "clientSecret": {"name": "magicstick-human-gateway-client"},
            "redirectURL": f"https://{CALLBACK_HOST[side]}/oauth2/callback/{name}",
            "logoutPath": "/logout",
            "cookieDomain": DOMAIN[side],
            "cookieNames": {"accessToken": "MagicStickAccessToken", "idToken": "MagicStickIDToken"},
            "forwardAccessToken": app.forwards,
        },
        "jwt": {
            "providers": [
                {
                    "name": "keycloak",
                    "issuer": ISSUER,
                    "remoteJWKS": {
                        "uri": f"{INSIDE}/certs",
                        "backendRefs": [{"name": "keycloak", "port": 8080}],
                    },
                    "extractFrom": {"cookies": ["MagicStickAccessToken"]},
                }
            ]
        },
        "authorization": {
            "defaultAction": "Deny",
            "rules": [
                {
                    "name": "required-magicstick-user",
                    "action": "Allow",
                    "principal": {
                        "jwt": {
                            "provider": "keycloak",
                            "claims": [
                                {
                                    "name": "realm_access.roles",
                                    "valueType": "StringArray",
                                    "values": [
                                        "magicstick-user",
                                        "magicstick-viewer",
                                        "magicstick-operator",
                                        "magicstick-admin",
                                    ],
                                }
                            ],
                        }
                    },
                }
            ],
        },
    }


@EVERY_APP
def test_each_application_has_four_routes_two_policies_and_one_grant(app: App) -> None:
    folder = f"modules/{app.module}"
    name = f"static-{app.module}"

    assert set(routes(folder)) == {
        f"{name}-{side}{suffix}" for side in ("local", "public") for suffix in ("", "-callback")
    }
    assert set(policies(folder)) == {f"{name}-local-sso", f"{name}-public-sso"}
    assert {
        key: (grant["metadata"]["namespace"], grant["spec"])
        for key, grant in of_kind(folder, "ReferenceGrant").items()
    } == {
        f"allow-identity-{app.module}": (
            "ai",
            {
                "from": [
                    {
                        "group": "gateway.networking.k8s.io",
                        "kind": "HTTPRoute",
                        "namespace": "identity-system",
                    }
                ],
                "to": [{"group": "", "kind": "Service", "name": app.service}],
            },
        )
    }


@EVERY_APP
def test_only_the_local_host_is_announced_in_the_local_network(app: App) -> None:
    announced = {
        name
        for name, found in routes(f"modules/{app.module}").items()
        if found["metadata"].get("annotations", {}).get("lab42.io/mdns.enabled") == "true"
    }

    assert announced == {f"static-{app.module}-local"}


def test_the_applications_differ_in_the_tables_values_and_in_nothing_else() -> None:
    """Their files are written thrice; what changes in one has to change in all."""
    neutral = []
    for app in APPS:
        kinds = ("ReferenceGrant", "HTTPRoute", "SecurityPolicy")
        objects = [obj for obj in rendered(f"modules/{app.module}") if obj["kind"] in kinds]
        for obj in objects:
            if obj["kind"] == "SecurityPolicy":
                assert obj["spec"]["oidc"].pop("forwardAccessToken") is app.forwards
        text = json.dumps(objects, sort_keys=True)
        for value, stands_for in [
            (f'"name": "{app.service}", "namespace": "ai", "port": {app.port}', "BACKEND"),
            (f'"kind": "Service", "name": "{app.service}"', "SERVICE"),
            (f"static-{app.module}-", "ROUTE-"),
            (f"allow-identity-{app.module}", "GRANT"),
            (f'"{app.host}.', '"HOST.'),
        ]:
            assert value in text
            text = text.replace(value, stands_for)
        neutral.append(text)

    assert neutral[0] == neutral[1] == neutral[2]


# --- the dashboard ---------------------------------------------------------------------------------------


@EVERY_SIDE
def test_the_dashboard_is_behind_a_login_on_its_own_host(side: str) -> None:
    found = find("modules/dashboard", "HTTPRoute", f"dashboard-{side}", **DOMAINS)
    policy = policies("modules/dashboard")[f"dashboard-{side}-oidc"]["spec"]

    assert found["spec"] == {
        "parentRefs": GATEWAY,
        "hostnames": [CALLBACK_HOST[side]],
        "rules": [
            {"backendRefs": [{"name": "ai-appliance-dashboard", "namespace": "dashboard", "port": 80}]}
        ],
    }
    assert policy["targetRefs"] == [target(f"dashboard-{side}")]
    assert policy["oidc"]["redirectURL"] == f"https://{CALLBACK_HOST[side]}/oauth2/callback"
    assert policy["oidc"]["cookieDomain"] == DOMAIN[side]
    assert policy["oidc"]["forwardAccessToken"] is True
    assert set(policy) == {"targetRefs", "oidc"}  # its API checks roles itself


def test_the_mesh_is_reachable_by_two_calls_and_no_others() -> None:
    assert find("modules/private-mesh", "HTTPRoute", "private-mesh-enrollment", **DOMAINS)["spec"] == {
        "parentRefs": GATEWAY,
        "hostnames": [LOCAL, DASHBOARD],
        "rules": [
            {
                "matches": [
                    {"method": "POST", "path": {"type": "Exact", "value": "/mesh/enroll"}},
                    {"method": "POST", "path": {"type": "Exact", "value": "/mesh/heartbeat"}},
                ],
                "backendRefs": [{"name": "private-mesh", "namespace": "ai", "port": 8083}],
            }
        ],
    }


# --- everything that is shipped --------------------------------------------------------------------------

ALL: Final[list[Object]] = [obj for folder in FOLDERS for obj in folder.built(**DOMAINS)]
ROUTES: Final = {obj["metadata"]["name"]: obj for obj in ALL if obj["kind"] == "HTTPRoute"}
POLICIES: Final = {obj["metadata"]["name"]: obj for obj in ALL if obj["kind"] == "SecurityPolicy"}


def backends(found: Object) -> list[Any]:
    return [backend for rule in found["spec"]["rules"] for backend in rule.get("backendRefs", [])]


def test_nothing_opens_without_a_login_but_the_login_itself_and_the_meshs_door() -> None:
    guarded = {
        reference["name"]
        for policy in POLICIES.values()
        if policy["spec"]["oidc"]["provider"]["issuer"] == ISSUER
        for reference in policy["spec"]["targetRefs"]
    }
    leading = {name for name, found in ROUTES.items() if backends(found)}

    assert leading - guarded == set(OPEN)
    assert guarded <= leading


def test_no_route_is_the_target_of_two_policies() -> None:
    """The gateway takes the older of the two, which nobody can foresee."""
    targets = [each["name"] for policy in POLICIES.values() for each in policy["spec"]["targetRefs"]]

    assert len(targets) == len(set(targets))


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_has_one_rule_and_one_listener(name: str) -> None:
    (parent,) = ROUTES[name]["spec"]["parentRefs"]

    assert len(ROUTES[name]["spec"]["rules"]) == 1
    assert parent["sectionName"] == ("http" if name == "redirect-http-to-https" else "https")


@pytest.mark.parametrize("name", POLICIES)
def test_no_static_policy_asks_the_guard_which_is_for_instances(name: str) -> None:
    assert set(POLICIES[name]["spec"]) <= {"targetRefs", "oidc", "jwt", "authorization"}
    assert type(POLICIES[name]["spec"]["oidc"].get("forwardAccessToken", False)) is bool


@pytest.mark.parametrize("name", POLICIES)
def test_every_redirect_is_one_that_the_client_of_the_login_admits(name: str) -> None:
    config = find("platform/identity", "ConfigMap", "keycloak-clients", **DOMAINS)["data"]
    admitted = json.loads(config["magicstick-human-gateway-local.json"])["redirectUris"]
    redirect = POLICIES[name]["spec"]["oidc"]["redirectURL"]

    assert any(
        redirect == uri or (uri.endswith("/*") and redirect.startswith(uri.removesuffix("*")))
        for uri in admitted
    )


@pytest.mark.parametrize("name", ROUTES)
def test_every_backend_across_namespaces_is_granted_and_there(name: str) -> None:
    grants = {
        (obj["metadata"]["namespace"], to["name"])
        for obj in ALL
        if obj["kind"] == "ReferenceGrant"
        for to in obj["spec"]["to"]
    }
    services = {
        (obj["metadata"]["namespace"], obj["metadata"]["name"], port["port"])
        for obj in ALL
        if obj["kind"] == "Service"
        for port in obj["spec"]["ports"]
    } | {("ai", "ai-kubeopencode-server", 2746)}  # of a chart

    for backend in backends(ROUTES[name]):
        namespace = backend.get("namespace", "identity-system")
        assert namespace == "identity-system" or (namespace, backend["name"]) in grants
        assert (namespace, backend["name"], backend["port"]) in services
