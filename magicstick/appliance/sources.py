"""From objects to the lines of an Appliance's status, each by what its own status says.

An object without a status for its present generation is on its way, whoever is to bring it along. Kinds
that cannot be read are not empty: what was reported of their objects last is held (`reported_…`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from magicstick.api.observed import observed_status, text_of
from magicstick.appliance.entries import (
    ENTRY_MESSAGE_LIMIT,
    HardwareEntry,
    InstanceEntry,
    ModelEntry,
    ModuleEntry,
    entry_key,
)
from magicstick.appliance.status import Phase
from magicstick.gpu.facts import ProviderState
from magicstick.kube.objects import Resource
from magicstick.modules.activations import auto_enabled, belongs_to, first_of
from magicstick.modules.facts import ModuleFacts
from magicstick.modules.objects import Site
from magicstick.runtime.conditions import cut

NEW: Final = "The {} is new or has changed."
"""What is said of an object until its status speaks of it as it is."""

_MODEL_TEXTS: Final = ("modelRef", "catalogId", "computeTarget", "engine", "resolvedResourceProfile")
"""Fields of a model's status that its entry repeats (spec: magicstick-api §2.2)."""

_MODEL_MEMORY: Final = "vramRequiredMi"


# --- modules --------------------------------------------------------------------------------------


def module_entries(facts: ModuleFacts) -> Iterator[ModuleEntry]:
    """One entry for each module that has an activation of our Appliance, sorted by module."""
    grouped: dict[str, list[Resource]] = {}
    for activation in facts.activations.list():
        if belongs_to(activation, facts.site):
            grouped.setdefault(facts.module_of(activation), []).append(activation)
    for module in sorted(grouped):
        speaker = first_of(module, grouped[module])
        if speaker is not None:
            yield module_entry(entry_key(module), speaker)


def module_entry(module: str, activation: Resource) -> ModuleEntry:
    """The entry of a module."""
    status, auto = observed_status(activation), auto_enabled(activation)
    kustomization = text_of(activation.status, "kustomization")
    if status is None:
        return ModuleEntry(module, Phase.RECONCILING.value, kustomization, auto, NEW.format("activation"))
    return ModuleEntry(module, text_of(status, "phase"), kustomization, auto, text_of(status, "message"))


# --- instances ------------------------------------------------------------------------------------


def instance_entries(instances: Iterable[Resource], site: Site) -> tuple[InstanceEntry, ...]:
    """One entry for each instance of our Appliance, sorted."""
    entries = [instance_entry(each) for each in instances if belongs_to(each, site)]
    return tuple(sorted(entries, key=lambda entry: (entry.application, entry.name)))


def instance_entry(instance: Resource) -> InstanceEntry:
    """The entry of an AppInstance. Addresses are told only while they are those of the present spec."""
    status, before = observed_status(instance), instance.status
    application, name = text_of(instance.spec, "application"), instance.metadata.name
    if status is None:
        installer = {field: before.get(field) for field in ("namespace", "kind", "name")}
        phase, message = Phase.RECONCILING.value, NEW.format("instance")
        return _instance(application, name, {**installer, "phase": phase}, message)
    return _instance(application, name, status, text_of(status, "message"))


def reported_instances(status: Mapping[str, Any], why: str) -> tuple[InstanceEntry, ...]:
    """The instances as an Appliance's status lists them, with the reason why nothing newer is known."""
    return tuple(
        _instance(application, name, fields, why)
        for application, instances in _maps(status.get("instances"))
        for name, fields in _maps(instances)
    )


def _instance(application: str, name: str, fields: Mapping[str, Any], message: str) -> InstanceEntry:
    """An entry from fields that a status and an entry call alike."""
    return InstanceEntry(
        application,
        name,
        _short(fields, "phase"),
        _short(fields, "namespace"),
        _short(fields, "kind"),
        _short(fields, "name"),
        _short(fields, "url"),
        _short(fields, "localURL"),
        _short(fields, "publicURL"),
        message,
    )


# --- models ---------------------------------------------------------------------------------------


def model_entries(models: Iterable[Resource], site: Site) -> tuple[ModelEntry, ...]:
    """One entry for each model of our Appliance, sorted by name."""
    entries = [model_entry(each) for each in models if belongs_to(each, site)]
    return tuple(sorted(entries, key=lambda entry: entry.name))


def model_entry(model: Resource) -> ModelEntry:
    """The entry of a ModelActivation."""
    status, name = observed_status(model), model.metadata.name
    if status is None:
        return ModelEntry(name, Phase.RECONCILING.value, NEW.format("model"), _model_details(model.status))
    return ModelEntry(name, text_of(status, "phase"), text_of(status, "message"), _model_details(status))


def reported_models(status: Mapping[str, Any], why: str) -> tuple[ModelEntry, ...]:
    """The models as an Appliance's status lists them, with the reason why nothing newer is known."""
    return tuple(
        ModelEntry(name, text_of(fields, "phase"), why, _model_details(fields))
        for name, fields in _maps(status.get("models"))
    )


def _model_details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    details: dict[str, Any] = {field: text for field in _MODEL_TEXTS if (text := _short(status, field))}
    memory_mi = status.get(_MODEL_MEMORY)
    if isinstance(memory_mi, int) and not isinstance(memory_mi, bool) and memory_mi >= 0:
        details[_MODEL_MEMORY] = memory_mi
    return details


# --- hardware -------------------------------------------------------------------------------------


def hardware_entry(state: ProviderState) -> HardwareEntry:
    """The entry of one vendor's GPU support."""
    return HardwareEntry(state.module, state.phase.value, state.needed, state.details)


def _short(fields: Mapping[str, Any], name: str) -> str:
    """A text of a field that is no longer than a message: an entry is bounded whatever a status holds."""
    return cut(text_of(fields, name), ENTRY_MESSAGE_LIMIT)


def _maps(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The members of a map that are maps themselves."""
    for name, fields in value.items() if isinstance(value, Mapping) else ():
        if isinstance(name, str) and isinstance(fields, Mapping):
            yield name, fields
