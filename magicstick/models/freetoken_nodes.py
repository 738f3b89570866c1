"""Which node FreeToken may run on: whole, identified, equal NVIDIA GPUs with a driver that is new enough.

What the devices are tell the node's labels, its allocatable resources and the host's own inventory; a
node about which they are silent is not eligible (spec: models §13).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from magicstick.api.model_activation import FreeToken
from magicstick.api.quantity import QuantityError, to_mi
from magicstick.catalogs.compute_targets import RuntimeCapabilities
from magicstick.models.hardware import NodeFacts
from magicstick.models.targets import amount
from magicstick.models.validation import refuse

GPU: Final = "nvidia.com/gpu"
NVIDIA_PCI: Final = "10de"
CAUSES: Final = 3
"""Nodes that a refusal gives the cause of."""
DEVICE_LIMIT: Final = 256
DIGITS: Final = 12
"""No label has a number that needs more."""
_DEVICE: Final = re.compile(r"[A-Za-z0-9._:/-]+")
_FIELD: Final = "spec.local.freetoken.gpuDevice"
_UNSPLIT: Final = ("", "all-disabled")


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with its GPUs, or why it is not eligible."""

    name: str
    problem: str
    """What keeps FreeToken from it; "" for nothing."""
    gpus: int = 0
    """Physical ones that are allocatable too."""
    vram_mi: int | None = None
    """GPU memory of the smallest; None where nobody says."""
    memory_mi: int = 0
    """Allocatable memory of the host."""


def choose_node(
    nodes: tuple[NodeFacts, ...], capabilities: RuntimeCapabilities, wanted: FreeToken
) -> GpuNode:
    """The node that is asked for, or the only eligible one.

    Raises:
        RefusedError: it is not eligible, none is, or several are and none is named.
    """
    judged = [_judged(node, capabilities) for node in nodes]
    eligible = {each.name: each for each in judged if not each.problem}
    if not eligible:
        causes = "; ".join(f"{each.name} {each.problem}" for each in judged if each.problem)
        listed = "; ".join(causes.split("; ")[:CAUSES]) or "no node of this target is ready"
        refuse(_FIELD, f"has no eligible node: {listed}")
    if not wanted.gpu_device:
        if len(eligible) > 1:
            refuse(_FIELD, f"is required, since several nodes are eligible: {', '.join(sorted(eligible))}")
        return next(iter(eligible.values()))
    if len(wanted.gpu_device) > DEVICE_LIMIT or not _DEVICE.fullmatch(wanted.gpu_device):
        refuse(_FIELD, f"must be node:<node>, of at most {DEVICE_LIMIT} characters")
    node = eligible.get(wanted.gpu_device.removeprefix("node:"))
    if node is None or not wanted.gpu_device.startswith("node:"):
        refuse(_FIELD, f"must be one of {', '.join(f'node:{name}' for name in sorted(eligible))}")
    return node


def _judged(node: NodeFacts, capabilities: RuntimeCapabilities) -> GpuNode:
    problem = next(_problems(node, capabilities), "")
    try:
        memory_mi = to_mi(node.allocatable.get("memory", "0"))
    except QuantityError:
        memory_mi = 0
    gpus = min(_physical(node), amount(node.allocatable, GPU))
    return GpuNode(node.name, problem, gpus, _vram_mi(node), memory_mi)


def _problems(node: NodeFacts, capabilities: RuntimeCapabilities) -> Iterator[str]:
    """Everything that keeps FreeToken from the node, as ends of a sentence that begins with its name."""
    physical, allocatable = _physical(node), amount(node.allocatable, GPU)
    if physical < 1 or allocatable < 1:
        yield "has no allocatable GPU"
    if node.labels.get(f"{GPU}.replicas", "1") != "1" or allocatable > physical:
        yield "shares its GPUs by time-slicing"
    if _divided(node):
        yield "divides its GPUs (MIG)"
    capability = _compute_capability(node)
    if capability not in capabilities.supported_compute_capabilities:
        yield f"has the compute capability {capability or 'unknown'}"
    yield from _device_problems(_devices(node), physical, capabilities)


def _device_problems(
    devices: list[Mapping[str, object]], physical: int, capabilities: RuntimeCapabilities
) -> Iterator[str]:
    if len(devices) != physical:
        yield f"reports {len(devices)} of its {physical} GPUs in the host's inventory"
    kinds = {(str(each.get("deviceId") or ""), str(each.get("name") or "")) for each in devices}
    if ("", "") in kinds:
        yield "has a GPU that is not identified"
    if len(kinds) > 1:
        yield "has GPUs of several kinds"
    least = capabilities.minimum_nvidia_driver_major
    majors = [_major(each.get("driverVersion")) for each in devices]
    if any(major is None or major < least for major in majors):
        yield f"needs a driver of version {least} or later"


def _physical(node: NodeFacts) -> int:
    counted = _number(node.labels.get(f"{GPU}.count"))
    return counted or amount(node.allocatable, GPU)


def _divided(node: NodeFacts) -> bool:
    parts = any(
        name.startswith("nvidia.com/mig-") and amount(node.allocatable, name) for name in node.allocatable
    )
    configured = node.labels.get("nvidia.com/mig.config", "") not in _UNSPLIT
    return parts or configured or "MIG" in node.labels.get(f"{GPU}.product", "")


def _compute_capability(node: NodeFacts) -> str:
    major = node.labels.get(f"{GPU}.compute.major", "")
    return f"{major}.{node.labels.get(f'{GPU}.compute.minor', '0')}" if major else ""


def _devices(node: NodeFacts) -> list[Mapping[str, object]]:
    listed = node.evidence.get("displayDevices")
    devices = listed if isinstance(listed, list | tuple) else ()
    return [
        each
        for each in devices
        if isinstance(each, Mapping) and str(each.get("vendorId", "")).lower() == NVIDIA_PCI
    ]


def _vram_mi(node: NodeFacts) -> int | None:
    """The smallest GPU's memory: as the host reports it for all, and as the label says; the lower counts."""
    totals = [each.get("memoryTotalMi") for each in _devices(node)]
    reported = [total for total in totals if type(total) is int and total > 0]
    labelled = _number(node.labels.get(f"{GPU}.memory"))
    sources = ([min(reported)] if reported and len(reported) == len(totals) else []) + (
        [labelled] if labelled else []
    )
    return min(sources) if sources else None


def _major(version: object) -> int | None:
    return _number(version.partition(".")[0]) if isinstance(version, str) else None


def _number(text: str | None) -> int | None:
    """ASCII digits alone."""
    return (
        int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= DIGITS else None
    )
