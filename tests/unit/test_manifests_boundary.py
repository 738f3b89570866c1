"""Nothing that is published belongs to one deployment (spec: README 34)."""

import re

import pytest

from tests.support.boundary import CHECKS, PLACES, ROOT, files, violations
from tests.support.manifests import MANIFESTS
from tests.support.shipped import MODULES

SETTINGS = {
    "AI_APPLIANCE_DASHBOARD_HOST",
    "AI_APPLIANCE_DEFAULT_CHAT_MODEL",
    "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL",
    "AI_APPLIANCE_DOMAIN",
    "AI_APPLIANCE_ENVOY_CRDS_POLICY",
    "AI_APPLIANCE_KEYCLOAK_POSTGRES_STORAGE",
    "AI_APPLIANCE_MDNS_DOMAIN",
}
"""Variables of the settings ConfigMap (spec: platform §0.4); parameters of modules add to them."""

PLANTED = {
    "domains": [
        "https://git.customer.net/repo",
        "host: ai.customer.com",
        "nas.lan",
        "registry.internal",
        "http://build.customer.museum/x",
        "oci://registry.customer.de/charts",
        "notexample.com",
        "user@github.com:owner",
        "https://github.com/customer/repo.git",
        "customer.github.io",
    ],
    "addresses": ["10.0.0.1", "192.168.1.20", "172.16.0.1", "100.64.3.4", "169.254.169.254", "8.8.8.8"],
    "emails": ["somebody@customer.com"],
    "credentials": [
        "sk-" + "a1" * 12,
        "ghp_" + "a" * 36,
        "hf_" + "b" * 30,
        "AKIA" + "A1B2" * 4,
        "-----BEGIN RSA PRIVATE KEY-----",
        "client-key-data: x",
        "certificate-authority-data: x",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0",
        "data: " + "aB3d" * 12,
    ],
    "private paths": ["/home/somebody/repo", "/Users/somebody", "/root/secret", "git@host:owner/repo"],
    "placeholders": ["REPLACE_ME", "changeme", "your-domain", "YOUR_TOKEN", "acme", "change-me", "TODO"],
}

HARMLESS = {
    "domains": [
        "magicstick.example.com",
        "litellm.magicstick.local",
        "http://litellm.ai.svc.cluster.local:4000/v1",
        "https://kubernetes.default.svc",
        "https://id.${AI_APPLIANCE_MDNS_DOMAIN:=magicstick.local}/realms",
        "feature.node.kubernetes.io/pci-10de.present",
        "ghcr.io/berriai/litellm:v1.101.0",
        "spec.local.args",
        "subprocess.run(command)",
        "values.yaml",
    ],
    "addresses": ["127.0.0.1", "0.0.0.0:8080", "192.0.2.7", "1.2.3", "999.1.1.1"],
    "emails": ["admin@example.com", "litellm@sha256:abc"],
    "credentials": [
        "sk-...",
        "sha256:" + "0a" * 32,
        "magicstick-ollama-nvidia-gpu-and-a-long-name",
        "LITELLM_MASTER_KEY",
    ],
    "private paths": ["/root/.cache", "/var/run/magicstick-mesh", "/homepage", "charts/home/x"],
    "placeholders": ["CHANGEME", "CHANGEME_MODEL", "example.com", "food"],
}


@pytest.mark.parametrize("place", [place for place in PLACES if place != "charts"])
def test_every_published_place_is_looked_at(place: str) -> None:
    assert [file for file in files() if file.is_relative_to(ROOT / place)]


@pytest.mark.req("MS-376")
@pytest.mark.req("MS-378")
def test_nothing_points_into_somebodys_machine_or_repository() -> None:
    assert violations("private paths") == []
    assert violations("emails") == []


@pytest.mark.req("MS-376")
@pytest.mark.req("MS-377")
def test_no_domain_is_real_but_those_of_apis_and_public_registries() -> None:
    assert violations("domains") == []


@pytest.mark.req("MS-377")
def test_no_address_belongs_to_anybody() -> None:
    assert violations("addresses") == []


@pytest.mark.req("MS-379")
def test_nothing_holds_a_key_a_token_or_a_kubeconfig() -> None:
    assert violations("credentials") == []


@pytest.mark.req("MS-380")
def test_there_are_no_placeholders_but_the_agreed_ones() -> None:
    assert violations("placeholders") == []


@pytest.mark.req("MS-380")
def test_every_variable_of_the_manifests_is_a_documented_setting_or_parameter() -> None:
    parameters = {each.substitution for module in MODULES.modules.values() for each in module.parameters}
    for file in MANIFESTS.rglob("*.yaml"):
        if file.is_relative_to(MANIFESTS / "catalogs") or file.is_relative_to(MANIFESTS / "crds"):
            continue
        used = set(re.findall(r"(?<!\$)\$\{(\w+)", file.read_text()))
        assert used <= SETTINGS | parameters, file


@pytest.mark.parametrize(
    ("check", "text"), [(check, text) for check, texts in PLANTED.items() for text in texts]
)
def test_a_check_finds_what_it_is_for(check: str, text: str) -> None:
    assert list(CHECKS[check](f"before {text} after"))
    assert list(CHECKS[check](f'key: "{text}"'))


@pytest.mark.parametrize(
    ("check", "text"), [(check, text) for check, texts in HARMLESS.items() for text in texts]
)
def test_a_check_leaves_what_is_harmless(check: str, text: str) -> None:
    assert list(CHECKS[check](f"before {text} after")) == []
