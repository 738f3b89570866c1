"""The node of a realtime model, and how its devices can be held (spec: realtime §4).

Nothing is asked of a node but that it runs Linux and has something to give out: whether a model fits a chip
is the runtime's own judgement. What holds for a shared device tells the part of the operator that shares it.
"""

from collections.abc import Mapping
from typing import Final

from magicstick.api import labels
from magicstick.models.hardware import NodeFacts
from magicstick.models.observation import Sharing
from magicstick.models.resolved import Accelerator, Hold, ResolvedRealtime
from magicstick.models.targets import amount
from magicstick.models.validation import refuse

NODE_FIELD: Final = "spec.local.realtime.gpuNode"
COUNT_FIELD: Final = "spec.local.realtime.gpuCount"
_NVIDIA: Final = "nvidia.com/gpu"
_OS: Final = "kubernetes.io/os"
_DIGITS: Final = 9


def find_node(nodes: tuple[NodeFacts, ...], name: str) -> NodeFacts:
    """The node that the model names.

    Raises:
        RefusedError: it is not there, not Ready, cordoned, or does not run Linux.
    """
    node = next((each for each in nodes if each.name == name), None)
    if node is None:
        refuse(NODE_FIELD, "names a node that is no longer available")
    if not node.ready:
        refuse(NODE_FIELD, "names a node that is no longer available: it is not Ready")
    if not node.schedulable:
        refuse(NODE_FIELD, "names a node that is no longer available: it takes no new Pods")
    if node.labels.get(_OS) != "linux":
        refuse(NODE_FIELD, "must name a node that runs Linux")
    return node


def hold_of(
    accelerator: Accelerator, resources: tuple[str, ...], node: NodeFacts, sharing: Sharing | None
) -> Hold:
    """How a runtime holds devices of this node. `resources` are the profile's, preferred first."""
    match accelerator:
        case "cpu":
            return Hold(mode="cpu", slots=1)
        case "cuda":
            return _of_cuda(_published(resources, node), node)
        case "rocm" if node.labels.get(labels.AMD_DRA_READY) == labels.TRUE:
            return _of_claim(_published(resources, node), node, sharing)
        case _:
            resource = _published(resources, node)
            slots = amount(node.allocatable, resource)
            return Hold(mode="exclusive", resource=resource, slots=slots, most=slots)


def check_count(hold: Hold, wanted: int, node: str) -> str:
    """Why no device can be given out now, as a sentence; "" when it can.

    Raises:
        RefusedError: more are asked for than one runtime can have.
    """
    if hold.shared and wanted > hold.most:
        refuse(
            COUNT_FIELD,
            f"must be 1 on {node}, whose GPU is shared: a model has one slot, and slots are no further GPUs",
        )
    if hold.slots < 1:
        if hold.mode == "dra-shared":
            return f"Waiting for a ready ResourceClaim with free slots of the shared GPU of node {node}."
        return f"Node {node} has no allocatable GPU resource for this backend ({hold.resource})."
    if wanted > hold.most:
        refuse(COUNT_FIELD, f"must be at most {hold.most}, the GPUs of {node}: it has fewer than requested")
    return ""


def slot_problem(model: ResolvedRealtime, sharing: Sharing | None) -> str:
    """Why the model holds no slot of the shared GPU, as a sentence; "" while it does, or needs none.

    A slot is one of exactly the node that the sharing was set up on (spec: realtime §4, gpu §12).
    """
    bound = model.hold.mode == "dra-shared" or model.accelerator == "cuda"
    if sharing is None or not bound:
        return ""
    if sharing.refused:
        return sharing.refused
    if (sharing.node, sharing.node_uid) == (model.node, model.node_uid):
        return ""
    return f"Waiting for a slot: GPU sharing is not set up on node {model.node} as it is now."


def _of_cuda(resource: str, node: NodeFacts) -> Hold:
    """Slots of time-slicing look like GPUs, so the physical ones decide how many a model can have."""
    slots = amount(node.allocatable, resource)
    replicas = max(1, _number(node.labels, f"{_NVIDIA}.replicas") or 1)
    counted = _number(node.labels, f"{_NVIDIA}.count")
    physical = slots // replicas if counted is None else counted
    if replicas > 1 or slots > physical:
        return Hold(mode="time-slicing", resource=resource, slots=slots)
    return Hold(mode="exclusive", resource=resource, slots=slots, most=min(physical, slots))


def _of_claim(resource: str, node: NodeFacts, sharing: Sharing | None) -> Hold:
    """Of the claim that the sharing has made for exactly this node, and of nothing else."""
    waiting = Hold(mode="dra-shared", resource=resource)
    if sharing is None or sharing.mode != "dra-shared" or sharing.phase != "Ready" or not sharing.claim:
        return waiting
    if (sharing.node, sharing.node_uid) != (node.name, node.uid):
        return waiting
    return Hold(
        mode="dra-shared",
        resource=resource,
        slots=max(0, sharing.slots),
        claim=sharing.claim,
        device=sharing.device,
    )


def _published(resources: tuple[str, ...], node: NodeFacts) -> str:
    """The first resource that the node gives out, or else the preferred one."""
    given = (each for each in resources if amount(node.allocatable, each) > 0)
    return next(given, resources[0] if resources else "")


def _number(labelled: Mapping[str, str], name: str) -> int | None:
    text = labelled.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
