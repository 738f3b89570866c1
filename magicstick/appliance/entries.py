"""The lines of an Appliance's status: one for each module, instance, model and vendor's hardware.

Whoever owns a kind makes its entries; this package only joins them. A status is bounded: each message is
cut, and of very many entries the ones that need attention are listed first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

from magicstick.api.names import label_value
from magicstick.runtime.conditions import cut

ENTRY_LIMIT: Final = 1000
"""Most entries of one map; fewer where all maps together would not fit into the store."""

ENTRY_MESSAGE_LIMIT: Final = 256

KEY_LIMIT: Final = 253
"""Longest key of a map as it is, the longest that a name may be. The server reads no key above 1024."""

HEALTHY: Final = frozenset({"Ready", "Suspended", "Disabled"})
"""Phases of modules and instances that nobody has to wait for."""

MODEL_HEALTHY: Final = frozenset({"Ready", "Disabled"})

GROWING: Final = ("detectedNodes", "compatibleNodes", "supportedNodes", "incompatibleNodes", "devices")
"""The fields of a vendor's entry that are as long as there are nodes or cards."""

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModuleEntry:
    """One module that has an activation, by its canonical key."""

    module: str
    phase: str
    kustomization: str = ""
    auto_enabled: bool = False
    message: str = ""

    @property
    def name(self) -> str:
        """As people read it."""
        return self.module

    @property
    def healthy(self) -> bool:
        """Whether nobody has to wait for it."""
        return self.phase in HEALTHY

    def fields(self) -> Fields:
        """As `status.modules.<module>`."""
        return {
            "phase": self.phase,
            "kustomization": self.kustomization,
            "autoEnabled": self.auto_enabled,
            "message": cut(self.message, ENTRY_MESSAGE_LIMIT),
        }


@dataclass(frozen=True, slots=True)
class InstanceEntry:
    """One application instance. `namespace`, `kind` and `object_name` say what installs it."""

    application: str
    name: str
    phase: str
    namespace: str = ""
    kind: str = ""
    object_name: str = ""
    url: str = ""
    local_url: str = ""
    public_url: str = ""
    message: str = ""

    @property
    def healthy(self) -> bool:
        """Whether nobody has to wait for it."""
        return self.phase in HEALTHY

    def fields(self) -> Fields:
        """As `status.instances.<application>.<name>`."""
        return {
            "phase": self.phase,
            "namespace": self.namespace,
            "kind": self.kind,
            "name": self.object_name,
            "url": self.url,
            "localURL": self.local_url,
            "publicURL": self.public_url,
            "message": cut(self.message, ENTRY_MESSAGE_LIMIT),
        }


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model. `details` are further fields of its status, kept as they are."""

    name: str
    phase: str
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether nobody has to wait for it."""
        return self.phase in MODEL_HEALTHY

    def fields(self) -> Fields:
        """As `status.models.<name>`."""
        message = cut(self.message, ENTRY_MESSAGE_LIMIT)
        return {**self.details, "phase": self.phase, "message": message}


@dataclass(frozen=True, slots=True)
class HardwareEntry:
    """One vendor's GPU support, by the module that brings it. `details` are all further fields."""

    module: str
    phase: str
    needed: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As people read it."""
        return self.module

    @property
    def failed(self) -> bool:
        """Whether hardware that is there cannot be used."""
        return self.needed and self.phase in {"Degraded", "Unsupported", "Conflict", "Disabled"}

    @property
    def on_its_way(self) -> bool:
        """Whether its operator is coming."""
        return self.phase in {"Detected", "Installing"}

    def fields(self, limit: int = ENTRY_LIMIT) -> Fields:
        """As `status.hardwareOperators.<module>`, with at most `limit` nodes, and devices, each."""
        growing = {name: _first(self.details[name], limit) for name in GROWING if name in self.details}
        own = {"module": self.module, "phase": self.phase, "needed": self.needed}
        return {**self.details, **growing, **own}


def _first(value: object, limit: int) -> object:
    """The first members of a list or map; any other value as it is."""
    if isinstance(value, Mapping):
        return dict(islice(value.items(), limit))
    return list(value[:limit]) if isinstance(value, list | tuple) else value


E = TypeVar("E", ModuleEntry, InstanceEntry, ModelEntry)


def bounded(entries: Sequence[E], limit: int = ENTRY_LIMIT) -> Sequence[E]:
    """At most `limit` of them: all, or first those that are not healthy, in their order."""
    if len(entries) <= limit:
        return entries
    return sorted(entries, key=lambda entry: entry.healthy)[:limit]


def entry_key(text: str) -> str:
    """What stands for a user's text as the key of an entry: itself, or its beginning and a hash."""
    return text if len(text) <= KEY_LIMIT else label_value(text)


def by_application(entries: Iterable[InstanceEntry]) -> dict[str, dict[str, Fields]]:
    """Instances as the two-level map of the status; without an application, under `unknown`."""
    grouped: dict[str, dict[str, Fields]] = {}
    for entry in entries:
        grouped.setdefault(entry_key(entry.application or "unknown"), {})[entry.name] = entry.fields()
    return grouped
