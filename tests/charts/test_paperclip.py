"""The chart of Paperclip (spec: platform §4.4)."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from magicstick.api.names import RELEASE_NAME_LIMIT, suffixed
from tests.charts.rendering import (
    CHARTS,
    MASTER_KEY,
    Object,
    env,
    instance,
    named,
    one,
    own_key,
    render,
    text,
)

FILES = CHARTS / "paperclip/files"
DEFAULT_TAG = "sha-df0e5bd"
RUNTIME = (
    "ghcr.io/paperclipai/agent-runtime-opencode"
    "@sha256:1511797b21856fb3ce4b6b1ce5b0209a0a1c55ef227a21d4024bf4681a0fa49d"
)
PATCH_FIELDS = ("initContainers", "extraVolumes", "extraVolumeMounts")


def spec(values: Object | None = None, **fields: Any) -> Object:
    made: Object = one(render("paperclip", values, **fields), "Instance")["spec"]
    return made


@pytest.mark.req("MS-189")
def test_it_is_an_instance_of_the_operators_kind() -> None:
    obj = one(render("paperclip"), "Instance")

    assert obj["apiVersion"] == "paperclip.inc/v1alpha1"
    assert obj["metadata"]["name"] == "paperclip-demo"


@pytest.mark.req("MS-202", "MS-206")
def test_it_is_private_and_trusts_what_comes_through_the_gateway() -> None:
    deployment = spec({"ingress": {"host": "demo.paperclip.example.com"}})["deployment"]

    assert deployment == {
        "mode": "local_trusted",
        "exposure": "private",
        "allowedHostnames": [
            "demo.paperclip.example.com",
            "demo.paperclip.example.local",
            "localhost",
            "127.0.0.1",
        ],
    }


@pytest.mark.parametrize("values", [{}, {"ingress": {}}, {"ingress": {"host": ""}}])
def test_a_host_that_is_not_there_is_not_allowed(values: Object) -> None:
    assert spec(values)["deployment"]["allowedHostnames"] == [
        "demo.paperclip.example.local",
        "localhost",
        "127.0.0.1",
    ]


@pytest.mark.req("MS-204", "MS-207")
def test_its_service_stays_inside_the_cluster() -> None:
    assert spec()["networking"] == {
        "service": {"type": "ClusterIP", "port": 3100},
        "ingress": {"enabled": False},
    }


@pytest.mark.req("MS-190", "MS-196")
def test_every_run_gets_a_sandbox_of_its_own() -> None:
    assert spec()["adapters"] == {
        "execution": {
            "mode": "kubernetes",
            "kubernetes": {
                "backend": "sandbox-cr",
                "egressMode": "standard",
                "namespacePrefix": "paperclip-demo-",
            },
        },
        "registry": [
            {
                "adapterType": "opencode_local",
                "enabled": True,
                "runtimeImage": RUNTIME,
                "envKeys": [
                    "OPENAI_API_KEY",
                    "OPENAI_BASE_URL",
                    "PAPERCLIP_OPENCODE_PROVIDERS",
                    "PAPERCLIP_OPENCODE_SMALL_MODEL",
                    "PAPERCLIP_OPENCODE_CHEAP_MODEL",
                ],
                "defaultEnv": {"OPENAI_BASE_URL": "http://litellm.ai.svc.cluster.local:4000/v1"},
            }
        ],
    }


@pytest.mark.req("MS-197")
def test_references_to_openclaw_and_hermes_wire_nothing() -> None:
    references = {
        "openClaw": {"enabled": True, "instanceRef": "openclaw-demo"},
        "hermes": {"enabled": True, "instanceRef": "hermes-demo"},
    }

    assert render("paperclip", {"agentExecution": references}) == render("paperclip", {"agentExecution": {}})


def test_models_come_from_the_catalog_that_may_come_later() -> None:
    found = env(spec({"model": "litellm/qwen"}))

    def catalog(key: str) -> Object:
        return {"configMapKeyRef": {"name": "ai-model-catalog", "key": key, "optional": True}}

    assert found == {
        "OPENAI_API_KEY": {"secretKeyRef": {"name": MASTER_KEY, "key": "LITELLM_MASTER_KEY"}},
        "OPENAI_BASE_URL": "http://litellm.ai.svc.cluster.local:4000/v1",
        "PAPERCLIP_ADAPTER_MODELS": catalog("paperclip-adapter-models.json"),
        "PAPERCLIP_OPENCODE_PROVIDERS": catalog("paperclip-opencode-providers.json"),
        "PAPERCLIP_OPENCODE_SMALL_MODEL": "litellm/qwen",
        "PAPERCLIP_OPENCODE_CHEAP_MODEL": "litellm/qwen",
        "PAPERCLIP_K8S_ADAPTER_TYPE": "opencode_local",
    }
    assert not re.search(r"(?<!paperclip-)opencode-providers\.json", text("paperclip", instance("paperclip")))


@pytest.mark.parametrize(
    ("values", "model"),
    [
        ({}, "litellm/CHANGEME_MODEL"),
        ({"model": "qwen"}, "litellm/qwen"),
        ({"model": "qwen", "agentExecution": {"defaultModel": ""}}, "litellm/qwen"),
        ({"model": "qwen", "agentExecution": {"defaultModel": "litellm/gemma"}}, "litellm/gemma"),
    ],
)
def test_the_default_of_agents_wins_over_the_model(values: Object, model: str) -> None:
    made = spec(values)

    assert env(made)["PAPERCLIP_OPENCODE_SMALL_MODEL"] == model
    assert env(proxy(made))["PAPERCLIP_DEFAULT_OPENCODE_MODEL"] == model


@pytest.mark.req("MS-203")
def test_a_proxy_listens_on_the_pods_address_alone() -> None:
    made = proxy(spec())
    script = (FILES / "gateway-loopback-proxy.mjs").read_text()

    assert made["command"] == ["node", "--input-type=module", "--eval", script]
    assert env(made)["POD_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert made["readinessProbe"] == {"tcpSocket": {"port": 3100}, "periodSeconds": 5}
    assert spec()["probes"] == {"type": "tcp"}


@pytest.mark.parametrize("script", ["gateway-loopback-proxy.mjs", "prepare-adapter-patch.mjs"])
def test_a_script_passes_through_a_container_command_unchanged(script: str) -> None:
    """Kubernetes expands `$(NAME)` and halves `$$` in commands."""
    written = (FILES / script).read_text()

    assert "$(" not in written
    assert "$$" not in written
    subprocess.run(["node", "--check", str(FILES / script)], check=True, capture_output=True)


def test_the_proxy_installs_one_version_and_deletes_no_namespace() -> None:
    script = (FILES / "gateway-loopback-proxy.mjs").read_text()

    assert '"paperclip.kubernetes-sandbox-provider"' in script
    assert '"@paperclipai/plugin-kubernetes"' in script
    assert '"2026.707.0"' in script
    assert re.findall(r'"DELETE", (.*?),', script) == ["`${sandboxes}/${encodeURIComponent(metadata.name)}`"]


@pytest.mark.parametrize("image", [{}, {"tag": DEFAULT_TAG}, {"repository": "registry.example.com/mirror"}])
def test_the_build_that_is_known_is_patched(image: Object) -> None:
    made = spec({"image": image})
    (patch,) = made["initContainers"]
    (mount,) = made["extraVolumeMounts"]

    assert patch["command"][-1] == (FILES / "prepare-adapter-patch.mjs").read_text()
    assert patch["image"] == proxy(made)["image"]
    assert mount == {
        "name": "paperclip-adapter-patch",
        "mountPath": "/app/packages/adapters/opencode-local/src/server",
        "readOnly": True,
    }
    assert made["extraVolumes"] == [{"name": "paperclip-adapter-patch", "emptyDir": {"sizeLimit": "1Mi"}}]


@pytest.mark.parametrize(
    "image", [{"tag": "v2"}, {"digest": "sha256:00"}, {"tag": DEFAULT_TAG, "digest": "sha256:00"}]
)
def test_another_build_is_left_as_it_is_and_all_else_is_the_same(image: Object) -> None:
    made, known = spec({"image": image}), spec()
    own = {**known, "image": {**known["image"], **image}, "sidecars": made["sidecars"]}
    expected = f":{image['tag']}" if "digest" not in image else "@sha256:00"

    assert made == {key: value for key, value in own.items() if key not in PATCH_FIELDS}
    assert proxy(made)["image"] == f"ghcr.io/paperclipai/paperclip{expected}"


def test_the_runtime_of_agents_may_be_another() -> None:
    values = {"agentExecution": {"openCode": {"runtimeImage": "registry.example.com/runtime:1"}}}

    assert spec(values)["adapters"]["registry"][0]["runtimeImage"] == "registry.example.com/runtime:1"


@pytest.mark.parametrize("name", ["gateway-loopback-proxy", "prepare-paperclip-adapter-patch"])
def test_our_containers_have_no_more_rights_than_they_need(name: str) -> None:
    made = spec()
    container = named([*made["sidecars"], *made["initContainers"]], name)

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert set(container["resources"]) == {"requests", "limits"}


def test_it_keeps_its_data() -> None:
    sizes = {"storage": {"size": "6Gi"}, "database": {"managed": {"storageSize": "11Gi"}}}

    assert spec()["storage"]["persistence"] == {"enabled": True, "size": "5Gi"}
    assert spec()["database"] == {"mode": "managed", "managed": {"storageSize": "10Gi"}}
    assert spec(sizes)["storage"]["persistence"]["size"] == "6Gi"
    assert spec(sizes)["database"]["managed"]["storageSize"] == "11Gi"


def test_it_restarts_with_the_catalog_and_with_its_key() -> None:
    assert spec(litellmKey=own_key("x", "r1"))["podAnnotations"] == {
        "ai-appliance.io/model-catalog-consumer": "true",
        "ai-appliance.io/litellm-key-revision": "r1",
    }


@pytest.mark.parametrize("namespace", ["ai", "team-a"])
def test_a_policy_beside_the_operators_lets_it_reach_the_api_server_and_litellm(namespace: str) -> None:
    policy = one(render("paperclip", namespace=namespace), "NetworkPolicy", "paperclip-demo-kubernetes-api")[
        "spec"
    ]

    assert policy["podSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "paperclip",
        "app.kubernetes.io/instance": "paperclip-demo",
        "app.kubernetes.io/component": "server",
    }
    assert policy["policyTypes"] == ["Egress"]
    assert policy["egress"] == [
        {"ports": [{"protocol": "TCP", "port": 6443}]},
        {
            "to": [
                {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ai"}},
                    "podSelector": {"matchLabels": {"app": "litellm"}},
                }
            ],
            "ports": [{"protocol": "TCP", "port": 4000}],
        },
    ]
    assert spec()["security"] == {"networkPolicy": {"enabled": True}}


def test_its_account_may_do_two_things_in_the_whole_cluster() -> None:
    objects = render("paperclip", namespace="team-a")
    roles = {obj["metadata"]["name"]: obj["rules"] for obj in objects if obj["kind"] == "ClusterRole"}

    assert roles == {
        "team-a-paperclip-demo-rancher-psa": [
            {"apiGroups": ["management.cattle.io"], "resources": ["projects"], "verbs": ["updatepsa"]}
        ],
        "team-a-paperclip-demo-sandbox-reconciler": [
            {"apiGroups": ["agents.x-k8s.io"], "resources": ["sandboxes"], "verbs": ["list"]}
        ],
    }
    for binding in (obj for obj in objects if obj["kind"] == "ClusterRoleBinding"):
        assert binding["roleRef"]["name"] == binding["metadata"]["name"]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "paperclip-demo", "namespace": "team-a"}
        ]
    assert "system:masters" not in text("paperclip", instance("paperclip"))


def test_long_names_of_cluster_wide_objects_are_cut_and_stay_distinct() -> None:
    names: list[str] = []
    for namespace in ("s" * 63, "s" * 62 + "t"):
        for name in ("n" * RELEASE_NAME_LIMIT, "n" * (RELEASE_NAME_LIMIT - 1) + "m"):
            objects = render("paperclip", namespace=namespace, name=name)
            made = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ClusterRole"]
            base = f"{namespace}-{name}"
            assert made == [suffixed(base, "rancher-psa"), suffixed(base, "sandbox-reconciler")]
            names += made

    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 63


def proxy(made: Object) -> Object:
    return named(made["sidecars"], "gateway-loopback-proxy")


def test_files_are_those_that_are_used() -> None:
    assert {Path(file).name for file in FILES.iterdir()} == {
        "gateway-loopback-proxy.mjs",
        "prepare-adapter-patch.mjs",
    }
