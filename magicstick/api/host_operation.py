"""HostOperation: one request to a host, written once, carried out by the host's worker.

The operator only reads them (spec: magicstick-api §2.7, modules-and-apps §13).
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictInt

from magicstick.api.base import Model, Timestamp
from magicstick.api.schema import Rule, rules

Action = Literal[
    "prepare-gpu",
    "configure-gpu-memory",
    "configure-network",
    "scan-wifi",
    "configure-updates",
    "check-updates",
    "install-updates",
    "clear-model-cache",
    "reboot",
    "poweroff",
]
HostOperationPhase = Literal[
    "Accepted",
    "Preparing",
    "Applying",
    "AwaitingConfirmation",
    "RolledBack",
    "RebootScheduled",
    "PoweroffScheduled",
    "Verifying",
    "Registering",
    "Validating",
    "Succeeded",
    "PreparedUnverified",
    "Failed",
    "Rejected",
    "Interrupted",
]
UpdateScope = Literal["security", "all"]

FINISHED_PHASES: Final[frozenset[HostOperationPhase]] = frozenset(
    {"Succeeded", "PreparedUnverified", "Failed", "Rejected", "Interrupted", "RolledBack"}
)
"""Nothing happens any more; no phase at all counts as unfinished."""

Identifier = Annotated[str, Field(min_length=1, max_length=64)]
NodeName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]

_POWER: Final = "self.action in ['reboot', 'poweroff']"
_GPU: Final = "self.action in ['prepare-gpu', 'configure-gpu-memory']"
_NETWORK: Final = "self.action in ['configure-network', 'scan-wifi']"

SPEC_RULES: Final = (
    Rule(
        "self == oldSelf",
        "a host operation is written once: create a new one instead of changing this one",
        "FieldValueForbidden",
    ),
    Rule(
        f"{_POWER} || (has(self.planId) && size(self.planId) == 64)",
        "this action carries out a plan: set planId to its 64 hex digits",
        "FieldValueRequired",
        ".planId",
    ),
    Rule(
        f"!({_POWER}) || !has(self.planId) || self.planId == ''",
        "reboot and poweroff have no plan: remove planId",
        "FieldValueForbidden",
        ".planId",
    ),
    Rule(
        "!self.experimentMode || self.allowExperimental",
        "experimentMode needs consent: set allowExperimental to true, or experimentMode to false",
        field_path=".experimentMode",
    ),
    Rule(
        f"{_GPU} || (!self.allowExperimental && !self.experimentMode)",
        "only the GPU actions can be experimental: set allowExperimental and experimentMode to false",
        field_path=".allowExperimental",
    ),
    Rule(
        "self.action != 'configure-gpu-memory' || (self.allowExperimental && !self.experimentMode)",
        "configure-gpu-memory is always experimental: set allowExperimental to true and "
        "experimentMode to false",
        field_path=".allowExperimental",
    ),
    Rule(
        "has(self.gpuMemory) == (self.action == 'configure-gpu-memory')",
        "gpuMemory belongs to configure-gpu-memory: set it for that action, remove it for any other",
        field_path=".gpuMemory",
    ),
    Rule(
        f"has(self.networkRef) == ({_NETWORK})",
        "networkRef belongs to configure-network and scan-wifi: set it for them, remove it for any other",
        field_path=".networkRef",
    ),
    Rule(
        "has(self.updatePolicy) == (self.action == 'configure-updates')",
        "updatePolicy belongs to configure-updates: set it for that action, remove it for any other",
        field_path=".updatePolicy",
    ),
    Rule(
        "has(self.updateScope) == (self.action == 'install-updates')",
        "updateScope belongs to install-updates: set it for that action, remove it for any other",
        field_path=".updateScope",
    ),
)


class UpdatePolicy(Model):
    """When the host installs updates by itself."""

    mode: Literal["manual", "security", "all"]
    """Which updates are installed without being asked for."""
    window_start: Annotated[str, Field(max_length=5, pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    """When the maintenance window opens, HH:MM in the host's time zone."""
    window_minutes: Annotated[StrictInt, Field(ge=15, le=360)]
    """How long the maintenance window stays open."""
    automatic_reboot: StrictBool
    """Whether the host may restart within the window."""


class NetworkRef(Model):
    """The Secret that holds the network settings of one request."""

    name: Annotated[str, Field(max_length=45, pattern=r"^host-network-[a-f0-9]{32}$")]
    """Name of the Secret."""
    uid: Identifier
    """UID of the Secret, so that no other one takes its place."""


class GpuMemory(Model):
    """How memory is divided between host and integrated GPU."""

    carveout_index: Annotated[StrictInt, Field(ge=0, le=255)]
    """The firmware's index of the memory reserved for the GPU."""
    dynamic_limit_mi: Annotated[StrictInt, Field(ge=1, le=1048576)]
    """Host memory that the GPU may use in addition, in MiB."""


class HostOperationSpec(Model):
    """What is to be done, on which host, and by which plan."""

    model_config = ConfigDict(json_schema_extra=rules(*SPEC_RULES))

    action: Action
    """What is to be done."""
    node_name: NodeName
    """Name of the node."""
    node_uid: Identifier
    """UID of the node, so that no other one takes its place."""
    boot_id: Identifier
    """Boot of the node that the request was made for."""
    request_id: Annotated[str, Field(max_length=32, pattern=r"^[a-f0-9]{32}$")]
    """Names the request; the worker carries out each one at most once."""
    plan_id: Annotated[str, Field(max_length=64, pattern=r"^([a-f0-9]{64})?$")] = ""
    """Digest of the plan that was shown and agreed to."""
    allow_experimental: StrictBool
    """Consent to what is not known to work."""
    experiment_mode: StrictBool
    """Whether the request is an experiment."""
    acknowledge_disruption: Literal[True]
    """Always true: whoever asks accepts that running work is interrupted."""
    actor_hash: Annotated[str, Field(max_length=64, pattern=r"^[a-f0-9]{64}$")]
    """Digest of the identity of who asks."""
    update_scope: UpdateScope | None = None
    """Which updates install-updates installs."""
    update_policy: UpdatePolicy | None = None
    """What configure-updates sets."""
    network_ref: NetworkRef | None = None
    """What configure-network sets, or scan-wifi looks with."""
    gpu_memory: GpuMemory | None = None
    """What configure-gpu-memory sets."""


class HostOperationStatus(Model):
    """How far the host's worker has come. Nobody else writes it."""

    phase: HostOperationPhase | None = None
    """The step that the worker is at."""
    confirmation_deadline: Timestamp = ""
    """When a network change is rolled back unless somebody confirms it."""
    started_at: Timestamp = ""
    """When the worker began."""
    updated_at: Timestamp = ""
    """When the worker last reported."""
    message: Annotated[str, Field(max_length=2048)] = ""
    """The state in a sentence."""
    request_id: Annotated[str, Field(max_length=32)] = ""
    """The request that this status speaks of."""
    boot_id: Annotated[str, Field(max_length=64)] = ""
    """Boot of the node that the worker reports from."""
