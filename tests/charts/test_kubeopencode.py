"""The chart of KubeOpenCode (spec: platform §4.3)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.charts.rendering import MASTER_KEY, Object, one, own_key, render


def agent(values: Object | None = None, **fields: Any) -> Object:
    return one(render("kubeopencode", values, **fields), "Agent")


def template(values: Object | None = None, **fields: Any) -> Object:
    return one(render("kubeopencode", values, **fields), "AgentTemplate")


@pytest.mark.req("MS-193")
def test_it_is_an_agent_and_its_template() -> None:
    objects = render("kubeopencode")

    assert {(obj["apiVersion"], obj["kind"]) for obj in objects} == {
        ("kubeopencode.io/v1alpha1", "AgentTemplate"),
        ("kubeopencode.io/v1alpha1", "Agent"),
    }
    assert agent()["spec"]["templateRef"]["name"] == template()["metadata"]["name"]


@pytest.mark.parametrize(
    ("values", "fields", "name"),
    [
        ({}, {}, "demo"),
        ({"name": "demo"}, {}, "demo"),
        ({"agentName": "mine"}, {}, "demo"),
        ({"name": "other"}, {"localHost": "other.kubeopencode.example.local"}, "other"),
        ({}, {"name": "plain", "localHost": "plain.kubeopencode.example.local"}, "plain"),
    ],
)
def test_the_agent_has_the_name_that_the_route_leads_to(values: Object, fields: Object, name: str) -> None:
    assert agent(values, **fields)["metadata"]["name"] == name


def test_two_instances_of_the_dashboard_have_two_templates() -> None:
    values = {"agentTemplates": [{"name": "default-coder", "description": "Writes code"}]}
    names = [
        template(values, name=f"kubeopencode-{short}", localHost=f"{short}.kubeopencode.example.local")
        for short in ("one", "two")
    ]

    assert [obj["metadata"]["name"] for obj in names] == ["kubeopencode-one", "kubeopencode-two"]


def test_a_template_may_be_named() -> None:
    values = {"template": "coder"}

    assert template(values)["metadata"]["name"] == "coder"
    assert agent(values)["spec"]["templateRef"] == {"name": "coder"}


def test_the_template_points_to_litellm() -> None:
    assert template({"model": "openai/litellm/qwen"})["spec"] == {
        "serviceAccountName": "default",
        "workspaceDir": "/workspace",
        "config": {
            "provider": {
                "litellm": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "LiteLLM",
                    "options": {
                        "baseURL": "http://litellm.ai.svc.cluster.local:4000/v1",
                        "apiKey": "{env:LITELLM_MASTER_KEY}",
                    },
                    "models": {"qwen": {"name": "qwen"}},
                }
            },
            "model": "litellm/qwen",
            "small_model": "litellm/qwen",
            "autoupdate": False,
        },
        "credentials": [
            {
                "name": "litellm-api-key",
                "secretRef": {"name": MASTER_KEY, "key": "LITELLM_MASTER_KEY"},
                "env": "LITELLM_MASTER_KEY",
            }
        ],
    }


@pytest.mark.parametrize("model", ["1e3", "yes", "0x10", "org/model:tag", "2026-01-01", 'a"b', "a: b"])
def test_a_model_is_text_as_a_key_too(model: str) -> None:
    models = template({"model": model})["spec"]["config"]["provider"]["litellm"]["models"]

    assert models == {model: {"name": model}}


@pytest.mark.parametrize(("given", "limit"), [(0, 0), (None, 1), (3, 3), (4.0, 4), (2000000.0, 2000000)])
def test_no_limit_is_one_and_zero_is_unlimited(given: float | None, limit: int) -> None:
    values = {} if given is None else {"maxConcurrentTasks": given}

    assert agent(values)["spec"]["maxConcurrentTasks"] == limit


@pytest.mark.parametrize(
    ("persistence", "expected"),
    [
        (None, None),
        ({}, None),
        ({"sessions": {}}, None),
        ({"sessions": {"size": "2Gi"}}, {"sessions": {"size": "2Gi"}}),
        (
            {"sessions": {"size": "5"}, "workspace": {"size": "20Gi"}},
            {"sessions": {"size": "5"}, "workspace": {"size": "20Gi"}},
        ),
    ],
)
def test_sessions_and_workspace_are_kept_on_request(
    persistence: Object | None, expected: Object | None
) -> None:
    values = {} if persistence is None else {"persistence": persistence}

    assert agent(values)["spec"].get("persistence") == expected


def test_the_agent_runs_and_says_what_it_is_for() -> None:
    assert agent({"profile": "Reviews: # all"})["spec"]["profile"] == "Reviews: # all"
    assert "coding agent" in agent()["spec"]["profile"]
    assert agent()["spec"]["suspend"] is False


def test_a_rotated_key_rolls_the_pod() -> None:
    spec = template(litellmKey=own_key("kubeopencode", "r1"))["spec"]

    assert spec["podSpec"] == {"extraEnv": [{"name": "LITELLM_KEY_REVISION", "value": "r1"}]}


@settings(max_examples=40)
@given(model=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_whatever_a_model_is_called_it_arrives_unchanged(model: str) -> None:
    expected = model.removeprefix("openai/").removeprefix("litellm/") or "CHANGEME_MODEL"

    config = template({"model": model})["spec"]["config"]
    assert config["model"] == f"litellm/{expected}"
    assert config["provider"]["litellm"]["models"] == {expected: {"name": expected}}
