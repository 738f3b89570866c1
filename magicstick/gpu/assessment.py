"""Everything about one vendor at one moment, from nodes, definitions and activation to its entry."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from magicstick.api.observed import observed_status, text_of
from magicstick.gpu.devices import Device
from magicstick.gpu.phases import Row, Situation, row_of
from magicstick.gpu.preflight import Preflight
from magicstick.gpu.providers import Provider
from magicstick.gpu.sightings import Sight
from magicstick.gpu.status import Check, ManagedBy, ProviderPhase
from magicstick.kube.objects import Resource
from magicstick.modules.activations import enabled
from magicstick.runtime.conditions import cut

NODE_LIMIT: Final = 200
"""Most names that one list of a status holds; it has to fit into the store."""

TOLD_NODES: Final = 3
"""How many names a message gives before it only counts."""

MESSAGE_LIMIT: Final = 512


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of one vendor.

    Attributes:
        detected: where the detection label counts, by name.
        supported: where the support label counts, by name.
        activations: of the module, of whatever Appliance.
        activation: the one that speaks for the module in our Appliance.
        definition_there: whether a definition that the module would bring exists.
        name_free: whether an activation of the module could be made, if there is none.
        devices: the physical cards.
        eligible: names of nodes that a report on this vendor's devices allows; None without a report, and
            then the support label decides (spec: gpu §3).
    """

    detected: Mapping[str, Sight] = field(default_factory=dict)
    supported: Mapping[str, Sight] = field(default_factory=dict)
    activations: Sequence[Resource] = ()
    activation: Resource | None = None
    definition_there: bool = False
    name_free: bool = True
    devices: Sequence[Device] = ()
    eligible: Collection[str] | None = None

    def same(self, other: "Findings") -> bool:
        """Whether the verdict on both is certainly the same, without a look at any single node."""
        return (
            self.detected is other.detected
            and self.supported is other.supported
            and (self.activations, self.activation) == (other.activations, other.activation)
            and (self.definition_there, self.name_free) == (other.definition_there, other.name_free)
            and (self.devices, self.eligible) == (other.devices, other.eligible)
        )


@dataclass(frozen=True, slots=True)
class Assessment:
    """The verdict on one vendor. Lists of nodes are sorted and whole; only `details` cuts them."""

    provider: Provider
    row: Row
    situation: Situation
    detected: tuple[str, ...]
    compatible: tuple[str, ...]
    supported: tuple[str, ...]
    incompatible: Mapping[str, tuple[str, ...]]
    missing: tuple[str, ...]
    """Nodes on which a label is gone, and is not yet taken for lost."""
    settled: bool
    """Whether the detection label stands on a compatible node without interruption."""
    obstacle: str
    """What keeps the module from being activated, as a sentence, where the row does not tell it."""
    said: str
    """The module's own message."""
    devices: tuple[Device, ...]

    @property
    def phase(self) -> ProviderPhase:
        """See `phases`."""
        return self.row.phase

    @property
    def requested(self) -> bool:
        """Whether the vendor's module is to be activated now."""
        return self.phase is ProviderPhase.DETECTED and self.settled

    @property
    def managed_by(self) -> ManagedBy:
        """Who installed the vendor's operator."""
        if self.situation.external:
            return ManagedBy.EXTERNAL
        return ManagedBy.MAGICSTICK if self.situation.exists else ManagedBy.NONE

    @property
    def message(self) -> str:
        """The state in a sentence or two."""
        return cut(" ".join(filter(None, (self._verdict(), self._missing_told()))), MESSAGE_LIMIT)

    def details(self) -> dict[str, Any]:
        """The fields of the entry but `module`, `phase` and `needed` (spec: gpu §5)."""
        situation = self.situation
        told = dict(list(self.incompatible.items())[:NODE_LIMIT])
        entry: dict[str, Any] = {
            **self.provider.identity(),
            "operatorActive": situation.enabled or situation.external,
            "managedBy": self.managed_by.value,
            "modulePhase": situation.module_phase,
            "detectedNodes": list(self.detected[:NODE_LIMIT]),
            "compatibleNodes": list(self.compatible[:NODE_LIMIT]),
            "supportedNodes": list(self.supported[:NODE_LIMIT]),
            "allocatableResources": situation.allocatable,
            "message": self.message,
            "checks": [check.fields() for check in self.checks()],
        }
        if told:
            entry["incompatibleNodes"] = {name: list(issues) for name, issues in told.items()}
        if self.devices:
            entry["devices"] = [dict(device) for device in self.devices]
        return entry

    def checks(self) -> tuple[Check, ...]:
        """What was looked at, in the order of the specification."""
        situation, hardware = self.situation, self.provider.hardware
        return (
            Check(
                "hardware-detected",
                "True" if situation.detected else "False",
                f"{_nodes(self.detected)} with the label {hardware.detection_label}.",
            ),
            Check("platform-preflight", _preflight(situation), self._platform_told()),
            Check("operator-ready", self._operator(), situation.module_phase or self.phase.value),
            Check(
                "allocatable-resource",
                "True" if situation.allocatable > 0 else "False" if situation.detected else "Unknown",
                f"{situation.allocatable} of {', '.join(hardware.resource_names)} can be allocated.",
            ),
        )

    def _operator(self) -> str:
        if self.phase is ProviderPhase.READY:
            return "True"
        return "False" if self.phase in _FAILURES else "Unknown"

    def _verdict(self) -> str:
        """The row's sentence, unless the module itself or its activation says more."""
        if self.phase is ProviderPhase.DEGRADED and self.said:
            return self.said
        if self.phase in (ProviderPhase.DETECTED, ProviderPhase.DISABLED) and self.obstacle:
            return f"There is hardware, but {self.obstacle}"
        provider, count = self.provider, self.situation.allocatable
        told = self.row.message.format(
            title=provider.title,
            module=provider.module,
            label=provider.hardware.detection_label,
            supported=provider.hardware.supported_label,
            count=f"{count} GPU{'' if count == 1 else 's'}",
        )
        return f"{told} {self._platform_told()}" if self.row.number == _NO_PLATFORM else told

    def _missing_told(self) -> str:
        return (
            f"Labels are missing on {_names(self.missing)}; they are not taken for lost yet."
            if self.missing
            else ""
        )

    def _platform_told(self) -> str:
        if not self.situation.detected:
            return "There is no hardware to look at."
        if not self.incompatible:
            return f"{_nodes(self.compatible)} compatible."
        told = [f"{name}: {' '.join(issues)}" for name, issues in self.incompatible.items()]
        more = len(told) - TOLD_NODES
        return cut(" ".join(told[:TOLD_NODES]) + (f" And {more} more." if more > 0 else ""), MESSAGE_LIMIT)


_FAILURES: Final = frozenset(
    {ProviderPhase.DEGRADED, ProviderPhase.UNSUPPORTED, ProviderPhase.CONFLICT, ProviderPhase.DISABLED}
)
_NO_PLATFORM: Final = 2


def assess(provider: Provider, known: Findings) -> Assessment:
    """The verdict on one vendor. Total: whatever is on nodes and in activations."""
    preflight = Preflight(provider.hardware)
    issues = {name: preflight.issues_of(sight.node) for name, sight in known.detected.items()}
    compatible = tuple(name for name, found in issues.items() if not found)
    supported = tuple(name for name in compatible if _is_supported(name, known))
    offering = compatible if known.eligible is None else supported
    activation = known.activation
    observed = observed_status(activation) if activation is not None else None
    situation = Situation(
        detected=bool(issues),
        compatible=bool(compatible),
        supported=bool(supported),
        rule_decides=provider.rule_decides or known.eligible is not None,
        exists=bool(known.activations),
        enabled=activation is not None and enabled(activation) is not False and not activation.metadata.dying,
        external=not known.activations and known.definition_there,
        module_phase=_module_phase(activation, observed),
        allocatable=sum(_slots(provider, known.detected[name]) for name in offering),
    )
    return Assessment(
        provider=provider,
        row=row_of(situation),
        situation=situation,
        detected=tuple(issues),
        compatible=compatible,
        supported=supported,
        incompatible={name: found for name, found in issues.items() if found},
        missing=_missing(known),
        settled=any(known.detected[name].standing for name in compatible),
        obstacle=_obstacle(provider.module, known),
        said=text_of(observed, "message") if observed is not None else "",
        devices=tuple(known.devices),
    )


def _is_supported(name: str, known: Findings) -> bool:
    return name in (known.supported if known.eligible is None else known.eligible)


def _slots(provider: Provider, sight: Sight) -> int:
    resources = provider.hardware.resource_names
    return sum(sight.node.slots(resource) for resource in resources) if sight.there else 0


def _missing(known: Findings) -> tuple[str, ...]:
    sights = (*known.detected.items(), *known.supported.items())
    return tuple(sorted({name for name, sight in sights if sight.missing}))


def _module_phase(activation: Resource | None, observed: Mapping[str, Any] | None) -> str:
    """A module that is new or has changed is on its way, whatever it was before."""
    if activation is None:
        return ""
    return "Reconciling" if observed is None else text_of(observed, "phase")


def _obstacle(module: str, known: Findings) -> str:
    if known.activation is not None:
        return f"{module} is being removed." if known.activation.metadata.dying else ""
    if known.activations:
        return f"{module} is activated for another Appliance."
    return "" if known.name_free else f"a ModuleActivation named {module} is about something else."


def _preflight(situation: Situation) -> str:
    if situation.compatible:
        return "True"
    return "False" if situation.detected else "Unknown"


def _nodes(names: Sequence[str]) -> str:
    return f"{len(names)} node{'' if len(names) == 1 else 's'}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - TOLD_NODES
    told = ", ".join(names[:TOLD_NODES])
    return f"{told} and {more} more" if more > 0 else told
