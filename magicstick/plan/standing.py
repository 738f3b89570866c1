"""What would be said of an object: its phase, and what it waits for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from magicstick.kube.kinds import Kind, ObjectKey
from magicstick.kube.objects import Resource
from magicstick.palena.common.phases import Phase
from magicstick.runtime.conditions import READY, conditions_of, find

WELL: Final = frozenset({"Ready", Phase.RUNNING})
"""The phases in which nothing is waited for: of the appliance's kinds, and of Palena's."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The status that the operator would report, in short. Empty texts where it reports none."""

    kind: Kind
    key: ObjectKey
    phase: str
    reason: str
    message: str

    @property
    def tells(self) -> bool:
        """Whether it says that something is not ready."""
        return self.phase not in WELL and bool(self.phase or self.message)

    @classmethod
    def of(cls, kind: Kind, resource: Resource) -> Self:
        """How an object stands by its status."""
        ready: Mapping[str, Any] = find(conditions_of(resource.status), READY) or {}
        texts = (resource.status.get("phase"), ready.get("reason"), ready.get("message"))
        phase, reason, message = (each if isinstance(each, str) else "" for each in texts)
        return cls(kind, resource.metadata.key, phase, reason, message)
