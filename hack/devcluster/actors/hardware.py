"""What hardware a played node hides, and what becomes visible of it: values only.

A node's annotation `devcluster.magicstick.dev/hardware` says what is in the machine, for example
`nvidia=2` or `amd=1,intel-xe=1`; nobody but the actors reads it. What the operator sees are the labels of
Node Feature Discovery and of the vendors, and the resources of the vendors' device plugins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hack.devcluster.actors.following import Object, direction

NFD: Final = "node-feature-discovery"
FEATURE: Final = "feature.node.kubernetes.io"


@dataclass(frozen=True, slots=True)
class Card:
    """A kind of graphics card, and the vendor's software that serves it.

    Attributes:
        vendor: as the module catalog names it.
        pci: the vendor's PCI id, four hexadecimal digits.
        resource: what the device plugin offers.
        plugin: the Helm release that brings the device plugin.
        rule_label: what the vendor's own rule has Node Feature Discovery publish once the plugin's release
            stands; empty where there is no such rule, or where it rejects the card.
        served: whether the vendor's software can use it.
        plugin_labels: what the vendor's own discovery says of each node.
    """

    vendor: str
    pci: str
    resource: str
    plugin: str
    rule_label: str = ""
    served: bool = True
    plugin_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def detection_label(self) -> str:
        """What Node Feature Discovery publishes by itself (spec: gpu §2)."""
        return f"{FEATURE}/pci-{self.pci}.present"


_AMD_RULE: Final = f"{FEATURE}/amd-gpu"
_INTEL_RULE: Final = "intel.feature.node.kubernetes.io/gpu"
_NVIDIA: Final = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-L4"}

CARDS: Final[Mapping[str, Card]] = {
    "nvidia": Card("nvidia", "10de", "nvidia.com/gpu", "gpu-operator", plugin_labels=_NVIDIA),
    "amd": Card("amd", "1002", "amd.com/gpu", "amd-gpu-operator", _AMD_RULE),
    "amd-rejected": Card("amd", "1002", "amd.com/gpu", "amd-gpu-operator", served=False),
    "intel": Card("intel", "8086", "gpu.intel.com/i915", "intel-gpu-device-plugin", _INTEL_RULE),
    "intel-xe": Card("intel", "8086", "gpu.intel.com/xe", "intel-gpu-device-plugin", _INTEL_RULE),
    "intel-rejected": Card("intel", "8086", "gpu.intel.com/i915", "intel-gpu-device-plugin", served=False),
}
"""By the name that a marker uses. A rejected card is one that the vendor's rule does not know."""

PLATFORM_LABELS: Final = {
    f"{FEATURE}/system-os_release.ID": "ubuntu",
    f"{FEATURE}/system-os_release.VERSION_ID": "24.04",
}
"""What Node Feature Discovery says of the platform of every node."""


MOST_CARDS: Final = 64
"""Of one kind in one node; no kubelet would offer a number below one."""


def cards_of(node: Object) -> dict[str, int]:
    """How many of which card (key of CARDS) are in a node.

    Raises:
        ValueError: the marker names a card that does not exist, or no number of cards that a node can have.
    """
    found: dict[str, int] = {}
    for entry in filter(None, direction(node, "hardware").split(",")):
        name, _, count = entry.strip().partition("=")
        if name not in CARDS:
            raise ValueError(f"no card {name!r}; there are: {', '.join(CARDS)}")
        found[name] = int(count or 1)
        if not 1 <= found[name] <= MOST_CARDS:
            raise ValueError(f"{entry.strip()}: a node has 1 to {MOST_CARDS} of a card")
    return found


def feature_labels(node: Object, deployed: frozenset[str]) -> dict[str, str]:
    """What Node Feature Discovery publishes on a node while these releases stand."""
    if NFD not in deployed:
        return {}
    labels = dict(PLATFORM_LABELS)
    for name in cards_of(node):
        card = CARDS[name]
        labels[card.detection_label] = "true"
        if card.rule_label and card.plugin in deployed:
            labels[card.rule_label] = "true"
    return labels


def offered(node: Object, vendor: str) -> dict[str, int]:
    """The resources that a vendor's device plugin offers on a node where it runs."""
    amounts: dict[str, int] = {}
    for name, count in cards_of(node).items():
        card = CARDS[name]
        if card.vendor == vendor and card.served:
            amounts[card.resource] = amounts.get(card.resource, 0) + count
    return amounts


def plugin_of(vendor: str) -> str:
    """The Helm release that brings a vendor's device plugin."""
    return next(card.plugin for card in CARDS.values() if card.vendor == vendor)


def selects(node: Object, vendor: str) -> bool:
    """Whether the labels of a node let the vendor's software onto it."""
    labels = node["metadata"].get("labels", {})
    wanted = {
        card.rule_label or card.detection_label
        for card in CARDS.values()
        if card.vendor == vendor and card.served
    }
    return any(labels.get(label) == "true" for label in wanted)


def plugin_labels(node: Object, vendor: str) -> dict[str, str]:
    """What the vendor's own discovery publishes on a node where it runs."""
    labels: dict[str, str] = {}
    for name, count in cards_of(node).items():
        card = CARDS[name]
        if card.vendor == vendor and card.plugin_labels:
            labels |= {**card.plugin_labels, f"{card.resource}.count": str(count)}
    return labels
