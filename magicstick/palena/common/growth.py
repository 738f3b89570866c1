"""Volumes can grow and do nothing else: what is asked for besides is ignored, and said."""

from dataclasses import dataclass, replace
from typing import Any

from magicstick.api.quantity import QuantityError, parse


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that is there or wanted."""

    size: str
    storage_class: str = ""
    """"" for the cluster's default."""
    ignored: str = ""
    """What was asked for and cannot be had, as a sentence; "" when nothing was."""

    def storage(self, class_field: str) -> dict[str, Any]:
        """As an object states it: `size`, and the class where one is named."""
        return {"size": self.size, **({class_field: self.storage_class} if self.storage_class else {})}


def grown(live: Volume, wanted: Volume, *, grows: bool = True) -> Volume:
    """The volume that there can be, where `live` is there already; `grows`: whether it may.

    A size that cannot be compared is asked for as it stands: the server says what is wrong with it.
    """
    if not live.size:
        return wanted
    ignored = []
    size = wanted.size
    if _smaller(wanted.size, live.size):
        size = live.size
        ignored.append(f"the volume has {live.size} and cannot shrink to {wanted.size}")
    elif not grows and larger(wanted.size, live.size):
        size = live.size
        ignored.append(f"the volume has {live.size} and cannot grow to {wanted.size}")
    if wanted.storage_class and wanted.storage_class != live.storage_class:
        ignored.append("the storage class of a volume cannot be changed")
    told = "; ".join(ignored)
    return replace(live, size=size, ignored=f"Ignored: {told}." if told else "")


def _smaller(size: str, than: str) -> bool:
    try:
        return parse(size).value < parse(than).value
    except QuantityError:
        return False


def larger(size: str, than: str) -> bool:
    """Whether one size is above another; what cannot be read is not."""
    return _smaller(than, size)
