"""Values that nobody knows before they are there: made at random by the operator, or kept by somebody else.

In their place stand marks that are the same in every plan, so that what is derived from them (addresses,
hashes, copies) is the same as well. `plan.mask` tells them by their marks; nothing else ever shows them.
"""

from typing import Final

GENERATED: Final = "magicstickGeneratesThis"
ASSUMED: Final = "magicstickAssumesThis"
"""Letters alone, which need no escaping in an address."""
UID: Final = "00000000-0000-4000-8000-"
"""How a uid begins that the server has still to give; a number follows, so that they can be told apart."""


class PlannedEntropy:
    """`palena.common.secrets.Entropy` without chance: every value is the mark, at the length asked for."""

    def alphanumeric(self, length: int) -> str:
        """See `Entropy`."""
        return GENERATED.ljust(length, "0")

    def hex(self, length: int) -> str:
        """See `Entropy`; not of hex digits, since nobody reads it as a number."""
        return GENERATED.ljust(length, "0")

    def uuid(self) -> str:
        """See `Entropy`."""
        return GENERATED
