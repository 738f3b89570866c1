"""What model resolution must know of the nodes: a small, frozen fact for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. Quantities are as the node states them; labels are all that are known."""

    name: str
    uid: str = ""
    architecture: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ready: bool = True
    schedulable: bool = True
    allocatable: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, object] = field(default_factory=dict)
    """The host's own inventory, already accepted as fresh and as this node's; {} for none."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """All nodes of the cluster.

    Only ask for a resolution while the Nodes can be read, or give the last that could: a node that is
    missing here counts as absent.
    """

    nodes: tuple[NodeFacts, ...] = ()
