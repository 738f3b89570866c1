"""What an Appliance's status can say: phases, reasons, outcomes."""

from enum import StrEnum
from typing import Final

CATALOGS_VALID: Final = "CatalogsValid"
"""The condition that tells whether every catalog is in order; a bad one keeps its last good copy."""


class Phase(StrEnum):
    """`status.phase` of an Appliance (spec: magicstick-api §2.2)."""

    READY = "Ready"
    """Everything that is switched on works."""
    RECONCILING = "Reconciling"
    """Something is on its way, or waits for something else."""
    DEGRADED = "Degraded"
    """A module, a model or needed hardware does not work, or there is no usable catalog."""


class Reason(StrEnum):
    """`reason` of an Appliance's conditions, where it is neither the phase nor a catalog's problem."""

    CATALOG_UNAVAILABLE = "CatalogUnavailable"
    """There never was a good copy of a catalog that everything is made from; nothing is generated."""
    CATALOGS_VALID = "CatalogsValid"
    """Every catalog could be read, and each of its entries is in force."""


class Outcome(StrEnum):
    """How a pass over an Appliance ended, where it did not end in a phase."""

    HELD = "Held"
    """Activations or catalogs are not known now; nothing was made, and the status stays."""
    LEAVING = "Leaving"
    """The Appliance is being deleted; nothing is made for it any more."""
