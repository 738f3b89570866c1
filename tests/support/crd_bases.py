"""The schemas of our kinds, and a valid object of each for cases to deviate from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hack import yamls
from magicstick.api.crds import dump, render_all

Overrides = Mapping[str, Any]

SCHEMAS: Final[dict[str, Mapping[str, Any]]] = {
    crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for crd in (yamls.load(dump(rendered)) for rendered in render_all().values())
}
"""By kind, as our files state them."""


@dataclass(frozen=True)
class Case:
    """Values of one field that are accepted and refused, on the base with `given` set."""

    kind: str
    path: str
    accepted: tuple[Any, ...]
    refused: tuple[Any, ...]
    given: Overrides = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}-{self.path}"


@dataclass(frozen=True)
class RuleCase:
    """Fields that a CEL rule at `node` accepts and refuses; `before` is stored first for a transition."""

    kind: str
    node: str
    message: str
    """A part of the rule's message that no other rule of the kind has."""
    accepted: tuple[Overrides, ...]
    refused: tuple[Overrides, ...]
    before: Overrides | None = None

    def __str__(self) -> str:
        return f"{self.kind}-{self.node}-{self.message}"


HEX_32: Final = "0" * 32
HEX_64: Final = "a" * 64
UPDATE_POLICY: Final = {
    "mode": "security",
    "windowStart": "03:30",
    "windowMinutes": 60,
    "automaticReboot": True,
}
NETWORK_REF: Final = {"name": f"host-network-{HEX_32}", "uid": "u"}
GPU_MEMORY: Final = {"carveoutIndex": 0, "dynamicLimitMi": 1}

BASES: Final[dict[str, dict[str, Any]]] = {
    "Appliance": {"source": {"kind": "GitRepository", "name": "flux-system"}},
    "ModuleActivation": {"module": "litellm"},
    "AppInstance": {"application": "openclaw"},
    "ModelActivation": {"type": "local"},
    "HostOperation": {
        "action": "reboot",
        "nodeName": "node-1",
        "nodeUid": "n",
        "bootId": "b",
        "requestId": HEX_32,
        "allowExperimental": False,
        "experimentMode": False,
        "acknowledgeDisruption": True,
        "actorHash": HEX_64,
    },
    "PalenaGateway": {},
    "PalenaModel": {"gatewayRefs": [{"name": "gw"}], "provider": {"model": "openai/gpt-4o"}},
    "PalenaUI": {"gatewayRef": {"name": "gw"}},
    "PalenaObservability": {"gatewayRef": {"name": "gw"}, "blobStorage": {"provider": "s3", "s3": {}}},
    "PalenaMCPServer": {},
}
"""A valid spec of each kind; every case changes one."""


PLAN: Final = {"spec.planId": HEX_64}
GPU_PLAN: Final = PLAN | {"spec.action": "prepare-gpu"}
CONFIGURE_GPU_MEMORY: Final = PLAN | {
    "spec.action": "configure-gpu-memory",
    "spec.allowExperimental": True,
    "spec.gpuMemory": GPU_MEMORY,
}
CONFIGURE_NETWORK: Final = PLAN | {"spec.action": "configure-network", "spec.networkRef": NETWORK_REF}
SCAN_WIFI: Final = CONFIGURE_NETWORK | {"spec.action": "scan-wifi"}
CONFIGURE_UPDATES: Final = PLAN | {"spec.action": "configure-updates", "spec.updatePolicy": UPDATE_POLICY}
CHECK_UPDATES: Final = PLAN | {"spec.action": "check-updates"}
INSTALL_UPDATES: Final = PLAN | {"spec.action": "install-updates", "spec.updateScope": "all"}
CLEAR_CACHE: Final = PLAN | {"spec.action": "clear-model-cache"}
REBOOT: Final = {"spec.action": "reboot"}
POWEROFF: Final = {"spec.action": "poweroff"}
PLANNED_ACTIONS: Final = (
    *(GPU_PLAN, CONFIGURE_GPU_MEMORY, CONFIGURE_NETWORK, SCAN_WIFI, CONFIGURE_UPDATES),
    *(CHECK_UPDATES, INSTALL_UPDATES, CLEAR_CACHE),
)
ACTIONS: Final = (*PLANNED_ACTIONS, REBOOT, POWEROFF)
EXPERIMENT: Final = {"spec.allowExperimental": True, "spec.experimentMode": True}
