"""What holds for every instance chart (spec: platform §3, §5)."""

import json
import re
import subprocess
from typing import Any

import pytest

from hack import yamls
from magicstick.api import labels
from magicstick.api.names import DNS_LABEL_LIMIT, RELEASE_NAME_LIMIT, suffixed
from tests.charts.rendering import (
    APPS,
    CHARTS,
    MASTER_KEY,
    ROOT,
    Object,
    Refused,
    helm,
    instance,
    own_key,
    parsed,
    render,
    text,
    walk,
)

DASHBOARD: dict[str, Object] = {
    "openclaw": {"storage": {"size": "20Gi"}},
    "hermes": {"storage": {"size": "10Gi"}},
    "paperclip": {
        "storage": {"size": "5Gi"},
        "database": {"managed": {"storageSize": "10Gi"}},
        "admin": {"email": "admin@example.com", "name": "Admin"},
        "agentExecution": {
            "defaultModel": "litellm/qwen",
            "maxConcurrentAgents": 2,
            "openCode": {"enabled": True},
            "openClaw": {"enabled": False, "instanceRef": ""},
            "hermes": {"enabled": False, "instanceRef": ""},
        },
    },
    "kubeopencode": {
        "server": {"enabled": True, "ingress": {"enabled": False, "host": "demo.kubeopencode.example.com"}},
        "agentTemplates": [{"name": "default-coder", "description": "Writes code"}],
    },
    "odysseus": {
        "storage": {"size": "20Gi"},
        "chroma": {"storage": {"size": "5Gi"}},
        "searxng": {"storage": {"size": "1Gi"}},
        "ntfy": {"storage": {"size": "1Gi"}},
    },
}
"""What the dashboard's forms send with their defaults (spec: platform §3.4)."""

IMPURE = re.compile(
    r"\b(lookup|now|date|ago|getHostByName|uuidv4|rand\w*|gen\w*(?:Cert|Key|CA)\w*|htpasswd|bcrypt)\b"
)

every_app = pytest.mark.parametrize("app", APPS)


def dashboard(app: str, **fields: Any) -> Object:
    ingress = {"enabled": False, "host": f"demo.{app}.example.com"}
    return instance(app, {"name": "demo", "model": "qwen", "ingress": ingress, **DASHBOARD[app]}, **fields)


def catalog() -> dict[str, Object]:
    file = yamls.load((ROOT / "manifests/catalogs/app-catalog.yaml").read_text())
    applications: dict[str, Object] = json.loads(file["data"]["applications.json"])["applications"]
    return applications


def template_actions(app: str) -> str:
    """All that templates do, without their comments and without the text between."""
    files = sorted((CHARTS / app / "templates").iterdir())
    actions = re.findall(r"\{\{(.*?)\}\}", "\n".join(file.read_text() for file in files), re.DOTALL)
    return "\n".join(action for action in actions if "/*" not in action)


def test_every_chart_of_the_catalog_is_there_and_every_chart_is_in_the_catalog() -> None:
    paths = {entry["chartPath"] for entry in catalog().values()}

    assert paths == {f"charts/{app}" for app in APPS}
    assert {folder.name for folder in CHARTS.iterdir()} == set(APPS) == set(catalog())


@every_app
def test_a_chart_says_what_it_is(app: str) -> None:
    chart = yamls.load((CHARTS / app / "Chart.yaml").read_text())

    assert chart.pop("description")
    assert chart == {
        "apiVersion": "v2",
        "name": f"magicstick-{app}-instance",
        "type": "application",
        "version": "0.1.0",
        "appVersion": "1",
    }
    assert yamls.load((CHARTS / app / "values.yaml").read_text()) == {"instance": {}}
    assert (CHARTS / app / ".helmignore").exists()


@pytest.mark.parametrize("file", ["values.schema.json", "templates/_helpers.tpl", ".helmignore"])
def test_what_charts_share_is_the_same_in_each(file: str) -> None:
    assert len({(CHARTS / app / file).read_bytes() for app in APPS}) == 1


@every_app
def test_helm_finds_nothing_to_complain_about(app: str) -> None:
    command = [str(helm()), "lint", "--strict", str(CHARTS / app), "--values", "-"]
    result = subprocess.run(
        command, input=json.dumps(dashboard(app)), capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "[WARNING]" not in result.stdout


@every_app
def test_rendering_depends_on_the_values_alone(app: str) -> None:
    actions = template_actions(app)

    assert not IMPURE.search(actions)
    assert ".Capabilities" not in actions
    assert ".Release" not in actions
    assert ".Chart.Version" not in actions
    assert not list((CHARTS / app / "templates").glob("NOTES*"))
    assert not (CHARTS / app / "crds").exists()


@pytest.mark.parametrize("action", ["lookup `v1` `Secret`", "randAlphaNum 8", "now", "genSelfSignedCert"])
def test_what_depends_on_more_would_be_noticed(action: str) -> None:
    assert IMPURE.search(action)


@every_app
def test_two_renders_of_equal_values_are_equal(app: str) -> None:
    values = dashboard(app, litellmKey=own_key(app))
    command = [str(helm()), "template", "x", str(CHARTS / app), "--values", "-"]
    other_order = json.dumps(values, sort_keys=True)
    first, second = (
        subprocess.run(command, input=given, capture_output=True, check=True, text=True).stdout
        for given in (json.dumps(values), other_order)
    )

    assert first == second


@every_app
@pytest.mark.parametrize("namespace", ["ai", "team-a"])
def test_every_object_is_named_placed_and_labelled_for_its_instance(app: str, namespace: str) -> None:
    for obj in render(app, {}, namespace=namespace):
        meta = obj["metadata"]
        cluster_wide = obj["kind"].startswith("ClusterRole")
        assert ("namespace" not in meta) if cluster_wide else (meta["namespace"] == namespace)
        assert (
            meta["labels"].items()
            >= {
                labels.NAME: app,
                "app.kubernetes.io/instance": f"{app}-demo",
                labels.INSTANCE: f"{app}-demo",
            }.items()
        )


@every_app
@pytest.mark.req("MS-216")
def test_nothing_opens_a_way_from_outside(app: str) -> None:
    objects = render(app, {"ingress": {"enabled": True, "host": "x.example.com"}})

    assert {obj["kind"] for obj in objects} <= {
        "Agent", "AgentTemplate", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "HermesInstance",
        "Instance", "NetworkPolicy", "OpenClawInstance", "PersistentVolumeClaim", "Secret", "Service",
    }  # fmt: skip
    for obj in objects:
        networking = obj.get("spec", {}).get("networking")
        if networking:
            assert networking["ingress"] == {"enabled": False}
            assert networking["service"]["type"] == "ClusterIP"
        if obj["kind"] == "Service":
            assert obj["spec"]["type"] == "ClusterIP"
        assert not any(key.startswith("helm.sh/hook") for key in obj["metadata"].get("annotations", {}))


@pytest.mark.parametrize("app", [app for app in APPS if app != "odysseus"])
@pytest.mark.req("MS-213")
def test_an_app_with_an_operator_gets_its_resource_and_no_workload(app: str) -> None:
    kinds = {obj["kind"] for obj in render(app)}

    assert not kinds & {
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "Pod",
        "Service",
        "PersistentVolumeClaim",
    }


@every_app
@pytest.mark.parametrize("namespace", ["ai", "team-a"])
def test_an_own_key_is_used_instead_of_the_master_key(app: str, namespace: str) -> None:
    fields = {"namespace": namespace, "litellmKey": own_key(app)}

    assert MASTER_KEY not in text(app, instance(app, {"model": "qwen"}, **fields))
    assert references(render(app, {"model": "qwen"}, **fields)) == {(f"{app}-litellm", "LITELLM_API_KEY")}


@every_app
def test_without_an_own_key_the_master_key_is_used(app: str) -> None:
    assert references(render(app, {"model": "qwen"})) == {(MASTER_KEY, "LITELLM_MASTER_KEY")}


@every_app
def test_a_new_revision_of_the_key_changes_one_place_and_nothing_else(app: str) -> None:
    before, after = (
        render(app, {"model": "qwen"}, litellmKey=own_key(app, revision))
        for revision in ("rev-before", "rev-after")
    )
    places = {path for path, value in leaves(before).items() if leaves(after)[path] != value}

    assert len(places) == 1
    assert leaves(after) == leaves(before) | {places.pop(): "rev-after"}


@every_app
def test_a_key_without_a_revision_leaves_no_trace_of_one(app: str) -> None:
    key = {"name": "x-litellm", "key": "LITELLM_API_KEY"}

    assert "revision" not in text(app, instance(app, litellmKey=key)).lower()


@every_app
def test_no_text_of_a_user_other_than_what_is_meant_to_show_gets_out(app: str) -> None:
    """Keys of secrets that somebody puts into free values are not rendered anywhere."""
    marker = "marker-3b0f"
    stray = {"apiKey": marker, "litellmKey": marker, "env": {"KEY": marker}, "admin": {"password": marker}}
    own = {**own_key(app), "value": marker}

    assert marker not in text(app, instance(app, {"model": "qwen", **stray}, litellmKey=own))


@every_app
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("openai/litellm/qwen", "qwen"),
        ("litellm/qwen", "qwen"),
        ("litellm/openai/x", "openai/x"),
        ("1e3", "1e3"),
        ("yes", "yes"),
        ("0x1F", "0x1F"),
        ("null", "null"),
        ("org/model:tag", "org/model:tag"),
        ('quoted "id" {{ x }}', 'quoted "id" {{ x }}'),
        ("", "CHANGEME_MODEL"),
        ("openai/", "CHANGEME_MODEL"),
        (None, "CHANGEME_MODEL"),
    ],
)
def test_a_model_is_named_as_litellm_knows_it(app: str, given: str | None, expected: str) -> None:
    values = {} if given is None else {"model": given}
    found = leaves(render(app, values))
    models = {path: value for path, value in found.items() if MODEL_PLACES.search(path)}

    if app == "openclaw":  # the model follows the catalog
        assert "CHANGEME_MODEL" not in found.values()
        return
    assert models
    assert set(models.values()) <= {expected, f"litellm/{expected}"}


MODEL_PLACES = re.compile(r"config\.raw\.model$|config\.(small_)?model$|models\..*\.name$|\$.*_MODEL$")


@every_app
def test_a_model_stays_text_as_the_key_of_a_map(app: str) -> None:
    for obj in render(app, {"model": "1e3"}):
        walk(obj, all_text)


def all_text(path: str, value: Any) -> None:
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value), path


@every_app
@pytest.mark.parametrize("length", [1, 20, RELEASE_NAME_LIMIT])
def test_names_are_legal_and_distinct_however_long_an_instance_is_called(app: str, length: int) -> None:
    name = ("n" * length)[: length - 1] + "x"
    objects = render(app, name=name, namespace="s" * DNS_LABEL_LIMIT, litellmKey=own_key("x"))
    keys = [(obj["kind"], obj["metadata"]["name"]) for obj in objects]

    assert len(set(keys)) == len(keys)
    for obj in objects:
        made = obj["metadata"]["name"]
        assert len(made) <= DNS_LABEL_LIMIT
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", made)


DERIVED = {"ConfigMap": "searxng-config", "PersistentVolumeClaim": "chroma-data", "Service": "searxng"}


@pytest.mark.parametrize("name", ["n" * 40, "n" * RELEASE_NAME_LIMIT, "n" * 33 + "-" * 8 + "n" * 12])
@pytest.mark.parametrize(("kind", "suffix"), DERIVED.items())
def test_a_name_that_is_too_long_is_cut_as_the_operator_cuts_it(name: str, kind: str, suffix: str) -> None:
    expected = suffixed(name, suffix)
    made = {obj["metadata"]["name"]: obj for obj in render("odysseus", name=name) if obj["kind"] == kind}
    annotations = made[expected]["metadata"].get("annotations", {})

    assert annotations.get(labels.FULL_NAME, expected) == f"{name}-{suffix}"


@every_app
def test_numbers_of_flux_are_taken_as_they_come(app: str) -> None:
    """Flux hands over every number as a float."""
    values = {"maxConcurrentTasks": 2000000.0, "agentExecution": {"maxConcurrentAgents": 2.0}}

    assert "e+" not in text(app, instance(app, values))


@every_app
def test_what_the_dashboard_sends_renders(app: str) -> None:
    assert parsed(text(app, dashboard(app)))


@every_app
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"instance": {}},
        instance("x", localHost=""),
        instance("x", localHost=None),
        instance("x", namespace=1),
    ],
    ids=["none", "empty", "empty host", "no host", "no text"],
)
def test_without_the_operators_values_nothing_renders(app: str, values: Object) -> None:
    with pytest.raises(Refused, match=r"instance"):
        text(app, values)


def references(objects: list[Object]) -> set[tuple[str, str]]:
    """Every reference to a key of LiteLLM in a Secret."""
    found: set[tuple[str, str]] = set()

    def visit(path: str, value: Any) -> None:
        if path.endswith(("secretKeyRef", "secretRef")) and not value["name"].endswith("-internal"):
            found.add((value["name"], value["key"]))

    for obj in objects:
        walk(obj, visit)
    return found


def leaves(objects: list[Object]) -> dict[str, Any]:
    """All scalars by path; an entry of an env list is found under its name."""
    found: dict[str, Any] = {}

    def visit(path: str, value: Any) -> None:
        if isinstance(value, dict) and set(value) == {"name", "value"}:
            found[f"{path}$.{value['name']}"] = value["value"]
        elif not isinstance(value, dict | list) and not re.search(
            r"env\w*\[\d+\]\.(name|value)$|Env\[\d+\]\.", path
        ):
            found[path] = value

    for obj in objects:
        walk(obj, visit, f"{obj['kind']}/{obj['metadata']['name']}")
    return found
