"""The chart of Hermes (spec: platform §4.2)."""

import pytest

from tests.charts.rendering import MASTER_KEY, Object, env, one, own_key, render


def spec(values: Object | None = None, **fields: object) -> Object:
    made: Object = one(render("hermes", values, **fields), "HermesInstance")["spec"]
    return made


@pytest.mark.req("MS-187")
def test_it_is_an_instance_of_the_operators_kind() -> None:
    obj = one(render("hermes"), "HermesInstance")

    assert obj["apiVersion"] == "hermes.agent/v1"
    assert obj["metadata"]["name"] == "hermes-demo"


@pytest.mark.req("MS-199")
def test_its_own_configuration_points_to_litellm() -> None:
    raw = spec({"model": "litellm/qwen"})["config"]["raw"]

    assert raw == {"model": "qwen", "base_url": "http://litellm.ai.svc.cluster.local:4000/v1"}


@pytest.mark.req("MS-198")
def test_its_dashboard_listens_for_the_gateway_and_asks_for_no_second_login() -> None:
    found = env(spec())

    assert found.pop("OPENAI_API_KEY") == {"secretKeyRef": {"name": MASTER_KEY, "key": "LITELLM_MASTER_KEY"}}
    assert found == {
        "HERMES_DASHBOARD": "true",
        "HERMES_DASHBOARD_HOST": "0.0.0.0",  # noqa: S104 - what the Pod is told
        "HERMES_DASHBOARD_PORT": "9119",
        "HERMES_DASHBOARD_INSECURE": "true",
    }


@pytest.mark.req("MS-200", "MS-201")
def test_its_service_has_the_agents_api_and_the_dashboard() -> None:
    assert spec()["networking"] == {
        "service": {
            "type": "ClusterIP",
            "ports": [
                {"name": "gateway", "port": 8443, "targetPort": 8443},
                {"name": "dashboard", "port": 9119, "targetPort": 9119},
            ],
        },
        "ingress": {"enabled": False},
    }


def test_the_images_init_is_the_first_process() -> None:
    assert spec()["shareProcessNamespace"] is False


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, {"repository": "ghcr.io/paperclipinc/hermes-agent", "tag": "v0.16.0"}),
        (
            {"repository": "", "tag": ""},
            {"repository": "ghcr.io/paperclipinc/hermes-agent", "tag": "v0.16.0"},
        ),
        ({"tag": "1.0"}, {"repository": "ghcr.io/paperclipinc/hermes-agent", "tag": "1.0"}),
        (
            {"repository": "registry.example.com/h", "digest": "sha256:00"},
            {"repository": "registry.example.com/h", "tag": "v0.16.0", "digest": "sha256:00"},
        ),
    ],
)
def test_the_image_may_be_another(image: Object, expected: Object) -> None:
    assert spec({"image": image})["image"] == expected


def test_it_is_no_consumer_of_the_catalog_and_keeps_its_model() -> None:
    obj = one(render("hermes"), "HermesInstance")

    assert "podAnnotations" not in obj["spec"]
    assert "annotations" not in obj["metadata"]


def test_a_rotated_key_rolls_the_pod() -> None:
    assert env(spec(litellmKey=own_key("hermes", "r1")))["LITELLM_KEY_REVISION"] == "r1"


@pytest.mark.parametrize("namespace", ["ai", "team-a"])
def test_a_policy_beside_the_operators_lets_it_reach_litellm(namespace: str) -> None:
    policy = one(render("hermes", namespace=namespace), "NetworkPolicy", "hermes-demo-litellm")["spec"]
    litellm, dns = policy["egress"]

    assert policy["policyTypes"] == ["Egress"]
    assert policy["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "hermes-agent",
        "app.kubernetes.io/instance": "hermes-demo",
    }
    assert litellm["to"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ai"}},
            "podSelector": {"matchLabels": {"app": "litellm"}},
        }
    ]
    assert litellm["ports"] == [{"protocol": "TCP", "port": 4000}]
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert spec(namespace=namespace)["security"]["networkPolicy"] == {
        "enabled": True,
        "allowedIngressNamespaces": ["ai", "envoy-gateway-system"],
    }


def test_it_has_its_resources_and_keeps_its_data() -> None:
    made = spec({"storage": {"size": "11Gi"}})

    assert made["storage"] == {"persistence": {"enabled": True, "size": "11Gi"}}
    assert spec()["storage"]["persistence"]["size"] == "10Gi"
    assert made["resources"] == {
        "requests": {"cpu": "250m", "memory": "512Mi"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    }
