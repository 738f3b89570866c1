"""What `make dev` shows: one row a module or model, read from the API as a user would read it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

COLOURS = {
    "Ready": "green",
    "Running": "green",
    "WaitingForModules": "yellow",
    "Disabled": "dim",
    **dict.fromkeys(("Degraded", "Unsupported", "Conflict", "Error"), "red"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A module as it is reported now."""

    module: str
    phase: str
    reason: str
    message: str
    since: datetime | None

    @property
    def state(self) -> tuple[str, str, str]:
        """What a person would call a change."""
        return self.module, self.phase, self.reason


@dataclass(frozen=True, slots=True)
class Hardware:
    """A vendor's GPUs as the Appliance reports them now."""

    module: str
    vendor: str
    phase: str
    detected: int
    compatible: int
    allocatable: int
    message: str

    @property
    def state(self) -> tuple[str, str, str]:
        """What a person would call a change."""
        return self.module, self.phase, f"{self.compatible}/{self.detected} {self.allocatable}"

    @property
    def nodes(self) -> str:
        """How many nodes can be used, of those that have such hardware."""
        return f"{self.compatible} of {self.detected}"


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it is reported now."""

    name: str
    phase: str
    reason: str
    runtime: str
    message: str
    since: datetime | None

    @property
    def state(self) -> tuple[str, str, str]:
        """What a person would call a change."""
        return self.name, self.phase, self.reason


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of an application as it is reported now.

    Attributes:
        addresses: where it is served, the local one first.
    """

    name: str
    phase: str
    reason: str
    addresses: tuple[str, ...]
    message: str
    since: datetime | None

    @property
    def state(self) -> tuple[str, str, str]:
        """What a person would call a change."""
        return self.name, self.phase, f"{self.reason} {self.shown_addresses}"

    @property
    def shown_addresses(self) -> str:
        """In one line."""
        return " ".join(self.addresses)


@dataclass(frozen=True, slots=True)
class PalenaObject:
    """A gateway, or what is around one, as it is reported now."""

    kind: str
    name: str
    phase: str
    reason: str
    message: str
    since: datetime | None

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.kind} {self.name}"

    @property
    def state(self) -> tuple[str, str, str]:
        """What a person would call a change."""
        return self.title, self.phase, self.reason


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is shown, read at one moment."""

    appliance: Mapping[str, Any] | None
    rows: tuple[Row, ...]
    hardware: tuple[Hardware, ...]
    models: tuple[Model, ...] = ()
    instances: tuple[Instance, ...] = ()
    palena: tuple[PalenaObject, ...] = ()


def condition(obj: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """The condition of this type; empty when it is not there."""
    conditions = obj.get("status", {}).get("conditions", [])
    return next((entry for entry in conditions if entry["type"] == type_), {})


def moment(text: str | None) -> datetime | None:
    """An RFC 3339 time of the API."""
    return datetime.fromisoformat(text) if text else None


def of_activation(activation: Mapping[str, Any]) -> Row:
    """A generated module."""
    ready = condition(activation, "Ready")
    return Row(
        activation["spec"].get("module") or activation["metadata"]["name"],
        activation.get("status", {}).get("phase", "new"),
        ready.get("reason", ""),
        ready.get("message", ""),
        moment(ready.get("lastTransitionTime") or activation["metadata"]["creationTimestamp"]),
    )


def of_model(activation: Mapping[str, Any]) -> Model:
    """A model of any kind."""
    ready, status = condition(activation, "Ready"), activation.get("status", {})
    runtime = (status.get(name) for name in ("engine", "computeTarget"))
    return Model(
        activation["metadata"]["name"],
        phase_of(activation),
        ready.get("reason", ""),
        " on ".join(dict.fromkeys(filter(None, runtime))),
        ready.get("message", ""),
        moment(ready.get("lastTransitionTime") or activation["metadata"]["creationTimestamp"]),
    )


def of_instance(instance: Mapping[str, Any]) -> Instance:
    """An instance of any application."""
    ready, status = condition(instance, "Ready"), instance.get("status", {})
    return Instance(
        instance["metadata"]["name"],
        phase_of(instance),
        ready.get("reason", ""),
        tuple(filter(None, (status.get("localURL"), status.get("publicURL")))),
        ready.get("message", ""),
        moment(ready.get("lastTransitionTime") or instance["metadata"]["creationTimestamp"]),
    )


def of_palena(obj: Mapping[str, Any]) -> PalenaObject:
    """An object of any of Palena's kinds."""
    ready, metadata = condition(obj, "Ready"), obj["metadata"]
    return PalenaObject(
        obj["kind"],
        metadata["name"],
        phase_of(obj),
        ready.get("reason", ""),
        ready.get("message", ""),
        moment(ready.get("lastTransitionTime") or metadata["creationTimestamp"]),
    )


def of_static(module: str, kustomization: Mapping[str, Any]) -> Row:
    """A module of the static Flux graph."""
    ready = condition(kustomization, "Ready")
    phase = {"True": "Ready", "False": "Waiting"}.get(ready.get("status", ""), "Reconciling")
    return Row(
        module,
        phase,
        ready.get("reason", ""),
        ready.get("message", ""),
        moment(ready.get("lastTransitionTime") or kustomization["metadata"]["creationTimestamp"]),
    )


def of_hardware(appliance: Mapping[str, Any] | None) -> tuple[Hardware, ...]:
    """The vendors whose GPUs matter here: there, or expected by somebody."""
    reported = (appliance or {}).get("status", {}).get("hardwareOperators", {})
    entries = (_hardware(module, entry) for module, entry in sorted(reported.items()))
    return tuple(entry for entry in entries if entry.phase != "NotRequired")


def _hardware(module: str, entry: Mapping[str, Any]) -> Hardware:
    return Hardware(
        module,
        entry.get("vendor", ""),
        entry.get("phase", "new"),
        len(entry.get("detectedNodes", [])),
        len(entry.get("compatibleNodes", [])),
        entry.get("allocatableResources", 0),
        entry.get("message", ""),
    )


def view(picture: Picture, now: datetime) -> RenderableType:
    """What is shown live: the modules, and below them what else there is."""
    tables = [_module_table(picture, now)]
    if picture.hardware:
        tables.append(_gpu_table(picture.hardware))
    if picture.models:
        tables.append(_model_table(picture.models, now))
    if picture.instances:
        tables.append(_instance_table(picture.instances, now))
    if picture.palena:
        tables.append(_palena_table(picture.palena, now))
    return Group(*tables)


def _table(title: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    shown = Table(*headings, title=title, title_justify="left", expand=False)
    for row in rows:
        shown.add_row(*row)
    return shown


def _module_table(picture: Picture, now: datetime) -> Table:
    return _table(
        headline(picture.appliance),
        ("module", "phase", "reason", "since"),
        ((each.module, *_state(each, now)) for each in picture.rows),
    )


def _gpu_table(hardware: Iterable[Hardware]) -> Table:
    return _table(
        "GPUs",
        ("module", "phase", "nodes", "allocatable", "message"),
        (
            (each.module, _coloured(each.phase), each.nodes, str(each.allocatable), each.message)
            for each in hardware
        ),
    )


def _model_table(models: Iterable[Model], now: datetime) -> Table:
    return _table(
        "Models",
        ("model", "runtime", "phase", "reason", "since", "message"),
        ((each.name, each.runtime, *_state(each, now), each.message) for each in models),
    )


def _instance_table(instances: Iterable[Instance], now: datetime) -> Table:
    return _table(
        "Instances",
        ("instance", "phase", "reason", "since", "addresses", "message"),
        ((each.name, *_state(each, now), "\n".join(each.addresses), each.message) for each in instances),
    )


def _palena_table(objects: Iterable[PalenaObject], now: datetime) -> Table:
    return _table(
        "Palena",
        ("kind", "name", "phase", "reason", "since", "message"),
        ((each.kind, each.name, *_state(each, now), each.message) for each in objects),
    )


def _state(of: Row | Model | Instance | PalenaObject, now: datetime) -> tuple[str, str, str]:
    """Phase, reason, and since when."""
    return _coloured(of.phase), of.reason, age(of.since, now)


def _coloured(phase: str) -> str:
    return f"[{COLOURS.get(phase, 'cyan')}]{phase}[/]"


def headline(appliance: Mapping[str, Any] | None) -> str:
    """One line about the Appliance."""
    if appliance is None:
        return "Appliance: not there yet"
    return f"Appliance {appliance['metadata']['name']}: {phase_of(appliance)}"


def phase_of(obj: Mapping[str, Any]) -> str:
    """The phase that is reported of the present generation; `new` while none is."""
    status = obj.get("status", {})
    if status.get("observedGeneration") != obj["metadata"]["generation"]:
        return "new"
    return str(status.get("phase", "new"))


def age(since: datetime | None, now: datetime) -> str:
    """How long ago, in the largest unit that says something."""
    if since is None:
        return ""
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def now() -> datetime:
    """The present, aware of its zone."""
    return datetime.now(UTC)
