"""The compute-target catalog: on what models run, and with which engine (spec: magicstick-api §3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from magicstick.api.base import Model
from magicstick.catalogs.entries import Object, document, member, optional_member, read_all
from magicstick.catalogs.fields import Count, Engine, Flag, Names, Patterns, PositiveCount, Text

ProfileReference = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*:[1-9][0-9]*$")]
"""A KubeAI resource profile and how many of it: `magicstick-nvidia-gpu:1`."""

FORBIDDEN_PROFILE_KEYS: Final = (
    "modelCompatibility",
    "gpuArchitectures",
    "hardwareProfile",
    "minimumComputeMajor",
    "minimumDriverMajor",
)
"""Whether a model fits is the runtime's own judgement, never the catalog's (spec: realtime §3)."""


class CpuPolicy(Model):
    """CPU of one replica."""

    request_millicores: PositiveCount
    """Requested, in thousandths of a CPU."""
    limit_millicores: Count = 0
    """Limit, in thousandths of a CPU; 0 for none."""

    @model_validator(mode="after")
    def _limit_covers_request(self) -> "CpuPolicy":
        if 0 < self.limit_millicores < self.request_millicores:
            raise ValueError("must have limitMillicores 0 or at least requestMillicores")
        return self


class CpuDefaults(Model):
    """CPU of a replica by the kind of its target."""

    cpu: CpuPolicy | None = None
    """On targets of kind cpu."""
    gpu: CpuPolicy | None = None
    """On targets of kind gpu."""


class VisionOption(Model):
    """One choice of the backend that a vision encoder uses."""

    value: Text
    """As models name it."""
    label: str = ""
    """Title in forms."""
    description: str = ""
    """What it does, in a sentence."""
    backend: str | None = None
    """Value of the engine's argument; absent removes the argument."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment that the backend needs."""


class VisionAttention(Model):
    """Choices of the vision encoder's backend, and where they apply."""

    default: Text
    """Choice for new models."""
    compute_targets: Names
    """Targets that offer the choice."""
    runtime_version: str = ""
    """Engine version that the options belong to."""
    options: tuple[VisionOption, ...]
    """The choices."""


class DeploymentSettings(Model):
    """Settings of an engine that models may change."""

    vision_attention: VisionAttention | None = None
    """The backend of vision encoders."""


class RealtimeProfile(Model):
    """One way to run a realtime model (spec: realtime §3)."""

    display_name: str = ""
    """Title; empty for the key."""
    description: str = ""
    """What it is for, in a sentence."""
    model: str = ""
    """Model that forms propose."""
    backend: Literal["cuda", "rocm", "xpu", "cpu"] = "cuda"
    """What the runtime computes with."""
    compute_targets: Names
    """Targets that it runs on."""
    resource_name: str | None = None
    """The extended resource, where there is one alone."""
    resource_names: Names = ()
    """The extended resources, preferred first."""
    gpu_counts: tuple[Literal[1, 2], ...]
    """How many devices a runtime may have."""
    image: str = ""
    """Image by digest; empty where the user names one."""
    source_revision: str = ""
    """Revision of the sources that the image was built from."""
    source_tag: str = ""
    """Tag that the image was published under."""
    deploy_config: str = ""
    """The runtime's own configuration that the stages are based on."""
    default_context_window: PositiveCount = 8192
    """Tokens of context, where a model says nothing."""
    default_system_memory_mi: PositiveCount = 16384
    """Memory of the host in MiB, where a model says nothing."""
    host_runtime_headroom_mi: Count | None = None
    """Memory in MiB that forms leave to the host; a hint."""

    @model_validator(mode="before")
    @classmethod
    def _judges_no_model(cls, data: object) -> object:
        if isinstance(data, Mapping) and (found := [key for key in FORBIDDEN_PROFILE_KEYS if key in data]):
            raise ValueError(f"must not have {', '.join(found)}")
        return data

    @property
    def resources(self) -> tuple[str, ...]:
        """The extended resources, preferred first, whichever way the entry names them."""
        return self.resource_names or ((self.resource_name,) if self.resource_name else ())


class TensorParallelism(Model):
    """How one runtime spreads over several devices."""

    same_node_only: Flag = True
    """All devices are on one node."""
    requires_whole_devices: Flag = True
    """No device is shared."""
    requires_homogeneous_devices: Flag = True
    """All devices are alike."""
    gpu_argument: str = ""
    """How devices are named to the runtime."""
    size_argument: str = ""
    """The argument that takes the number of devices."""


class MemoryControls(Model):
    """How a runtime is told what memory it has."""

    vram_control: str = ""
    """What bounds device memory."""
    host_ram_control: str = ""
    """What bounds the host's memory."""
    requires_current_free_vram: Flag = False
    """Whether device memory is measured right before the start."""
    requires_current_system_ram: Flag = False
    """Whether the host's memory is measured right before the start."""


class RuntimeCapabilities(Model):
    """What a direct runtime can do, and on what (spec: models §13)."""

    version: Text
    """Version of the runtime."""
    operating_systems: Names = ()
    """Operating systems it runs on."""
    supported_vendors: Names
    """Vendors of devices it runs on."""
    supported_architectures: Names
    """CPU architectures it runs on."""
    minimum_nvidia_driver_major: PositiveCount
    """Oldest driver."""
    required_cuda_major: PositiveCount
    """CUDA version."""
    supported_compute_capabilities: Names
    """Compute capabilities of devices, as `8.9`."""
    supported_precision_modes: Names = ()
    """Precisions that a model may ask for."""
    minimum_devices_per_runtime: PositiveCount = 1
    """Fewest devices."""
    device_binding: str = ""
    """How devices are bound."""
    tensor_parallelism: TensorParallelism = Field(default_factory=TensorParallelism)
    """Use of several devices."""
    model_artifacts: Names = ()
    """Formats of models."""
    memory_strategies: Names = ()
    """Strategies that a model may ask for."""
    memory: MemoryControls = Field(default_factory=MemoryControls)
    """Control of memory."""
    model_families: Names = ()
    """Families of models, for display."""
    model_id_matchers: Patterns = ()
    """Which models it serves: regular expressions over the lower-case Hugging Face id."""
    tensor_parallel_unsupported_model_id_matchers: Patterns = ()
    """Which of them run on one device alone."""


class EngineDefinition(Model):
    """One engine that serves models."""

    display_name: str = ""
    """Title; empty for the key."""
    url_scheme: Text
    """Beginning of the URLs of its models."""
    supports_vram_estimate: Flag = False
    """Whether the memory of a model can be estimated."""
    cpu_defaults: CpuDefaults = Field(default_factory=CpuDefaults)
    """CPU of a replica, where a model says nothing."""
    deployment_settings: DeploymentSettings = Field(default_factory=DeploymentSettings)
    """Settings that models may change."""
    realtime_profiles: dict[str, RealtimeProfile] = Field(default_factory=dict)
    """Ways to run a realtime model."""
    capabilities: RuntimeCapabilities | None = None
    """For a direct runtime: what it can do."""


class EngineProfile(Model):
    """What an engine takes of a target."""

    default_resource_profile: ProfileReference
    """KubeAI resource profile, where no published resource decides."""
    resource_profiles_by_resource: dict[str, ProfileReference] = Field(default_factory=dict)
    """KubeAI resource profile by published resource."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of nodes beyond the target's own."""


class ComputeTarget(Model):
    """One kind of hardware that models can run on."""

    display_name: str = ""
    """Title; empty for the key."""
    kind: Literal["cpu", "gpu"]
    """Whether it has accelerators; also the key of an engine's CPU defaults."""
    vendor: str = ""
    """Vendor of the devices."""
    architectures: Names
    """CPU architectures of its nodes."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of its nodes."""
    required_capabilities: Names = ()
    """Capabilities that a module must bring."""
    resource_names: Names = ()
    """Extended resources of its devices, preferred first."""
    engines: tuple[Engine, ...]
    """Engines that run on it."""
    engine_profiles: dict[str, EngineProfile] = Field(default_factory=dict)
    """What each engine takes of it."""
    default_resource_profile: ProfileReference | None = None
    """Of older catalogs: in place of an engine profile, except for OLlama."""
    resource_profiles_by_resource: dict[str, ProfileReference] = Field(default_factory=dict)
    """Of older catalogs: in place of an engine profile, except for OLlama."""


@dataclass(frozen=True)
class ComputeTargetCatalog:
    """All engines and compute targets. Immutable."""

    engines: Mapping[str, EngineDefinition]
    """The valid engines, in catalog order."""
    targets: Mapping[str, ComputeTarget]
    """The valid targets, in catalog order."""
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Disabled entries: `engines.<key>`, `engines.<key>.realtimeProfiles.<key>` or `targets.<key>` ->
    "field: what is allowed"."""

    @classmethod
    def parse(cls, text: str) -> "ComputeTargetCatalog":
        """The catalog in the value of `targets.json`.

        Raises:
            CatalogError: the document as a whole is malformed.
        """
        content = document(text)
        targets, invalid_targets = read_all(ComputeTarget, member(content, "targets"))
        raw_engines, invalid_profiles = _without_bad_profiles(optional_member(content, "engines"))
        engines, invalid_engines = read_all(EngineDefinition, raw_engines, key_problem=_any_key)
        invalid = {f"engines.{key}": problem for key, problem in invalid_engines.items()}
        invalid |= invalid_profiles
        invalid |= {f"targets.{key}": problem for key, problem in invalid_targets.items()}
        return cls(engines, targets, invalid)


def _any_key(_: str) -> None:
    """Engines are no objects, so their keys need be no legal names: `VLLM`."""


def _without_bad_profiles(engines: Object) -> tuple[Object, dict[str, str]]:
    """The engines without their malformed realtime profiles, which cost nothing but themselves."""
    sound: dict[str, object] = dict(engines)
    invalid: dict[str, str] = {}
    for key, entry in engines.items():
        profiles = entry.get("realtimeProfiles") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(profiles, Mapping):
            continue
        good, bad = read_all(RealtimeProfile, profiles)
        sound[key] = {**entry, "realtimeProfiles": {name: profiles[name] for name in good}}
        invalid |= {f"engines.{key}.realtimeProfiles.{name}": problem for name, problem in bad.items()}
    return sound, invalid
