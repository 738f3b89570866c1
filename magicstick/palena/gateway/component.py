"""What one step of a gateway comes to: database, cache, LiteLLM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from magicstick.palena.common.phases import Weight
from magicstick.palena.common.schemas import UNKNOWN_FIELD_IGNORED
from magicstick.palena.common.verdicts import Verdict
from magicstick.runtime.plan import Notice, Step

DATABASE_READY: Final = "DatabaseReady"
REDIS_READY: Final = "RedisReady"
GATEWAY_READY: Final = "GatewayReady"

EXTERNAL_SECRET_VALID: Final = "ExternalSecretValid"  # noqa: S105 - a reason
IMMUTABLE_FIELD_IGNORED: Final = "ImmutableFieldIgnored"
ROLE: Final = {"redis": "cache", "postgresql": "database"}
"""Values of the component label that are clearer than the name of the program."""


@dataclass(frozen=True, slots=True)
class Component:
    """One step: its condition, what it wants to be true, and what it adds to the status."""

    verdict: Verdict
    steps: tuple[Step, ...] = field(default=(), repr=False)
    fields: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether the next step may begin: nothing failed, though it may not be ready yet."""
        return self.verdict.weight is not Weight.FAILED


def ignored(*sentences: str) -> tuple[Notice, ...]:
    """Tells of changes that cannot be made; empty sentences tell nothing."""
    return tuple(Notice(IMMUTABLE_FIELD_IGNORED, each) for each in sentences if each)


def unknown(operator: str, fields: Sequence[str]) -> tuple[Notice, ...]:
    """Tells of fields that were left out, since the foreign kind that is served does not have them."""
    if not fields:
        return ()
    return (Notice(UNKNOWN_FIELD_IGNORED, f"This {operator} does not know {', '.join(fields)}."),)
