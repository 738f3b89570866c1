"""Every setting: where it comes from, what is allowed, what is said when it is wrong."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from magicstick.cli.settings_page import markdown
from magicstick.model_catalog.settings import CatalogSettings
from magicstick.runtime.options import (
    GROUPS,
    Listen,
    ProgramSettings,
    SettingsError,
)
from magicstick.runtime.settings import Settings, described

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"

SPECIFIED = {
    "APPLIANCE_NAMESPACE": "ai-system",
    "APPLIANCE_NAME": "local",
    "MODULE_CATALOG_NAMESPACE": "ai-system",
    "MODULE_CATALOG_NAME": "magicstick-module-catalog",
    "APP_CATALOG_NAMESPACE": "ai-system",
    "APP_CATALOG_NAME": "magicstick-app-catalog",
    "COMPUTE_TARGET_CATALOG_NAMESPACE": "ai-system",
    "COMPUTE_TARGET_CATALOG_NAME": "magicstick-compute-target-catalog",
    "MODEL_PRESETS_NAMESPACE": "ai-system",
    "MODEL_PRESETS_NAME": "magicstick-model-presets",
    "FLUX_NAMESPACE": "flux-system",
    "SETTINGS_NAMESPACE": "flux-system",
    "SETTINGS_CONFIGMAP_NAME": "ai-appliance-settings",
    "DEFAULT_MDNS_DOMAIN": "magicstick.local",
    "DEFAULT_PUBLIC_DOMAIN": "magicstick.example.com",
    "IDENTITY_NAMESPACE": "identity-system",
    "IDENTITY_GATEWAY_NAME": "identity-pilot",
    "GATEWAY_SECTION_NAME": "",
    "GUARD_SERVICE": "magicstick-access-guard:8080",
    "OIDC_CLIENT_ID": "magicstick-human-gateway-local",
    "OIDC_CLIENT_SECRET_NAME": "magicstick-human-gateway-client",
    "LITELLM_NAMESPACE": "ai",
    "REQUEUE_SECONDS": 20,
    "KUBERNETES_SERVICE_URL": "https://kubernetes.default.svc",
}
"""The variables of the specification and their defaults (spec: magicstick-api §7, modules-and-apps §1)."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in described():
        monkeypatch.delenv(known.variable, raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def values(settings: Settings) -> dict[str, object]:
    return settings.model_dump()


@pytest.mark.parametrize(("variable", "default"), SPECIFIED.items())
def test_a_specified_variable_has_its_specified_default(variable: str, default: object) -> None:
    assert values(Settings.load())[variable.lower()] == default


@pytest.mark.parametrize("variable", [name for name in SPECIFIED if name.endswith(("NAMESPACE", "NAME"))])
def test_a_specified_variable_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "from-outside")
    assert values(Settings.load())[variable.lower()] == "from-outside"


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.load().workers == 16
    monkeypatch.setenv("WORKERS", "8")
    assert Settings.load().workers == 8
    assert Settings.load(workers=None).workers == 8
    assert Settings.load(workers="4").workers == 4


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUEUE_SECONDS", "")
    monkeypatch.setenv("KUBECONFIG", "")
    assert Settings.load().requeue_seconds == 20
    assert Settings.load().kubeconfig is None


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings.load().workers = 1  # type: ignore[misc] # what must not be possible


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("appliance_namespace", "AI_System", "a DNS label"),
        ("appliance_namespace", "a" * 64, "a DNS label"),
        ("appliance_name", "-local", "a DNS name"),
        ("default_public_domain", "example..com", "a DNS name"),
        ("gateway_section_name", "https_1", "a DNS label"),
        ("guard_service", "guard", "service:port"),
        ("guard_service", "guard:0", "service:port"),
        ("guard_service", "guard:70000", "service:port"),
        ("oidc_client_id", "  ", "any text"),
        ("kubernetes_service_url", "kubernetes.default.svc", "an http or https URL"),
        ("list_mode", "stream", "one of auto, watchlist, list"),
        ("requeue_seconds", "soon", "seconds above 0"),
        ("requeue_seconds", "0", "seconds above 0"),
        ("requeue_seconds", "inf", "seconds above 0"),
        ("requeue_seconds", "nan", "seconds above 0"),
        ("workers", "0", "1 to 256"),
        ("workers", "1.5", "1 to 256"),
        ("controller_workers", "module=none", "controller=1 to 256"),
        ("controller_workers", "module", "controller=1 to 256"),
        ("health_bind_address", "8081", "host:port"),
        ("health_bind_address", "localhost:http", "host:port"),
        ("health_bind_address", "localhost:65536", "host:port"),
        ("health_bind_address", "::1:8081", "host:port"),
        ("leader_election", "perhaps", "one of true, false"),
        ("log_level", "loud", "one of debug, info, warning, error"),
    ],
)
def test_a_wrong_value_is_told_with_variable_flag_and_what_is_allowed(
    name: str, value: str, allowed: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(**{name: value})
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{name.upper()} (--{name.replace('_', '-')}) is ")
    assert f"allowed is {allowed}" in line


def test_every_wrong_value_is_told_at_once_each_on_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKERS", "many")
    monkeypatch.setenv("FLUX_NAMESPACE", "Flux!")  # from which another default derives
    with pytest.raises(SettingsError) as caught:
        Settings.load(log_level="loud")
    assert [line.split()[0] for line in str(caught.value).splitlines()] == [
        "FLUX_NAMESPACE",
        "WORKERS",
        "LOG_LEVEL",
    ]


def test_a_long_wrong_value_is_shortened() -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(appliance_name="x" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("program", [Settings, CatalogSettings])
def test_durations_of_the_lease_must_fit_each_other(program: type[ProgramSettings]) -> None:
    assert program.load(lease_retry_seconds=1, lease_renew_deadline_seconds=2, lease_duration_seconds=3)
    with pytest.raises(SettingsError, match="not 5 < 40 < 35"):
        program.load(lease_renew_deadline_seconds="40")


def test_the_settings_config_map_lives_where_flux_does_unless_said_otherwise() -> None:
    assert Settings.load(flux_namespace="gitops").settings_place == ("gitops", "ai-appliance-settings")
    assert Settings.load(flux_namespace="gitops", settings_namespace="s").settings_place[0] == "s"


def test_the_lease_lives_with_the_appliance_unless_said_otherwise() -> None:
    assert Settings.load(appliance_namespace="ns").lease_place == ("ns", "magicstick-operator")
    assert Settings.load(lease_namespace="ha").lease_place[0] == "ha"


def test_servers_listen_on_loopback_outside_and_everywhere_inside_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside = Settings.load()
    assert (outside.health_bind_address, outside.metrics_bind_address) == (
        "127.0.0.1:8081",
        "127.0.0.1:8080",
    )
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "api.example.local")
    inside = Settings.load()
    assert (inside.health_bind_address, inside.metrics_bind_address) == (":8081", ":8080")


def test_workers_can_be_set_for_single_controllers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTROLLER_WORKERS", "module=4, appliance=1")
    settings = Settings.load(workers=8)
    assert [settings.workers_of(name) for name in ("module", "appliance", "orphan")] == [4, 1, 8]


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("localhost:80", Listen("localhost", 80)),
        (":8080", Listen("", 8080)),
        ("[::1]:0", Listen("::1", 0)),
        ("off", None),
    ],
)
def test_addresses_are_read_as_they_are_written(text: str, listen: Listen | None) -> None:
    assert Listen.parse(text) == listen


def test_every_setting_is_documented() -> None:
    for known in described():
        assert known.text.endswith("."), known.name
        assert known.allowed, known.name
        assert known.group in GROUPS, known.name


def test_settings_of_a_group_stand_together() -> None:
    order = [known.group for known in described()]
    assert sorted(order, key=GROUPS.index) == order


def test_the_page_of_the_settings_is_up_to_date() -> None:
    assert PAGE.read_text() == markdown(), "run: magicstick settings --output docs/settings.md"


def test_the_page_names_every_variable_and_flag_once() -> None:
    page = markdown()
    for known in described():
        assert page.count(f"| `{known.variable}` | `{known.flag}` |") == 1


@pytest.mark.parametrize("name", ["module", "", "Modules"])
def test_workers_of_a_controller_that_does_not_exist_are_refused(name: str) -> None:
    known = ["modules", "appliance"]
    Settings.load(controller_workers="modules=4,appliance=1").check_controllers(known)
    with pytest.raises(SettingsError, match=rf"controller '{name}'; there are modules, appliance"):
        Settings.load(controller_workers=f"modules=4,{name}=1").check_controllers(known)
