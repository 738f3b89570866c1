"""Whether a node could run a vendor's operator, looked at before anything is installed (spec: gpu §3).

Neither readiness nor a cordon matters here: they come and go, and say nothing of the platform.
"""

import re
from collections.abc import Iterator
from typing import Final

from magicstick.catalogs.modules import Hardware
from magicstick.gpu.nodes import NodeView
from magicstick.runtime.conditions import cut

ISSUE_LIMIT: Final = 160
"""Longest sentence about a node: what a kubelet reports may be of any length."""

_VERSION: Final = re.compile(r"v?(?P<major>[0-9]{1,9})\.(?P<minor>[0-9]{1,9})(?:\.(?P<patch>[0-9]{1,9}))?")

Version = tuple[int, int, int]


def version_of(text: str) -> Version | None:
    """The first `X.Y[.Z]` anywhere in a text, a missing patch being 0; None where there is none."""
    found = _VERSION.search(text)
    if found is None:
        return None
    return int(found["major"]), int(found["minor"]), int(found["patch"] or 0)


def issues_of(node: NodeView, hardware: Hardware) -> tuple[str, ...]:
    """Everything about the node's platform that the vendor's operator does not support; () for nothing."""
    return Preflight(hardware).issues_of(node)


class Preflight:
    """One vendor's preflight of many nodes. Each platform is judged once: there are few, and many nodes."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._judged: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def issues_of(self, node: NodeView) -> tuple[str, ...]:
        """As `preflight.issues_of`."""
        platform = (node.operating_system, node.architecture, node.status.node_info.kubelet_version)
        if platform not in self._judged:
            found = _issues(*platform, self._hardware)
            self._judged[platform] = tuple(cut(issue, ISSUE_LIMIT) for issue in found)
        return self._judged[platform]


def _issues(system: str, architecture: str, kubelet: str, hardware: Hardware) -> Iterator[str]:
    if system != "linux":
        yield f"The operating system must be linux and is {system or 'unknown'}."
    if hardware.architectures and architecture not in hardware.architectures:
        allowed = " or ".join(hardware.architectures)
        yield f"The architecture must be {allowed} and is {architecture or 'unknown'}."
    if not hardware.minimum_kubernetes:
        return
    minimum = hardware.minimum_kubernetes
    wanted, found = version_of(minimum), version_of(kubelet)
    if wanted is None:
        yield f"The oldest Kubernetes version in the module catalog is no version: {minimum}."
    elif found is None or found < wanted:
        yield f"The kubelet must be {minimum} or newer and is {kubelet or 'of no known version'}."
