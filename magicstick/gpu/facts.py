"""What the rest of the operator may know of GPUs: how each vendor's support stands, and why.

    facts = HardwareFacts(module_facts, reads, catalogs, clock)
    for state in facts.provider_states():
        state.module, state.phase, state.message, state.fields()

Guarantees
    - Always an entry for NVIDIA, AMD and Intel, and one for each further vendor of the catalog.
    - Everything is read from caches. What cannot be read is no absence: while Nodes, the catalog entry or
      definitions cannot be read, the entry stays what it was last reported to be, and says so.
    - A pass costs as much as there are nodes with a label of interest or an inventory; all others cost
      nothing.

Who asks has to declare `edges`, and edges to ModuleActivations and to the Appliance.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from magicstick.api import labels
from magicstick.api.observed import text_of
from magicstick.catalogs.modules import ModuleCatalog
from magicstick.gpu.assessment import Assessment, Findings, assess
from magicstick.gpu.devices import Device, Inventory, card_labels, devices_of
from magicstick.gpu.evidence import evidence_of, inventory_content
from magicstick.gpu.nodes import NodeView
from magicstick.gpu.providers import VENDOR_MODULES, Provider, providers_of, without_provider
from magicstick.gpu.sightings import DETECTION_SETTLE_S, LOSS_HOLD_S, Motion, Sightings
from magicstick.gpu.status import ManagedBy, ProviderPhase
from magicstick.kube.informer import InformerState
from magicstick.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NODE, ObjectKey
from magicstick.kube.objects import Resource, View
from magicstick.kube.store import Store
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.ports import Reads
from magicstick.modules.wakes import identity_changed
from magicstick.runtime.clock import Clock
from magicstick.runtime.reconciler import Edge

__all__ = ["HardwareFacts", "Motion", "NodeView", "ProviderPhase", "ProviderState", "inventory_content"]

INVENTORY_INDEX: Final = "gpu-inventory"
"""Nodes on which the host has written down its own inventory."""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """One vendor's GPU support, as the Appliance reports it.

    Attributes:
        module: the module that brings it, by its canonical key.
        needed: whether there is hardware of this vendor.
        message: the state in a sentence or two.
        details: all further fields of the entry.
        assessment: what the phase follows from; None while the entry is held as last reported.
    """

    module: str
    phase: ProviderPhase
    needed: bool
    message: str
    details: Mapping[str, Any]
    assessment: Assessment | None = None

    @property
    def held(self) -> bool:
        """Whether nothing new can be said."""
        return self.assessment is None


class HardwareFacts:
    """See the module. One for the whole process: it remembers which labels come and go (`sightings`)."""

    def __init__(
        self,
        modules: ModuleFacts,
        reads: Reads,
        clock: Clock,
        *,
        settle_s: float = DETECTION_SETTLE_S,
        hold_s: float = LOSS_HOLD_S,
    ) -> None:
        self.modules = modules
        self._reads = reads
        self._clock = clock
        self._sightings = Sightings(clock, settle_s=settle_s, hold_s=hold_s)
        self._handlers: list[Callable[[], None]] = []
        self._catalog: ModuleCatalog | None = None
        self._providers: Mapping[str, Provider] = {}
        self._resources: tuple[str, ...] = ()
        self._following = False
        self._verdicts: dict[str, tuple[Findings, Assessment]] = {}
        """By module, what was known and followed from it, without devices."""
        self._recalled: set[tuple[str, str]] = set()
        """(uid of the Appliance, label) whose last report is known already."""

    # --- what is known ---------------------------------------------------------------------------

    def provider_states(self) -> tuple[ProviderState, ...]:
        """How each vendor's support stands now."""
        assessments = self._assessments(self._inventory())
        order = dict.fromkeys((*VENDOR_MODULES, *self._providers))
        return tuple(self._state(module, assessments.get(module)) for module in order)

    def requested(self) -> tuple[str, ...]:
        """The vendor modules that are to be activated now; () while anything cannot be read."""
        return tuple(module for module, found in self._assessments().items() if found.requested)

    def blind(self) -> str:
        """Why nothing can be said of any hardware now, as a sentence; "" while it can."""
        state = self._reads.state(NODE)
        if state is not InformerState.SYNCED:
            return f"Nodes cannot be read now ({state})."
        return ""

    @property
    def motion(self) -> Motion:
        """Whether a label is on its way to count, or to be lost."""
        return self._sightings.motion

    @property
    def nodes(self) -> Store[NodeView]:
        """All Nodes; what is not there is absent only while `blind` says nothing."""
        store: Store[NodeView] = self._reads.store(NODE)
        store.index(INVENTORY_INDEX, _with_inventory)
        return store

    def evidence(self, node: NodeView) -> Mapping[str, object]:
        """What the host of a node wrote about itself, if it is believed at this moment; {} otherwise."""
        found = evidence_of(node, self._clock.now())
        return {} if found is None else found.fields

    # --- news ------------------------------------------------------------------------------------

    def follow(self, handler: Callable[[], None]) -> None:
        """Call `handler()` when labels begin or cease to count, which only time brings about."""
        self._handlers.append(handler)
        self._listen()

    def node_changed(self, old: View | None, new: View | None) -> bool:
        """Predicate: whether a change of a Node means anything here. A heartbeat does not."""
        return self._meaning(old) != self._meaning(new)

    def definition_changed(self, old: View | None, new: View | None) -> bool:
        """Predicate: whether a definition that a vendor's module would bring came or went."""
        latest = new or old
        if latest is None or (old is None) == (new is None):
            return False
        name = latest.metadata.name
        return any(name in each.definition.required_crds for each in self._known().values())

    def activation_changed(self, old: View | None, new: View | None) -> bool:
        """Predicate: whether an activation of a vendor's module came, went or was changed by its user."""
        return identity_changed(old, new) and any(
            self._is_vendors(each) for each in (old, new) if isinstance(each, Resource)
        )

    # --- internals: what is there ----------------------------------------------------------------

    def _assessments(self, inventory: Inventory | None = None) -> dict[str, Assessment]:
        """The verdicts that can be given now, with devices where there is an inventory."""
        providers = self._known()
        if self.blind():
            return {}
        self._look()
        found = {module: self._findings(each) for module, each in providers.items()}
        verdicts = {
            module: self._assessed(providers[module], findings)
            for module, findings in found.items()
            if findings is not None
        }
        if inventory is None:
            return verdicts
        return {
            module: replace(each, devices=self._devices(each.provider, inventory))
            for module, each in verdicts.items()
        }

    def _assessed(self, provider: Provider, findings: Findings) -> Assessment:
        """The verdict, given anew only where anything that it follows from is new: nodes may be many."""
        before = self._verdicts.get(provider.module)
        if before is not None and before[1].provider is provider and before[0].same(findings):
            return before[1]
        verdict = assess(provider, findings)
        self._verdicts[provider.module] = findings, verdict
        return verdict

    def _devices(self, provider: Provider, inventory: Inventory) -> tuple[Device, ...]:
        activation = self.modules.activation(provider.module)
        wanted = activation is not None and activation.spec.get("enabled") is not False
        generation = activation.metadata.generation if activation is not None else 0
        return devices_of(provider, inventory, enabled=wanted, generation=generation)

    def _findings(self, provider: Provider) -> Findings | None:
        """All about one vendor; None while it is not known whether somebody else's operator is there."""
        modules, module, hardware = self.modules, provider.module, provider.hardware
        activation, activations = modules.activation(module), modules.activations_of(module)
        definition_there = self._definition_there(provider)
        if definition_there is None and not activations:
            return None
        return Findings(
            detected=self._sightings.counted(hardware.detection_label),
            supported=self._sightings.counted(hardware.supported_label),
            activations=activations,
            activation=activation,
            definition_there=bool(definition_there),
            name_free=bool(activations) or modules.may_activate(module),
        )

    def _definition_there(self, provider: Provider) -> bool | None:
        """Whether one exists, established or not: half an operator is somebody else's operator, too."""
        if self._reads.state(CUSTOM_RESOURCE_DEFINITION) is not InformerState.SYNCED:
            return None
        store = self._reads.store(CUSTOM_RESOURCE_DEFINITION)
        return any(ObjectKey("", name) in store for name in provider.definition.required_crds)

    def _inventory(self) -> Inventory | None:
        """None while nodes cannot be read, or none has one."""
        hosts = () if self.blind() else self.nodes.by_index(INVENTORY_INDEX, labels.TRUE)
        return Inventory(hosts, self._clock.now()) if hosts else None

    def _is_vendors(self, activation: Resource) -> bool:
        providers = self._known()
        return activation.metadata.name in providers or self.modules.module_of(activation) in providers

    # --- internals: labels -----------------------------------------------------------------------

    def _known(self) -> Mapping[str, Provider]:
        """The vendors of the catalog in force; their labels are followed from now on."""
        catalog = self.modules.catalog
        if catalog is not self._catalog and catalog is not None:
            self._catalog, self._providers = catalog, providers_of(catalog)
            names = {name for each in self._providers.values() for name in each.hardware.resource_names}
            self._resources = tuple(sorted(names))
            self._follow_labels(frozenset[str]().union(*(each.labels for each in self._providers.values())))
        return self._providers

    def _follow_labels(self, wanted: frozenset[str]) -> None:
        known = self._sightings.labels
        if wanted != known:
            self._listen()
            self._recalled = {(uid, label) for uid, label in self._recalled if label in known}
            self._sightings.watch(sorted(wanted), self.nodes.list())

    def _listen(self) -> None:
        if not self._following:
            self._following = True
            self.nodes.subscribe(self._sightings.changed)

    def _look(self) -> None:
        self._recall()
        if self._sightings.look():
            for handler in self._handlers:
                handler()

    def _recall(self) -> None:
        """Take over, once for each label, what was reported before this process began."""
        appliance = self.modules.appliance
        if appliance is None:
            return
        for module, provider in self._providers.items():
            reported = self._reported(module)
            hardware = provider.hardware
            for label, field, about in (
                (hardware.detection_label, "detectedNodes", "detectionLabel"),
                (hardware.supported_label, "supportedNodes", "supportedLabel"),
            ):
                place = (appliance.metadata.uid, label)
                if place in self._recalled:
                    continue
                self._recalled.add(place)
                names = _texts(reported.get(field))
                if names and reported.get(about, label) == label:
                    self._sightings.recall(label, self._existing(names))

    def _existing(self, names: Iterable[str]) -> Iterator[NodeView]:
        for name in names:
            node = self.nodes.get(ObjectKey("", name))
            if node is not None:
                yield node

    def _meaning(self, node: View | None) -> object:
        """What of a Node matters here; None for a node that has nothing to do with GPUs."""
        if not isinstance(node, NodeView):
            return None
        self._known()
        inventory = inventory_content(node)
        followed = tuple(node.has(label) for label in self._sightings.labels)
        if not (inventory or any(followed) or self._sightings.follows(node.name)):
            return None
        offered = tuple(node.slots(name) for name in self._resources)
        state = (node.metadata.uid, node.ready, node.schedulable, node.operating_system, node.architecture)
        return followed, inventory, offered, state, node.status.node_info, card_labels(node)

    # --- internals: entries ----------------------------------------------------------------------

    def _state(self, module: str, found: Assessment | None) -> ProviderState:
        if found is not None:
            details = found.details()
            return ProviderState(module, found.phase, found.situation.detected, found.message, details, found)
        provider = self._providers.get(module)
        if provider is None or self.modules.catalog is None:
            return self._held(module, provider, without_provider(module, self.modules.catalog))
        return self._held(module, provider, self.blind() or "CustomResourceDefinitions cannot be read now.")

    def _held(self, module: str, provider: Provider | None, why: str) -> ProviderState:
        """The entry as it was last reported, with the reason why it cannot be told anew."""
        reported = self._reported(module)
        phase = text_of(reported, "phase")
        known = phase in _PHASES
        message = f"{why} What else stands here is as it was last." if known else why
        own = {"module", "phase", "needed"}
        details = {name: value for name, value in reported.items() if name not in own}
        if not known:
            details = {**(provider.identity() if provider is not None else {}), **_NOTHING}
        return ProviderState(
            module,
            ProviderPhase(phase) if known else ProviderPhase.UNKNOWN,
            reported.get("needed") is True and known,
            message,
            {**details, "message": message},
        )

    def _reported(self, module: str) -> Mapping[str, Any]:
        appliance = self.modules.appliance
        entries = appliance.status.get("hardwareOperators") if appliance is not None else None
        entry = entries.get(module) if isinstance(entries, Mapping) else None
        return entry if isinstance(entry, Mapping) else {}


_PHASES: Final = frozenset(ProviderPhase)
_NOTHING: Final[Mapping[str, object]] = {"operatorActive": False, "managedBy": ManagedBy.NONE.value}


def edges(
    facts: HardwareFacts, wakes: Callable[[View | None, View | None], Iterable[ObjectKey]]
) -> tuple[Edge[Any], ...]:
    """What whoever asks `HardwareFacts` depends on, besides the Appliance and ModuleActivations."""
    return (
        Edge(
            NODE,
            wakes,
            "which vendor's hardware is there, and whether its resources can be allocated",
            facts.node_changed,
            view=NodeView,
        ),
        Edge(
            CUSTOM_RESOURCE_DEFINITION,
            wakes,
            "whether somebody else installed a vendor's operator",
            facts.definition_changed,
        ),
    )


def _with_inventory(node: NodeView) -> tuple[str, ...]:
    return (labels.TRUE,) if labels.GPU_HOST_PREFLIGHT in node.metadata.annotations else ()


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []
