"""What FreeToken needs on a real API server: a node whose GPUs are identified, and a Pod of its Deployment."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from magicstick.api import labels
from tests.support.gpu_objects import card
from tests.support.kubeai import PODS, SPACE
from tests.support.model_scene import ModelScene, make_node

DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
SERVICES: Final = f"/api/v1/namespaces/{SPACE}/services"
WRITES: Final = frozenset({("apps", "deployments", ""), ("", "services", "")})
"""What the operator writes for a direct runtime."""
GPU_LABELS: Final = {
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.replicas": "1",
    "nvidia.com/gpu.compute.major": "8",
    "nvidia.com/gpu.compute.minor": "9",
    "nvidia.com/gpu.memory": "24564",
}
TEMPLATE: Final = "abc"


def freetoken(node: str) -> dict[str, Any]:
    """A model for FreeToken on this node."""
    settings = {"gpuDevice": f"node:{node}", "gpuMemoryMi": 20000, "systemMemoryMi": 4096}
    model = {"engine": "FreeToken", "computeTarget": "nvidia-gpu", "url": "hf://Qwen/Qwen3-30B-A3B"}
    return {**model, "freetoken": settings}


async def gpu_host(scene: ModelScene, name: str) -> None:
    """A node with one GPU that its host has identified."""
    await make_node(scene, name, {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"})
    info = {"bootID": "boot", "kernelVersion": "6.18.4"}
    await scene.world.client.merge(f"/api/v1/nodes/{name}/status", {"status": {"nodeInfo": info}})
    live = await scene.world.client.get(f"/api/v1/nodes/{name}")
    evidence = {
        "nodeUid": live["metadata"]["uid"],
        "bootId": "boot",
        "kernelVersion": "6.18.4",
        "fingerprint": "ab" * 32,
        "generatedAt": datetime.now(UTC).isoformat(),
        "displayDevices": [card("10de", driverVersion="580.65.06")],
    }
    annotations = {labels.GPU_HOST_PREFLIGHT: json.dumps(evidence)}
    metadata = {"labels": GPU_LABELS, "annotations": annotations}
    await scene.world.client.merge(f"/api/v1/nodes/{name}", {"metadata": metadata})


async def make_direct_pod(scene: ModelScene, deployment: str, address: str) -> str:
    """The Pod of a Deployment, as its ReplicaSet makes it and a kubelet starts it; its name."""
    live = await scene.world.client.get(f"{DEPLOYMENTS}/{deployment}")
    template = live["spec"]["template"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{deployment}-{TEMPLATE}",
        "uid": "00000000-0000-0000-0000-000000000001",
        "controller": True,
    }
    name = f"{deployment}-{TEMPLATE}-1"
    metadata = {
        "name": name,
        "namespace": SPACE,
        "labels": {**template["metadata"]["labels"], "pod-template-hash": TEMPLATE},
        "ownerReferences": [owner],
    }
    container = {"name": "freetoken", "image": "registry.example.com/freetoken:v1"}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    await scene.world.client.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    )
    await scene.kubeai.set_pod(name, "Running", podIP=address, podIPs=[{"ip": address}])
    return name


async def roll_out(scene: ModelScene, deployment: str, ready: int) -> None:
    """What the Deployment's controller says of it."""
    live = await scene.world.client.get(f"{DEPLOYMENTS}/{deployment}")
    counts = {"readyReplicas": ready, "availableReplicas": ready}
    status = {"observedGeneration": live["metadata"]["generation"], "replicas": 1, "updatedReplicas": 1}
    await scene.world.client.merge(f"{DEPLOYMENTS}/{deployment}/status", {"status": {**status, **counts}})
