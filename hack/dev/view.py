"""What `make dev` shows: one row a module, read from the API as a user would read it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

COLOURS = {"Ready": "green", "Degraded": "red", "WaitingForModules": "yellow", "Disabled": "dim"}


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


def table(rows: Iterable[Row], appliance: Mapping[str, Any] | None, now: datetime) -> Table:
    """The live table."""
    view = Table(title=headline(appliance), title_justify="left", expand=False)
    for heading in ("module", "phase", "reason", "since"):
        view.add_column(heading)
    for row in rows:
        colour = COLOURS.get(row.phase, "cyan")
        view.add_row(row.module, f"[{colour}]{row.phase}[/]", row.reason, age(row.since, now))
    return view


def headline(appliance: Mapping[str, Any] | None) -> str:
    """One line about the Appliance."""
    if appliance is None:
        return "Appliance: not there yet"
    return f"Appliance {appliance['metadata']['name']}: {phase_of(appliance)}"


def phase_of(appliance: Mapping[str, Any]) -> str:
    """The reported phase, while it speaks of the present generation."""
    status = appliance.get("status", {})
    if status.get("observedGeneration") != appliance["metadata"]["generation"]:
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
