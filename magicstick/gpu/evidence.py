"""What a host says of itself: the annotation that its own worker writes, and when it is believed.

Evidence is bound to the node, its boot and its kernel, and ages; whatever does not fit is as if it were
not there (spec: gpu §6.5). It is written by root on the node and read here as data of a stranger: of any
form, of any size.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from magicstick.api import labels
from magicstick.gpu.nodes import NodeView

YOUNGEST_S: Final = -300.0
OLDEST_S: Final = 86_400.0
"""Between which ages evidence is believed; clocks of hosts differ a little."""

CARD_LIMIT: Final = 64
"""Most cards that are read of one node."""

TEXT_LIMIT: Final = 128
"""Longest text that is taken over from a card."""

_TIMES: Final = frozenset({"generatedAt", "generationTimestamp"})
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PCI_ID: Final = re.compile(r"[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class Card:
    """One physical display device. Texts are as the host gave them, cut; "" for what it did not say."""

    pci_address: str
    vendor_id: str
    device_id: str
    driver: str = ""
    name: str = ""
    architecture: str = ""
    memory_mi: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence that is believed at this moment."""

    boot_id: str
    fingerprint: str
    memory_architecture: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)
    """All that the host wrote, unchecked."""
    cards: tuple[Card, ...] = ()
    """Each physical card once, by PCI address."""


def evidence_of(node: NodeView, now: datetime) -> Evidence | None:
    """The evidence on a node, if it is about this very node as it runs now, and fresh. Never raises."""
    fields = _fields(node.metadata.annotations.get(labels.GPU_HOST_PREFLIGHT, ""))
    info = node.status.node_info
    fingerprint = _text(fields.get("fingerprint"))
    bound = (
        _same(fields.get("nodeUid"), node.metadata.uid)
        and _same(fields.get("bootId"), info.boot_id)
        and _same(fields.get("kernelVersion"), info.kernel_version)
    )
    if not bound or not _FINGERPRINT.fullmatch(fingerprint) or not _fresh(fields.get("generatedAt"), now):
        return None
    return Evidence(
        info.boot_id, fingerprint, _text(fields.get("memoryArchitecture")), fields, _cards(fields)
    )


def mentions(node: NodeView, pci_id: str) -> bool:
    """Whether a host may have written down this id, which is four hexadecimal digits in lower case.

    It costs a tenth of reading what the host wrote, and is wrong only where it says yes.
    """
    text = node.metadata.annotations.get(labels.GPU_HOST_PREFLIGHT, "")
    written = text if pci_id.isdigit() else text.lower()
    return pci_id in written or "\\u" in text


def inventory_content(node: NodeView) -> Mapping[str, object]:
    """What a host says of itself but for the times, at which alone it differs each minute."""
    fields = _fields(node.metadata.annotations.get(labels.GPU_HOST_PREFLIGHT, ""))
    return {name: value for name, value in fields.items() if name not in _TIMES}


def _fields(text: str) -> Mapping[str, object]:
    try:
        content = msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _same(said: object, true: str) -> bool:
    return bool(true) and said == true


def _fresh(said: object, now: datetime) -> bool:
    try:
        made = datetime.fromisoformat(said) if isinstance(said, str) else None
        age_s = (now - _aware(made)).total_seconds() if made is not None else None
    except (ValueError, OverflowError):
        return False
    return age_s is not None and YOUNGEST_S <= age_s <= OLDEST_S


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _cards(fields: Mapping[str, object]) -> tuple[Card, ...]:
    """By address, since one that is listed twice is still one card."""
    listed = fields.get("displayDevices")
    entries = listed[:CARD_LIMIT] if isinstance(listed, list) else []
    found = {card.pci_address: card for card in _readable(entries)}
    return tuple(found[address] for address in sorted(found))


def _readable(entries: list[object]) -> Iterator[Card]:
    for entry in entries:
        if not isinstance(entry, Mapping):
            continue
        address = _text(entry.get("pciAddress"))
        if not _PCI_ADDRESS.fullmatch(address):
            continue
        yield Card(
            address,
            _pci_id(entry.get("vendorId")),
            _pci_id(entry.get("deviceId")),
            _text(entry.get("driver")),
            _text(entry.get("name")),
            _text(entry.get("architecture")),
            positive(entry.get("memoryTotalMi")),
        )


def _pci_id(value: object) -> str:
    text = _text(value).lower().removeprefix("0x")
    return text if _PCI_ID.fullmatch(text) else ""


def _text(value: object) -> str:
    return value[:TEXT_LIMIT] if isinstance(value, str) else ""


def positive(value: object) -> int | None:
    """A whole number above zero that the schema takes; None for anything else."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53
    return int(value) if usable and isinstance(value, int) else None
