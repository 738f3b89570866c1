"""What a vendor's entry in the Appliance's status can say (spec: gpu §4, §5)."""

from dataclasses import dataclass
from enum import StrEnum


class ProviderPhase(StrEnum):
    """`status.hardwareOperators.<module>.phase`."""

    NOT_REQUIRED = "NotRequired"
    """There is no such hardware, and nobody installed the operator."""
    DETECTED = "Detected"
    """There is, and the vendor's module is being requested."""
    INSTALLING = "Installing"
    """The module is on its way, or no GPU can be allocated yet."""
    READY = "Ready"
    """A GPU can be allocated on a node that the vendor supports."""
    DISABLED = "Disabled"
    """There is hardware, and its module was switched off. Detection never overrides that."""
    UNSUPPORTED = "Unsupported"
    """There is hardware, but no node on which the vendor's operator could use it."""
    CONFLICT = "Conflict"
    """Somebody else installed the vendor's operator, so that ours must stay away."""
    DEGRADED = "Degraded"
    """The module does not work."""
    UNKNOWN = "Unknown"
    """The labels are gone while the operator is there, or nothing can be read."""


class ManagedBy(StrEnum):
    """`status.hardwareOperators.<module>.managedBy`: who installed the vendor's operator."""

    NONE = "none"
    MAGICSTICK = "magicstick"
    EXTERNAL = "external"


class Outcome(StrEnum):
    """How a pass of the reconciler `hardware` ended."""

    SETTLING = "Settling"
    """A label came or went a moment ago; in a few seconds it counts."""
    HOLDING = "Holding"
    """A label is missing, and is not yet taken for lost."""
    AT_REST = "AtRest"
    """Nothing is on its way."""
    BLIND = "Blind"
    """Nodes, catalog, definitions or activations cannot be read; nothing is requested."""
    LEAVING = "Leaving"
    """The Appliance is being deleted; nothing is requested for it any more."""
    REFUSED = "Refused"
    """The API server refused the activation."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `checks`. `status` is True, False or Unknown, as text."""

    name: str
    status: str
    message: str

    def fields(self) -> dict[str, object]:
        """As in the status."""
        return {"name": self.name, "status": self.status, "message": self.message}
