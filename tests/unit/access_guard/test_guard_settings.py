"""The guard's settings, and its manifest (spec: companions §2.3 to §2.5)."""

import pytest

from magicstick.access_guard.settings import GuardSettings
from magicstick.runtime.options import SettingsError
from tests.support.rendered import environment, find


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in GuardSettings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)


def test_addresses_follow_from_the_realm_and_the_port() -> None:
    loaded = GuardSettings.load(keycloak_admin_url="http://keycloak:8080/", keycloak_realm="r", port="8090")
    assert loaded.oidc_jwks_url == "http://keycloak:8080/realms/r/protocol/openid-connect/certs"
    assert loaded.token_url == "http://keycloak:8080/realms/r/protocol/openid-connect/token"
    assert loaded.directory_url == "http://keycloak:8080/admin/realms/r"
    assert loaded.guard_bind_address == "127.0.0.1:8090"


def test_in_a_cluster_everybody_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "kubernetes.example.local")
    loaded = GuardSettings.load()
    assert (loaded.guard_bind_address, loaded.metrics_bind_address) == (":8080", ":8081")


def test_clients_are_a_list_and_have_an_earlier_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert GuardSettings.load().clients == {"magicstick-human-gateway-local"}
    monkeypatch.setenv("OIDC_EXPECTED_CLIENT_ID", "earlier")
    assert GuardSettings.load().clients == {"earlier"}
    monkeypatch.setenv("OIDC_EXPECTED_CLIENT_IDS", "one, two,")
    assert GuardSettings.load().clients == {"one", "two"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GUARD_DIRECTORY_CACHE_SECONDS", "5.1"),
        ("GUARD_DIRECTORY_CACHE_SECONDS", "-1"),
        ("PORT", "65536"),
        ("KEYCLOAK_REALM", "../master"),
        ("OIDC_USERINFO_URL", "keycloak:8080"),
        ("KEYCLOAK_USER_ADMIN_SECRET_NAME", "a/b"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as raised:
        GuardSettings.load()
    assert name in str(raised.value)


def test_every_variable_of_the_manifest_is_a_setting_and_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = environment("modules/dashboard", "magicstick-access-guard")
    known = {name.upper() for name in GuardSettings.model_fields}
    assert set(given) - {"PYTHONDONTWRITEBYTECODE"} <= known
    for name, value in given.items():
        assert value is not None
        monkeypatch.setenv(name, value)
    loaded = GuardSettings.load()
    assert loaded.has_directory
    assert loaded.clients == {"magicstick-human-gateway-local", "magicstick-cli"}


def test_the_ports_of_the_manifest_are_those_that_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "kubernetes.example.local")
    pod = find("modules/dashboard", "Deployment", "magicstick-access-guard")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {port["name"]: f":{port['containerPort']}" for port in container["ports"]}
    loaded = GuardSettings.load(port=environment("modules/dashboard", "magicstick-access-guard")["PORT"])
    assert ports == {"http": loaded.guard_bind_address, "metrics": loaded.metrics_bind_address}
    assert container["args"] == ["access-guard"]
