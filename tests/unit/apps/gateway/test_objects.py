"""Which objects an instance has, and what is in them (spec: modules-and-apps §9.2 to §9.6)."""

from typing import Any

import pytest

from magicstick.apps.gateway.places import references
from magicstick.apps.gateway.plan import wanted
from magicstick.apps.gateway.policies import allowed_roles, digest
from magicstick.apps.kinds import HTTP_ROUTE, REFERENCE_GRANT, SECURITY_POLICY
from magicstick.apps.ports import Access, Backend, Domains, GatewaySite
from magicstick.kube.kinds import Kind
from tests.support import golden
from tests.support.gateway_objects import SITE, Object, access, bodies
from tests.support.shipped import APPLICATIONS

LOCAL, LOCAL_CALLBACK = "kubeopencode-demo-local", "kubeopencode-demo-local-callback"
PUBLIC, PUBLIC_CALLBACK = "kubeopencode-demo-public", "kubeopencode-demo-public-callback"
LOCAL_POLICY, PUBLIC_POLICY = "kubeopencode-demo-local-sso", "kubeopencode-demo-public-sso"
GRANT = "kubeopencode-demo-route-access"
ALL_ROUTES = {LOCAL, LOCAL_CALLBACK, PUBLIC, PUBLIC_CALLBACK}
ROLES = ["magicstick-user", "magicstick-viewer", "magicstick-operator", "magicstick-admin"]


def made(given: Access, site: GatewaySite = SITE) -> dict[str, Object]:
    return {place.key.name: body for place, body in bodies(wanted(given, site)).items()}


def names(given: Access, kind: Kind) -> set[str]:
    return {name for name, body in made(given).items() if body["kind"] == kind.kind}


def rule(body: Object) -> dict[str, Any]:
    (only,) = body["spec"]["rules"]
    return dict(only)


@pytest.mark.parametrize(
    ("case", "given"),
    [
        ("sso", access()),
        ("none-local", access(authentication="none", exposure="local")),
        (
            "hermes",
            access(
                "hermes-one",
                application="hermes",
                role="admin",
                exposure="local",
                backend=Backend("hermes-one", "lab", 9119),
                strip_cookies=True,
            ),
        ),
    ],
)
def test_the_objects_are_as_recorded(case: str, given: Access) -> None:
    golden.check(f"apps-gateway/{case}", list(made(given).values()))


@pytest.mark.req("MS-017")
@pytest.mark.req("MS-158")
@pytest.mark.req("MS-161")
@pytest.mark.parametrize(
    ("authentication", "exposure", "routes", "policies"),
    [
        ("sso", "localAndPublic", ALL_ROUTES, {LOCAL_POLICY, PUBLIC_POLICY}),
        ("sso", "local", {LOCAL, LOCAL_CALLBACK}, {LOCAL_POLICY}),
        ("none", "localAndPublic", {LOCAL, PUBLIC}, {LOCAL_POLICY, PUBLIC_POLICY}),
        ("none", "local", {LOCAL}, {LOCAL_POLICY}),
    ],
)
def test_authentication_and_exposure_say_which_objects_there_are(
    authentication: str, exposure: str, routes: set[str], policies: set[str]
) -> None:
    given = access(authentication=authentication, exposure=exposure)
    assert names(given, HTTP_ROUTE) == routes
    assert names(given, SECURITY_POLICY) == policies
    assert names(given, REFERENCE_GRANT) == {GRANT}
    objects = made(given)
    protected = {target["name"] for name in policies for target in objects[name]["spec"]["targetRefs"]}
    assert protected == routes
    for name in policies:
        spec = objects[name]["spec"]
        assert ({"oidc", "jwt", "authorization"} <= spec.keys()) == (authentication == "sso")
        assert spec["extAuth"]["failOpen"] is False


@pytest.mark.req("MS-159")
def test_sign_in_comes_back_on_one_exact_path_of_the_shared_host() -> None:
    """E26."""
    given = access(domains=Domains("magicstick.local", "example.com", "dashboard.example.com"))
    objects = made(given)
    for side, host in (("local", "magicstick.local"), ("public", "dashboard.example.com")):
        callback = objects[f"kubeopencode-demo-{side}-callback"]
        path = f"/oauth2/callback/kubeopencode-demo-{side}"
        assert callback["spec"]["hostnames"] == [host]
        assert rule(callback)["matches"] == [{"path": {"type": "Exact", "value": path}}]
        assert rule(callback)["backendRefs"] == rule(objects[f"kubeopencode-demo-{side}"])["backendRefs"]
        oidc = objects[f"kubeopencode-demo-{side}-sso"]["spec"]["oidc"]
        assert oidc["redirectURL"] == f"https://{host}{path}"
    assert objects[LOCAL_POLICY]["spec"]["oidc"]["cookieDomain"] == "magicstick.local"
    assert objects[PUBLIC_POLICY]["spec"]["oidc"]["cookieDomain"] == "example.com"


@pytest.mark.req("MS-198")
def test_one_sign_in_serves_local_and_public_hosts() -> None:
    objects = made(access())
    for name in (LOCAL_POLICY, PUBLIC_POLICY):
        spec = objects[name]["spec"]
        assert spec["oidc"]["provider"]["issuer"] == "https://id.magicstick.local/realms/magicstick"
        assert spec["jwt"]["providers"][0]["issuer"] == "https://id.magicstick.local/realms/magicstick"
        assert spec["oidc"]["clientID"] == "magicstick-human-gateway-local"
        assert spec["oidc"]["clientSecret"]["name"] == "magicstick-human-gateway-client"


def catalogued(name: str) -> Access:
    """An instance of an application as the shipped catalog has it."""
    route = APPLICATIONS.applications[name].route
    return access(
        f"{name}-demo",
        application=name,
        backend=Backend(f"{name}-demo", "ai", route.port),
        request_timeout=route.request_timeout,
        strip_cookies=route.strip_cookies,
    )


@pytest.mark.req("MS-163")
@pytest.mark.req("MS-164")
@pytest.mark.parametrize("name", APPLICATIONS.applications)
def test_no_timeout_ends_a_stream_of_an_application_and_sign_in_keeps_the_default(name: str) -> None:
    """E31."""
    objects = made(catalogued(name))
    for side in ("local", "public"):
        assert rule(objects[f"{name}-demo-{side}"])["timeouts"] == {"request": "0s"}
        assert "timeouts" not in rule(objects[f"{name}-demo-{side}-callback"])


def test_a_route_whose_application_asks_for_no_timeout_keeps_the_default() -> None:
    assert "timeouts" not in rule(made(access(request_timeout=None))[LOCAL])


@pytest.mark.req("MS-201")
@pytest.mark.parametrize("name", APPLICATIONS.applications)
def test_hermes_alone_never_sees_the_browsers_cookies(name: str) -> None:
    """E32."""
    objects = made(catalogued(name))
    removal = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["Cookie"]}}
    for side in ("local", "public"):
        route = rule(objects[f"{name}-demo-{side}"])
        assert route.get("filters") == ([removal] if name == "hermes" else None)
        assert name != "hermes" or route["backendRefs"][0]["port"] == 9119
        assert "filters" not in rule(objects[f"{name}-demo-{side}-callback"])


@pytest.mark.req("MS-160")
def test_every_route_leads_to_the_one_service_that_the_grant_admits() -> None:
    objects = made(access(backend=Backend("demo", "lab", 4096)))
    grant = objects[GRANT]
    assert grant["metadata"]["namespace"] == "lab"
    assert grant["spec"] == {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "identity-system"}],
        "to": [{"group": "", "kind": "Service", "name": "demo"}],
    }
    for name in ALL_ROUTES:
        (backend,) = rule(objects[name])["backendRefs"]
        assert (backend["name"], backend["namespace"], backend["port"]) == ("demo", "lab", 4096)


@pytest.mark.req("MS-162")
@pytest.mark.req("MS-230")
@pytest.mark.parametrize(("least", "admitted"), [("user", 4), ("viewer", 3), ("operator", 2), ("admin", 1)])
def test_a_role_admits_itself_and_the_higher_ones(least: Any, admitted: int) -> None:
    assert allowed_roles(least) == ROLES[-admitted:]
    objects = made(access(role=least))
    for name in (LOCAL_POLICY, PUBLIC_POLICY):
        authorization = objects[name]["spec"]["authorization"]
        assert authorization["defaultAction"] == "Deny"
        (only,) = authorization["rules"]
        (claim,) = only["principal"]["jwt"]["claims"]
        assert (only["action"], claim["name"], claim["values"]) == (
            "Allow",
            "realm_access.roles",
            ROLES[-admitted:],
        )


@pytest.mark.req("MS-166")
@pytest.mark.req("MS-173")
@pytest.mark.parametrize("authentication", ["sso", "none"])
def test_the_guard_is_asked_about_this_very_instance(authentication: str) -> None:
    """E38, E27."""
    first = made(access(authentication=authentication))
    again = made(access(authentication=authentication, uid="another"))
    for name in (LOCAL_POLICY, PUBLIC_POLICY):
        asked = first[name]["spec"]["extAuth"]
        assert asked["http"]["path"] == "/internal/instance-access/kubeopencode-demo/uid-kubeopencode-demo"
        assert [(each["name"], each["port"]) for each in asked["http"]["backendRefs"]] == [
            ("magicstick-access-guard", 8080)
        ]
        assert asked["headersToExtAuth"] == ["Cookie", "Authorization"]
        assert asked["failOpen"] is False
        marks = [
            each[name]["metadata"]["annotations"]["appliance.magicstick.dev/access-guard-spec"]
            for each in (first, again)
        ]
        assert marks[0] != marks[1]
        assert marks[0] == digest(first[name]["spec"])


@pytest.mark.req("MS-172")
def test_neither_members_nor_licences_are_in_any_object() -> None:
    """E37: the guard reads grants where they are."""
    everything = repr(made(access())).lower()
    assert "licen" not in everything
    assert "entitlement" not in everything
    assert "sharing" not in everything


def test_all_objects_carry_the_labels_and_local_routes_alone_are_announced() -> None:
    for name, body in made(access()).items():
        metadata = body["metadata"]
        assert metadata["labels"] == {
            "app.kubernetes.io/managed-by": "magicstick-operator",
            "appliance.magicstick.dev/appinstance": "kubeopencode-demo",
            "appliance.magicstick.dev/application": "kubeopencode",
        }
        announced = metadata.get("annotations", {}).get("lab42.io/mdns.enabled")
        assert announced == ("true" if name == LOCAL else None)


def test_settings_say_where_the_gateway_is_and_what_it_asks() -> None:
    site = GatewaySite("edge", "front", "https", "guard", 9090, "client", "client-secret")
    objects = made(access(), site)
    for name in ALL_ROUTES:
        assert objects[name]["metadata"]["namespace"] == "edge"
        (parent,) = objects[name]["spec"]["parentRefs"]
        assert (parent["name"], parent["sectionName"]) == ("front", "https")
    assert all(
        "sectionName" not in each["spec"]["parentRefs"][0]
        for each in made(access()).values()
        if "parentRefs" in each["spec"]
    )
    spec = objects[LOCAL_POLICY]["spec"]
    (guard,) = spec["extAuth"]["http"]["backendRefs"]
    assert (guard["name"], guard["port"]) == ("guard", 9090)
    assert (spec["oidc"]["clientID"], spec["oidc"]["clientSecret"]["name"]) == ("client", "client-secret")
    assert spec["oidc"]["provider"]["tokenEndpoint"].startswith(
        "http://keycloak.edge.svc.cluster.local:8080/"
    )
    assert objects[GRANT]["spec"]["from"][0]["namespace"] == "edge"


@pytest.mark.parametrize("length", [1, 46, 47, 48, 52, 53])
def test_names_are_legal_and_distinct_at_every_length_of_an_instance_name(length: int) -> None:
    one, other = "a" * length, "a" * (length - 1) + "b"
    mine, its = ({place.key.name for place in references(name, "ai", SITE)} for name in (one, other))
    assert len(mine) == 7
    assert all(len(name) <= 63 for name in mine | its)
    assert not mine & its
    for name, body in made(access(one)).items():
        told = body["metadata"].get("annotations", {}).get("appliance.magicstick.dev/full-name")
        assert told == (None if name.startswith(f"{one}-") else one)


def test_every_wanted_object_is_at_one_of_the_places() -> None:
    for authentication in ("sso", "none"):
        for exposure in ("local", "localAndPublic"):
            want = wanted(access(authentication=authentication, exposure=exposure), SITE)
            assert bodies(want).keys() <= set(references("kubeopencode-demo", "ai", SITE))
    assert bodies(wanted(access(), SITE)).keys() == set(references("kubeopencode-demo", "ai", SITE))
