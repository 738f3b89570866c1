"""The physical GPUs of a vendor: each card once, however it is shared (spec: gpu §11).

The source is what hosts say of themselves, as long as it is believed. How many of a resource a node
offers tells nothing of cards: a shared card offers many.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from magicstick.gpu.evidence import Card, Evidence, evidence_of, mentions, positive
from magicstick.gpu.nodes import NodeView
from magicstick.gpu.providers import Provider

DEVICE_LIMIT: Final = 128
"""Most devices that a status lists for one vendor; it has to fit into the store."""

_VENDORS: Final[Mapping[str, str]] = {"nvidia": "10de", "amd": "1002", "intel": "8086"}
_DRIVERS: Final[Mapping[str, frozenset[str]]] = {
    "nvidia": frozenset({"nvidia"}),
    "amd": frozenset({"amdgpu"}),
    "intel": frozenset({"i915", "xe"}),
}
_NVIDIA_MEMORY: Final = "nvidia.com/gpu.memory"
_NVIDIA_MAJOR: Final = "nvidia.com/gpu.compute.major"
_NVIDIA_MINOR: Final = "nvidia.com/gpu.compute.minor"
_CARD_LABELS: Final = (_NVIDIA_MEMORY, _NVIDIA_MAJOR, _NVIDIA_MINOR)

Device = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Host:
    """What the cards of one vendor on one node have in common."""

    node: NodeView
    evidence: Evidence
    cards: tuple[Card, ...]


class Inventory:
    """What hosts say of themselves at one moment, as far as it is believed, by name of the node.

    Nodes may be many, and only so many cards are told of: a host is read when it is asked about, once.
    """

    def __init__(self, nodes: Iterable[NodeView], now: datetime) -> None:
        self._nodes = sorted(nodes, key=lambda node: node.name)
        self._now = now
        self._read: dict[str, Evidence | None] = {}

    def hosts(self, vendor_id: str) -> Iterator[tuple[NodeView, Evidence]]:
        """All hosts that may have cards of a vendor."""
        for node in self._nodes:
            if not mentions(node, vendor_id):
                continue
            if node.name not in self._read:
                self._read[node.name] = evidence_of(node, self._now)
            evidence = self._read[node.name]
            if evidence is not None:
                yield node, evidence


def devices_of(
    provider: Provider, inventory: Inventory, *, enabled: bool, generation: int
) -> tuple[Device, ...]:
    """The cards of a vendor, by node and address, at most `DEVICE_LIMIT`.

    Args:
        provider: the vendor.
        inventory: of all hosts.
        enabled: whether the vendor's module is switched on.
        generation: of the module's activation; 0 without one.
    """
    found: list[Device] = []
    vendor_id = _VENDORS.get(provider.hardware.vendor)
    for node, evidence in inventory.hosts(vendor_id) if vendor_id else ():
        host = _Host(node, evidence, tuple(card for card in evidence.cards if card.vendor_id == vendor_id))
        for card in host.cards:
            if len(found) == DEVICE_LIMIT:
                return tuple(found)
            found.append(_device(provider, host, card, enabled=enabled, generation=generation))
    return tuple(found)


def _device(provider: Provider, host: _Host, card: Card, *, enabled: bool, generation: int) -> Device:
    node, vendor = host.node, provider.hardware.vendor
    driver_ready = card.driver in _DRIVERS.get(vendor, ())
    registered = any(node.slots(resource) > 0 for resource in _resources(provider, card))
    device: dict[str, object] = {
        "id": f"{node.metadata.uid}/{card.pci_address}",
        "node": node.name,
        "nodeUid": node.metadata.uid,
        "bootId": host.evidence.boot_id,
        "vendor": vendor,
        "module": provider.module,
        "hostFingerprint": host.evidence.fingerprint,
        "activationGeneration": generation,
        "name": card.name or f"{vendor.upper()} GPU",
        "pciAddress": card.pci_address,
        "pciId": f"{card.vendor_id}:{card.device_id}",
        "architecture": _architecture(vendor, host, card),
        "hostDriver": card.driver,
        "hostDriverReady": driver_ready,
        "resourceRegistered": registered,
        "memoryArchitecture": _memory_architecture(vendor, host),
    }
    memory_mi = _memory_mi(vendor, host, card)
    if memory_mi is not None:
        device["memoryTotalMi"] = memory_mi
    if vendor != "amd":  # an AMD card is eligible only by a report on its node that is not made here
        device["eligible"] = enabled and node.ready and node.schedulable and driver_ready and registered
    return device


def card_labels(node: NodeView) -> tuple[str, ...]:
    """What a vendor's own discovery says of the cards of a node."""
    return tuple(node.metadata.labels.get(label, "") for label in _CARD_LABELS)


def _resources(provider: Provider, card: Card) -> Iterable[str]:
    """The resources that this card may be offered as: Intel names them after the driver."""
    names = provider.hardware.resource_names
    of_driver = [name for name in names if name.rpartition("/")[2] == card.driver]
    return of_driver or names


def _memory_architecture(vendor: str, host: _Host) -> str:
    """What the host measured is about the only AMD card there is."""
    measured = vendor == "amd" and len(host.cards) == 1
    return "unified" if measured and host.evidence.memory_architecture == "unified" else "discrete"


def _architecture(vendor: str, host: _Host, card: Card) -> str:
    labels = host.node.metadata.labels
    major, minor = labels.get(_NVIDIA_MAJOR, ""), labels.get(_NVIDIA_MINOR, "") or "0"
    if vendor == "nvidia" and len(host.cards) == 1 and _is_number(major) and _is_number(minor):
        return f"CUDA {major}.{minor}"
    return card.architecture


def _memory_mi(vendor: str, host: _Host, card: Card) -> int | None:
    """The operator's own measurement is preferred where it can be about this card only."""
    said = host.node.metadata.labels.get(_NVIDIA_MEMORY, "")
    if vendor == "nvidia" and len(host.cards) == 1 and _is_number(said):
        return positive(int(said)) or card.memory_mi
    return card.memory_mi


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
