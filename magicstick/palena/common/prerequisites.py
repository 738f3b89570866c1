"""Whether the kinds are served that a controller needs of others (spec: palena §2, §11).

A kind counts as present when its definition exists, is Established, and has the group, the kind and the
version that are asked for. While the definitions cannot be read nothing is concluded: that is an error,
never an absence.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from magicstick.kube.kinds import Kind
from magicstick.palena.common.phases import Weight
from magicstick.palena.common.verdicts import PREREQUISITES_MET, Verdict, fine, prerequisite

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
        if self.unknown:
            message = "which kinds the server serves cannot be read; nothing is changed meanwhile"
            return Verdict(type_, "Unknown", DISCOVERY_FAILED, message, Weight.FAILED)
        if not self.missing:
            return fine(type_, ALL_PRESENT, "every kind that is needed is served")
        names = ", ".join(f"{each.kind}.{each.group}/{each.version}" for each in self.missing)
        return prerequisite(type_, CRD_MISSING, f"not served: {names}; install the operators of these kinds")


def check(definitions: Definitions, needed: Iterable[Kind]) -> Prerequisites:
    """Which of the kinds are served now."""
    answers = {kind: definitions.served(kind) for kind in needed}
    missing = tuple(kind for kind, served in answers.items() if served is False)
    return Prerequisites(missing, unknown=None in answers.values())
