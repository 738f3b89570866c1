"""The objects of chats, tool servers and observabilities, as files that people can review."""

from typing import Any

import pytest

from magicstick.palena.common.secrets import SECRET
from magicstick.runtime.plan import Apply, Create
from tests.support import golden
from tests.support.palena_consumers import ConsumerScene, McpScene, ObservabilityScene, UiScene
from tests.support.palena_objects import GATEWAY, HOME, secret

pytestmark = pytest.mark.anyio

CHAT: dict[str, Any] = {
    "host": "chat.example.com",
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"example.com/note": "x"},
        "tls": {"enabled": True, "secretName": "chat-tls"},
    },
    "mcpServerRefs": [{"name": "websearch", "alias": "web", "timeoutMs": 30000}],
    "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "chat", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        }
    },
    "image": {"tag": "v0.8.8", "pullSecrets": [{"name": "registry"}]},
    "extraEnv": [{"name": "DEBUG_LOGGING", "value": "false"}],
    "config": {"interface": {"privacyPolicy": {"externalUrl": "https://example.com"}}},
    "mongodb": {"storage": {"size": "20Gi", "storageClassName": "fast"}},
    "auth": {
        "oidc": {
            "enabled": True,
            "issuer": "https://login.example.com",
            "clientIdRef": {"name": "login", "key": "id"},
            "clientSecretRef": {"name": "login", "key": "secret"},
        }
    },
}
TOOLS: dict[str, Any] = {
    "replicas": 2,
    "service": {"port": 9090},
    "env": [{"name": "PALENA_LOGGING_LEVEL", "value": "debug"}],
    "sidecars": {
        "chromium": {"engine": "cdp", "resources": {"limits": {"memory": "4Gi"}}},
        "presidio": {"mode": "redact", "language": "de"},
        "flashrank": {"externalURL": "https://rank.example.com"},
        "injectionGuard": {"enabled": True, "mode": "block"},
    },
    "policy": {"domains": {"mode": "allowlist", "allowlist": ["example.com"]}},
}
TRACES: dict[str, Any] = {
    "namespace": "traces",
    "gatewayRef": {"name": GATEWAY, "namespace": HOME},
    "langfuse": {
        "image": {"tag": "3.1", "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]},
        "ingress": {
            "enabled": True,
            "host": "traces.example.com",
            "tls": {"enabled": True, "secretName": "t"},
        },
        "web": {"replicas": 2, "resources": {"limits": {"memory": "2Gi"}}},
        "auth": {"emailPassword": {"enabled": True, "disableSignup": True}},
        "overrides": {"worker": {"concurrency": 20}},
    },
    "clickhouse": {
        "mode": "external",
        "external": {
            "secretRef": {"name": "clickhouse", "keys": {"url": "u", "username": "n", "password": "p"}}
        },
    },
    "deletionPolicy": "Delete",
}


async def chat(**spec: Any) -> ConsumerScene:
    scene = UiScene(**spec)
    scene.model("model-a")
    if "mcpServerRefs" in spec:
        scene.server()
        scene.world.put(SECRET, secret("login", {"id": "a", "secret": "b"}))
    await scene.running()
    return scene


async def tools(**spec: Any) -> ConsumerScene:
    scene = McpScene(**spec)
    await scene.running()
    return scene


async def traces(**spec: Any) -> ConsumerScene:
    scene = ObservabilityScene(**spec)
    clickhouse = secret("clickhouse", {"u": "a", "n": "b", "p": "c"}, namespace=scene.namespace)
    scene.world.put(SECRET, clickhouse)
    await scene.running()
    return scene


@pytest.mark.parametrize(
    ("name", "make", "spec"),
    [
        ("chat-small", chat, {}),
        ("chat-large", chat, CHAT),
        ("tools-small", tools, {}),
        ("tools-large", tools, TOOLS),
        ("traces-small", traces, {}),
        ("traces-large", traces, TRACES),
    ],
)
async def test_the_objects_are_as_reviewed(name: str, make: Any, spec: dict[str, Any]) -> None:
    scene: ConsumerScene = await make(**spec)
    made = [step for step in scene.world.log if isinstance(step, Apply | Create)]

    assert scene.phase == "Running"
    last = {
        (step.kind.kind, step.body["metadata"]["name"], step.body["metadata"]["namespace"]): step
        for step in made
    }
    for (kind, object_name, namespace), step in last.items():
        assert (step.body["apiVersion"], step.body["kind"]) == (step.kind.api_version, kind)
        golden.check(f"palena-consumers/{name}-{namespace}-{object_name}-{kind.lower()}", step.body)
