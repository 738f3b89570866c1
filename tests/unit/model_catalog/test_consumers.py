"""Who reads the catalog only at its start, and what AgentTemplates become (spec: companions §1.8)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from magicstick.kube.objects import ObjectMeta
from magicstick.model_catalog.consumers import is_consumer
from magicstick.model_catalog.documents import DocumentSettings, catalog_document
from magicstick.model_catalog.templates import Template, with_models
from tests.support.catalog_objects import managed

APP = "app.kubernetes.io"
CONSUMER = "ai-appliance.io/model-catalog-consumer"
INSTANCE = "appliance.magicstick.dev/appinstance"
DOCUMENT = catalog_document((managed("b", "1"), managed("a", "2")), DocumentSettings("http://litellm/v1"))


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({CONSUMER: "true"}, {}, True),
        ({}, {CONSUMER: "true"}, True),
        ({"app": "anything-llm"}, {}, True),
        ({f"{APP}/instance": "hermes", f"{APP}/name": "hermes-agent"}, {}, True),
        ({f"{APP}/instance": "openclaw", f"{APP}/name": "openclaw"}, {}, True),
        ({f"{APP}/instance": "paperclip", f"{APP}/component": "server"}, {}, True),
        ({f"{APP}/instance": "paperclip", f"{APP}/component": "database"}, {}, False),
        ({f"{APP}/name": "openclaw"}, {}, False),
        ({"app": "litellm"}, {}, False),
        ({}, {}, False),
        ({CONSUMER: "false", "app": "anything-llm"}, {}, False),
        ({"app": "anything-llm"}, {CONSUMER: "false"}, False),
        ({CONSUMER: "true"}, {CONSUMER: "false"}, False),
        ({CONSUMER: "yes"}, {}, False),
    ],
)
def test_consumers_are_known_by_what_they_say_and_by_their_labels(
    labels: Mapping[str, str], annotations: Mapping[str, str], *, expected: bool
) -> None:
    assert is_consumer(ObjectMeta(labels=dict(labels), annotations=dict(annotations))) is expected


def template(config: object = None, *, instance: str = "", **spec: Any) -> Template:
    metadata = {"name": "t", "namespace": "ai", "labels": {INSTANCE: instance} if instance else {}}
    return msgspec.convert({"metadata": metadata, "spec": {"config": config, **spec}}, Template)


def test_the_models_of_a_template_are_replaced_and_the_rest_stays() -> None:
    before = {"provider": {"litellm": {"npm": "x", "models": {"gone": {}}}, "other": {}}, "autoupdate": False}
    spec = with_models(template(before, workspaceDir="/w"), DOCUMENT)

    assert spec["workspaceDir"] == "/w"
    assert spec["config"]["autoupdate"] is False
    assert spec["config"]["provider"]["other"] == {}
    assert spec["config"]["provider"]["litellm"]["npm"] == "x"
    assert list(spec["config"]["provider"]["litellm"]["models"]) == ["a", "b"]
    assert before["provider"] == {"litellm": {"npm": "x", "models": {"gone": {}}}, "other": {}}


@pytest.mark.parametrize(
    ("instance", "chosen", "expected"),
    [
        ("", "litellm/b", "litellm/a"),
        ("", None, "litellm/a"),
        ("code", "litellm/b", "litellm/b"),
        ("code", "litellm/gone", "litellm/gone"),
        ("code", "", "litellm/a"),
        ("code", None, "litellm/a"),
        ("code", "litellm/CHANGEME_MODEL", "litellm/a"),
    ],
)
def test_a_model_that_somebody_chose_for_an_instance_stays(
    instance: str, chosen: str | None, expected: str
) -> None:
    config = {} if chosen is None else {"model": chosen, "small_model": chosen}
    after = with_models(template(config, instance=instance), DOCUMENT)["config"]
    assert (after["model"], after["small_model"]) == (expected, expected)


@pytest.mark.parametrize("config", [None, "text", 7, [], {"provider": "text"}, {"provider": {"litellm": 3}}])
def test_a_template_of_any_shape_becomes_a_whole_one(config: object) -> None:
    after = with_models(template(config), DOCUMENT)["config"]
    assert list(after["provider"]["litellm"]["models"]) == ["a", "b"]


def test_a_template_that_is_as_it_should_be_is_the_same() -> None:
    first = with_models(template({}, podSpec={"labels": {"a": "b"}}), DOCUMENT)
    again = with_models(msgspec.convert({"metadata": {}, "spec": first}, Template), DOCUMENT)
    assert again == first
    assert first["podSpec"]["labels"] == {"a": "b"}


def test_the_pods_of_a_template_carry_a_hash_that_follows_its_configuration() -> None:
    def digest(config: object) -> str:
        return str(
            with_models(template(config), DOCUMENT)["podSpec"]["annotations"]["ai-appliance.io/catalog-hash"]
        )

    assert len(digest({})) == 16
    assert digest({}) != digest({"autoupdate": True})
    assert "podSpec" not in with_models(template({}), DOCUMENT, annotated=False)
