"""The phase of a vendor's GPU support: the first row of the table that holds (spec: gpu §4)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from magicstick.gpu.status import ProviderPhase


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the phase depends on.

    Attributes:
        detected: the detection label counts on a node.
        compatible: such a node passes the platform preflight.
        supported: such a node carries the vendor's support label, too.
        rule_decides: that label is another than the detection label.
        exists: there is an activation of the module, in whatever state.
        enabled: it is switched on, and not being deleted.
        external: there is none, and yet a definition that the module would bring.
        module_phase: of the activation, for its present generation; "" for none.
        allocatable: GPUs, or shares of them, that Ready compatible nodes offer.
    """

    detected: bool = False
    compatible: bool = False
    supported: bool = False
    rule_decides: bool = False
    exists: bool = False
    enabled: bool = False
    external: bool = False
    module_phase: str = ""
    allocatable: int = 0

    @property
    def module(self) -> str:
        """The module's phase in lower case."""
        return self.module_phase.strip().lower()


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its number in the specification, when it holds, and what it says then."""

    number: int
    holds: Callable[[Situation], bool]
    phase: ProviderPhase
    message: str
    """A sentence; `{title}`, `{label}`, `{supported}`, `{module}` and `{count}` are filled in."""


ROWS: Final = (
    Row(
        1,
        lambda s: not s.detected and not s.enabled and not s.external,
        ProviderPhase.NOT_REQUIRED,
        "No node has the label {label}.",
    ),
    Row(
        2,
        lambda s: s.detected and not s.compatible,
        ProviderPhase.UNSUPPORTED,
        "No node with this hardware can run the {title}; nothing is installed.",
    ),
    Row(
        3,
        lambda s: not s.detected and s.enabled,
        ProviderPhase.UNKNOWN,
        "The label {label} is missing on every node. The {title} stays until {module} is disabled.",
    ),
    Row(
        4,
        lambda s: not s.detected and s.external,
        ProviderPhase.UNKNOWN,
        "No node has the label {label}, and somebody else installed the vendor's operator.",
    ),
    Row(
        5,
        lambda s: s.detected and s.exists and not s.enabled,
        ProviderPhase.DISABLED,
        "There is hardware, but {module} is switched off.",
    ),
    Row(
        6,
        lambda s: s.detected and s.external and s.allocatable > 0,
        ProviderPhase.READY,
        "An operator that somebody else installed offers {count}.",
    ),
    Row(
        7,
        lambda s: s.detected and s.external,
        ProviderPhase.CONFLICT,
        "A CustomResourceDefinition of this vendor's operator is there without an activation of ours, and no "
        "GPU can be allocated. Remove what is left of the other operator, or activate {module} by hand.",
    ),
    Row(
        8,
        lambda s: s.detected and not s.enabled,
        ProviderPhase.DETECTED,
        "There is hardware; {module} is being activated.",
    ),
    Row(
        9,
        lambda s: s.module == "degraded",
        ProviderPhase.DEGRADED,
        "The module {module} does not work.",
    ),
    Row(
        10,
        lambda s: s.module != "ready",
        ProviderPhase.INSTALLING,
        "The {title} is being installed.",
    ),
    Row(
        11,
        lambda s: s.rule_decides and not s.supported,
        ProviderPhase.UNSUPPORTED,
        "The {title} runs, but no compatible node has its label {supported}: it does not support this GPU.",
    ),
    Row(
        12,
        lambda s: s.allocatable < 1,
        ProviderPhase.INSTALLING,
        "The {title} runs; no GPU of a Ready compatible node can be allocated yet.",
    ),
    Row(
        13,
        lambda _: True,
        ProviderPhase.READY,
        "{count} can be allocated.",
    ),
)
"""In the order in which they are asked; the last holds always."""


def row_of(situation: Situation) -> Row:
    """The first row that holds. Total."""
    return next(row for row in ROWS if row.holds(situation))
