"""What the caches know of models: their activations, what serves them, and the nodes they may run on.

Everything is read from caches, at the cost of the model that is asked for; what all nodes together
amount to is worked out once for each change of a node that means something.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from magicstick.api import labels
from magicstick.api.kinds import KUBEAI_MODEL, MODEL_ACTIVATION
from magicstick.gpu.facts import NodeView, inventory_content
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CONFIG_MAP, NODE, POD, Kind, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.store import Store
from magicstick.models.freetoken_runtime import CONFIG_MAP as FREETOKEN_RUNTIME
from magicstick.models.hardware import Hardware, NodeFacts
from magicstick.models.kinds import DEPLOYMENT, SERVICE
from magicstick.models.objects import activation_label, is_ours, serves
from magicstick.models.observation import Runtime
from magicstick.models.pods import MODEL_LABEL, PodView
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import Site
from magicstick.modules.ports import Reads
from magicstick.runtime.clock import Clock, SystemClock

RUNTIME_KINDS: Final = (KUBEAI_MODEL, DEPLOYMENT, SERVICE, CONFIG_MAP)
LABEL_INDEX: Final = "model"
"""Activations by the label that what serves them carries; those objects, and Pods, by that label."""
NODE_INDEX: Final = "node"
"""Activations by the node that they name."""
EVIDENCE_CHECK_S: Final = 60.0
"""What a host says of itself ages without any change of its node, so it is judged anew so often."""


class ModelFacts:
    """See the module. `evidence` says what the host of a node tells of itself, as far as it is believed."""

    def __init__(
        self,
        modules: ModuleFacts,
        reads: Reads,
        evidence: Callable[[NodeView], Mapping[str, object]],
        clock: Clock | None = None,
    ) -> None:
        self.modules = modules
        self._reads = reads
        self._evidence = evidence
        self._clock = clock or SystemClock()
        self._hardware: Hardware | None = None
        self._worked_out_at = 0.0
        self._following = False

    @property
    def site(self) -> Site:
        """Where things are."""
        return self.modules.site

    # --- activations -----------------------------------------------------------------------------

    @property
    def activations(self) -> Store[Resource]:
        """All activations, of other Appliances too."""
        store: Store[Resource] = self._reads.store(MODEL_ACTIVATION, self.site.appliance_namespace)
        store.index(LABEL_INDEX, _by_own_label)
        store.index(NODE_INDEX, _by_own_node)
        return store

    def labelled(self, label: str) -> Iterator[ObjectKey]:
        """The activations that objects with this label serve."""
        return (each.metadata.key for each in self.activations.by_index(LABEL_INDEX, label))

    def naming(self, node: str) -> Iterator[ObjectKey]:
        """The activations that name this node: realtime models run nowhere else."""
        return (each.metadata.key for each in self.activations.by_index(NODE_INDEX, node))

    # --- what serves them ------------------------------------------------------------------------

    def blind(self) -> str:
        """Why what serves a model cannot be told now; "" when it can.

        KubeAI's kind may be absent: then there are no Models.
        """
        for kind in RUNTIME_KINDS:
            state = self._reads.state(kind, "")
            absent = kind == KUBEAI_MODEL and state is InformerState.ABSENT
            if state is not InformerState.SYNCED and not absent:
                return f"{kind.kind}s cannot be read now ({state})"
        return ""

    def runtimes(self, name: str) -> tuple[Runtime, ...]:
        """All objects of ours that serve the activation of this name, wherever they are."""
        label = activation_label(name)
        found = [
            Runtime(kind, each)
            for kind in RUNTIME_KINDS
            for each in self._indexed(kind, _by_label).by_index(LABEL_INDEX, label)
            if serves(each, name)
        ]
        return tuple(sorted(found, key=lambda each: (each.kind.plural, each.live.metadata.key)))

    @property
    def kubeai_served(self) -> bool:
        """False only when the server certainly serves no KubeAI Models."""
        return self._reads.state(KUBEAI_MODEL) is not InformerState.ABSENT

    def model(self, name: str, namespace: str) -> Resource | None:
        """The KubeAI Model of this name, whosever it is."""
        found: Resource | None = self._reads.store(KUBEAI_MODEL).get(ObjectKey(namespace, name))
        return found

    def pods(self, name: str, namespace: str) -> tuple[PodView, ...] | None:
        """The Pods that carry the model's name; None while Pods cannot be read."""
        if self._reads.state(POD) is not InformerState.SYNCED:
            return None
        store: Store[PodView] = self._reads.store(POD)
        store.index(LABEL_INDEX, _by_model)
        return store.by_index(LABEL_INDEX, f"{namespace}/{activation_label(name)}")

    def freetoken_runtime(self) -> tuple[Resource | None, bool]:
        """The ConfigMap that describes the FreeToken runtime, and whether its absence counts."""
        key = ObjectKey(self.site.appliance_namespace, FREETOKEN_RUNTIME)
        store: Store[Resource] = self._reads.store(CONFIG_MAP, *key)
        return store.get(key), store.synced

    def _indexed(self, kind: Kind, by: Callable[[Any], tuple[str, ...]]) -> Store[Resource]:
        store: Store[Resource] = self._reads.store(kind, "")
        store.index(LABEL_INDEX, by)
        return store

    # --- nodes -----------------------------------------------------------------------------------

    def hardware(self) -> Hardware | None:
        """All nodes, as far as they could ever be read; None while they never could."""
        store: Store[NodeView] = self._reads.store(NODE)
        if not store.synced:
            return None
        if not self._following:
            self._following = True
            store.subscribe(self._node_changed)
        now = self._clock.monotonic()
        if self._hardware is None or now - self._worked_out_at >= EVIDENCE_CHECK_S:
            self._hardware = Hardware(tuple(map(self._node, store.list())))
            self._worked_out_at = now
        return self._hardware

    def _node_changed(self, old: View | None, new: View | None) -> None:
        if node_changed(old, new):
            self._hardware = None

    def _node(self, node: NodeView) -> NodeFacts:
        return NodeFacts(
            name=node.name,
            uid=node.metadata.uid,
            architecture=node.architecture,
            labels=node.metadata.labels,
            ready=node.ready,
            schedulable=node.schedulable,
            allocatable=node.status.allocatable or {},
            evidence=self._evidence(node),
        )


def node_changed(old: View | None, new: View | None) -> bool:
    """Whether a change of a node can mean anything to a model. A heartbeat does not, nor a fresh time."""
    return _meaning(old) != _meaning(new)


def platform_changed(old: View | None, new: View | None) -> bool:
    """Whether it can mean something to a model without an accelerator as well."""
    before, after = (
        isinstance(each, NodeView) and (each.architecture, each.metadata.uid) for each in (old, new)
    )
    return before != after


def _meaning(node: View | None) -> tuple[object, ...] | None:
    if not isinstance(node, NodeView):
        return None
    metadata = node.metadata
    return metadata.uid, metadata.labels, inventory_content(node), node.spec, node.status


def _by_own_label(activation: Resource) -> tuple[str, ...]:
    return (activation_label(activation.metadata.name),)


def _by_own_node(activation: Resource) -> tuple[str, ...]:
    local = activation.spec.get("local")
    realtime = local.get("realtime") if isinstance(local, Mapping) else None
    node = realtime.get("gpuNode") if isinstance(realtime, Mapping) else None
    return (node,) if isinstance(node, str) else ()


def _by_label(served: Resource) -> tuple[str, ...]:
    label = served.metadata.labels.get(labels.MODEL, "")
    return (label,) if label and is_ours(served) else ()


def _by_model(pod: PodView) -> tuple[str, ...]:
    label = pod.metadata.labels.get(MODEL_LABEL, "")
    return (f"{pod.metadata.namespace}/{label}",) if label else ()
