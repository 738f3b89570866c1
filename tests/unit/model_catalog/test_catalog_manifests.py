"""What is shipped for the model catalog fits the program: its variables, its rights, its probes."""

from typing import Any

import pytest

from magicstick.model_catalog.settings import CatalogSettings
from magicstick.runtime.options import SettingsError
from magicstick.runtime.settings import described
from tests.support.manifests import MANIFESTS, objects, one, substitute

FOLDER = MANIFESTS / "modules" / "model-catalog"
DEPLOYMENT = one(FOLDER, "Deployment", "ai-model-catalog-controller")
POD = DEPLOYMENT["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
WRITES = {"create", "update", "patch", "delete", "deletecollection"}
OF_THE_PLACE = {"HEALTH_BIND_ADDRESS", "METRICS_BIND_ADDRESS", "PYTHONDONTWRITEBYTECODE"}
"""Variables whose values are right in a Pod alone, or that Python itself reads."""

SPECIFIED = {
    "NAMESPACE": "ai",
    "APPLIANCE_NAMESPACE": "ai-system",
    "LITELLM_BASE_URL": "http://litellm.ai.svc.cluster.local:4000",
    "LITELLM_API_BASE": "http://litellm.ai.svc.cluster.local:4000/v1",
    "KUBEAI_API_BASE": "http://kubeai.ai.svc.cluster.local/openai/v1",
    "CATALOG_CONFIGMAP": "ai-model-catalog",
    "EXTERNAL_MODELS_CONFIGMAP": "ai-external-models",
    "CATALOG_POLL_SECONDS": 30,
    "CATALOG_WATCH_SECONDS": 15,
    "AI_APPLIANCE_DEFAULT_CHAT_MODEL": "auto",
    "AI_APPLIANCE_DEFAULT_EMBEDDING_MODEL": "auto",
    "OPENCODE_DEFAULT_CONTEXT_TOKENS": 131072,
    "OPENCODE_DEFAULT_OUTPUT_TOKENS": 8192,
    "PAPERCLIP_OPENCODE_MAX_OUTPUT_TOKENS": 4096,
    "PAPERCLIP_OPENCODE_CONTEXT_HEADROOM_TOKENS": 4096,
    "CONSUMER_RESTART_ENABLED": True,
    "AGENT_TEMPLATE_SYNC_ENABLED": True,
    "AGENT_TEMPLATE_NAMES": "litellm-default",
}
"""The variables and their defaults (spec: models §16)."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in described(CatalogSettings):
        monkeypatch.delenv(known.variable, raising=False)


def environment() -> dict[str, str]:
    """The variables that the Deployment sets to a value, as Flux substitutes them."""
    return {each["name"]: substitute(each["value"], {}) for each in CONTAINER["env"] if "value" in each}


def rules(kind: str) -> list[Any]:
    return [rule for _, obj in objects(FOLDER) if obj["kind"] == kind for rule in obj["rules"]]


@pytest.mark.parametrize("variable", SPECIFIED)
def test_every_variable_of_the_specification_has_its_default(variable: str) -> None:
    assert getattr(CatalogSettings(), variable.lower()) == SPECIFIED[variable]


def test_what_the_deployment_sets_is_what_the_program_would_do_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_itself = CatalogSettings()
    given = {name: value for name, value in environment().items() if name not in OF_THE_PLACE}
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    assert CatalogSettings() == by_itself
    assert given.keys() == SPECIFIED.keys()


def test_the_master_key_comes_from_its_secret_and_shows_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    (key,) = (each for each in CONTAINER["env"] if each["name"] == "LITELLM_MASTER_KEY")
    assert key["valueFrom"]["secretKeyRef"] == {
        "name": "litellm-masterkey-secret",
        "key": "LITELLM_MASTER_KEY",
    }

    monkeypatch.setenv("LITELLM_MASTER_KEY", "sk-very-secret")
    settings = CatalogSettings()
    assert "sk-very-secret" not in f"{settings!r} {settings.model_dump(mode='json')}"
    assert settings.litellm_master_key.get_secret_value() == "sk-very-secret"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LITELLM_BASE_URL", "litellm:4000"),
        ("CATALOG_POLL_SECONDS", "0"),
        ("OPENCODE_DEFAULT_CONTEXT_TOKENS", "many"),
        ("PAPERCLIP_OPENCODE_MAX_OUTPUT_TOKENS", "0"),
        ("NAMESPACE", "Not A Name"),
        ("CONSUMER_RESTART_ENABLED", "perhaps"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=f"{variable} .* allowed is"):
        CatalogSettings.load()


def test_a_slash_at_the_end_of_a_url_changes_nothing() -> None:
    given = CatalogSettings.load(litellm_base_url="http://litellm.example.com:4000/")
    assert given.litellm_api_base == "http://litellm.example.com:4000/v1"


def test_rights_to_write_are_those_that_the_program_uses_and_named_where_they_can_be() -> None:
    granted = {
        (rule["resources"][0], verb, tuple(rule.get("resourceNames", ())))
        for rule in rules("Role")
        for verb in rule["verbs"]
        if verb in WRITES
    }
    assert granted == {
        ("configmaps", "patch", ("ai-model-catalog",)),
        ("configmaps", "create", ()),
        ("pods", "delete", ()),
        ("agenttemplates", "update", ()),
        ("leases", "patch", ("ai-model-catalog-controller",)),
        ("leases", "create", ()),
    }
    assert not WRITES & {verb for rule in rules("ClusterRole") for verb in rule["verbs"]}


@pytest.mark.req("MS-022")
def test_no_program_of_ours_can_write_what_the_private_mesh_keeps() -> None:
    """Membership is in a Secret and a volume of the mesh's own; only its Pod mounts the volume."""
    folders = [
        MANIFESTS / "rbac",
        *(each for each in (MANIFESTS / "modules").iterdir() if each.name != "private-mesh"),
    ]
    found = [obj for folder in folders for _, obj in objects(folder)]
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for obj in found
        if obj["kind"] in {"Deployment", "StatefulSet"}
        for volume in obj["spec"]["template"]["spec"].get("volumes", [])
        if "persistentVolumeClaim" in volume
    ]
    ours = [
        rule
        for folder in (MANIFESTS / "rbac", FOLDER)
        for _, obj in objects(folder)
        for rule in obj.get("rules", [])
    ]
    writable = {resource for rule in ours if WRITES & set(rule["verbs"]) for resource in rule["resources"]}

    assert "private-mesh-state" not in claims
    assert not {"secrets", "persistentvolumeclaims", "*"} & writable


def test_the_command_and_its_ports_are_those_of_the_program() -> None:
    assert CONTAINER["args"] == ["model-catalog"]
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    assert environment()["HEALTH_BIND_ADDRESS"] == f"0.0.0.0:{ports['health']}"
    assert environment()["METRICS_BIND_ADDRESS"] == f"0.0.0.0:{ports['metrics']}"
    assert {CONTAINER[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe")} == {"/livez"}
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"
