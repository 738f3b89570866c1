"""The module catalog: what can be installed, and what needs what (spec: magicstick-api §3.1, §4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator

from magicstick.api.base import Model
from magicstick.catalogs.entries import (
    Object,
    document,
    member,
    optional_member,
    read_all,
    text_items,
)
from magicstick.catalogs.fields import (
    CrdName,
    DnsLabel,
    Flag,
    KubernetesVersion,
    Names,
    Number,
    QualifiedName,
    RepositoryPath,
    Text,
    VariableName,
)
from magicstick.catalogs.graph import cycles

STATIC_KUSTOMIZATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"basis": "infrastructure-basis", "hardware-discovery": "hardware-discovery", "dashboard": "apps"}
)
"""The Flux Kustomizations that really install the static modules (README decision 3)."""

RESERVED_KUSTOMIZATIONS: Final = frozenset(
    {
        *STATIC_KUSTOMIZATIONS.values(),
        "first-run-bootstrap",
        "envoy-gateway",
        "identity-pilot",
        "magicstick-operator",
    }
)
"""Names that belong to the Flux graph in Git: generating one of them would take it over."""

BUILT_IN_ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "modelCatalog": "model-catalog",
        "anythingLlm": "anything-llm",
        "openclawOperator": "openclaw-operator",
        "hermesOperator": "hermes-operator",
        "paperclipOperator": "paperclip-operator",
        "nvidia-gpu": "gpu",
        "nvidia-gpu-operator": "gpu",
        "amd-gpu-operator": "amd-gpu",
        "intel-gpu-operator": "intel-gpu",
    }
)
"""Names that older Appliances use (spec: magicstick-api §4.1)."""

_OTHER_GROUP: Final = "other"


def _known_mode(value: object) -> object:
    """Text that is no known mode means the usual one (spec: magicstick-api §3.1)."""
    return "moduleactivation" if isinstance(value, str) and value != "static" else value


class Group(Model):
    """A heading under which user interfaces list modules."""

    display_name: str = ""
    """Title of the group; empty for its key."""
    order: Number = 1000
    """Position among the groups."""


class Parameter(Model):
    """One setting of a module that a user may give in `ModuleActivation.spec.parameters`."""

    name: Text
    """Name of the parameter."""
    label: str = ""
    """Title in forms."""
    placeholder: str = ""
    """Example in forms."""
    substitution: VariableName | None = None
    """The variable of the module's manifests that takes the value; without it only code reads it."""
    type: str = "text"
    """Kind of form field."""


class Hardware(Model):
    """What a vendor module needs of the hardware, and how it shows (spec: gpu)."""

    vendor: Text
    """Vendor of the devices."""
    detection_label: QualifiedName
    """Node label that says such a device is there."""
    supported_label: QualifiedName
    """Node label that says the vendor supports it."""
    architectures: Names = ()
    """CPU architectures that the vendor supports."""
    minimum_kubernetes: KubernetesVersion = ""
    """Oldest Kubernetes version that the vendor supports."""
    resource_names: tuple[QualifiedName, ...] = ()
    """Extended resources of the devices, preferred first."""
    operator_version: str = ""
    """Version of the vendor's operator that the module installs."""
    driver_mode: str = ""
    """Who brings the driver."""


class Credentials(Model):
    """Which provider's credentials the module manages."""

    provider: Text
    """Key of the provider."""


class LiteLLMKey(Model):
    """Where the module's own LiteLLM key is kept."""

    namespace: Text
    """Namespace of the Secret."""
    secret_name: Text
    """Name of the Secret."""


class ModuleDefinition(Model):
    """One module: a capability that Flux installs from one folder of the source."""

    display_name: str = ""
    """Title; empty for the key."""
    description: str = ""
    """What the module brings, in a sentence."""
    group: str = _OTHER_GROUP
    """Key of the group it is listed in."""
    aliases: Annotated[tuple[str, ...], BeforeValidator(text_items)] = ()
    """Further names that users may give it."""
    activation_mode: Annotated[Literal["static", "moduleactivation"], BeforeValidator(_known_mode)] = (
        "moduleactivation"
    )
    """`static` modules belong to the Flux graph in Git and are never generated."""
    activation_policy: Literal["hardware-detected", "local-model"] | None = None
    """What may switch it on: `hardware-detected` keeps models from doing so."""
    order: Number | None = None
    """Position in lists."""
    path: RepositoryPath
    """Folder of the source that Flux applies, without a leading `./`."""
    kustomization_name: DnsLabel
    """Name of the generated Flux Kustomization; without effect for static modules."""
    requires: Names = ()
    """Modules that must be ready first, by key or alias."""
    provides_capabilities: Names = ()
    """Compute capabilities that the module brings."""
    required_crds: tuple[CrdName, ...] = ()
    """CustomResourceDefinitions that must be established for the module to be ready."""
    wait_for_ready: Flag = False
    """Whether Flux waits for everything that it applied."""
    hardware: Hardware | None = None
    """For vendor modules: the devices it serves."""
    default: Flag = False
    """Whether the default Appliance has it; information only."""
    uninstall_policy: Literal["keep-data", "remove"] | None = None
    """What becomes of its data; information only."""
    post_build_substitution: Flag = False
    """Whether the settings of the appliance are substituted in its manifests."""
    parameters: tuple[Parameter, ...] = ()
    """Settings that users may give."""
    credentials: Credentials | None = None
    """Credentials that the module manages for others."""
    litellm_key: LiteLLMKey | None = None
    """Set for a module that has a LiteLLM key of its own."""

    @property
    def static(self) -> bool:
        """Whether Git owns the module's Kustomization, so that nothing is ever generated for it."""
        return self.activation_mode == "static"


@dataclass(frozen=True)
class ModuleCatalog:
    """All modules, and the questions that reconcilers ask about them. Immutable.

    Guarantees: names that one method returns are canonical, and mean the same in every other one.
    """

    modules: Mapping[str, ModuleDefinition]
    """The valid entries by canonical key, in catalog order."""
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Disabled entries: canonical key -> "field: what is allowed"."""
    groups: Mapping[str, Group] = field(default_factory=dict)
    invalid_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What disabled entries are also called: a name means the same module while its entry is broken."""

    def canonical(self, name: str) -> str:
        """The key of the module that `name` means; a name that means none stays as it is.

        In order: exact key, exact alias, built-in alias, then key or alias in any letter case; keys win
        over aliases, and earlier entries over later ones (spec: magicstick-api §4.1). Never for compute
        targets, some of which have the name of a module.
        """
        trimmed = name.strip()
        if trimmed in self._exact:
            return self._exact[trimmed]
        return self._any_case.get(trimmed.casefold(), trimmed)

    def flux_name(self, key: str) -> str | None:
        """The Flux Kustomization whose readiness is the module's; None for a module that is not valid."""
        definition = self.modules.get(key)
        if definition is None:
            return None
        if definition.static:
            return STATIC_KUSTOMIZATIONS.get(key, definition.kustomization_name)
        return definition.kustomization_name

    def requires(self, key: str) -> tuple[str, ...]:
        """What `key` requires, canonical, in the order of its entry; unknown names stay as they are."""
        return self._requirements.get(key, ())

    def dependants(self, key: str) -> tuple[str, ...]:
        """The modules that require `key`, sorted."""
        return self._dependants.get(key, ())

    def cycle_of(self, key: str) -> tuple[str, ...]:
        """All modules that require each other in a circle with `key`; () when there is none."""
        return self._cycles.get(key, ())

    @classmethod
    def parse(cls, text: str) -> "ModuleCatalog":
        """The catalog in the value of `modules.json`.

        Raises:
            CatalogError: the document as a whole is malformed.
        """
        content = document(text)
        entries = member(content, "modules")
        modules, invalid = read_all(ModuleDefinition, entries)
        invalid |= _contested_names(modules)
        groups, _ = read_all(Group, optional_member(content, "groups"))
        return cls(
            {key: definition for key, definition in modules.items() if key not in invalid},
            {key: invalid[key] for key in entries if key in invalid},
            groups,
            {key: _raw_aliases(entries, key) for key in invalid},
        )

    @cached_property
    def _aliases(self) -> list[tuple[str, str]]:
        """(alias, key), valid entries first."""
        valid = [(alias, key) for key, definition in self.modules.items() for alias in definition.aliases]
        return valid + [(alias, key) for key, names in self.invalid_aliases.items() for alias in names]

    @cached_property
    def _exact(self) -> Mapping[str, str]:
        names = dict(BUILT_IN_ALIASES)
        names.update(reversed(self._aliases))
        names.update((key, key) for key in (*self.modules, *self.invalid))
        return names

    @cached_property
    def _any_case(self) -> Mapping[str, str]:
        names = {alias.casefold(): key for alias, key in reversed(self._aliases)}
        names.update((key.casefold(), key) for key in reversed((*self.modules, *self.invalid)))
        return names

    @cached_property
    def _requirements(self) -> Mapping[str, tuple[str, ...]]:
        return {
            key: tuple(dict.fromkeys(map(self.canonical, definition.requires)))
            for key, definition in self.modules.items()
        }

    @cached_property
    def _dependants(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for key in sorted(self._requirements):
            for required in self._requirements[key]:
                found.setdefault(required, []).append(key)
        return {key: tuple(names) for key, names in found.items()}

    @cached_property
    def _cycles(self) -> Mapping[str, tuple[str, ...]]:
        return cycles(self._requirements)


def _contested_names(modules: Mapping[str, ModuleDefinition]) -> dict[str, str]:
    """Entries whose Kustomization belongs to the Flux graph or to an earlier entry, and why.

    The earlier one keeps it: a new entry must not be able to break a module that is installed.
    """
    owners: dict[str, str] = {}
    contested: dict[str, str] = {}
    for key, definition in modules.items():
        name = definition.kustomization_name
        if not definition.static and name in RESERVED_KUSTOMIZATIONS:
            contested[key] = f"kustomizationName: must not be {name}, which belongs to the Flux graph in Git"
        elif owners.setdefault(name, key) != key:
            contested[key] = f"kustomizationName: must not be {name}, which module {owners[name]} has"
    return contested


def _raw_aliases(entries: Object, key: str) -> tuple[str, ...]:
    entry = entries[key]
    return text_items(entry.get("aliases")) if isinstance(entry, Mapping) else ()
