"""What a realtime model needs on a real API server, and what it is made of there."""

from typing import Any, Final

from tests.support.freetoken_scene import DEPLOYMENTS, SERVICES
from tests.support.kubeai import PODS, SPACE
from tests.support.mirror import Mirror, Object
from tests.support.model_scene import ModelScene
from tests.support.realtime_objects import OWN_IMAGE

CONFIG_MAPS: Final = f"/api/v1/namespaces/{SPACE}/configmaps"
PARTS: Final = (CONFIG_MAPS, SERVICES, DEPLOYMENTS)
WRITES: Final = frozenset({("apps", "deployments", ""), ("", "services", "")})
"""What the operator writes for a realtime runtime, besides the ConfigMap."""


def on_cpu(node: str, *, local: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """`spec.local` of a model on CPU, which needs no vendor's module."""
    realtime = {
        "profile": "qwen3-omni-cpu",
        "gpuNode": node,
        "systemMemoryMi": 1024,
        "runtimeImage": OWN_IMAGE,
    }
    model = {"computeTarget": "cpu", "url": "hf://example/omni", "realtime": {**realtime, **changes}}
    return {**model, **(local or {})}


def mirror_of(scene: ModelScene) -> Mirror:
    """Shows the objects of runtimes, and Pods."""
    return Mirror(scene.world.client, *PARTS, PODS)


def parts(mirror: Mirror, name: str) -> list[Object]:
    """ConfigMap, Service and Deployment of a model, as far as they are there."""
    found = (mirror.get(path, f"{name}-realtime") for path in PARTS)
    return [each for each in found if each is not None]


def template(mirror: Mirror, name: str) -> Object:
    """The Pod template of a model's Deployment; {} while there is none."""
    made = mirror.get(DEPLOYMENTS, f"{name}-realtime") or {"spec": {"template": {}}}
    found: Object = made["spec"]["template"]
    return found


def pods_of(mirror: Mirror, name: str) -> dict[str, Object]:
    """The Pods of a model, by name."""
    return {
        key: pod
        for key, pod in mirror.all(PODS).items()
        if pod["metadata"].get("labels", {}).get("model") == name
    }
