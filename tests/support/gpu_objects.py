"""Nodes for tests of hardware, and what their hosts say of themselves."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from magicstick.api import labels
from magicstick.gpu.nodes import NodeView

NVIDIA = "feature.node.kubernetes.io/pci-10de.present"
AMD = "feature.node.kubernetes.io/pci-1002.present"
AMD_SUPPORTED = "feature.node.kubernetes.io/amd-gpu"
INTEL = "feature.node.kubernetes.io/pci-8086.present"
INTEL_SUPPORTED = "intel.feature.node.kubernetes.io/gpu"
FINGERPRINT = "ab" * 32
BOOT = "boot-1"
KERNEL = "6.18.4"


def node_body(
    name: str = "n1",
    *present: str,
    labelled: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    ready: bool = True,
    cordoned: bool = False,
    system: str = "linux",
    architecture: str = "amd64",
    kubelet: str = "v1.36.3",
    uid: str = "",
    evidence: object = None,
    heartbeat: str = "2026-01-01T12:00:00Z",
) -> dict[str, Any]:
    """A Node as the server has it: `present` are labels that are set; `evidence` is the host's, as JSON."""
    annotations = {} if evidence is None else {labels.GPU_HOST_PREFLIGHT: _text(evidence)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "labels": {**dict.fromkeys(present, "true"), **(labelled or {})},
            "annotations": annotations,
        },
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {"cpu": "8", **(allocatable or {})},
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "False", "lastHeartbeatTime": heartbeat}
            ],
            "nodeInfo": {
                "operatingSystem": system,
                "architecture": architecture,
                "kubeletVersion": kubelet,
                "kernelVersion": KERNEL,
                "bootID": BOOT,
            },
        },
    }


def node(name: str = "n1", *present: str, **options: Any) -> NodeView:
    """The same as the operator sees it."""
    return msgspec.json.decode(json.dumps(node_body(name, *present, **options)), type=NodeView)


def host(name: str = "n1", *cards: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """What the host of a node says of itself, fresh at the time of `module_world.NOW`."""
    return {
        "nodeUid": f"uid-{name}",
        "bootId": BOOT,
        "kernelVersion": KERNEL,
        "fingerprint": FINGERPRINT,
        "generatedAt": "2026-01-01T11:59:30Z",
        "displayDevices": list(cards),
        **fields,
    }


def card(vendor_id: str, address: str = "0000:01:00.0", **fields: Any) -> dict[str, Any]:
    """A physical card as its host lists it."""
    drivers = {"10de": "nvidia", "1002": "amdgpu", "8086": "xe"}
    return {
        "pciAddress": address,
        "vendorId": vendor_id,
        "deviceId": "2684",
        "driver": drivers.get(vendor_id, ""),
        "name": f"Card {vendor_id}",
        "architecture": "arch",
        "memoryTotalMi": 24564,
        **fields,
    }


def names(nodes: Iterable[NodeView]) -> list[str]:
    return [each.name for each in nodes]


def _text(evidence: object) -> str:
    return evidence if isinstance(evidence, str) else json.dumps(evidence)
