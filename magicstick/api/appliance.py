"""Appliance: the one object that says where the platform comes from (spec: magicstick-api §2.1, §2.2)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StrictBool

from magicstick.api.base import (
    DEFAULT_TARGET_NAMESPACE,
    Conditions,
    Count,
    FreeObject,
    Model,
    ObservedGeneration,
    TriState,
)
from magicstick.api.names import DNS_LABEL_PATTERN
from magicstick.api.schema import LIST_SET

AppliancePhase = Literal["Pending", "Reconciling", "Ready", "Degraded", "Suspended"]
HardwarePhase = Literal[
    "NotRequired",
    "Detected",
    "Installing",
    "Ready",
    "Disabled",
    "Unsupported",
    "Conflict",
    "Degraded",
    "Unknown",
]
HardwareManager = Literal["none", "magicstick", "external"]
UninstallPolicy = Literal["keep-data", "remove"]

DnsLabel = Annotated[str, Field(pattern=DNS_LABEL_PATTERN)]
SeededModules = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=253)], ...], Field(max_length=256), LIST_SET
]


class Source(Model):
    """Where Flux takes the modules and charts from."""

    kind: Literal["GitRepository"]
    """Kind of the Flux source."""
    name: Annotated[str, Field(min_length=1)]
    """Name of the Flux source."""
    namespace: Annotated[str, Field(min_length=1)] = "flux-system"
    """Namespace of the Flux source."""


class ModuleDefault(Model):
    """Whether a module is part of the appliance from the start."""

    enabled: StrictBool = False
    """True creates an activation of the module once; false removes nothing."""
    uninstall_policy: UninstallPolicy | None = None
    """What becomes of the module's data; information only."""


class LegacyStorage(Model):
    """Storage of a legacy instance."""

    size: str = ""
    """Size of the volume, as a quantity."""


class LegacyIngress(Model):
    """Route of a legacy instance."""

    enabled: StrictBool = False
    """Whether the instance had a route."""
    host: str = ""
    """Host name of the route."""


class LegacyInstance(Model):
    """An instance in the form that AppInstance replaced."""

    name: DnsLabel
    """Name of the instance."""
    enabled: StrictBool = True
    """Whether the instance was wanted."""
    namespace: str = DEFAULT_TARGET_NAMESPACE
    """Namespace of the instance."""
    storage: LegacyStorage | None = None
    """Storage of the instance."""
    ingress: LegacyIngress | None = None
    """Route of the instance."""


class LegacyModelInstance(LegacyInstance):
    """A legacy instance that used a model."""

    model: str = ""
    """Name of the model."""


class LegacyAgentTemplate(Model):
    """Agent template of a legacy KubeOpenCode instance."""

    name: DnsLabel
    """Name of the template."""
    description: str = ""
    """What the template is for."""


class LegacyServer(Model):
    """Server of a legacy KubeOpenCode instance."""

    enabled: StrictBool = True
    """Whether the server ran."""
    ingress: LegacyIngress | None = None
    """Route of the server."""


class LegacyKubeOpenCode(Model):
    """A legacy KubeOpenCode instance."""

    name: DnsLabel
    """Name of the instance."""
    enabled: StrictBool = True
    """Whether the instance was wanted."""
    namespace: str = DEFAULT_TARGET_NAMESPACE
    """Namespace of the instance."""
    model: str = ""
    """Name of the model."""
    server: LegacyServer | None = None
    """Server of the instance."""
    agent_templates: tuple[LegacyAgentTemplate, ...] = ()
    """Agent templates of the instance."""


class LegacyInstances(Model):
    """Instances in the form that AppInstance replaced; nothing acts on them."""

    openclaw: tuple[LegacyModelInstance, ...] = ()
    """Deprecated: use AppInstance."""
    hermes: tuple[LegacyModelInstance, ...] = ()
    """Deprecated: use AppInstance."""
    paperclip: tuple[LegacyInstance, ...] = ()
    """Deprecated: use AppInstance."""
    kubeopencode: tuple[LegacyKubeOpenCode, ...] = ()
    """Deprecated: use AppInstance."""


class ApplianceSpec(Model):
    """The source of the platform and the modules it starts with."""

    profile: Literal["minimal", "ai-workstation", "full"] = "minimal"
    """A hint for user interfaces; switches nothing on by itself."""
    source: Source
    """Where modules and charts come from."""
    modules: dict[str, ModuleDefault] = Field(default_factory=dict)
    """Modules by catalog key or alias; enabled ones are activated once."""
    instances: LegacyInstances | None = None
    """Deprecated: instances are AppInstance objects; nothing acts on this field."""


class ModuleSummary(Model):
    """State of one module."""

    phase: str = ""
    """Phase of the activation."""
    kustomization: str = ""
    """Name of the generated Flux Kustomization."""
    auto_enabled: StrictBool = False
    """Whether the operator made the activation, and nobody has touched it since."""
    message: str = ""
    """The state in a sentence."""


class InstanceSummary(Model):
    """State of one application instance."""

    phase: str = ""
    """Phase of the instance."""
    namespace: str = ""
    """Namespace of the object that installs the instance."""
    kind: str = ""
    """Kind of the object that installs the instance."""
    name: str = ""
    """Name of the object that installs the instance."""
    url: str = ""
    """Where to open the instance."""
    local_url: Annotated[str, Field(alias="localURL")] = ""
    """Address in the local network."""
    public_url: Annotated[str, Field(alias="publicURL")] = ""
    """Address under the public domain."""
    message: str = ""
    """The state in a sentence."""


class ModelSummary(Model):
    """State of one model. Further fields of the activation's status are kept as they are."""

    model_config = ConfigDict(extra="allow")

    phase: str = ""
    """Phase of the activation."""
    model_ref: str = ""
    """What serves the model, as backend/name."""
    catalog_id: str = ""
    """Name of the model in the model catalog."""
    vram_required_mi: Count | None = None
    """GPU memory that the model needs, in MiB."""
    message: str = ""
    """The state in a sentence."""


class HardwareCheck(Model):
    """One check of the platform preflight."""

    name: str
    """Name of the check."""
    status: TriState
    """Whether the check passed."""
    message: str
    """What was found."""
    required: StrictBool = False
    """Whether the hardware is unusable without this check."""


class HardwareOperator(Model):
    """State of one vendor's GPU support."""

    module: str = ""
    """Canonical key of the module that installs the vendor's operator."""
    display_name: str = ""
    """Name of the module for people."""
    vendor: str = ""
    """Vendor of the hardware."""
    operator_version: str = ""
    """Version of the vendor's operator that the module installs."""
    driver_mode: str = ""
    """Who provides the host driver."""
    phase: HardwarePhase | None = None
    """Summary of hardware, operator and resources."""
    needed: StrictBool = False
    """Whether hardware of this vendor was found."""
    operator_active: StrictBool = False
    """Whether the vendor's operator is installed."""
    managed_by: HardwareManager | None = None
    """Who installed the vendor's operator."""
    module_phase: str = ""
    """Phase of the module's activation."""
    detection_label: str = ""
    """Node label that shows the hardware."""
    supported_label: str = ""
    """Node label that shows support by the vendor."""
    detected_nodes: tuple[str, ...] = ()
    """Nodes with hardware of this vendor."""
    compatible_nodes: tuple[str, ...] = ()
    """Nodes whose hardware can be used."""
    supported_nodes: tuple[str, ...] = ()
    """Nodes whose hardware the vendor supports."""
    incompatible_nodes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Reasons by node, for hardware that cannot be used."""
    resource_names: tuple[str, ...] = ()
    """Extended resources that the hardware is requested by."""
    allocatable_resources: Count | None = None
    """How many of them Ready nodes offer in all."""
    message: str = ""
    """The state in a sentence."""
    checks: tuple[HardwareCheck, ...] = ()
    """Results of the platform preflight."""
    compatibility: FreeObject = Field(default_factory=dict)
    """Profiles, host evidence and optional validation per engine."""
    devices: tuple[FreeObject, ...] = ()
    """Physical GPUs; never shares of one."""
    sharing: FreeObject = Field(default_factory=dict)
    """Sharing of GPUs among models."""


class ApplianceStatus(Model):
    """The state of everything that belongs to the appliance."""

    observed_generation: ObservedGeneration = None
    """The generation of the spec that this status speaks of."""
    phase: AppliancePhase | None = None
    """Summary over modules, instances, models and hardware."""
    modules: dict[str, ModuleSummary] = Field(default_factory=dict)
    """Modules that have an activation, by canonical key."""
    instances: dict[str, dict[str, InstanceSummary]] = Field(default_factory=dict)
    """Instances by application, then by name."""
    models: dict[str, ModelSummary] = Field(default_factory=dict)
    """Models by the name of their activation."""
    hardware_operators: dict[str, HardwareOperator] = Field(default_factory=dict)
    """GPU support by module: gpu, amd-gpu and intel-gpu."""
    seeded_modules: SeededModules = ()
    """Modules whose activation was created for this Appliance. It is created once: an activation \
    deleted later stays deleted. Canonical keys."""
    conditions: Conditions = ()
    """The state by aspects; `Ready` is always among them."""
