"""What an instance's status can say: phases, reasons, outcomes, and the status built from them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from magicstick.api.kinds import HELM_RELEASE
from magicstick.runtime.conditions import cut, summarise

Status = dict[str, Any]


class InstancePhase(StrEnum):
    """`status.phase` of an AppInstance (spec: modules-and-apps §8.6)."""

    READY = "Ready"
    """Helm has installed the application, and the gateway has accepted what guards it."""
    RECONCILING = "Reconciling"
    """Flux or the gateway is at work, or a fact that the decision needs is not known yet."""
    WAITING_FOR_MODULES = "WaitingForModules"
    """A required module is not ready; what is installed already is left alone."""
    WAITING_FOR_CRD = "WaitingForCRD"
    """A CustomResourceDefinition that the application, Flux or the gateway brings is not served."""
    DEGRADED = "Degraded"
    """The instance does not work as asked; the reason says who has to do what."""
    SUSPENDED = "Suspended"
    """The instance is switched off: no way leads in, and Flux leaves the application as it is."""
    REMOVING = "Removing"
    """The instance is deleted, and what was made for it is going."""
    DISABLED = "Disabled"
    """Never set for instances; accepted as healthy where it is read."""


HEALTHY: Final = frozenset({InstancePhase.READY, InstancePhase.SUSPENDED, InstancePhase.DISABLED})
"""Phases in which the condition Ready is True."""

IN_PROGRESS: Final = frozenset(InstancePhase) - HEALTHY - {InstancePhase.DEGRADED}
"""Phases that end by themselves: the condition Reconciling is there meanwhile."""


class InstanceReason(StrEnum):
    """`reason` of an instance's conditions, where it is not the release's own."""

    UNKNOWN_APPLICATION = "UnknownApplication"
    """The application catalog has no usable entry of this name; what is installed stays."""
    INVALID_APPLICATION = "InvalidApplicationDefinition"
    """The application catalog's entry cannot be used; what is installed stays."""
    INVALID_NAME = "InvalidName"
    """The instance cannot be served under its name; the message names the limit."""
    INVALID_HOSTNAME = "InvalidHostname"
    """No host name can be made of what the instance is called; the message names the limit."""
    RESERVED_NAME = "ReservedName"
    """The Service that the routes would lead to is not this instance's; it is not touched."""
    INVALID_ACCESS = "InvalidAccess"
    """Who may use the instance cannot be understood, so nobody may."""
    INVALID_SPEC = "InvalidSpec"
    """A field of the spec cannot be read; what was applied last stays."""
    HOST_CONFLICT = "HostConflict"
    """An older instance is served under the same host name."""
    NAME_CONFLICT = "NameConflict"
    """An object of a name that is needed exists and is not this instance's; it is not touched."""
    WAITING_FOR_MODULES = "WaitingForModules"
    WAITING_FOR_CRD = "WaitingForCRD"
    WAITING_FOR_NAMESPACE = "WaitingForNamespace"
    """The target namespace is being deleted."""
    WAITING_FOR_ACCESS_GUARD = "WaitingForAccessGuard"
    """The gateway has not accepted the current policies yet; the routes lead nowhere meanwhile."""
    WAITING_FOR_RELEASE = "WaitingForHelmRelease"
    """Flux has not spoken about the current generation of the HelmRelease yet."""
    RELEASE_READY = "HelmReleaseReady"
    """Flux has installed the current generation of the HelmRelease."""
    RELEASE_NOT_READY = "HelmReleaseNotReady"
    """Flux failed and gave no reason of its own."""
    SUSPENDED = "Suspended"
    REMOVING = "Removing"
    API_REJECTED = "ApiRejected"
    """The API server refused a write and will until a right, a rule or the object changes."""
    API_UNAVAILABLE = "ApiUnavailable"
    """Something that the decision needs could not be read or written, and there was no status before."""
    CATALOG_UNAVAILABLE = "CatalogUnavailable"
    """There never was a good copy of a catalog since the start, and there was no status before."""


STALLED: Final = frozenset(
    {
        InstanceReason.UNKNOWN_APPLICATION,
        InstanceReason.INVALID_APPLICATION,
        InstanceReason.INVALID_NAME,
        InstanceReason.INVALID_HOSTNAME,
        InstanceReason.RESERVED_NAME,
        InstanceReason.INVALID_ACCESS,
        InstanceReason.INVALID_SPEC,
        InstanceReason.HOST_CONFLICT,
        InstanceReason.NAME_CONFLICT,
        InstanceReason.API_REJECTED,
    }
)
"""Reasons that only a person can end: the condition Stalled is there meanwhile."""


class Outcome(StrEnum):
    """How a pass over an instance ended, where it did not end in a phase."""

    NOT_OURS = "NotOurs"
    """The instance belongs to another Appliance; it is left alone, its status included."""
    HELD = "Held"
    """Something needed is not known; nothing was changed."""
    RELEASED = "Released"
    """The instance is being deleted and nothing of it is left: our finalizer goes."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where an instance is served, and to whom; the empty one says nothing of it."""

    url: str = ""
    local_url: str = ""
    public_url: str = ""
    authentication: str = ""
    role: str = ""
    guarded: bool = False
    """Whether every policy is accepted as it is wanted."""


NOWHERE: Final = Addresses()


@dataclass(frozen=True, slots=True)
class Target:
    """What installs the instance; the empty one for an instance that nothing installs."""

    name: str = ""
    namespace: str = ""

    @property
    def kind(self) -> str:
        """Always a HelmRelease."""
        return HELM_RELEASE.kind if self.name else ""


NOTHING: Final = Target()


@dataclass(frozen=True, slots=True)
class Report:
    """The state of an instance, as far as its status differs from one state to another."""

    phase: InstancePhase
    reason: str
    message: str
    addresses: Addresses = NOWHERE
    target: Target = NOTHING


def instance_status(generation: int, report: Report) -> Status:
    """The complete status of an AppInstance, still without transition times."""
    addresses = report.addresses
    return {
        "observedGeneration": generation,
        "phase": report.phase.value,
        "kind": report.target.kind,
        "name": report.target.name,
        "namespace": report.target.namespace,
        "url": addresses.url,
        "localURL": addresses.local_url,
        "publicURL": addresses.public_url,
        "authentication": addresses.authentication,
        "requiredRole": addresses.role,
        "accessGuardReady": addresses.guarded,
        "message": cut(report.message),
        "conditions": summarise(
            "True" if report.phase in HEALTHY else "False",
            str(report.reason),
            report.message,
            generation,
            reconciling=report.phase in IN_PROGRESS,
            stalled=report.reason in STALLED,
        ),
    }
