"""What a module's status can say: phases, reasons, outcomes, and the status built from them."""

from enum import StrEnum
from typing import Any, Final

from magicstick.runtime.conditions import cut, summarise

Status = dict[str, Any]


class ModulePhase(StrEnum):
    """`status.phase` of a ModuleActivation (spec: modules-and-apps §7)."""

    READY = "Ready"
    """Flux has applied the module, and everything that it promises is there."""
    RECONCILING = "Reconciling"
    """Flux is at work, or a fact that the decision needs is not known yet."""
    WAITING_FOR_MODULES = "WaitingForModules"
    """A required module is not ready; what is installed already is suspended, never removed."""
    WAITING_FOR_CRD = "WaitingForCRD"
    """A CustomResourceDefinition is not served yet: Flux's own, or one that the module brings."""
    DEGRADED = "Degraded"
    """The module does not work as asked; the reason says who has to do what."""
    REMOVING = "Removing"
    """The module is disabled or deleted, and Flux is removing what it had installed."""
    DISABLED = "Disabled"
    """The module is switched off and nothing of it is left under Flux."""
    SUSPENDED = "Suspended"
    """Never set for modules; accepted as healthy where it is read."""


HEALTHY: Final = frozenset({ModulePhase.READY, ModulePhase.DISABLED, ModulePhase.SUSPENDED})
"""Phases in which the condition Ready is True."""

IN_PROGRESS: Final = frozenset(
    {
        ModulePhase.RECONCILING,
        ModulePhase.WAITING_FOR_MODULES,
        ModulePhase.WAITING_FOR_CRD,
        ModulePhase.REMOVING,
    }
)
"""Phases that end by themselves: the condition Reconciling is there meanwhile."""


class ModuleReason(StrEnum):
    """`reason` of a module's conditions, where it is not Flux's own."""

    KUSTOMIZATION_READY = "KustomizationReady"
    """Flux has applied the current generation of the Kustomization."""
    KUSTOMIZATION_NOT_READY = "KustomizationNotReady"
    """Flux failed and gave no reason of its own."""
    WAITING_FOR_KUSTOMIZATION = "WaitingForKustomization"
    """Flux has not spoken about the current generation of the Kustomization yet."""
    WAITING_FOR_MODULES = "WaitingForModules"
    """At least one required module is not ready; the message names each, and why."""
    WAITING_FOR_CRD = "WaitingForCRD"
    """A CustomResourceDefinition is missing or not established; the message names it."""
    WAITING_FOR_NAMESPACE = "WaitingForNamespace"
    """The namespace of the Kustomizations is being deleted or does not exist."""
    REMOVING = "Removing"
    """The Kustomization is being deleted; Flux prunes what it had applied."""
    DISABLED = "Disabled"
    """The activation says `enabled: false`."""
    UNKNOWN_MODULE = "UnknownModule"
    """The module catalog has no usable entry of this name."""
    STATIC_MODULE = "StaticModule"
    """The module belongs to the Flux graph in Git and cannot be switched by an activation."""
    DUPLICATE_MODULE = "DuplicateModule"
    """Another activation speaks for this module."""
    DEPENDENCY_CYCLE = "DependencyCycle"
    """The module requires itself through others, by the module catalog."""
    KUSTOMIZATION_CONFLICT = "KustomizationConflict"
    """A Kustomization of this name exists that is not ours; it is not touched."""
    INVALID_PARAMETER = "InvalidParameter"
    """A parameter cannot be what it is; what was applied last stays."""
    INVALID_SPEC = "InvalidSpec"
    """A field of the spec cannot be read; what was applied last stays."""
    API_REJECTED = "ApiRejected"
    """The API server refused a write and will until a right, a rule or the object changes."""
    API_UNAVAILABLE = "ApiUnavailable"
    """Something that the decision needs could not be read, and there was no status before."""
    CATALOG_UNAVAILABLE = "CatalogUnavailable"
    """There never was a good module catalog since the start, and there was no status before."""


STALLED: Final = frozenset(
    {
        ModuleReason.UNKNOWN_MODULE,
        ModuleReason.STATIC_MODULE,
        ModuleReason.DUPLICATE_MODULE,
        ModuleReason.DEPENDENCY_CYCLE,
        ModuleReason.KUSTOMIZATION_CONFLICT,
        ModuleReason.INVALID_PARAMETER,
        ModuleReason.INVALID_SPEC,
        ModuleReason.API_REJECTED,
    }
)
"""Reasons that only a person can end: the condition Stalled is there meanwhile."""


class Outcome(StrEnum):
    """How a pass over a module ended, where it did not end in a phase."""

    NOT_OURS = "NotOurs"
    """The activation belongs to another Appliance; it is left alone, its status included."""
    HELD = "Held"
    """Something needed is not known; nothing was changed."""
    RELEASED = "Released"
    """The activation is being deleted and nothing of the module is left: our finalizer goes."""


def module_status(
    generation: int, phase: ModulePhase, reason: str, message: str, kustomization: str = ""
) -> Status:
    """The complete status of a ModuleActivation, still without transition times."""
    return {
        "observedGeneration": generation,
        "phase": phase.value,
        "kustomization": kustomization,
        "message": cut(message),
        "conditions": summarise(
            "True" if phase in HEALTHY else "False",
            str(reason),
            message,
            generation,
            reconciling=phase in IN_PROGRESS,
            stalled=reason in STALLED,
        ),
    }
