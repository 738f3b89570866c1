"""The schema of the values: of each rule one value that passes, and one that is refused with its path."""

import json
from typing import Any

import jsonschema
import pytest

from tests.charts.rendering import APPS, CHARTS, Object, Refused, instance, own_key, parsed, text

SCHEMA = json.loads((CHARTS / APPS[0] / "values.schema.json").read_text())

SIZES = [
    "storage.size",
    "database.managed.storageSize",
    "chroma.storage.size",
    "searxng.storage.size",
    "ntfy.storage.size",
    "persistence.sessions.size",
    "persistence.workspace.size",
]
TEXTS = [
    "model",
    "image.repository",
    "image.tag",
    "image.digest",
    "ingress.host",
    "agentExecution.defaultModel",
    "agentExecution.openCode.runtimeImage",
    "profile",
]
OBJECTS = [
    "storage",
    "database",
    "database.managed",
    "chroma",
    "chroma.storage",
    "searxng",
    "searxng.storage",
    "ntfy",
    "ntfy.storage",
    "persistence",
    "persistence.sessions",
    "persistence.workspace",
    "image",
    "ingress",
    "agentExecution",
    "agentExecution.openCode",
]


def at(path: str, value: Any) -> Object:
    """Values with one thing in them."""
    first, _, rest = path.partition(".")
    return {first: at(rest, value) if rest else value}


def refusal(values: Object, app: str = "odysseus") -> str:
    with pytest.raises(Refused) as refused:
        text(app, values)
    return str(refused.value)


def accepted(values: Object, app: str = "odysseus") -> bool:
    return bool(parsed(text(app, values)))


def pointer(path: str) -> str:
    return "'/instance/values/" + path.replace(".", "/") + "'"


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert "additionalProperties" not in json.dumps(SCHEMA)


@pytest.mark.parametrize("field", ["name", "namespace", "application", "localHost", "localName"])
@pytest.mark.parametrize("value", ["", None, 7, ["x"]])
def test_the_operators_fields_are_texts_that_say_something(field: str, value: Any) -> None:
    message = refusal(instance("odysseus", **{field: value}))

    assert accepted(instance("odysseus"))
    assert (f"missing property '{field}'" if value is None else f"'/instance/{field}'") in message


@pytest.mark.parametrize("value", ["text", [], 1])
def test_the_users_values_are_an_object(value: Any) -> None:
    values = instance("odysseus")
    values["instance"]["values"] = value

    assert "'/instance/values'" in refusal(values)


@pytest.mark.parametrize("path", OBJECTS)
def test_what_holds_others_is_an_object(path: str) -> None:
    assert accepted(instance("odysseus", at(path, {})))
    assert pointer(path) in refusal(instance("odysseus", at(path, "20Gi")))


@pytest.mark.parametrize("path", SIZES)
@pytest.mark.parametrize("value", ["20Gi", "1.5Ti", "1000", "5G", "100k"])
def test_a_size_is_a_quantity(path: str, value: str) -> None:
    assert accepted(instance("odysseus", at(path, value)))


@pytest.mark.parametrize("path", SIZES)
@pytest.mark.parametrize("value", ["", "20GB", "-1Gi", "1e9", " 1Gi", "1Gi\n", "1.Gi", 20])
def test_what_is_no_size_is_refused_by_its_path(path: str, value: Any) -> None:
    assert pointer(path) in refusal(instance("odysseus", at(path, value)))


@pytest.mark.parametrize("path", TEXTS)
def test_a_text_is_a_text(path: str) -> None:
    assert accepted(instance("odysseus", at(path, "some-text")))
    assert pointer(path) in refusal(instance("odysseus", at(path, 7)))


@pytest.mark.parametrize("value", [0, 1, 2.0, 50, 2**31 - 1])
def test_a_limit_of_tasks_is_a_whole_number(value: Any) -> None:
    assert accepted(instance("kubeopencode", {"maxConcurrentTasks": value}), "kubeopencode")


@pytest.mark.parametrize("value", [-1, 1.5, "2", True, 2**31, 1e300])
def test_what_is_no_limit_of_tasks_is_refused(value: Any) -> None:
    values = instance("kubeopencode", {"maxConcurrentTasks": value})

    assert pointer("maxConcurrentTasks") in refusal(values, "kubeopencode")


def test_a_template_is_named_by_a_dns_label() -> None:
    assert accepted(instance("kubeopencode", {"template": "t-1"}), "kubeopencode")
    assert pointer("template") in refusal(instance("kubeopencode", {"template": "T_1"}), "kubeopencode")


@pytest.mark.parametrize("value", ["x", [{}], [{"name": "Upper"}], [{"name": "n" * 64}], ["x"]])
def test_agent_templates_are_a_list_of_names(value: Any) -> None:
    assert accepted(
        instance("kubeopencode", {"agentTemplates": [{"name": "coder", "more": 1}]}), "kubeopencode"
    )
    assert "'/instance/values/agentTemplates" in refusal(
        instance("kubeopencode", {"agentTemplates": value}), "kubeopencode"
    )


@pytest.mark.parametrize(
    "key",
    [
        "x",
        {},
        {"name": "x"},
        {"key": "x"},
        {"name": "", "key": "x"},
        {"name": "x", "key": ""},
        {"name": "x", "key": "x", "revision": 1},
    ],
)
def test_the_reference_to_a_key_is_whole(key: Any) -> None:
    assert accepted(instance("odysseus", litellmKey=own_key("odysseus")))
    assert "/instance/litellmKey" in refusal(instance("odysseus", litellmKey=key))


def test_a_public_host_is_a_text_and_may_be_left_out() -> None:
    assert accepted(instance("odysseus", publicHost=None))
    assert "'/instance/publicHost'" in refusal(instance("odysseus", publicHost=7))


@pytest.mark.parametrize("app", APPS)
def test_what_a_chart_does_not_know_passes(app: str) -> None:
    values = instance(
        app, {"mine": {"deep": [1]}, "admin": "x", "server": [], "name": 7}, more={"later": True}
    )
    values["global"] = {"from": "helm"}

    assert accepted(values, app)


@pytest.mark.parametrize("app", APPS)
def test_every_chart_has_its_schema_in_force(app: str) -> None:
    message = refusal(instance(app, {"storage": "20Gi"}), app)

    assert "'/instance/values/storage': got string, want object" in message
