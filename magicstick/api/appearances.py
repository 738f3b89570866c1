"""How our kinds appear on the command line: their names, and their columns in tables.

`crds` writes them into the definitions, from where kubectl has them; `magicstick get` reads them here.
Nothing here needs a model, so that a command that only prints a table starts quickly
(spec: magicstick-api §2).
"""

from dataclasses import dataclass
from typing import Final

from magicstick.api import kinds
from magicstick.kube.kinds import Kind

CATEGORY: Final = "magicstick"
"""`kubectl get magicstick` lists the objects of all kinds of the appliance."""
PALENA_CATEGORY: Final = "palena"
"""`kubectl get palena` lists the objects of all kinds of Palena's."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; those of priority 1 show with `-o wide` alone."""

    name: str
    type: str
    path: str
    """Where the value is, in the API's JSONPath."""
    priority: int = 0


AGE: Final = Column("Age", "date", ".metadata.creationTimestamp")
PHASE: Final = Column("Phase", "string", ".status.phase")
ENABLED: Final = Column("Enabled", "boolean", ".spec.enabled")
TARGET: Final = Column("Target", "string", ".spec.targetNamespace")
READINESS: Final = tuple(
    Column(name, "string", f'.status.conditions[?(@.type=="Ready")].{field}', priority=1)
    for name, field in (("Ready", "status"), ("Reason", "reason"), ("Message", "message"))
)


@dataclass(frozen=True, slots=True)
class Appearance:
    """The names of one kind beside its plural, and its columns after `NAME`."""

    kind: Kind
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    spoken: tuple[str, ...] = ()
    """What people call it: words of our own command line, which no definition has."""
    category: str = CATEGORY
    """The word for all kinds that belong together."""

    @property
    def singular(self) -> str:
        """The name of one object's kind, as in `moduleactivation/litellm`."""
        return self.kind.kind.lower()


APPLIANCE: Final = Appearance(
    kinds.APPLIANCE,
    ("msapp", "appliance"),
    (
        PHASE,
        Column("Profile", "string", ".spec.profile"),
        Column("Source", "string", ".spec.source.name"),
        AGE,
        *READINESS,
    ),
)
MODULE_ACTIVATION: Final = Appearance(
    kinds.MODULE_ACTIVATION,
    ("msmod",),
    (
        Column("Module", "string", ".spec.module"),
        ENABLED,
        PHASE,
        Column("Kustomization", "string", ".status.kustomization"),
        AGE,
        *READINESS,
    ),
    ("module", "modules"),
)
APP_INSTANCE: Final = Appearance(
    kinds.APP_INSTANCE,
    ("msinst",),
    (
        Column("Type", "string", ".spec.application"),
        ENABLED,
        TARGET,
        PHASE,
        Column("URL", "string", ".status.url"),
        AGE,
        *READINESS,
    ),
    ("instance", "instances"),
)
MODEL_ACTIVATION: Final = Appearance(
    kinds.MODEL_ACTIVATION,
    ("msmodel",),
    (
        Column("Type", "string", ".spec.type"),
        ENABLED,
        TARGET,
        PHASE,
        Column("Model", "string", ".status.modelRef"),
        Column("VRAM", "integer", ".status.vramRequiredMi"),
        AGE,
        *READINESS,
    ),
    ("model", "models"),
)
HOST_OPERATION: Final = Appearance(
    kinds.HOST_OPERATION,
    ("mshostop",),
    (
        Column("Node", "string", ".spec.nodeName"),
        Column("Action", "string", ".spec.action"),
        PHASE,
        Column("Message", "string", ".status.message", priority=1),
    ),
    ("operation", "operations"),
)

READY: Final = Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status')
GATEWAY: Final = Column("Gateway", "string", ".spec.gatewayRef.name")
WHY_NOT: Final = READINESS[1:]

PALENA_GATEWAY: Final = Appearance(
    kinds.PALENA_GATEWAY,
    ("pgw",),
    (
        PHASE,
        READY,
        Column("Endpoint", "string", ".status.endpoint"),
        Column("Database", "string", ".status.database.mode"),
        Column("Models", "integer", ".status.modelCount"),
        AGE,
        *WHY_NOT,
    ),
    ("gateway", "gateways"),
    PALENA_CATEGORY,
)
PALENA_MODEL: Final = Appearance(
    kinds.PALENA_MODEL,
    ("pmod",),
    (
        Column("Model", "string", ".spec.modelName"),
        Column("Synced", "string", '.status.conditions[?(@.type=="Synced")].status'),
        READY,
        Column("Gateways", "string", ".status.gatewaysSummary"),
        AGE,
        Column("Phase", "string", ".status.phase", priority=1),
        *WHY_NOT,
    ),
    (),
    PALENA_CATEGORY,
)
PALENA_UI: Final = Appearance(
    kinds.PALENA_UI,
    ("pui",),
    (PHASE, READY, Column("URL", "string", ".status.url"), GATEWAY, AGE, *WHY_NOT),
    ("ui", "uis", "chat"),
    PALENA_CATEGORY,
)
PALENA_OBSERVABILITY: Final = Appearance(
    kinds.PALENA_OBSERVABILITY,
    ("pobs",),
    (
        PHASE,
        READY,
        Column("URL", "string", ".status.url"),
        GATEWAY,
        Column("Callback", "boolean", ".status.callback.configured"),
        AGE,
        *WHY_NOT,
    ),
    ("observability",),
    PALENA_CATEGORY,
)
PALENA_MCP_SERVER: Final = Appearance(
    kinds.PALENA_MCP_SERVER,
    ("pmcp",),
    (
        PHASE,
        READY,
        Column("Endpoint", "string", ".status.endpoint"),
        Column("Sidecars", "string", ".status.sidecarsSummary"),
        AGE,
        *WHY_NOT,
    ),
    ("mcpserver", "mcpservers", "mcp"),
    PALENA_CATEGORY,
)

APPLIANCE_APPEARANCES: Final = (APPLIANCE, MODULE_ACTIVATION, APP_INSTANCE, MODEL_ACTIVATION, HOST_OPERATION)
"""The appliance's kinds, in the order in which they are listed."""
PALENA_APPEARANCES: Final = (
    PALENA_GATEWAY,
    PALENA_MODEL,
    PALENA_UI,
    PALENA_OBSERVABILITY,
    PALENA_MCP_SERVER,
)
"""Palena's kinds, in the order in which they are listed."""
APPEARANCES: Final = (*APPLIANCE_APPEARANCES, *PALENA_APPEARANCES)
"""Every kind of ours, in the order in which it is listed. A later kind is one more entry."""
