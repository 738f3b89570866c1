"""Nodes as far as GPUs are concerned.

The view keeps no times and of the annotations only the host's own inventory: a heartbeat changes
nothing in it but the resourceVersion.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypedDict

import msgspec

from magicstick.api import labels, quantity
from magicstick.kube.informer import INITIAL_EVENTS_END
from magicstick.kube.objects import ObjectMeta

OS_LABEL: Final = "kubernetes.io/os"
ARCHITECTURE_LABEL: Final = "kubernetes.io/arch"

MAX_SLOTS: Final = 2**31 - 1
"""The most of one resource that is believed of a node, so that every sum stays a number of the schema."""

if TYPE_CHECKING:
    HostAnnotations = dict[str, str]
else:
    # At run time a dict with at most these keys: the decoder skips all others, which may be long. The
    # second stands on the bookmark that ends a streamed list.
    HostAnnotations = TypedDict(
        "HostAnnotations", {labels.GPU_HOST_PREFLIGHT: str, INITIAL_EVENTS_END: str}, total=False
    )


class NodeMeta(ObjectMeta, frozen=True, rename="camel", gc=False):
    """Metadata with all labels, but of the annotations only the host's inventory."""

    annotations: HostAnnotations = msgspec.field(default_factory=dict)


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    """`status.conditions[]`, without its times."""

    type: str = ""
    status: str = ""


class NodeInfo(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`status.nodeInfo`."""

    operating_system: str = ""
    architecture: str = ""
    kubelet_version: str = ""
    kernel_version: str = ""
    boot_id: str = msgspec.field(name="bootID", default="")


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """`spec` of a Node."""

    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`status` of a Node."""

    allocatable: dict[str, str] | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    node_info: NodeInfo = NodeInfo()


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """A Node: labels, the host's inventory, platform, whether it is Ready, and what it offers."""

    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def ready(self) -> bool:
        """Whether the kubelet reports, and is well."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions or ())

    @property
    def schedulable(self) -> bool:
        """Whether it is not cordoned."""
        return not self.spec.unschedulable

    @property
    def operating_system(self) -> str:
        """As the kubelet says, else as the label does."""
        return self.status.node_info.operating_system or self.metadata.labels.get(OS_LABEL, "")

    @property
    def architecture(self) -> str:
        """As the kubelet says, else as the label does."""
        return self.status.node_info.architecture or self.metadata.labels.get(ARCHITECTURE_LABEL, "")

    def has(self, label: str) -> bool:
        """Whether a label is set: its value, trimmed and in lower case, is `true` (spec: gpu §3)."""
        return self.metadata.labels.get(label, "").strip().lower() == labels.TRUE

    def slots(self, resource: str) -> int:
        """How many of an extended resource can be allocated on it now.

        By `allocatable` of a Ready node alone, never by `capacity` (README decision 25), in the whole
        grammar of quantities (`2k` is 2000). What is no quantity, or below one, is 0.
        """
        text = (self.status.allocatable or {}).get(resource, "")
        return _slots_in(text) if text and self.ready else 0


@lru_cache(maxsize=1024)
def _slots_in(text: str) -> int:
    """Remembered, since thousands of nodes offer the same few numbers, and each is exact arithmetic."""
    try:
        return max(0, min(MAX_SLOTS, int(quantity.parse(text).value)))
    except quantity.QuantityError:
        return 0
