"""What model resolution must know of the nodes: a small, frozen fact for each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from magicstick.gpu.evidence import evidence_of
from magicstick.gpu.nodes import NodeView


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


def hardware_of(nodes: Iterable[NodeView], now: datetime) -> Hardware:
    """What the Nodes in the cache amount to; a host's inventory counts only while it is believed."""
    return Hardware(tuple(_facts(node, now) for node in nodes))


def _facts(node: NodeView, now: datetime) -> NodeFacts:
    evidence = evidence_of(node, now)
    return NodeFacts(
        name=node.name,
        uid=node.metadata.uid,
        architecture=node.architecture,
        labels=node.metadata.labels,
        ready=node.ready,
        schedulable=node.schedulable,
        allocatable=node.status.allocatable or {},
        evidence={} if evidence is None else evidence.fields,
    )
