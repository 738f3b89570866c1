"""Specs as people and the dashboard write them, by kind."""

from typing import Any, Final

from tests.support import palena_examples
from tests.support.crd_bases import ACTIONS, BASES
from tests.support.schemas import put

FLUX_SYSTEM: Final = {"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"}
OURS: Final = {"name": "local", "namespace": "ai-system"}


def _requests_to_hosts() -> list[dict[str, Any]]:
    requests = []
    for action in ACTIONS:
        obj: dict[str, Any] = {"spec": BASES["HostOperation"]}
        for path, value in action.items():
            obj = put(obj, path, value)
        requests.append(obj["spec"])
    return requests


EXAMPLES: Final[dict[str, list[dict[str, Any]]]] = {
    "Appliance": [
        {
            "profile": "ai-workstation",
            "source": FLUX_SYSTEM,
            "modules": {
                name: {"enabled": True} for name in ("basis", "dashboard", "litellm", "model-catalog")
            },
        },
        {
            "profile": "full",
            "source": {"kind": "GitRepository", "name": "magicstick-public"},
            "modules": {"modelCatalog": {"enabled": True, "uninstallPolicy": "keep-data"}, "gpu": {}},
            "instances": {
                "openclaw": [{"name": "default", "storage": {"size": "20Gi"}}],
                "kubeopencode": [
                    {
                        "name": "default",
                        "model": "CHANGEME",
                        "server": {"enabled": True, "ingress": {"host": "a.example.com"}},
                        "agentTemplates": [{"name": "default-coder", "description": "Writes code"}],
                    }
                ],
            },
        },
    ],
    "ModuleActivation": [
        {"module": "litellm", "enabled": True, "applianceRef": OURS},
        {"module": "anythingLlm", "parameters": {"storage": {"size": "5Gi"}, "qdrantStorage": "5Gi"}},
        {
            "module": "amd-gpu",
            "parameters": {"gpuSharing": '{"mode":"exclusive"}', "allowExperimental": "true"},
        },
    ],
    "AppInstance": [
        {
            "application": "kubeopencode",
            "targetNamespace": "ai",
            "applianceRef": OURS,
            "values": {"name": "default", "model": "CHANGEME", "agentExecution": {"maxConcurrentAgents": 2}},
        },
        {
            "application": "hermes",
            "access": {
                "authentication": "sso",
                "role": "operator",
                "exposure": "local",
                "sharing": {"mode": "selected", "users": ["ada"], "groups": ["team:one"]},
            },
            "values": {"name": "team-agent", "storage": {"size": "10Gi"}},
        },
    ],
    "ModelActivation": [
        {
            "type": "local",
            "local": {"preset": "qwen3827b", "artifact": "awq", "vllm": {"visionAttention": "auto"}},
        },
        {
            "type": "local",
            "local": {
                "url": "ollama://qwen3:8b",
                "engine": "OLlama",
                "computeTarget": "cpu",
                "memoryRequiredMi": 2048,
                "cpuResources": {"requestMillicores": 500, "limitMillicores": 0},
                "env": {"OLLAMA_KEEP_ALIVE": "1h"},
            },
        },
        {
            "type": "local",
            "local": {
                "url": "hf://example/omni",
                "vram": "12Gi",
                "realtime": {"profile": "omni", "gpuNode": "node-1", "gpuMemoryFraction": 1},
            },
        },
        {
            "type": "local",
            "local": {
                "url": "hf://example/moe",
                "engine": "FreeToken",
                "freetoken": {"gpuMemoryMi": 24000, "systemMemoryMi": 64000, "advanced": {"dtype": "auto"}},
            },
        },
        {
            "type": "external",
            "external": {
                "model": "openai/name",
                "apiBase": "https://api.example.com/v1",
                "apiKeySecretRef": {"name": "provider", "key": "api-key"},
                "tpm": 1000,
            },
        },
    ],
    "HostOperation": _requests_to_hosts(),
    **palena_examples.EXAMPLES,
}
