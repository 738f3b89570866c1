"""Whether the kinds are served that a controller needs of others (spec: palena §2, §11).

A kind counts as present when its definition exists, is Established, and has the group, the kind and the
version that are asked for. While the definitions cannot be read nothing is concluded: that is an error,
never an absence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from magicstick.kube.discovery import CrdView
from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import View
from magicstick.palena.common.verdicts import PREREQUISITES_MET, Verdict

ALL_PRESENT: Final = "AllPresent"
CRD_MISSING: Final = "CRDMissing"
DISCOVERY_FAILED: Final = "DiscoveryFailed"


class Definitions(Protocol):
    """What is asked of discovery; `kube.discovery.Discovery` is the real one."""

    def served(self, kind: Kind) -> bool | None:
        """Whether objects of the kind can be written now; None while nothing is known."""
        ...


@dataclass(frozen=True, slots=True)
class Prerequisites:
    """What was found of the kinds that are needed."""

    missing: tuple[Kind, ...] = ()
    unknown: bool = False
    """The definitions cannot be read; `missing` says nothing then."""

    @property
    def met(self) -> bool:
        """Whether every kind is known to be served."""
        return not self.missing and not self.unknown

    def verdict(self, type_: str = PREREQUISITES_MET) -> Verdict:
        """As a condition; the message names every kind that is missing."""
        raise NotImplementedError


def check(definitions: Definitions, needed: Iterable[Kind]) -> Prerequisites:
    """Which of the kinds are served now."""
    raise NotImplementedError


def definition_changed(old: View | None, new: View | None) -> bool:
    """Predicate for an edge to definitions: a kind came, went, or is served in other versions."""
    raise NotImplementedError


def concerns(definition: CrdView | View | None, kinds: Sequence[Kind]) -> bool:
    """Whether this definition is that of one of the kinds."""
    raise NotImplementedError


__all__ = [
    "ALL_PRESENT",
    "CRD_MISSING",
    "DISCOVERY_FAILED",
    "Definitions",
    "ObjectKey",
    "Prerequisites",
    "check",
    "concerns",
    "definition_changed",
]
