"""The chart of OpenClaw (spec: platform §4.1)."""

import pytest

from tests.charts.rendering import MASTER_KEY, Object, env, instance, one, render, text

LITELLM = {
    "to": [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ai"}},
            "podSelector": {"matchLabels": {"app": "litellm"}},
        }
    ],
    "ports": [{"protocol": "TCP", "port": 4000}],
}


def rendered(**fields: object) -> Object:
    (obj,) = render("openclaw", {"model": "qwen"}, **fields)
    return obj


@pytest.mark.req("MS-185")
def test_it_is_one_instance_of_the_operators_kind() -> None:
    obj = rendered()

    assert (obj["apiVersion"], obj["kind"]) == ("openclaw.rocks/v1alpha1", "OpenClawInstance")
    assert obj["metadata"]["name"] == "openclaw-demo"


def test_the_catalog_decides_about_models_whatever_the_instance_has_kept() -> None:
    spec = rendered()["spec"]

    assert spec["config"] == {
        "mergeMode": "merge",
        "configMapRef": {"name": "ai-model-catalog", "key": "openclaw.json"},
        "forcePaths": [
            "models.providers",
            "agents.defaults.compaction",
            "agents.defaults.model",
            "tools.profile",
        ],
    }
    assert spec["podAnnotations"] == {"ai-appliance.io/model-catalog-consumer": "true"}


def test_its_only_variable_is_the_key() -> None:
    key = {"secretKeyRef": {"name": MASTER_KEY, "key": "LITELLM_MASTER_KEY"}}

    assert env(rendered()["spec"]) == {"LITELLM_API_KEY": key}


def test_it_holds_no_override_that_openclaw_would_ignore() -> None:
    written = text("openclaw", instance("openclaw", {"model": "qwen"}))

    assert not [
        name for name in ("OPENAI_BASE_URL", "OPENCLAW_DEFAULT_MODEL", "OPENAI_API_KEY") if name in written
    ]


def test_a_chosen_model_changes_nothing() -> None:
    assert rendered() == one(render("openclaw", {"model": "another"}), "OpenClawInstance")


@pytest.mark.parametrize("namespace", ["ai", "team-a"])
def test_it_reaches_litellm_where_that_is_and_is_reached_by_the_gateway(namespace: str) -> None:
    assert rendered(namespace=namespace)["spec"]["security"] == {
        "networkPolicy": {
            "enabled": True,
            "allowedIngressNamespaces": ["ai", "envoy-gateway-system"],
            "additionalEgress": [LITELLM],
        }
    }


def test_a_rotated_key_rolls_the_pod() -> None:
    key = {"name": "x", "key": "y", "revision": "r1"}

    assert rendered(litellmKey=key)["spec"]["podAnnotations"]["ai-appliance.io/litellm-key-revision"] == "r1"


@pytest.mark.parametrize(("values", "size"), [({}, "10Gi"), ({"storage": {"size": "20Gi"}}, "20Gi")])
def test_it_keeps_its_data(values: Object, size: str) -> None:
    (obj,) = render("openclaw", values)

    assert obj["spec"]["storage"] == {"persistence": {"enabled": True, "size": size}}
